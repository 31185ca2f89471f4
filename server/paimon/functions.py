"""Functions of the protocol: kept and served with all their definitions."""

from __future__ import annotations

from typing import Any

from catalog.records import NamedRow
from model.identifier import Identifier
from model.schema.types import Field
from server.paimon.messages.changes import definition_of, function_changes
from server.paimon.messages.wire import audit, reading, shown
from server.paimon.named import serve_named
from server.paimon.routes import body, lake, route
from server.sql.bodies import member, strings


@route("POST", "databases/{}/functions")
def create_function(database: str) -> None:
    """Add one."""
    sent = body()
    lake().functions.create(Identifier(database, member(sent, "name", str, required=True)), _body(sent))


@route("POST", "databases/{}/functions/{}")
def alter_function(database: str, function: str) -> None:
    """Change one."""
    lake().functions.alter(Identifier(database, function), function_changes(body()))


def _body(sent: dict[str, Any]) -> dict[str, Any]:
    definitions = {name: definition_of(entry) for name, entry in (member(sent, "definitions", dict) or {}).items()}
    for name in ("inputParams", "returnParams"):
        with reading(f"The member '{name}'"):
            for entry in member(sent, name, list) or []:
                Field.from_json(entry)
    return {
        "inputParams": member(sent, "inputParams", list),
        "returnParams": member(sent, "returnParams", list),
        "deterministic": bool(member(sent, "deterministic", bool)),
        "definitions": definitions,
        "comment": member(sent, "comment", str),
        "options": strings(sent, "options"),
    }


def _json(row: NamedRow) -> dict[str, object]:
    return {"uuid": str(row.id), "name": row.name, "database": row.database, **shown(row.body), **audit(row)}


serve_named("function", lambda here: here.functions, _json)
