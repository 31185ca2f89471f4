"""Who may do what: tokens, roles and grants, made and taken by the statements and calls that `docs/access.md` describes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flask import request, url_for
from flask.typing import ResponseReturnValue

from lake.access.permissions import Permissions
from model.access import ACCESSES, ADMIN, PUBLIC, Access, AccessToken, Columns, Grant, Resource, ResourceType, access_of
from model.errors import BadRequest, LakeError
from model.identifier import Identifier
from model.text.name_parts import parse_name
from model.text.sql_text import quote
from server.access import audit
from server.access.access import caller
from server.access.tokens import token_told
from server.pages.actions import act, tell
from server.pages.shell import bp, in_menu, render
from server.process.services import services
from server.settings.options import TOKEN

_OFFERED = (
    ResourceType.TABLE, ResourceType.COLUMN, ResourceType.DATABASE_ALL, ResourceType.DATABASE, ResourceType.CATALOG_ALL,
    ResourceType.CATALOG, ResourceType.VIEW, ResourceType.FUNCTION,
)  # fmt: skip
_LABELS = {
    ResourceType.TABLE: "a table",
    ResourceType.COLUMN: "some columns of a table",
    ResourceType.DATABASE_ALL: "everything in a database",
    ResourceType.DATABASE: "a database itself",
    ResourceType.CATALOG_ALL: "everything",
    ResourceType.CATALOG: "the catalog itself",
    ResourceType.VIEW: "a view",
    ResourceType.FUNCTION: "a function",
}
_LIVES = {"": None, "1": 1, "30": 30, "90": 90, "365": 365}
"""Days a token may be good for; without end first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRole:
    """A role with who has it."""

    name: str
    members: Sequence[str]
    grants: int
    own: bool
    """Whether it is part of the server, and cannot be dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownGrant:
    """A grant, and the statement that takes it back."""

    grant: Grant
    on: str
    """What it is on, as the form that takes it back sends it."""
    columns: str
    expired: bool


def _permissions() -> Permissions:
    return services().gateway.lake.for_caller(caller()).permissions


@bp.get("/access")
@in_menu("Access")
def access() -> ResponseReturnValue:
    """Tokens, roles and grants: all of them to an administrator, their own to others."""
    return _page()


def _page(*, secret: str = "", made: AccessToken | None = None, problem: str = "", status: int = 200) -> ResponseReturnValue:
    permissions, me = _permissions(), caller()
    grants = permissions.grants_of()
    members: dict[str, list[str]] = {}
    for role, member in permissions.memberships():
        members.setdefault(role, []).append(member)
    now = dt.datetime.now(dt.UTC)
    roles = [
        ShownRole(
            name=name,
            members=sorted(members.get(name, ())),
            grants=sum(grant.principal == name for grant in grants),
            own=name in (ADMIN, PUBLIC),
        )
        for name in permissions.roles()
    ]
    tokens = permissions.tokens() if me.administrator else []
    names = sorted({role.name for role in roles} | {token.principal for token in tokens} | {grant.principal for grant in grants})
    return render(
        "access.html",
        here="Access",
        status=status,
        tokens=[(token, token.expires_at is not None and token.expires_at <= now) for token in tokens],
        roles=roles,
        grants=[_grant(grant, now) for grant in sorted(grants, key=_order)],
        names=names,
        kinds=[(kind.value, _LABELS[kind], sorted(ACCESSES[kind])) for kind in _OFFERED],
        accesses=sorted(Access),
        own_token=services().settings[TOKEN] is not None,
        open=services().gateway.lake.access.open(),
        secret=secret,
        made=made,
        problem=problem,
        lives=_LIVES,
    )


def _order(grant: Grant) -> tuple[str, str, str]:
    return grant.principal, grant.resource.sql(), grant.access.value


def _grant(grant: Grant, now: dt.datetime) -> ShownGrant:
    columns = "" if grant.columns is None else f"{'all but ' if grant.columns.excluded else ''}{', '.join(grant.columns.names)}"
    expired = grant.expires_at is not None and grant.expires_at <= now
    return ShownGrant(grant=grant, on=_on(grant.resource), columns=columns, expired=expired)


def _on(resource: Resource) -> str:
    if not resource.database:
        return ""
    return Identifier(resource.database, resource.name).written() if resource.name else quote(resource.database)


# Tokens


@bp.post("/access/tokens")
def make_token() -> ResponseReturnValue:
    """Make a token as POST /tokens does; this answer is the only one that shows its secret, so it is no redirect."""
    form = request.form
    days = _LIVES.get(form.get("days", ""))
    try:
        made, secret = _permissions().create_token(
            form.get("name", "").strip(),
            principal=form.get("principal", "").strip() or None,
            administrator=form.get("administrator") == "yes",
            expires_at=None if days is None else dt.datetime.now(dt.UTC) + dt.timedelta(days=days),
        )
    except LakeError as refused:
        if refused.status in (401, 403):
            raise
        return _page(problem=refused.message, status=refused.status)
    audit.tell(token_told(made))
    return _page(secret=secret, made=made, status=201)


@bp.post("/access/tokens/revoke")
def revoke_token() -> ResponseReturnValue:
    """Make a token worthless, as DELETE /tokens/{name} does."""
    from flask import redirect

    name = request.form.get("name", "")
    call = f"DELETE /tokens/{name}"
    audit.tell(f"token {name}")
    try:
        opened = _permissions().revoke_token(name)
        tell(call, "It was the last token: this server asks for none any more." if opened else "The token is worthless now.")
    except LakeError as refused:
        tell(call, refused.message, failed=True)
    return redirect(url_for("pages.access"), 303)


# Roles and grants, in SQL


@bp.post("/access/roles")
def make_role() -> ResponseReturnValue:
    """Add a role."""
    return _act(f"CREATE ROLE {quote(_named('role'))}")


@bp.post("/access/roles/drop")
def drop_role() -> ResponseReturnValue:
    """Remove a role with what was granted to it."""
    return _act(f"DROP ROLE {quote(_named('role'))}")


@bp.post("/access/roles/members")
def give_role() -> ResponseReturnValue:
    """Give a role to somebody, or take it back."""
    role, member = quote(_named("role")), quote(_named("member"))
    return _act(f"REVOKE ROLE {role} FROM {member}" if request.form.get("take") == "yes" else f"GRANT ROLE {role} TO {member}")


@bp.post("/access/grants")
def make_grant() -> ResponseReturnValue:
    """Grant what the form says."""
    form = request.form
    days = _LIVES.get(form.get("days", ""))
    until = "" if days is None else f" UNTIL '{dt.datetime.now(dt.UTC) + dt.timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}'"
    resource = _resource(form)
    access = access_of(form.get("access", ""))
    columns = ""
    if resource.type is ResourceType.COLUMN:
        names = tuple(part.strip() for part in form.get("columns", "").split(",") if part.strip())
        columns = f" ({', '.join(quote(name) for name in Columns(names=names).names)})"
    return _act(f"GRANT {access}{columns} ON {resource.sql()} TO {quote(_named('principal'))}{until}")


@bp.post("/access/grants/revoke")
def take_grant() -> ResponseReturnValue:
    """Take a grant back."""
    form = request.form
    resource = _resource(form)
    columns = ""
    if resource.type is ResourceType.COLUMN:
        columns = f" ({', '.join(quote(name) for name in form.get('columns', '').split(chr(31)))})"
    return _act(f"REVOKE {access_of(form.get('access', ''))}{columns} ON {resource.sql()} FROM {quote(_named('principal'))}")


def _act(sql: str) -> ResponseReturnValue:
    return act(sql, back=url_for("pages.access"))


def _named(field: str) -> str:
    name = request.form.get(field, "").strip()
    if not name:
        raise BadRequest(f"Say the {field}'s name.")
    return name


def _resource(form: Mapping[str, str]) -> Resource:
    """What the form's grant is about; names it needs not are left out."""
    try:
        kind = ResourceType(form.get("kind", ""))
    except ValueError:
        raise BadRequest("Choose what the grant is about.") from None
    named = form.get("on", "").strip()
    parts = parse_name(named) if named else ()
    database = parts[0] if parts else None
    name = ".".join(parts[1:]) or None  # whoever writes d.a.b into a form means the table a.b: there is one catalog
    alone = kind in (ResourceType.CATALOG, ResourceType.CATALOG_ALL)
    whole = kind in (ResourceType.DATABASE, ResourceType.DATABASE_ALL)
    return Resource(type=kind, database=None if alone else database, name=None if alone or whole else name)
