"""Views of the protocol."""

from __future__ import annotations

from typing import Any

from catalog.records import NamedRow
from model.identifier import Identifier
from model.schema.types import Field
from model.view import View
from server.paimon.messages.changes import view_changes
from server.paimon.messages.wire import audit, identifier_of, reading, shown
from server.paimon.named import serve_named
from server.paimon.routes import body, lake, route
from server.sql.bodies import member, strings


@route("POST", "databases/{}/views")
def create_view(database: str) -> None:
    """Add one."""
    sent = body()
    name = identifier_of(member(sent, "identifier", dict, required=True), database=database).table
    lake().views.create(Identifier(database, name), _view(member(sent, "schema", dict, required=True)))


@route("POST", "views/rename")
def rename_view() -> None:
    """Give one another name."""
    sent = body()
    source = identifier_of(member(sent, "source", dict, required=True))
    lake().views.rename(source, identifier_of(member(sent, "destination", dict, required=True)))


@route("POST", "databases/{}/views/{}")
def alter_view(database: str, view: str) -> None:
    """Change one."""
    lake().views.alter(Identifier(database, view), view_changes(body()))


def _view(sent: dict[str, Any]) -> View:
    query = member(sent, "query", str, required=True)
    with reading("The view's schema"):
        fields = tuple(Field.from_json(field) for field in member(sent, "fields", list, required=True))
    return View(
        fields=fields,
        query=query,
        dialects=strings(sent, "dialects"),
        comment=member(sent, "comment", str),
        options=strings(sent, "options"),
    )


def _json(row: NamedRow) -> dict[str, object]:
    return {"id": str(row.id), "name": row.name, "database": row.database, "schema": shown(row.body), **audit(row)}


serve_named("view", lambda here: here.views, _json)
