"""Directories that nothing needs: remembered in the decision that makes them so, removed after it, and found again after a crash."""

from __future__ import annotations

from uuid import UUID

from catalog import CatalogStore, CatalogTransaction
from catalog.records import TableRow
from lake.access.allowed_locations import refuse_overlap
from lake.register.standing import Standing
from model.errors import InvalidName
from model.location import Location
from table.format.io.file_io import FileIO


def make_way(tx: CatalogTransaction, io: FileIO, standing: Standing, directory: str) -> bool:
    """Finish the removal of a directory that is on record, and keep others from the place until the transaction ends.

    Returns whether it was on record. Raises `WarehouseMismatch`, and removes nothing, where the warehouse is another catalog's.
    """
    occupants = tx.tables.lock_location(directory)
    if occupants:
        _remove(tx, io, standing, directory)
    return occupants


def free_for_table(tx: CatalogTransaction, io: FileIO, standing: Standing, directory: str) -> bool:
    """`make_way` for a new table; returns whether no other one, also no dropped one that is kept, lies there."""
    occupants, in_use = tx.tables.lock_place(directory)
    if occupants:
        _remove(tx, io, standing, directory)
    return not in_use


def _remove(tx: CatalogTransaction, io: FileIO, standing: Standing, directory: str) -> None:
    standing.require_own()
    io.delete_tree(directory)
    tx.tables.directory_removed(directory)


def own_directory(row: TableRow) -> str | None:
    """The directory that goes with a table; None for an external one, whose files are its maker's."""
    return None if row.external else row.moving_from or row.location


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
