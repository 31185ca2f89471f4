"""Directories that nothing needs: remembered in the decision that makes them so, removed after it, and found again after a crash."""

from __future__ import annotations

from catalog import CatalogTransaction
from lake.register.standing import Standing
from table.file_io import FileIO


def make_way(tx: CatalogTransaction, io: FileIO, standing: Standing, directory: str) -> bool:
    """Finish the removal of a directory that is on record, and keep others from the place until the transaction ends.

    Returns whether it was on record. Raises `WarehouseMismatch`, and removes nothing, where the warehouse is another catalog's.
    """
    if not tx.tables.lock_location(directory):
        return False
    standing.require_own()
    io.delete_tree(directory)
    tx.tables.directory_removed(directory)
    return True
