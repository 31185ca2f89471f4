"""A catalog held against its warehouse: what one has that the other lacks, and the statement that mends it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from uuid import UUID

from catalog import CatalogStore
from catalog.objects.drops import DroppedTable
from catalog.records import PointerRow
from lake.commit.ahead import ahead_of
from lake.register.listed import listed_damage
from lake.register.looks.cut_off import cut_off
from lake.register.own_files import others_schema, way_out
from lake.register.restored.used_since import undrop_of, used_since
from lake.register.unknown_branches import unknown_branches
from lake.register.whole import is_readable
from model.errors import LakeError
from model.identifier import MAIN_BRANCH, Identifier
from model.snapshot import Snapshot
from model.text.file_name import file_name
from model.text.sql_text import literal, quote
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


def differences(catalog: CatalogStore, warehouse: str, *, kept: Collection[str] = ()) -> Iterator[Difference]:
    """Look at every table's newest snapshot, at what lies after it, and at tables the catalog does not know; ``kept``: `keep_discarded`."""
    io = file_io_for(warehouse)
    with catalog.reading() as tx:
        pointers = tx.overview.pointers()
        dropped = tx.drops.tables()
        databases = set(tx.databases.names())
        locations = [row.location for row in tx.tables.all()] + [table.location for table in dropped]
    known = {location.rstrip("/") for location in locations}
    looked_at = set[UUID]()
    for row in pointers:
        identifier = Identifier(row.database, row.table_name, row.branch)
        try:
            yield from _of_table(catalog, row, identifier)
            if row.table_id not in looked_at:
                looked_at.add(row.table_id)
                yield from _of_branches(catalog, row)
        except (LakeError, OSError) as problem:
            yield Difference(table=str(identifier), what=f"cannot be looked at: {problem}", statement="")
    for table in dropped:
        try:
            yield from _of_dropped(catalog, table)
        except (LakeError, OSError) as problem:
            yield Difference(table=str(table.identifier), what=f"is dropped and cannot be looked at: {problem}", statement="")
    yield from unknown_tables(io, warehouse, known, kept=kept, databases=databases)


def _repair(identifier: Identifier) -> str:
    return f"CALL sys.repair_table({literal(identifier.written())})"


def _of_table(catalog: CatalogStore, row: PointerRow, identifier: Identifier) -> Iterator[Difference]:
    files = TableFiles(file_io_for(row.location), row.location, row.branch)
    latest = None if row.body is None else Snapshot.from_json(row.body)
    if (path := _another_table(catalog, row, files)) is not None:
        place, register = way_out(identifier, row.location)
        what = f"another table lies at {row.location}: {file_name(path)} and all snapshots are not the catalog's; move it to {place}"
        yield Difference(table=str(identifier), what=what, statement=register)
        return
    there = files.snapshot_ids()
    later = [snapshot_id for snapshot_id in there if latest is None or snapshot_id > latest.id]
    if later:
        known = latest.id if latest is not None else "table, which has none"
        what = f"snapshots {later[0]} to {later[-1]} are in the warehouse and newer than the catalog's {known}"
        if moved := cut_off(files, latest.id if latest else 0, later):
            what += f"; a repair was cut off and has moved those before them to {next(iter(moved.values())).rpartition('/')[0]}"
        yield Difference(table=str(identifier), what=what, statement=_repair(identifier))
    if not later and (path := _ahead(catalog, row, files)) is not None:
        what = f"{file_name(path)} in the warehouse is newer than the catalog, which lacks an ALTER"
        if path.rpartition("/")[0] != files.layout.schema_dir():
            known = latest.id if latest is not None else "none"
            what = f"{file_name(path)} in the warehouse tells another history than the catalog, which is older: it knows snapshot {known}"
        yield Difference(table=str(identifier), what=what, statement=_repair(identifier))
        return
    if latest is None:
        return
    lists = (latest.base_manifest_list, latest.delta_manifest_list)
    gone = [name for name in lists if not files.io.file_exists(files.layout.manifest(name))]
    if gone and not later:
        with catalog.reading() as tx:
            history = [Snapshot.from_json(one.body) for one in tx.snapshots.history(row.table_id, row.branch)]
        what = f"snapshot {latest.id}, the catalog's newest, names {', '.join(gone)}, which the warehouse lacks"
        goes_back = bool(there) or any(is_readable(files, snapshot) for snapshot in reversed(history))  # to the newest that can be read
        yield Difference(table=str(identifier), what=what, statement=_repair(identifier) if goes_back else "")
    elif latest.id not in there and not later:
        what = f"snapshot {latest.id}, the catalog's newest, has no file in the warehouse; it is written again by a repair"
        yield Difference(table=str(identifier), what=what, statement=_repair(identifier))
    elif not later and (damage := listed_damage(catalog, row.table_id, files)) is not None:
        path, problem, _ = damage
        check = f"CALL sys.check_table({literal(identifier.written())})"
        yield Difference(table=str(identifier), what=f"{file_name(path)} {problem}", statement=check)


def _of_dropped(catalog: CatalogStore, dropped: DroppedTable) -> Iterator[Difference]:
    use = used_since(catalog, file_io_for(dropped.location), dropped)
    if use is not None:
        then = f"{_repair(dropped.identifier)} then brings both together"
        what = f"is dropped in the catalog, and seems to have been used since: {use}; {then}"
        yield Difference(table=str(dropped.identifier), what=what, statement=undrop_of(dropped))
        return
    location = dropped.own_directory or dropped.location
    files = TableFiles(file_io_for(location), location)
    with catalog.reading() as tx:
        row = tx.snapshots.latest(dropped.table_id, MAIN_BRANCH)
    latest = None if row is None else Snapshot.from_json(row.body)
    lists = () if latest is None else (latest.base_manifest_list, latest.delta_manifest_list)
    if gone := [name for name in lists if not files.io.file_exists(files.layout.manifest(name))]:
        what = f"is dropped and kept, and the warehouse lacks {', '.join(gone)}: {undrop_of(dropped)} would bring back what cannot be read"
        yield Difference(table=str(dropped.identifier), what=what, statement="")


def _another_table(catalog: CatalogStore, row: PointerRow, files: TableFiles) -> str | None:
    """The schema's file that tells so."""
    with catalog.reading() as tx:
        path = others_schema(tx, row.table_id, row.branch, files)
    return path if path is not None and files.snapshot_ids() else None


def _ahead(catalog: CatalogStore, row: PointerRow, files: TableFiles) -> str | None:
    """What tells that a newer catalog changed the schema, or went back in history or forward to a branch, after which ids came again."""
    with catalog.reading() as tx:
        return ahead_of(tx, row.table_id, files, tx.snapshots.latest(row.table_id, row.branch))


def _of_branches(catalog: CatalogStore, row: PointerRow) -> Iterator[Difference]:
    with catalog.reading() as tx:
        names = unknown_branches(tx, file_io_for(row.location), row.table_id, row.location)
    table = Identifier(row.database, row.table_name)
    for name in names:
        what = f"branch {name} lies in the warehouse, and the catalog has no such branch"
        yield Difference(table=str(table), what=what, statement=_repair(table))


def keep_discarded(catalog: CatalogStore) -> frozenset[str]:
    """Take off the record what a restored catalog was removing when the backup was made, where a table or branch lies there.

    It may have been made since, in the place of what was removed. Returns these directories.
    """
    with catalog.reading() as tx:
        directories = tx.directories.dropped_directories()
    occupied = frozenset(one for one in directories if file_io_for(one).list(TableLayout(one).schema_dir()))
    with catalog.transaction() as tx:
        for directory in occupied:
            tx.directories.directory_removed(directory)
    return occupied


def tags_without_files(catalog: CatalogStore) -> Iterator[Difference]:
    """Tags of a restored catalog whose files the warehouse lacks: those that can be read stay, and their files are written again.

    A server would take a missing file for a client's removal of the tag.
    """
    with catalog.reading() as tx:
        pointers = tx.overview.pointers()
    for row in pointers:
        files = TableFiles(file_io_for(row.location), row.location, row.branch)
        table = Identifier(row.database, row.table_name, row.branch)
        with catalog.reading() as tx:
            tags = [tag for tag in tx.tags.all(row.table_id, row.branch) if tag.published]
        for tag in tags:
            snapshot = Snapshot.from_json(tag.snapshot)
            if files.io.file_exists(files.layout.tag_file(tag.name)) or not is_readable(files, snapshot):
                continue
            with catalog.transaction() as tx:
                tx.tags.published(row.table_id, tag.name, row.branch, published=False)
            what = f"tag {tag.name}, snapshot {snapshot.id}, has no file in the warehouse and gets one; if it was deleted since, delete it"
            statement = f"CALL sys.delete_tag({literal(table.written())}, {literal(tag.name)})"
            yield Difference(table=str(table), what=what, statement=statement)


def unknown_tables(
    io: FileIO, warehouse: str, known: set[str], *, kept: Collection[str] = (), databases: Collection[str] | None = None
) -> Iterator[Difference]:
    """The tables that lie in a warehouse's databases and are none of the known locations; before them their database, where it is none."""
    for database in io.list(warehouse):
        name = database.path.rstrip("/").rpartition("/")[2]
        if not name.endswith(".db"):
            continue
        missing = None if databases is None or name.removesuffix(".db") in databases else name.removesuffix(".db")
        for table in io.list(f"{warehouse.rstrip('/')}/{name}"):
            own = table.path.rstrip("/").rpartition("/")[2]
            location = f"{warehouse.rstrip('/')}/{name}/{own}"
            if location not in known and own[:1] not in "._" and io.list(TableLayout(location).schema_dir()):
                if missing is not None:
                    what = "tables of it lie in the warehouse, and the catalog has no such database: make it before one is registered"
                    yield Difference(table=f"database {missing}", what=what, statement=f"CREATE DATABASE {quote(missing)}", known=False)
                    missing = None
                identifier = Identifier(name.removesuffix(".db"), own)
                register = f"CALL sys.register_table({literal(identifier.written())}, {literal(location)})"
                what = f"lies in the warehouse at {location}, and the catalog has no such table"
                if location in kept:
                    what += "; a dropped one was being removed there when the backup was made, and it stays as it may have been made since"
                yield Difference(table=str(identifier), what=what, statement=register, known=False)
