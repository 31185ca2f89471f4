"""The pages of one table: a head they share, and a page for each side of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from flask import redirect, request, url_for
from flask.typing import ResponseReturnValue

from catalog.records import CountsRow
from lake import Lake, LakeTable
from model.access import Access, table_resource
from model.errors import TableDamaged, TableNotExist
from model.identifier import Identifier
from model.schema.schema import other_kind
from model.snapshot import Snapshot
from model.text.sql_text import literal
from model.text.whole_number import whole_number
from server.access.access import caller
from server.pages.shell import bp, render
from server.process.services import services


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHead:
    """What every page of a table shows of it."""

    table: Identifier
    opened: LakeTable
    kind: str | None
    """What other engines' object it is; None for a table of ours."""
    snapshot: Snapshot | None
    counts: CountsRow | None
    tells_counts: bool
    """Whether the visitor may know how much the table holds: who sees only a part of it may not."""
    may_write: bool
    may_delete: bool
    may_alter: bool
    damage: TableDamaged | None = None
    """What of its files was met that is not as it was written, and keeps a page from showing more."""

    @property
    def mending(self) -> list[tuple[str, str]]:
        """The statements that look at damage and mend it, with what each does."""
        name = literal(str(self.table))
        return [
            (f"CALL sys.check_table({name}, deep => true)", "lists every file that is missing or is not what was written"),
            (f"CALL sys.repair_table({name})", "writes files of snapshots and schemas again from the catalog"),
            (
                f"CALL sys.remove_unexisting_files({name}, dry_run => true)",
                "tells what would be let go so that the rest can be read; without dry_run it is done",
            ),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """One side of a table."""

    name: str
    label: str
    values: Callable[[Lake, TableHead], Mapping[str, Any]]
    """What its template is handed beside the head."""
    data: bool = True
    """Whether only tables of ours have it."""
    counts: bool = False
    """Whether it counts rows, so that it is kept from who sees only a part of the table."""


TABS: dict[str, Tab] = {}
_ORDER = ("overview", "data", "schema", "snapshots", "files", "options", "maintenance", "consumers", "access", "connect")
V = TypeVar("V", bound=Callable[[Lake, TableHead], Mapping[str, Any]])


def tab(name: str, label: str, *, data: bool = True, counts: bool = False) -> Callable[[V], V]:
    """Register a side of tables; its template is ``table/<name>.html``."""

    def register(values: V) -> V:
        TABS[name] = Tab(name=name, label=label, values=values, data=data, counts=counts)
        return values

    return register


@bp.get("/tables/<database>/<name>")
@bp.get("/tables/<database>/<name>/<tab>")
def table(database: str, name: str, tab: str = "overview") -> ResponseReturnValue:
    """One side of a table."""
    lake, head = head_of(database, name)
    if tab == "upkeep":  # its name before 1.0
        return redirect(url_for("pages.table", database=database, name=name, tab="maintenance"), 301)
    chosen = TABS.get(tab)
    if chosen is None or (chosen.data and head.kind is not None):
        return render("missing.html", here="Catalog", status=404, what=f"page {tab} of table {head.table}")
    return render_tab(lake, head, chosen)


def render_tab(lake: Lake, head: TableHead, chosen: Tab, **more: Any) -> ResponseReturnValue:
    """A side of a table as a page; ``more`` beside what it is handed always."""
    if chosen.counts and not head.tells_counts:
        lake.require_whole(head.opened, chosen.label.lower())
    template, values = f"table/{chosen.name}.html", more
    try:
        if head.damage is not None and chosen.data:
            raise head.damage
        values = {**chosen.values(lake, head), **more}
    except TableDamaged as damage:
        lake.standing.met(damage)
        head, template = replace(head, damage=damage), "table/damaged.html"
    tabs = [TABS[name] for name in _ORDER if name in TABS and (head.kind is None or not TABS[name].data)]
    return render(template, here="Catalog", head=head, tabs=tabs, tab=chosen, **values)


def head_of(database: str, name: str) -> tuple[Lake, TableHead]:
    """The table as the visitor may see it; raises `TableNotExist` or `Forbidden`."""
    lake = services().gateway.lake.for_caller(caller())
    if "$" in name:
        raise TableNotExist(f"{database}.{name}")
    identifier = Identifier(database, name)
    opened = lake.open_any(identifier)
    kind = other_kind(opened.schema.options)
    damage: TableDamaged | None = None
    latest, counts = None, None
    try:
        latest, counts = (lake.totals(opened) if kind is None else None) or (None, None)
    except TableDamaged as met:
        damage = met
    counted = lake.tells_counts(opened)
    resource = table_resource(identifier)
    return lake, TableHead(
        table=identifier,
        opened=opened,
        kind=kind,
        snapshot=latest,
        counts=counts if counted else None,
        tells_counts=counted,
        may_write=lake.caller.may(Access.UPDATE, resource),
        may_delete=lake.caller.may(Access.DELETE, resource),
        may_alter=lake.caller.may(Access.ALTER, resource),
        damage=damage,
    )


def address(head: TableHead, tab: str = "overview", **values: Any) -> str:
    """The address of one side of a table."""
    return url_for("pages.table", database=head.table.database, name=head.table.table, tab=tab, **values)


def number(name: str) -> int | None:
    """A whole number of the address; None without one."""
    return whole_number(request.values.get(name, ""))
