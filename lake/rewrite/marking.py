"""Bringing the files of a table up to what is written today: ids and annotations in their footers, without touching a row."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lake.rewrite.compaction import in_order, live_files
from lake.tables.handle import LakeTable
from model.errors import RewriteConflict, UnsupportedType
from model.snapshot import CommitKind, Snapshot
from table.format.io.patience import carried
from table.format.layout import partition_dirs
from table.format.manifests.entries import ManifestEntry, NewFile
from table.format.parquet.footer import Marks
from table.format.rows import binary_row
from table.scan.going_on import Check, go_on
from table.write.annotate import MarkTask, marked_copies, marks_to_set, unmarked
from table.write.snapshot_builder import check_writable

if TYPE_CHECKING:
    from lake.lake import Lake

_log = logging.getLogger(__name__)
_THREADS = max(2, os.cpu_count() or 2)
_ATTEMPTS = 10
"""How often a partition is looked at anew because somebody has replaced its files meanwhile."""
_COMMIT_BYTES = 16 << 30
"""About as much is copied for one commit: what is copied lies there twice until earlier snapshots expire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedPartition:
    """What was done in a partition, or would be."""

    name: str
    files: int
    size: int
    left: int
    snapshot: Snapshot | None = None


def mark_files(
    lake: Lake,
    table: LakeTable,
    partitions: Sequence[bytes],
    *,
    dry_run: bool,
    check: Check = go_on,
    advance: Callable[[int], None] = lambda size: None,
) -> Iterator[MarkedPartition]:
    """Bring the files of some partitions up to date, a large one in several commits; those without such files are left out."""
    try:
        check_writable(table.schema)
    except UnsupportedType as refusal:
        raise UnsupportedType(f"Files of table {table.identifier} are not written anew here: {refusal.message}") from None
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="marking") as threads:
        for partition in partitions:
            check()
            done = _partition(lake, table, partition, threads, dry_run, check)
            if done.files or done.left:
                yield done
            advance(done.size)


def _partition(lake: Lake, table: LakeTable, partition: bytes, threads: ThreadPoolExecutor, dry_run: bool, check: Check) -> MarkedPartition:
    types = [f.type for f in table.schema.partition_fields]
    name = "/".join(partition_dirs(table.schema, binary_row.decode(types, partition)))
    files = size = 0
    snapshot = None
    for attempt in range(_ATTEMPTS):
        tasks, left = _tasks(table, partition, threads, check)
        if dry_run:
            return MarkedPartition(name=name, files=sum(_count(t) for t in tasks), size=sum(t.size for t in tasks), left=left)
        try:
            for batch in _batches(tasks):
                snapshot = _committed(lake, table, batch, threads, check)
                files += sum(_count(task) for task in batch)
                size += sum(task.size for task in batch)
            return MarkedPartition(name=name, files=files, size=size, left=left, snapshot=snapshot)
        except RewriteConflict as lost:
            if attempt + 1 == _ATTEMPTS:
                raise
            _log.info("Files of %s are looked at anew: %s", table.identifier, lost.message)
    raise AssertionError("the last attempt returns or raises")


def _count(task: MarkTask) -> int:
    return sum(marks is not None for marks in task.marks)


def _tasks(table: LakeTable, partition: bytes, threads: ThreadPoolExecutor, check: Check) -> tuple[Sequence[MarkTask], int]:
    entries = live_files(table, {partition})
    fields = {schema_id: table.schema_at(schema_id).fields for schema_id in {entry.file.schema_id for entry in entries}}

    def one(entry: ManifestEntry) -> Marks | None:
        check()
        return marks_to_set(table.files, table.schema, entry, fields[entry.file.schema_id])

    marks = dict(zip((entry.key() for entry in entries), threads.map(carried(one), entries), strict=True))
    unmarked_runs = unmarked(table.schema, entries, marks)
    return unmarked_runs.tasks, unmarked_runs.left


def _batches(tasks: Sequence[MarkTask]) -> Iterator[list[MarkTask]]:
    batch: list[MarkTask] = []
    for task in tasks:
        if batch and sum(earlier.size for earlier in batch) + task.size > _COMMIT_BYTES:
            yield batch
            batch = []
        batch.append(task)
    if batch:
        yield batch


def _committed(lake: Lake, table: LakeTable, tasks: Sequence[MarkTask], threads: ThreadPoolExecutor, check: Check) -> Snapshot:
    deletes = tuple(entry for task in tasks for entry in task.inputs)
    with lake.reserve.promise(sum(task.size for task in tasks)), table.write() as write:

        def one(task: MarkTask) -> list[NewFile]:
            return marked_copies(table.files, table.schema, task, lambda path: write.add_paths([path]), check)

        running = [threads.submit(carried(one), task) for task in tasks]
        try:
            adds = [new for future in running for new in future.result()]
        finally:
            for future in running:
                future.cancel()
            for future in running:  # nobody writes any more when what was written is removed
                if not future.cancelled():
                    future.exception()
        check()
        request = write.request(CommitKind.COMPACT, adds=adds, deletes=deletes, operation="COMPACT")
        return in_order(lake.commit, table, lake.commit(table, request), deletes)
