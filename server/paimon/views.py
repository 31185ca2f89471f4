"""Views of the protocol."""

from __future__ import annotations

from typing import Any

from catalog.records import NamedRow
from model.identifier import Identifier
from model.types import Field
from model.view import View
from server.bodies import member, strings
from server.paimon.changes import view_changes
from server.paimon.paging import like, max_results, one_more, page, pair_of, pair_token, slice_of
from server.paimon.routes import argument, body, lake, route
from server.paimon.wire import audit, identifier_of, reading


@route("GET", "databases/{}/views")
def list_views(database: str) -> object:
    """Names, in pages."""
    wanted = slice_of("viewNamePattern")
    rows = lake().views.page(database, one_more(wanted))
    return page("views", rows, wanted, lambda row: row.name, lambda row: row.name)


@route("GET", "databases/{}/view-details")
def list_view_details(database: str) -> object:
    """Whole views, in pages."""
    wanted = slice_of("viewNamePattern")
    return page("viewDetails", lake().views.page(database, one_more(wanted)), wanted, lambda row: row.name, _json)


@route("GET", "views")
def list_views_everywhere() -> object:
    """Names over all databases, in pages."""
    limit = max_results()
    pairs = lake().views.everywhere(
        databases=like(argument("databaseNamePattern")),
        names=like(argument("viewNamePattern")),
        after=pair_of(argument("pageToken")),
        limit=limit + 1,
    )
    token = pair_token(pairs[limit - 1]) if len(pairs) > limit else None
    return {"views": [{"database": database, "object": name} for database, name in pairs[:limit]], "nextPageToken": token}


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


@route("GET", "databases/{}/views/{}")
def get_view(database: str, view: str) -> object:
    """One of them."""
    return _json(lake().views.get(Identifier(database, view)))


@route("POST", "databases/{}/views/{}")
def alter_view(database: str, view: str) -> None:
    """Change one."""
    lake().views.alter(Identifier(database, view), view_changes(body()))


@route("DELETE", "databases/{}/views/{}")
def drop_view(database: str, view: str) -> None:
    """Remove one."""
    lake().views.drop(Identifier(database, view))


def _view(sent: dict[str, Any]) -> View:
    query = member(sent, "query", str, required=True)
    with reading("The view's schema"):
        fields = tuple(Field.from_json(one) for one in member(sent, "fields", list, required=True))
    return View(
        fields=fields,
        query=query,
        dialects=strings(sent, "dialects"),
        comment=member(sent, "comment", str),
        options=strings(sent, "options"),
    )


def _json(row: NamedRow) -> dict[str, object]:
    return {"id": str(row.id), "name": row.name, "database": row.database, "schema": row.body, **audit(row)}
