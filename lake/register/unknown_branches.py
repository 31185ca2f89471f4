"""What lies in a table's directory and the catalog does not know, as where it is older than its warehouse: branches above all.

Their rows lie among the table's own files, so nothing of them may go before `sys.repair_table` has made them the catalog's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterable, Iterator
from uuid import UUID

from catalog import CatalogTransaction
from lake.register.foreign_tables import Lying, lying_branch, names_of_branches
from lake.register.whole import is_readable
from lake.tables.handle import LakeTable
from lake.tables.names import check_name
from lake.tables.tags import tag_in
from model.errors import InvalidName, InvalidSchema, TableDamaged
from model.identifier import MAIN_BRANCH
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


def snapshots_kept(tx: CatalogTransaction, table: LakeTable, *, known: Container[str] | None = None) -> list[Snapshot]:
    """The snapshots and tags that lie in the table's directory and are not the catalog's.

    Of branches it does not know that is all that can be read; of main and the others what came later than it, as where it is older than
    its warehouse, or lies in the place of what is its own. With ``known``, the keys of all it has, every file is held against them, also
    where the catalog knows one of that name, and a file that tells no snapshot raises `TableDamaged`. Tags of the table's own branch are
    not looked for: whoever asks has taken them in.
    """
    kept: list[Snapshot] = []
    for name in unknown_branches(tx, table.files.io, table.table_id, table.location):
        files = _files(table, name)
        for snapshot_id in files.snapshot_ids():
            with contextlib.suppress(TableDamaged):
                kept += filter(None, [files.read_snapshot(snapshot_id)])
        kept += _tagged(files, _tag_names(files))
    kept = [snapshot for snapshot in kept if is_readable(table.files, snapshot, deletions=False)]
    for name in (MAIN_BRANCH, *tx.branches.names(table.table_id)):
        files = _files(table, name)
        kept += _beyond(tx, table, files, known)
        if name != table.identifier.branch:
            tags = {tag.name for tag in tx.tags.all(table.table_id, name)} if known is None else set[str]()
            tagged = _tagged(files, [tag for tag in _tag_names(files) if tag not in tags])
            kept += [snapshot for snapshot in tagged if known is None or snapshot.key not in known]
    return kept


def _beyond(tx: CatalogTransaction, table: LakeTable, files: TableFiles, known: Container[str] | None) -> Iterator[Snapshot]:
    """What of a branch's snapshots files alone have; not what lies before the catalog's earliest: that has expired, left by a crash."""
    branch = files.layout.branch
    ids = tx.snapshots.ids(table.table_id, branch)
    noted = {snapshot_id for snapshot_id, published in ids[:-1] if published}
    for snapshot_id in files.snapshot_ids():
        if (ids and snapshot_id < ids[0][0]) or (snapshot_id in noted and known is None):
            continue
        try:
            snapshot = files.read_snapshot(snapshot_id)
        except TableDamaged:
            if known is not None:
                raise
            continue
        if snapshot is None or (known is not None and snapshot.key in known):
            continue
        if known is not None or tx.snapshots.by_uuid(table.table_id, snapshot.key, branch) is None:
            yield snapshot


def _tag_names(files: TableFiles) -> list[str]:
    return [status.path.rpartition(_TAG)[2] for status in files.io.list(files.layout.tag_dir()) if _TAG in status.path]


def _tagged(files: TableFiles, names: Iterable[str]) -> list[Snapshot]:
    return [Snapshot.from_json(tag.snapshot) for name in names if (tag := tag_in(files, name)) is not None]


def _files(table: LakeTable, branch: str) -> TableFiles:
    files = TableFiles(table.files.io, table.location, branch, name=table.files.name, allowed=table.files.reach.allowed)
    files.partition_types = table.files.partition_types
    return files
