"""What views and functions have in common: lists of names and of whole ones, in one database and over all, and one by its name."""

from __future__ import annotations

from collections.abc import Callable

from catalog.records import NamedRow
from lake import Lake
from lake.tables.views import Functions, Views
from model.identifier import Identifier
from server.paimon.paging import one_more, page, pages_everywhere, slice_of
from server.paimon.routes import lake, route

Json = Callable[[NamedRow], dict[str, object]]


def serve_named(kind: str, of: Callable[[Lake], Views | Functions], json_of: Json) -> None:
    """Register what reads and removes views (``kind`` is ``view``) or functions; ``of`` finds them in the lake."""
    pattern = f"{kind}NamePattern"

    def names(database: str) -> object:
        wanted = slice_of(pattern)
        return page(f"{kind}s", of(lake()).names(database, one_more(wanted)), wanted, str, str)

    def details(database: str) -> object:
        wanted = slice_of(pattern)
        return page(f"{kind}Details", of(lake()).describe_all(database, one_more(wanted)), wanted, lambda row: row.name, json_of)

    def everywhere() -> object:
        return pages_everywhere(f"{kind}s", pattern, of(lake()).everywhere)

    def get(database: str, name: str) -> object:
        return json_of(of(lake()).get(Identifier(database, name)))

    def drop(database: str, name: str) -> None:
        of(lake()).drop(Identifier(database, name))

    route("GET", f"databases/{{}}/{kind}s")(names)
    route("GET", f"databases/{{}}/{kind}-details")(details)
    route("GET", f"{kind}s")(everywhere)
    route("GET", f"databases/{{}}/{kind}s/{{}}")(get)
    route("DELETE", f"databases/{{}}/{kind}s/{{}}")(drop)
