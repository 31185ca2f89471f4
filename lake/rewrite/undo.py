"""Undoing a compaction for a client whose files it took away, without a step back in history.

Paimon's writers of UPDATE and DELETE go by the files they read. Where a compaction has rewritten one of them meanwhile, and is the newest
snapshot, they ask for a rollback to the snapshot before it, look at the newest one again and commit (Java's `CommitRollback`). No row
changes by that, so it is no event for who reads the table: streams, tags and consumers have the compaction's snapshot behind them, and its
id must not be given to other rows.

The compaction's snapshot stays, of the same id, kind and writer, and holds what lay before it. The files it took away are not added
again by the next one: expiry, ours and that of every Paimon client, goes by what each snapshot took away and would remove them. A further
snapshot without changes follows, so that no id is ever the newest with two contents: clients before Paimon 2 compare by it alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import uuid4

from catalog import CatalogTransaction
from catalog.records import SnapshotRow
from lake.commit.built import BuiltCommit, decide_built
from lake.commit.clients.kept_rows import same_row_ids
from lake.commit.core import CommitCore
from lake.register.expired import check_there, forget_expired
from lake.register.whole import require_whole
from lake.tables.handle import LakeTable
from lake.tables.stale import stale_file
from lake.tables.tags import hold_retention
from model.errors import CommitConflict, RewriteConflict
from model.options.table import is_on
from model.snapshot import INSTEAD_OF, CommitKind, Snapshot
from table.format.io.patience import carried
from table.format.manifests.entries import EntryKind
from table.write.snapshot_builder import CommitRequest, build_snapshot, metadata_written

_THREADS = 8
"""Files looked for at once: each is a request where a store holds them."""


def undo_compaction(core: CommitCore, table: LakeTable, latest: int) -> bool:
    """Let the table hold again what the compaction that is its latest snapshot took away; False where the latest is another, or none.

    Compactions of manifests alone, and undone ones, after it are passed over. Raises `RewriteConflict` where that cannot be: what lay
    before has expired, has other rows, or no compaction is left that changed files. Paimon's writers then fail with their own conflict.
    """

    def build(key: str) -> BuiltCommit | None:
        return _built(core, table, latest, key)

    forget_expired(core.catalog, table)
    return decide_built(core, (table.table_id, table.identifier.branch), build) is not None


def _built(core: CommitCore, table: LakeTable, latest: int, key: str) -> BuiltCommit | None:
    newest = table.latest()
    if newest is None or newest.id != latest or newest.commit_kind is not CommitKind.COMPACT:
        return None
    undone, before = _line(core, table, newest)
    to = Snapshot.from_json(before.body)
    check_there(table, before)
    require_whole(table, to)
    _require_same_rows(table, to, undone)
    _require_files(table, undone[0])
    emptied = [_emptied(table, to, snapshot) for snapshot in undone]
    request = CommitRequest(kind=CommitKind.COMPACT, commit_user=str(uuid4()), operation="UNDO_COMPACT")
    made = build_snapshot(table.files, table.schema, emptied[-1], [request], uuid=key, time_millis=time.time_ns() // 1_000_000)
    made = replace(made, schema_id=max(made.schema_id, newest.schema_id))
    layout = table.files.layout
    lists = [layout.manifest(name) for one in emptied for name in (one.base_manifest_list, one.delta_manifest_list)]

    def with_it(tx: CatalogTransaction) -> None:
        hold_retention(tx, table)  # what lay before must not expire at this moment
        tx.holds.require_no_backup(f"Undoing a compaction of {table.identifier}")
        table_id, branch = table.table_id, table.identifier.branch
        for known in (to, *undone):
            row = tx.snapshots.get(table_id, branch, known.id)
            if row is None or row.snapshot_uuid != known.key:
                raise CommitConflict(str(table.identifier), expected=known.key)
        removed = {gone.snapshot_id: gone for gone in tx.snapshots.remove(table_id, branch, above=to.id)}
        for gone in removed.values():
            stale_file(tx, table, layout.snapshot_file(gone.snapshot_id), gone.body)
        for one in emptied:
            row = replace(removed[one.id], snapshot_uuid=one.key, body=one.to_json(), published=False)
            tx.snapshots.insert(table_id, branch, row)

    sync = [*lists, *metadata_written(table.files, table.schema, emptied[-1], made)]
    return BuiltCommit(table=table, base=newest, snapshot=made, sync=sync, others_first=True, with_it=with_it)


def _line(core: CommitCore, table: LakeTable, newest: Snapshot) -> tuple[list[Snapshot], SnapshotRow]:
    """The compaction that changed files with those after it that did not, oldest first, and the snapshot before it."""
    undone: list[Snapshot] = []
    row: SnapshotRow | None = None
    at = newest
    while at.commit_kind is CommitKind.COMPACT:
        undone.insert(0, at)
        with core.catalog.reading() as tx:
            row = tx.snapshots.get(table.table_id, table.identifier.branch, at.id - 1)
        if row is None:
            raise _refused(table, newest, f"the snapshot before it, {at.id - 1}, has expired")
        if table.files.delta_manifests(at):
            return undone, row
        at = Snapshot.from_json(row.body)
    raise _refused(table, newest, "it changed no files")


def _require_same_rows(table: LakeTable, to: Snapshot, undone: Sequence[Snapshot]) -> None:
    """A compaction keeps its rows, but for those that deletion vectors had taken away before; what a repair registered may be anything."""
    newest = undone[-1]
    if is_on(table.schema.options, "data-evolution.enabled"):  # files of some columns of the same rows became one
        changes = [entry for compaction in undone for entry in table.files.delta_entries(compaction)]
        shrunk = newest.index_manifest != to.index_manifest
        if not same_row_ids(changes, [field.type for field in table.schema.partition_fields], gone=None if shrunk else {}, shrunk=shrunk):
            raise _refused(table, newest, "its files cover other rows than those of the snapshot before it")
        return
    if newest.total_record_count != to.total_record_count and newest.index_manifest == to.index_manifest:
        raise _refused(table, newest, f"it has {newest.total_record_count:,} rows, and the snapshot before it {to.total_record_count:,}")


def _require_files(table: LakeTable, compaction: Snapshot) -> None:
    """A client's expiry removes files before it removes the snapshots that tell of them."""
    files, schema = table.files, table.schema
    taken = [entry for entry in files.delta_entries(compaction) if entry.kind is EntryKind.DELETE]
    paths = [path for entry in taken for path in (files.data_path(schema, entry), *files.extra_paths(schema, entry))]
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="undo") as threads:
        for path, is_there in zip(paths, threads.map(carried(files.io.file_exists), paths), strict=True):
            if not is_there:
                raise _refused(table, compaction, f"{path}, which it took away, is gone")


def _emptied(table: LakeTable, to: Snapshot, snapshot: Snapshot) -> Snapshot:
    """A compaction's snapshot with the files of the one before it: what it did itself is nothing."""
    base, delta = table.files.new_manifest_list(table.files.manifests_of(to)), table.files.new_manifest_list([])
    instead_of = ",".join(filter(None, (snapshot.properties.get(INSTEAD_OF), snapshot.key)))
    return replace(
        snapshot.with_lists(base, delta),
        uuid=str(uuid4()),
        total_record_count=to.total_record_count,
        delta_record_count=0,
        index_manifest=to.index_manifest,
        properties={**snapshot.properties, INSTEAD_OF: instead_of},
    )


def _refused(table: LakeTable, newest: Snapshot, why: str) -> RewriteConflict:
    name = str(table.identifier)
    return RewriteConflict(
        f"The compaction of {name} by snapshot {newest.id} cannot be undone: {why}. Nothing was changed; repeat what met it.",
        resource_name=name,
    )
