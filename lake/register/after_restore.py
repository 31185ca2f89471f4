"""A catalog held against its warehouse: what one has that the other lacks, and the statement that mends it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from catalog import CatalogStore
from model.errors import LakeError
from model.identifier import Identifier
from model.snapshot import Snapshot
from model.sql_text import literal
from table.format.io.file_io import FileIO, file_io_for
from table.format.layout import TableLayout
from table.format.store import TableFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Something in which they differ."""

    table: str
    what: str
    statement: str
    """What mends it; empty where only a copy of the files does."""
    known: bool = True
    """Whether the catalog has such a table."""


def differences(catalog: CatalogStore, warehouse: str) -> Iterator[Difference]:
    """Look at every table's newest snapshot, at what lies after it, and at tables the catalog does not know."""
    io = file_io_for(warehouse)
    with catalog.reading() as tx:
        pointers = tx.overview.pointers()
        locations = [row.location for row in tx.tables.all()] + [dropped.location for dropped in tx.drops.tables()]
    known = {location.rstrip("/") for location in locations}
    for row in pointers:
        identifier = Identifier(row.database, row.table_name, row.branch)
        try:
            files = TableFiles(file_io_for(row.location), row.location, row.branch)
            yield from _of_table(files, identifier, None if row.body is None else Snapshot.from_json(row.body))
        except (LakeError, OSError) as problem:
            yield Difference(table=str(identifier), what=f"cannot be looked at: {problem}", statement="")
    yield from unknown_tables(io, warehouse, known)


def _of_table(files: TableFiles, identifier: Identifier, latest: Snapshot | None) -> Iterator[Difference]:
    repair = f"CALL sys.repair_table({literal(identifier.written())})"
    there = files.snapshot_ids()
    later = [snapshot_id for snapshot_id in there if latest is None or snapshot_id > latest.id]
    if later:
        known = latest.id if latest is not None else "table, which has none"
        what = f"snapshots {later[0]} to {later[-1]} are in the warehouse and newer than the catalog's {known}"
        yield Difference(table=str(identifier), what=what, statement=repair)
    if latest is None:
        return
    lists = (latest.base_manifest_list, latest.delta_manifest_list)
    gone = [name for name in lists if not files.io.file_exists(files.layout.manifest(name))]
    if gone and not later:
        what = f"snapshot {latest.id}, the catalog's newest, names {', '.join(gone)}, which the warehouse lacks"
        yield Difference(table=str(identifier), what=what, statement=repair if there else "")  # it goes back to the newest that can be read
    elif latest.id not in there and not later:
        what = f"snapshot {latest.id}, the catalog's newest, has no file in the warehouse; it is written again by a repair"
        yield Difference(table=str(identifier), what=what, statement=repair)


def unknown_tables(io: FileIO, warehouse: str, known: set[str]) -> Iterator[Difference]:
    """The tables that lie in a warehouse's databases and are none of the known locations."""
    for database in io.list(warehouse):
        name = database.path.rstrip("/").rpartition("/")[2]
        if not name.endswith(".db"):
            continue
        for table in io.list(f"{warehouse.rstrip('/')}/{name}"):
            own = table.path.rstrip("/").rpartition("/")[2]
            location = f"{warehouse.rstrip('/')}/{name}/{own}"
            if location not in known and own[:1] not in "._" and io.list(TableLayout(location).schema_dir()):
                identifier = Identifier(name.removesuffix(".db"), own)
                register = f"CALL sys.register_table({literal(identifier.written())}, {literal(location)})"
                what = f"lies in the warehouse at {location}, and the catalog has no such table"
                yield Difference(table=str(identifier), what=what, statement=register, known=False)
