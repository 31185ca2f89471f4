"""Functions of the protocol: kept and served with all their definitions."""

from __future__ import annotations

from typing import Any

from catalog.records import NamedRow
from model.errors import BadRequest
from model.identifier import Identifier
from model.types import Field
from server.bodies import member, strings
from server.paimon.changes import function_changes
from server.paimon.paging import like, max_results, one_more, page, pair_of, pair_token, slice_of
from server.paimon.routes import argument, body, lake, route
from server.paimon.wire import audit, reading


@route("GET", "databases/{}/functions")
def list_functions(database: str) -> object:
    """Names, in pages."""
    wanted = slice_of("functionNamePattern")
    rows = lake().functions.page(database, one_more(wanted))
    return page("functions", rows, wanted, lambda row: row.name, lambda row: row.name)


@route("GET", "databases/{}/function-details")
def list_function_details(database: str) -> object:
    """Whole functions, in pages."""
    wanted = slice_of("functionNamePattern")
    return page("functionDetails", lake().functions.page(database, one_more(wanted)), wanted, lambda row: row.name, _json)


@route("GET", "functions")
def list_functions_everywhere() -> object:
    """Names over all databases, in pages."""
    limit = max_results()
    pairs = lake().functions.everywhere(
        databases=like(argument("databaseNamePattern")),
        names=like(argument("functionNamePattern")),
        after=pair_of(argument("pageToken")),
        limit=limit + 1,
    )
    token = pair_token(pairs[limit - 1]) if len(pairs) > limit else None
    return {"functions": [{"database": database, "object": name} for database, name in pairs[:limit]], "nextPageToken": token}


@route("POST", "databases/{}/functions")
def create_function(database: str) -> None:
    """Add one."""
    sent = body()
    lake().functions.create(Identifier(database, member(sent, "name", str, required=True)), _body(sent))


@route("GET", "databases/{}/functions/{}")
def get_function(database: str, function: str) -> object:
    """One of them."""
    return _json(lake().functions.get(Identifier(database, function)))


@route("POST", "databases/{}/functions/{}")
def alter_function(database: str, function: str) -> None:
    """Change one."""
    lake().functions.alter(Identifier(database, function), function_changes(body()))


@route("DELETE", "databases/{}/functions/{}")
def drop_function(database: str, function: str) -> None:
    """Remove one."""
    lake().functions.drop(Identifier(database, function))


def _body(sent: dict[str, Any]) -> dict[str, Any]:
    definitions = member(sent, "definitions", dict) or {}
    if not all(isinstance(definition, dict) for definition in definitions.values()):
        raise BadRequest("The members of 'definitions' must be objects.")
    for name in ("inputParams", "returnParams"):
        with reading(f"The member '{name}'"):
            for one in member(sent, name, list) or []:
                Field.from_json(one)
    return {
        "inputParams": member(sent, "inputParams", list),
        "returnParams": member(sent, "returnParams", list),
        "deterministic": bool(member(sent, "deterministic", bool)),
        "definitions": definitions,
        "comment": member(sent, "comment", str),
        "options": strings(sent, "options"),
    }


def _json(row: NamedRow) -> dict[str, object]:
    return {"uuid": str(row.id), "name": row.name, "database": row.database, **row.body, **audit(row)}
