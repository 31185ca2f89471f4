"""What was dropped and can be brought back: how much space it takes, until when, and the button that does it."""

from __future__ import annotations

from dataclasses import dataclass

from flask import request, url_for
from flask.typing import ResponseReturnValue

from catalog.objects.drops import DroppedDatabase, DroppedTable
from model.errors import BadRequest
from model.text.sql_text import quote
from model.text.whole_number import whole_number
from server.access.access import caller
from server.pages.actions import act
from server.pages.shell import bp, render
from server.process.services import services

_MOST = 200
"""Tables shown; the sums are of all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedPage:
    """All that ``dropped.html`` may use."""

    databases: list[DroppedDatabase]
    tables: list[DroppedTable]
    total: int
    size: int
    """Bytes of the latest snapshots of all of them."""
    mine: frozenset[int]
    """Drops that the visitor may take back."""
    purged: bool
    """Whether a drop is for good at once here."""


@bp.get("/dropped")
def dropped() -> ResponseReturnValue:
    """Dropped databases and tables, the newest drop first."""
    lake = services().gateway.lake.for_caller(caller())
    tables, databases = lake.dropped_tables(), lake.dropped_databases()
    page = DroppedPage(
        databases=databases,
        tables=tables[:_MOST],
        total=len(tables),
        size=sum(table.file_size or 0 for table in tables),
        mine=lake.undroppable(tables, databases),
        purged=not lake.drop_retention,
    )
    return render("dropped.html", here="Catalog", page=page, undrop=undrop)


@bp.post("/dropped")
def take_back() -> ResponseReturnValue:
    """Bring back what a button stands for, under another name where one is given."""
    form = request.form
    drop_id = whole_number(form.get("id", ""))
    if drop_id is None:
        raise BadRequest("Say which drop to take back, by its id.")
    statement = undrop(form.get("database", ""), form.get("table"), drop_id, form.get("to", "").strip() or None)
    return act(statement, back=url_for("pages.dropped"), done="It is back.")


def undrop(database: str, table: str | None, drop_id: int, to: str | None = None) -> str:
    """What *Undrop* runs; a table's other name is one in its database."""
    what = f"DATABASE {quote(database)}" if table is None else f"TABLE {quote(database)}.{quote(table)}"
    return f"UNDROP {what} WITH ID {drop_id}" + ("" if to is None else f" AS {quote(to)}")
