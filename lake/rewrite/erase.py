"""Erasing rows: the files that hold them are written anew without them and exchanged in one commit, which streams do not see."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lake.commit.claims import AnswerOf, Claim
from lake.commit.write_context import Write
from lake.rewrite.compaction import check_mergeable, in_order
from lake.tables.handle import LakeTable
from model.errors import InvalidOption, RewriteConflict, UnsupportedStatement, UnsupportedType
from model.options.table import TABLE_OPTIONS
from model.snapshot import CommitKind, Operation, Snapshot
from table.compaction.rewrite import Check, go_on
from table.format.deletions import deletions_of
from table.format.layout import partition_dirs
from table.format.manifest import ManifestEntry, NewFile
from table.format.rows import binary_row
from table.retention.erase import ErasureTask, Positions, erasure_tasks, rewrite_without
from table.scan.entry_scan import PlannedFile
from table.scan.skipping.partition_filter import Touched

if TYPE_CHECKING:
    from lake.lake import Lake

_log = logging.getLogger(__name__)
_THREADS = max(2, os.cpu_count() or 2)
_ATTEMPTS = 10
"""How often rows are looked for anew because a compaction has taken their files meanwhile."""

Find = Callable[[LakeTable, Snapshot | None], "Matches"]
Matches = Sequence[tuple[PlannedFile, Positions]]
"""Files, and the rows in each of which a condition is true."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedFile:
    """A file that holds rows that go."""

    partition: str
    bucket: int
    name: str
    rows: int
    erased: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What erasing did, or would do."""

    files: tuple[ErasedFile, ...] = field(default=())
    snapshot: Snapshot | None = None
    """None where no row matched, and in a dry run."""

    @property
    def rows(self) -> int:
        """Rows that went."""
        return sum(file.erased for file in self.files)


def require_erasable(table: LakeTable) -> None:
    """Raise `UnsupportedStatement` for a table whose rows stay, and what else cannot be written anew here."""
    if not TABLE_OPTIONS.read(table.schema.options, "rows.erasable"):
        raise UnsupportedStatement(
            f"Rows of table {table.identifier} are not deleted one by one: an append table keeps them. Its owner allows it with "
            f"ALTER TABLE {table.identifier.written()} SET ('rows.erasable' = 'true'); INSERT OVERWRITE and TRUNCATE TABLE replace or "
            "empty it without that.",
            fragment="DELETE",
        )
    check_mergeable(table, "written anew")
    _require_no_vectors(table, table.latest())


def _require_no_vectors(table: LakeTable, snapshot: Snapshot | None) -> None:
    """Raise `UnsupportedType` for a snapshot in which rows are deleted that lie in their files still."""
    if deletions_of(table.files, table.schema, snapshot):
        raise UnsupportedType(
            f"Rows of table {table.identifier} are deleted by deletion vectors; more of them are deleted by the client that wrote those, "
            f"or once CALL sys.compact('{table.identifier}') with compact_strategy => 'full' has merged their files."
        )


def find_tasks(table: LakeTable, snapshot: Snapshot | None, found: Matches) -> list[ErasureTask]:
    """What is to be written anew of a snapshot; raises `InvalidOption` where files have another number of buckets than the table."""
    wanted = {one.path: rows for one, rows in found if len(rows)}
    if not wanted:
        return []
    _require_no_vectors(table, snapshot)
    schema = table.schema
    types = [f.type for f in schema.partition_fields]
    places = [(binary_row.encode_prefixed(types, one.partition), one.bucket) for one, _ in found if one.path in wanted]
    live = list(table.files.touched_entries(snapshot, Touched(types, {p for p, _ in places}, {b for _, b in places})))

    def path(entry: ManifestEntry) -> str:
        return table.files.data_path(schema, entry)

    if not wanted.keys() <= set(map(path, live)):  # other writers may spell a partition in other bytes
        live = list(table.files.live_entries(snapshot))
    tasks = erasure_tasks(schema, wanted, live, path)
    for task in tasks if schema.bucket > 0 else ():
        if (buckets := task.inputs[0].total_buckets) != schema.bucket:
            raise InvalidOption(
                f"Rows lie in a partition of {buckets} buckets, and table {table.identifier} has {schema.bucket}: "
                f"CALL sys.rescale('{table.identifier}') writes it anew; delete them then."
            )
    return tasks


def told(table: LakeTable, tasks: Sequence[ErasureTask]) -> tuple[ErasedFile, ...]:
    """The files rows go from, by partition, bucket and name."""
    return tuple(sorted(_told(table, tasks), key=lambda one: (one.partition, one.bucket, one.name)))


def _told(table: LakeTable, tasks: Sequence[ErasureTask]) -> Iterator[ErasedFile]:
    types = [f.type for f in table.schema.partition_fields]
    for task in tasks:
        for entry, rows in zip(task.inputs, task.erased, strict=True):
            if len(rows):
                yield ErasedFile(
                    partition="/".join(partition_dirs(table.schema, binary_row.decode(types, entry.partition))),
                    bucket=entry.bucket,
                    name=entry.file.file_name,
                    rows=entry.file.row_count,
                    erased=len(rows),
                    size=entry.file.file_size,
                )


def erase(
    lake: Lake,
    table: LakeTable,
    find: Find,
    *,
    claim: Claim | None = None,
    answer: Callable[[int], AnswerOf] | None = None,
    check: Check = go_on,
) -> Erasure:
    """Take the rows out that ``find`` finds in the latest snapshot; ``answer`` is made of how many they are.

    Appends meanwhile stand beside it. Where a file was replaced, by a compaction say, all is looked for anew; the last time raises
    `RewriteConflict`.
    """
    for attempt in range(_ATTEMPTS):
        snapshot = table.latest()
        tasks = find_tasks(table, snapshot, find(table, snapshot))
        if not tasks:
            return Erasure()
        size = sum(entry.file.file_size for task in tasks for entry in task.inputs)
        rows = sum(task.rows for task in tasks)
        with lake.reserve.promise(size), table.write() as write:
            _rewritten(table, write, tasks, check)
            deletes = tuple(entry for task in tasks for entry in task.inputs)
            request = write.request(CommitKind.OVERWRITE, deletes=deletes, operation=Operation.DELETE, in_place=True)
            check()
            try:
                done = lake.commit(table, request, claim=claim, answer=answer(rows) if answer else None)
            except RewriteConflict as lost:
                if attempt + 1 == _ATTEMPTS:
                    raise
                _log.info("Erasing rows of %s begins anew: %s", table.identifier, lost.message)
                continue
        in_order(lake.commit, table, done, deletes, in_place=True)
        return Erasure(files=told(table, tasks), snapshot=done)
    raise AssertionError("the last attempt returns or raises")


def _rewritten(table: LakeTable, write: Write, tasks: Sequence[ErasureTask], check: Check) -> None:
    """Write the tasks' files anew, several at once; the owner has all that was written, whatever fails."""

    def one(task: ErasureTask) -> list[NewFile]:
        check()
        return write.add(rewrite_without(table.files, table.schema, task, check))

    with ThreadPoolExecutor(min(_THREADS, len(tasks)), thread_name_prefix="erase") as threads:
        running = [threads.submit(one, task) for task in tasks]
    for future in running:
        future.result()
