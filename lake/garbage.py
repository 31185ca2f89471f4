"""Directories that nothing needs: remembered in the decision that makes them so, removed after it, and found again after a crash."""

from __future__ import annotations

from catalog import CatalogTransaction
from lake.register.standing import Standing
from table.file_io import FileIO


def make_way(tx: CatalogTransaction, io: FileIO, standing: Standing, directory: str) -> bool:
    """Finish the removal of a directory that is on record, and keep others from the place until the transaction ends.

    Returns whether it was on record. Raises `WarehouseMismatch`, and removes nothing, where the warehouse is another catalog's.
    """
    found = tx.tables.lock_location(directory)
    if found:
        _remove(tx, io, standing, directory)
    return found


def room_for_table(tx: CatalogTransaction, io: FileIO, standing: Standing, directory: str) -> bool:
    """`make_way` for a new table; returns whether no other one, also no dropped one that is kept, lies there."""
    found, in_use = tx.tables.lock_place(directory)
    if found:
        _remove(tx, io, standing, directory)
    return not in_use


def _remove(tx: CatalogTransaction, io: FileIO, standing: Standing, directory: str) -> None:
    standing.require_own()
    io.delete_tree(directory)
    tx.tables.directory_removed(directory)
