"""Directories that nothing needs: remembered in the decision that makes them so, removed after it, and found again after a crash."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from catalog import CatalogStore, CatalogTransaction
from catalog.records import TableRow
from lake.access.allowed_locations import refuse_overlap
from lake.register.own_files import others_schema
from lake.register.readable_line import read_snapshot
from lake.register.standing import Standing
from model.errors import InvalidName
from model.identifier import MAIN_BRANCH
from model.location import Location
from model.schema.schema import Schema
from table.format.io.file_io import FileIO
from table.format.json_document import parse_json
from table.format.store import TableFiles

_CLOCKS_APART = timedelta(seconds=2)
"""So far the clocks of Postgres and of servers may differ."""


def remove_discarded(tx: CatalogTransaction, io: FileIO, standing: Standing, directory: str) -> None:
    """Remove a directory that has just been decided to be garbage, once, and keep others from the place until the transaction ends.

    Raises `WarehouseMismatch`, and removes nothing, where the warehouse is another catalog's.
    """
    if tx.tables.lock_location(directory):
        _remove(tx, io, standing, directory)


def make_way(tx: CatalogTransaction, io: FileIO, standing: Standing, directory: str) -> bool:
    """The same for one that may have been on record for long, as after a crash; False where it stays.

    Nothing on record tells whose directory it was: with a catalog that is older than its warehouse it may have been removed and be
    another table's, or branch's, by now. What was made after it became garbage is none, and goes off the record.
    """
    return not tx.tables.lock_location(directory) or _removed_unless_later(tx, io, standing, directory)


def free_for_table(tx: CatalogTransaction, io: FileIO, standing: Standing, directory: str) -> bool:
    """`make_way` for a new table; returns whether no other one, also no dropped one that is kept, lies there."""
    occupants, in_use = tx.tables.lock_place(directory)
    gone = not occupants or _removed_unless_later(tx, io, standing, directory)
    return gone and not in_use


def _removed_unless_later(tx: CatalogTransaction, io: FileIO, standing: Standing, directory: str) -> bool:
    since = tx.tables.discarded_at(directory)
    if since is None or not _holds_later(io, directory, (since + _CLOCKS_APART).timestamp() * 1000):
        _remove(tx, io, standing, directory)
        return True
    tx.tables.directory_removed(directory)
    standing.tell(
        f"The directory {directory} was to be removed, and holds what was made after {since:%Y-%m-%d %H:%M:%S %Z}, when that was decided: "
        "the catalog is older than the warehouse. It stays. `sluice doctor` names the statement that makes it the catalog's; remove it by "
        "hand where nobody needs it."
    )
    return False


def _holds_later(io: FileIO, directory: str, millis: float) -> bool:
    """Whether the first schema of a table or branch that lies there, or its newest snapshot, is of later than a time.

    Those are decided before the drop, also where their files come late. Files that tell nothing are as good as none.
    """
    files = TableFiles(io, directory)
    newest = max(files.snapshot_ids(), default=None)
    snapshot = None if newest is None else read_snapshot(files, newest)
    if snapshot is not None and snapshot.time_millis > millis:
        return True
    first = next(iter(files.schema_ids()), 0)
    try:
        return Schema.from_json(parse_json(io.read(files.layout.schema_file(first)))).time_millis > millis
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _remove(tx: CatalogTransaction, io: FileIO, standing: Standing, directory: str) -> None:
    standing.require_own()
    io.delete_tree(directory)
    tx.tables.directory_removed(directory)


def own_directory(row: TableRow) -> str | None:
    """The directory that goes with a table; None for an external one, whose files are its maker's."""
    return None if row.external else row.moving_from or row.location


def removable(tx: CatalogTransaction, io: FileIO, standing: Standing, table_id: UUID, directory: str | None) -> str | None:
    """The directory that goes with a table that ends for good; None where another table lies there by now, which stays and is told of.

    With a catalog that is older than its warehouse the table may have been dropped already, and its place given to another of its name.
    """
    if directory is None or (path := others_schema(tx, table_id, MAIN_BRANCH, TableFiles(io, directory))) is None:
        return directory
    standing.tell(
        f"The directory {directory} was to be removed with its table, and {path} is another table's: the catalog is older than the "
        "warehouse. It stays. `sluice doctor` names the statement that makes it the catalog's; remove it by hand where nobody needs it."
    )
    return None


def put_on_record_again(catalog: CatalogStore, table_id: UUID, directory: str) -> bool:
    """Remember as garbage what was written into the directory of a table after that had been dropped for good.

    False where a table lies there, in it or around it: the same one, also where it is dropped and kept, or another one by now.
    """
    with catalog.reading() as tx:
        if tx.tables.by_id(table_id) is not None:
            return False
    with catalog.transaction() as tx:
        tx.tables.lock_places()
        occupants, in_use = tx.tables.lock_place(directory)
        if in_use:
            return False
        if not occupants:
            try:
                refuse_overlap(tx, Location.parse(directory), "Nothing")
            except InvalidName:
                return False
            tx.tables.discard(directory)
    return True
