"""The catalog: databases, tables and views, searched by names and columns."""

from __future__ import annotations

from dataclasses import dataclass

from flask import request
from flask.typing import ResponseReturnValue

from catalog.browse import ORDERS, DatabaseSums, ListedTable
from lake.inspect.browse import databases, tables
from model.text.whole_number import whole_number
from server.access.access import caller
from server.pages.rendering.formatting import plural
from server.pages.shell import bp, in_menu, render
from server.process.services import services

_LAST_ROW = 999_999_999
_PAGE = 50
_MOST_SEARCH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogPage:
    """All that ``catalog.html`` may use."""

    databases: list[DatabaseSums]
    database: str | None
    search: str
    order: str
    tables: list[ListedTable]
    total: int
    total_views: int
    offset: int
    limit: int = _PAGE

    @property
    def everything(self) -> int:
        """Tables and views of all databases."""
        return sum(database.tables + database.views for database in self.databases)

    @property
    def found(self) -> str:
        """How many of each there are, in words."""
        tables, views = self.total - self.total_views, self.total_views
        said = [plural(tables, "table")] * bool(tables or not views) + [plural(views, "view")] * bool(views)
        return " and ".join(said)


@bp.get("/catalog")
@in_menu("Catalog")
def catalog() -> ResponseReturnValue:
    """Databases, and a page of tables and views."""
    lake = services().gateway.lake.for_caller(caller())
    database = request.args.get("database") or None
    search = request.args.get("q", "").strip().replace("\0", "")[:_MOST_SEARCH]
    order = request.args.get("order", "name")
    order = order if order in ORDERS else "name"
    offset = whole_number(request.args.get("from", "0"), most=_LAST_ROW) or 0
    if database is not None:
        lake.database(database)
    listed = tables(lake, database=database, search=search or None, order=order, offset=offset, limit=_PAGE)
    page = CatalogPage(
        databases=databases(lake),
        database=database,
        search=search,
        order=order,
        tables=listed,
        total=listed[0].total if listed else 0,
        total_views=listed[0].total_views if listed else 0,
        offset=offset,
    )
    return render("catalog.html", here="Catalog", page=page)
