"""Who may do what, in the protocol: permissions, what of a table a query sees, data tokens; and registered tables."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from flask import Response, after_this_request

from lake.register.register import WITHOUT_RULES
from model.access import Access, Columns, Grant, ReadRules, Resource, ResourceType, access_of, table_resource
from model.errors import BadRequest, Forbidden
from model.identifier import Identifier
from model.location import Location
from server.access.data_tokens import Wanted
from server.paimon.messages.wire import identifier_of, object_name, string_list
from server.paimon.paging import max_results, pair_of, pair_token
from server.paimon.routes import argument, body, lake, route
from server.process.services import services
from server.sql.bodies import instant, member
from server.sql.notices import HEADER, header_values


@route("POST", "databases/{}/tables/{}/auth")
def auth(database: str, table: str) -> object:
    """The row filters and column masks that bind the caller; clients apply them to what they read."""
    sent = body()
    here = lake()
    opened = here.open(object_name(database, table))
    rules = here.read_rules(opened)
    wanted = string_list(sent, "select") or list(opened.schema.field_names)
    if rules.restricted and (other := [name for name in wanted if opened.schema.find(name) is None]):
        raise Forbidden(
            f"{here.caller.principal} sees only a part of table {opened.identifier}, and its newest schema has no column {other[0]}, which "
            "an earlier one may have as a name of what is kept from it: read the past by SQL."
        )
    _check_columns(rules, wanted, opened.identifier)
    return {
        "filter": [json.dumps(dict(policy.rule)) for policy in rules.filters] or None,
        "columnMasking": {column: json.dumps(dict(policy.rule)) for column, policy in rules.masks.items()} or None,
    }


def _check_columns(rules: ReadRules, wanted: list[str], table: Identifier) -> None:
    if rules.columns is not None and (hidden := [name for name in wanted if name not in rules.columns]):
        raise Forbidden(f"Column {hidden[0]} of {table} may not be read by this caller; {', '.join(sorted(rules.columns))} may.")


@route("GET", "databases/{}/tables/{}/token")
def data_token(database: str, table: str) -> object:
    """What lets the client read, or also write, the table's files itself, where one is configured; nothing else ever leaves the server."""
    here = lake()
    opened = here.open_any(object_name(database, table))
    resource = table_resource(opened.identifier)
    here.caller.require(Access.SELECT, resource)
    if here.read_rules(opened).restricted:
        raise Forbidden(
            f"{here.caller.principal} sees only a part of table {opened.identifier}, and its files hold all of it: query it by SQL."
        )
    write = here.caller.may(Access.UPDATE, resource)
    wanted = Wanted(
        principal=here.caller.principal,
        location=Location.parse(opened.location),
        write=write,
        remove=here.caller.may(Access.DELETE, resource),
    )
    token = services().data_tokens.of(wanted, administrator=here.caller.administrator)
    return {"token": dict(token.options), "expiresAtMillis": token.expires_at_millis}


@route("POST", "databases/{}/register")
def register(database: str) -> None:
    """Take over a Paimon append table that lies in an import directory or the warehouse."""
    sent = body()
    table = Identifier(database, identifier_of(member(sent, "identifier", dict, required=True), database=database).table)
    lake().register_table(table, member(sent, "path", str, required=True))

    @after_this_request
    def tell(response: Response) -> Response:
        for value in header_values([WITHOUT_RULES]):  # the protocol's answer is empty
            response.headers.add(HEADER, value)
        return response


@route("GET", "permissions")
def list_permissions() -> object:
    """The grants on one resource, in pages: all to who may GRANT there, one's own to others."""
    names = {name: argument(name) for name in ("database", "table", "view", "function")}
    resource = _resource({"type": argument("resourceType"), **names})
    access = argument("access")
    after = pair_of(argument("pageToken"))
    permissions = {
        (grant.principal, grant.access.value): grant
        for grant in lake().permissions.grants_on(resource)
        if argument("principal") in (None, grant.principal) and (access is None or grant.access is access_of(access))
    }
    keys, limit = sorted(key for key in permissions if after is None or key > after), max_results()
    token = pair_token(keys[limit - 1]) if len(keys) > limit else None
    return {"permissions": [_shown(permissions[key]) for key in keys[:limit]], "nextPageToken": token}


@route("POST", "permissions/grant")
def grant_permission() -> None:
    """Give one access to one principal."""
    sent = body()
    grant = Grant(
        resource=_resource(member(sent, "resource", dict, required=True)),
        access=access_of(member(sent, "access", str, required=True)),
        principal=member(sent, "principal", str, required=True),
        columns=_columns(member(sent, "columns", dict)),
        expires_at=instant(sent, "expireTime"),
    )
    lake().permissions.grant(grant)


@route("POST", "permissions/revoke")
def revoke_permission() -> None:
    """Take it back."""
    sent = body()
    resource = _resource(member(sent, "resource", dict, required=True))
    access = access_of(member(sent, "access", str, required=True))
    lake().permissions.revoke(resource, [access], member(sent, "principal", str, required=True))


def _resource(body: dict[str, Any]) -> Resource:
    spelled = (member(body, "type", str) or "").upper()
    try:
        type_ = ResourceType(spelled)
    except ValueError:
        raise BadRequest(f"There is no resource type {spelled or '(none)'}; there are {', '.join(ResourceType)}.") from None
    named = {kind: name for kind in ("table", "view", "function") if (name := member(body, kind, str))}
    if len(named) > 1:
        raise BadRequest("A resource is a table, a view or a function, not several of them.")
    expected = {ResourceType.VIEW: "view", ResourceType.FUNCTION: "function"}.get(type_, "table")
    if named and expected not in named:
        raise BadRequest(f"A {type_} resource names its object as '{expected}'.")
    return Resource(type=type_, database=member(body, "database", str) or None, name=named.get(expected))


def _columns(body: dict[str, Any] | None) -> Columns | None:
    if body is None:
        return None
    named, excluded = body.get("columnNames"), body.get("excludedColumnNames")
    if (named is None) is (excluded is None):
        raise BadRequest("columns holds exactly one of columnNames and excludedColumnNames.")
    key = "columnNames" if named is not None else "excludedColumnNames"
    return Columns(names=tuple(string_list(body, key)), excluded=named is None)


def _shown(grant: Grant) -> dict[str, object]:
    resource = grant.resource
    kind = {ResourceType.VIEW: "view", ResourceType.FUNCTION: "function"}.get(resource.type, "table")
    wire: dict[str, object] = {"type": resource.type.value}
    if resource.database is not None:
        wire["database"] = resource.database
    if resource.name is not None:
        wire[kind] = resource.name
    answer: dict[str, object] = {"resource": wire, "access": grant.access.value, "principal": grant.principal}
    if grant.columns is not None:
        answer["columns"] = {"excludedColumnNames" if grant.columns.excluded else "columnNames": list(grant.columns.names)}
    if grant.expires_at is not None:
        until = grant.expires_at.astimezone(dt.UTC)
        answer["expireTime"] = until.strftime("%Y-%m-%dT%H:%M:%S.") + f"{until.microsecond // 1000:03d}Z"
    return answer
