"""Changing rows: the files that hold them are written anew and exchanged in one commit, which streams do not see."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from lake.commit.changes_seen import seen_until_now
from lake.commit.claims import AnswerOf, Claim
from lake.commit.write_context import Write
from lake.rewrite.compaction import check_rewritable, in_order
from lake.tables.handle import LakeTable
from model.catalog_errors import TableChanged
from model.errors import InvalidOption, RewriteConflict, UnsupportedStatement, UnsupportedType
from model.options.table import TABLE_OPTIONS
from model.predicate import Predicate
from model.snapshot import CommitKind, Operation, Snapshot
from model.text.sql_text import literal
from table.format.deletions import deletions_of
from table.format.io.patience import carried
from table.format.layout import partition_dirs
from table.format.manifests.entries import ManifestEntry
from table.format.rows import binary_row
from table.scan.going_on import Check, go_on
from table.scan.planning.entry_scan import PlannedFile
from table.scan.skipping.partition_filter import BucketFilter
from table.write.copy_on_write import (
    FileChange,
    Judge,
    Positions,
    RewriteTask,
    Rewritten,
    Values,
    any_row,
    appended,
    rewrite_changed,
    rewrite_tasks,
)
from table.write.seen import Seen
from table.write.snapshot_builder import CommitRequest, check_schema
from table.write.writer import write_batches

if TYPE_CHECKING:
    from lake.lake import Lake

_log = logging.getLogger(__name__)
_THREADS = max(2, os.cpu_count() or 2)
_ATTEMPTS = 30
"""How often rows are looked for anew because somebody has rewritten their files meanwhile: each time somebody else came on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a statement does to the rows of one snapshot; whoever takes it closes it, which frees what the new values needed."""

    files: Sequence[tuple[PlannedFile, FileChange]] = ()
    """Files, and what happens to rows of each."""
    inserted: Values = lambda: iter(())
    """Whole rows that are new."""
    inserted_rows: int = 0
    moves: bool = False
    """Whether updated rows may belong to another partition or bucket."""
    predicate: Predicate | None = None
    """What is certain of every row that matters; None for no restriction."""
    whole: bool = True
    """Whether rows of the table matter that are not changed, too."""
    clean: Sequence[str] = ()
    """Paths of files that were read and hold no such row, deleted or not."""
    release: Callable[[], None] = lambda: None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        self.release()

    @property
    def rows(self) -> int:
        """Rows that are deleted, updated or new."""
        return self.inserted_rows + sum(change.rows for _, change in self.files)


def deletion_of(matches: Sequence[tuple[PlannedFile, Positions]], predicate: Predicate | None = None, *, whole: bool = True) -> Changes:
    """Rows that go, by file; of files that were read and hold none, too."""
    files = [(planned_file, FileChange(deleted=rows)) for planned_file, rows in matches if len(rows)]
    clean = [planned_file.path for planned_file, rows in matches if not len(rows) and planned_file.vector is None]
    return Changes(files=files, predicate=predicate, whole=whole, clean=clean)


Find = Callable[[LakeTable, Snapshot | None], Changes]
"""What is to be done to the rows of a snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A file of which rows are changed."""

    partition: str
    bucket: int
    name: str
    rows: int
    changed: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What a change did."""

    files: tuple[ChangedFile, ...] = field(default=())
    rows: int = 0
    """Rows that were deleted, updated or added."""
    snapshot: Snapshot | None = None
    """None where no row was."""


_DONE = {Operation.DELETE: "deleted", Operation.UPDATE: "updated", Operation.MERGE: "merged"}


def require_erasable(table: LakeTable, operation: Operation = Operation.DELETE) -> None:
    """Raise `UnsupportedStatement` for a table whose rows stay, and what else cannot be written anew here."""
    if not TABLE_OPTIONS.read(table.schema.options, "rows.erasable"):
        raise UnsupportedStatement(
            f"Rows of table {table.identifier} are not {_DONE[operation]} one by one: an append table keeps them. Its owner allows it with "
            f"ALTER TABLE {table.identifier.quoted()} SET ('rows.erasable' = 'true'); INSERT OVERWRITE and TRUNCATE TABLE replace or "
            "empty it without that.",
            fragment=operation,
        )
    check_rewritable(table, "written anew")
    _require_no_vectors(table, table.latest())


def _require_no_vectors(table: LakeTable, snapshot: Snapshot | None) -> None:
    """Raise `UnsupportedType` for a snapshot in which rows are deleted that lie in their files still."""
    if deletions_of(table.files, table.schema, snapshot):
        raise UnsupportedType(
            f"Rows of table {table.identifier} are deleted by deletion vectors; more of them are deleted by the client that wrote those, "
            f"or once CALL sys.compact({literal(table.identifier.written())}) with compact_strategy => 'full' has merged their files."
        )


def find_tasks(table: LakeTable, snapshot: Snapshot | None, changes: Changes) -> list[RewriteTask]:
    """What is to be written anew of a snapshot; raises `InvalidOption` where files have another number of buckets than the table.

    Raises `RewriteConflict` where they are of a newer schema.
    """
    wanted = {planned_file.path: change for planned_file, change in changes.files if change.rows}
    if not wanted:
        return []
    _require_no_vectors(table, snapshot)
    schema = table.schema
    types = [f.type for f in schema.partition_fields]
    places = [(binary_row.encode_prefixed(types, file.partition), file.bucket) for file, _ in changes.files if file.path in wanted]
    live = list(table.files.touched_entries(snapshot, BucketFilter(types, {p for p, _ in places}, {b for _, b in places})))

    def path(entry: ManifestEntry) -> str:
        return table.files.data_path(schema, entry)

    if not wanted.keys() <= set(map(path, live)):  # other writers may spell a partition in other bytes
        live = list(table.files.live_entries(snapshot))
    tasks = rewrite_tasks(schema, wanted, live, path)
    check_schema(schema, [entry for task in tasks for entry in task.inputs])
    for task in tasks if schema.bucket > 0 else ():
        if (buckets := task.inputs[0].total_buckets) != schema.bucket:
            raise InvalidOption(
                f"Rows lie in a partition of {buckets} buckets, and table {table.identifier} has {schema.bucket}: "
                f"CALL sys.rescale({literal(table.identifier.written())}) writes it anew; change them then."
            )
    return tasks


def files_of(table: LakeTable, tasks: Sequence[RewriteTask]) -> tuple[ChangedFile, ...]:
    """The files whose rows are changed, by partition, bucket and name."""
    return tuple(sorted(_files_of(table, tasks), key=lambda file: (file.partition, file.bucket, file.name)))


def _files_of(table: LakeTable, tasks: Sequence[RewriteTask]) -> Iterator[ChangedFile]:
    types = [f.type for f in table.schema.partition_fields]
    for task in tasks:
        for entry, change in zip(task.inputs, task.changes, strict=True):
            if change.rows:
                yield ChangedFile(
                    partition="/".join(partition_dirs(table.schema, binary_row.decode(types, entry.partition))),
                    bucket=entry.bucket,
                    name=entry.file.file_name,
                    rows=entry.file.row_count,
                    changed=change.rows,
                    size=entry.file.file_size,
                )


def change_rows(  # noqa: PLR0913 - a change of rows and what it is held against
    lake: Lake,
    table: LakeTable,
    find: Find,
    *,
    operation: Operation = Operation.DELETE,
    claim: Claim | None = None,
    answer: Callable[[int], AnswerOf] | None = None,
    judge: Judge = any_row,
    check: Check = go_on,
) -> Changed:
    """Do what ``find`` finds for the rows of the latest snapshot; ``answer`` is made of how many they are.

    Appends meanwhile stand beside it. Where a file was replaced, by a compaction say, all is looked for anew; the last time raises
    `RewriteConflict`. Who has lost once stands in line for the branch, behind which later changes of all servers stand, too. Raises
    `TableChanged` where other columns are there by then. ``judge`` is shown every new row.
    """
    place = (table.table_id, table.identifier.branch)
    with contextlib.ExitStack() as line:
        waited = False
        for attempt in range(_ATTEMPTS):
            if not waited and (attempt or lake.changing_rows.somebody_anywhere(place)):
                line.enter_context(lake.changing_rows.turn(place, check))
                waited = True
            table = _opened_anew(lake, table) if attempt or waited else table
            try:
                return _attempt(lake, table, find, operation, judge, check, claim, answer)
            except RewriteConflict as lost:
                if attempt + 1 == _ATTEMPTS:
                    raise
                _log.info("Changing rows of %s begins anew: %s", table.identifier, lost.message)
    raise AssertionError("the last attempt returns or raises")


def _opened_anew(lake: Lake, table: LakeTable) -> LakeTable:
    """The table as it is by now; raises `TableChanged` where its columns are others than those the statement was understood by."""
    newest = lake.open(table.identifier)
    if newest.table_id != table.table_id or newest.schema.fields != table.schema.fields:
        raise TableChanged(table.identifier)
    return newest


def _attempt(  # noqa: PLR0913 - a change of rows and what it is held against
    lake: Lake,
    table: LakeTable,
    find: Find,
    operation: Operation,
    judge: Judge,
    check: Check,
    claim: Claim | None,
    answer: Callable[[int], AnswerOf] | None,
) -> Changed:
    """One look at the rows, and the commit of what is done to them; raises `RewriteConflict` where they are to be looked for anew."""
    snapshot = table.latest()
    with find(table, snapshot) as changes:
        tasks = find_tasks(table, snapshot, changes)
        if not tasks and not changes.inserted_rows:
            return Changed()
        request, done = _committed(lake, table, snapshot, tasks, changes, operation, judge, check, claim, answer)
    if request.deletes:
        in_order(lake.commit, table, done, request.deletes, in_place=True)
    return Changed(files=files_of(table, tasks), rows=changes.rows, snapshot=done)


def _committed(  # noqa: PLR0913 - a change of rows and what it is held against
    lake: Lake,
    table: LakeTable,
    snapshot: Snapshot | None,
    tasks: Sequence[RewriteTask],
    changes: Changes,
    operation: Operation,
    judge: Judge,
    check: Check,
    claim: Claim | None,
    answer: Callable[[int], AnswerOf] | None,
) -> tuple[CommitRequest, Snapshot]:
    """Write the files and commit them; raises `RewriteConflict` where the rows are to be looked for anew."""
    size = sum(entry.file.file_size for task in tasks for entry in task.inputs)
    with lake.reserve.promise(size), table.write() as write:
        request = _written(table, write, tasks, changes, operation, judge, check)
        seen = Seen.of(snapshot, changes.predicate, whole=changes.whole)
        request = replace(request, seen=seen_until_now(lake.catalog, table, seen))
        check()
        return request, lake.commit(table, request, claim=claim, answer=answer(changes.rows) if answer else None)


def _written(  # noqa: PLR0913 - a change of rows and what it is held against
    table: LakeTable, write: Write, tasks: Sequence[RewriteTask], changes: Changes, operation: Operation, judge: Judge, check: Check
) -> CommitRequest:
    """The commit of the tasks' files, written anew several at once, and of new rows; the owner has all that was written, whatever fails."""

    def rewritten(task: RewriteTask) -> Rewritten:
        check()
        return rewrite_changed(table.files, table.schema, task, moves=changes.moves, judge=judge, check=check, own=write.add)

    done: list[Rewritten] = []
    if tasks:
        with ThreadPoolExecutor(min(_THREADS, len(tasks)), thread_name_prefix="change-rows") as threads:
            running = [threads.submit(carried(rewritten), task) for task in tasks]
        done = [future.result() for future in running]
    new = write.add(write_batches(table.files, table.schema, _judged(changes.inserted(), judge, check))) if changes.inserted_rows else []
    behind = appended(done, new)
    if not tasks:
        return write.request(CommitKind.APPEND, adds=behind, operation=operation)
    return write.request(
        CommitKind.OVERWRITE,
        adds=[*(file for task in done for file in task.in_place), *behind],
        deletes=tuple(entry for task in tasks for entry in task.inputs),
        operation=operation,
        in_place=True,
        behind=len(behind),
    )


def _judged(rows: Iterator[pa.RecordBatch], judge: Judge, check: Check) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        check()
        judge(batch)
        yield batch
