"""Branches that lie in a table's directory and that the catalog does not know, as where it is older than its warehouse.

Their rows lie among the table's own files, so nothing of them may go before `sys.repair_table` has made them the catalog's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from uuid import UUID

from catalog import CatalogTransaction
from lake.register.foreign_tables import Lying, lying_branch, names_of_branches
from lake.register.whole import is_readable
from lake.tables.handle import LakeTable
from lake.tables.names import check_name
from lake.tables.tags import tag_in
from model.errors import InvalidName, InvalidSchema, TableDamaged
from model.snapshot import Snapshot
from table.format.io.file_io import FileIO
from table.format.layout import TableLayout
from table.format.store import TableFiles

_TAG = "/tag-"


def unknown_branches(tx: CatalogTransaction, io: FileIO, table_id: UUID, location: str) -> list[str]:
    """Their names. What is being removed is none, nor is a directory without a schema."""
    lying = names_of_branches(io, location)  # first: one that is made meanwhile is in the catalog before it is here
    if not lying:
        return []
    known = set(tx.branches.names(table_id))
    return [name for name in lying if name not in known and _is_branch(tx, io, TableLayout(location, name))]


def _is_branch(tx: CatalogTransaction, io: FileIO, layout: TableLayout) -> bool:
    with contextlib.suppress(InvalidName):
        check_name(layout.branch, "branch")
        if io.list(layout.schema_dir()) and not tx.tables.is_discarded(layout.branch_dir):
            return bool(io.list(layout.schema_dir()))  # again: what is off the record may have been removed just now
    return False


def adoptable_branches(tx: CatalogTransaction, table: LakeTable) -> Iterator[Lying]:
    """Those of which all can be read, with their schemas and snapshots; the others stay where they lie."""
    for name in unknown_branches(tx, table.files.io, table.table_id, table.location):
        with contextlib.suppress(InvalidSchema, TableDamaged):
            yield lying_branch(_files(table, name))


def snapshots_kept(tx: CatalogTransaction, table: LakeTable) -> list[Snapshot]:
    """What unknown branches keep: their snapshots and tags, as far as they can be read."""
    kept: list[Snapshot] = []
    for name in unknown_branches(tx, table.files.io, table.table_id, table.location):
        files = _files(table, name)
        for snapshot_id in files.snapshot_ids():
            with contextlib.suppress(TableDamaged):
                kept += filter(None, [files.read_snapshot(snapshot_id)])
        tags = [status.path.rpartition(_TAG)[2] for status in files.io.list(files.layout.tag_dir()) if _TAG in status.path]
        kept += [Snapshot.from_json(tag.snapshot) for tag_name in tags if (tag := tag_in(files, tag_name)) is not None]
    return [snapshot for snapshot in kept if is_readable(table.files, snapshot)]


def _files(table: LakeTable, branch: str) -> TableFiles:
    files = TableFiles(table.files.io, table.location, branch, name=table.files.name, allowed=table.files.reach.allowed)
    files.partition_types = table.files.partition_types
    return files
