"""The page of a view: its columns, its query in every dialect it has, and who made it."""

from __future__ import annotations

from dataclasses import dataclass

from flask.typing import ResponseReturnValue

from catalog.records import NamedRow
from model.identifier import Identifier
from model.options.masking import masked_all
from model.view import View
from server.access.access import caller
from server.pages.rendering.statements import select
from server.pages.shell import bp, render
from server.process.services import services

_SAMPLE_ROWS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewPage:
    """All that ``view.html`` may use."""

    name: Identifier
    row: NamedRow
    view: View
    queries: list[tuple[str, str]]
    """Dialect and text of each query; the plain one stands alone where no dialect says it."""
    options: dict[str, str]
    sample: str


@bp.get("/views/<database>/<name>")
def view(database: str, name: str) -> ResponseReturnValue:
    """One view; raises `ViewNotExist` or `Forbidden`."""
    identifier = Identifier(database, name)
    row = services().gateway.lake.for_caller(caller()).views.get(identifier)
    definition = View.from_json(row.body)
    queries = sorted(definition.dialects.items())
    if definition.query not in definition.dialects.values():
        queries.insert(0, ("query", definition.query))
    page = ViewPage(
        name=identifier,
        row=row,
        view=definition,
        queries=queries,
        options=masked_all(definition.options),
        sample=select(identifier, limit=_SAMPLE_ROWS),
    )
    return render("view.html", here="Catalog", page=page)
