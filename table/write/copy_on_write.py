"""Rows taken out of data files or given other values: the files written anew, numbered as they were."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from model.schema.schema import Schema
from table.compaction.rewrite import numbered, planned
from table.format.deletions import alive
from table.format.manifests.entries import EMPTY_ROW, DataFile, FileSource, ManifestEntry, NewFile
from table.format.rows import binary_row
from table.format.store import TableFiles
from table.scan.going_on import Check, go_on
from table.scan.planning.entry_scan import PlannedFile
from table.scan.read import Selection, read_batches
from table.write.bucket import buckets_of, partitions_of
from table.write.places import overlapping
from table.write.sequences import one_after_another
from table.write.writer import TableWriter, write_bucket

if TYPE_CHECKING:
    import pyarrow.dataset as ds  # at run time it would bring pandas along

_ROW = " row"
CLAUSE = " clause"
"""The column of new values that says by which clause of the statement each row got them."""
Positions = npt.NDArray[np.int64]
"""Rows of a file, counted from 0, in ascending order."""
NO_ROWS: Positions = np.empty(0, np.int64)
Values = Callable[[], Iterator[pa.RecordBatch]]
"""Gives rows of values under the table's types, in batches of bounded size."""
Judge = Callable[[pa.RecordBatch], None]
"""Is shown new rows before they are written, and raises where one may not be."""


def any_row(rows: pa.RecordBatch) -> None:
    """A judge that takes every row."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileChange:
    """What happens to rows of one file: no row is both deleted and updated."""

    deleted: Positions = field(default_factory=lambda: NO_ROWS)
    updated: Positions = field(default_factory=lambda: NO_ROWS)
    values: Values = lambda: iter(())
    """The assigned columns of the updated rows, in order."""
    assigned: Mapping[int, frozenset[str]] | None = None
    """By clause, the columns it assigns; None where every column of the values goes to every row."""

    @property
    def rows(self) -> int:
        """Rows that are deleted or updated."""
        return len(self.deleted) + len(self.updated)


NO_CHANGE = FileChange()


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask:
    """Files written anew together: one, or in a queue those whose numbers overlap."""

    inputs: tuple[ManifestEntry, ...]
    changes: tuple[FileChange, ...]
    """What happens to the rows of each."""

    @property
    def rows(self) -> int:
        """Rows that are deleted or updated."""
        return sum(change.rows for change in self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """What a task's files became."""

    in_place: tuple[NewFile, ...]
    """Files that stand where the old ones did, under numbers of theirs."""
    moved: tuple[NewFile, ...] = ()
    """Files of rows that belong to another partition or bucket now; their numbers count from 0 in each bucket."""


def rewrite_tasks(
    schema: Schema, changes: Mapping[str, FileChange], live: Sequence[ManifestEntry], path: Callable[[ManifestEntry], str]
) -> list[RewriteTask]:
    """What is to be written anew of live files, by the changes of each path.

    A queue is read by the files' first numbers: where those of several overlap (files of pypaimon may all have one number), the
    order of rows is the order of files in the manifests, which a new file does not keep; so they are written as one.
    """
    if schema.bucket <= 0:
        return [RewriteTask(inputs=(entry,), changes=(changes[path(entry)],)) for entry in live if path(entry) in changes]
    tasks = []
    for run in overlapping(live):
        of_run = tuple(changes.get(path(entry), NO_CHANGE) for entry in run)
        if any(change.rows for change in of_run):
            tasks.append(RewriteTask(inputs=tuple(run), changes=of_run))
    return tasks


def rewrite_changed(  # noqa: PLR0913 - a task and what its rows are held against
    files: TableFiles,
    schema: Schema,
    task: RewriteTask,
    *,
    moves: bool = False,
    judge: Judge = any_row,
    check: Check = go_on,
    own: Callable[[list[NewFile]], object] = list,
) -> Rewritten:
    """Write a task's files anew with the changes; ``own`` is given the new files as soon as they are there.

    ``moves``: whether an updated row may belong to another partition or bucket than its file.
    """
    first = task.inputs[0]
    elsewhere = TableWriter(files, schema, rewrites=True, check=check) if moves else None
    new_rows = _NewRows(_Place(schema, first.partition, first.bucket), elsewhere, judge)
    try:
        rows = (batch for batch in _changed(files, schema, task, new_rows, check) if batch.num_rows)
        written = write_bucket(files, schema, first.partition, first.bucket, rows, source=first.file.file_source or FileSource.APPEND)
        own([NewFile(partition=first.partition, bucket=first.bucket, file=file) for file in written])
        moved = tuple(elsewhere.finish()) if elsewhere is not None else ()
        own(list(moved))
    except BaseException:
        if elsewhere is not None:
            elsewhere.abort()
        raise
    return Rewritten(
        in_place=tuple(NewFile(partition=first.partition, bucket=first.bucket, file=file) for file in _numbered(schema, task, written)),
        moved=moved,
    )


def _numbered(schema: Schema, task: RewriteTask, written: Sequence[DataFile]) -> list[DataFile]:
    if schema.bucket > 0:
        written = numbered(written, [entry.file for entry in task.inputs])
    if len(task.inputs) == 1 and not len(task.changes[0].updated):
        # What one file held in order, at a level of a clustered table, its rest still holds so.
        return [replace(file, level=task.inputs[0].file.level) for file in written]
    return list(written)


def _changed(
    files: TableFiles,
    schema: Schema,
    task: RewriteTask,
    new_rows: _NewRows,
    check: Check,
) -> Iterator[pa.RecordBatch]:
    """The rows of the task's files as they are afterwards, but those that moved."""
    for one, change in zip(planned(files, schema, task.inputs), task.changes, strict=True):
        if len(change.deleted) == one.file.row_count:
            continue
        batches: Iterator[pa.RecordBatch] = read_batches(files, schema, [one])
        gone = change.deleted
        if len(change.updated):
            for batch in _kept(_updated(batches, change, new_rows), gone):
                check()
                yield batch
        else:
            for batch in alive(batches, gone):
                check()
                yield batch


class _Place:
    """One partition and bucket: tells which rows belong there."""

    def __init__(self, schema: Schema, partition: bytes, bucket: int) -> None:
        self._schema, self._bucket = schema, bucket
        self._types = [f.type for f in schema.partition_fields]
        # Writers may spell a partition in other bytes than ours.
        self._partition = self._bytes(tuple(binary_row.decode(self._types, partition)))

    def _bytes(self, values: tuple[object, ...]) -> bytes:
        return binary_row.encode_prefixed(self._types, values) if self._types else EMPTY_ROW

    def holds(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Of each row, whether it does."""
        partitions, of = partitions_of(self._schema, rows)
        here: npt.NDArray[np.bool_] = np.array([self._bytes(values) == self._partition for values in partitions], dtype=bool)[of]
        if self._schema.bucket > 1:
            here &= buckets_of(self._schema, rows) == self._bucket
        return here


@dataclass(frozen=True, slots=True)
class _NewRows:
    """What becomes of updated rows: they are judged, and written elsewhere where they belong there now."""

    place: _Place
    elsewhere: TableWriter | None
    judge: Judge

    def moved(self, rows: pa.RecordBatch, places: Positions) -> npt.NDArray[np.bool_] | None:
        """Of all rows, which have moved, of those at the updated places; None where none has."""
        if self.elsewhere is None and self.judge is any_row:
            return None
        updated = rows.take(pa.array(places))
        self.judge(updated)
        if self.elsewhere is None:
            return None
        gone = ~self.place.holds(updated)
        if not gone.any():
            return None
        self.elsewhere.write(updated.filter(pa.array(gone)))
        moved = np.zeros(rows.num_rows, dtype=bool)
        moved[places[gone]] = True
        return moved


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows of a file, as they are afterwards."""

    rows: pa.RecordBatch
    moved: npt.NDArray[np.bool_] | None = None
    """Which of them belong elsewhere now."""


def _updated(batches: Iterator[pa.RecordBatch], change: FileChange, new_rows: _NewRows) -> Iterator[_Piece]:
    """The rows with their new values, in pieces of which each holds the new values of one batch at most."""
    values = (batch for batch in change.values() if batch.num_rows)
    new: pa.RecordBatch | None = None
    start = at = 0
    for batch in batches:
        end = int(np.searchsorted(change.updated, start + batch.num_rows))
        done = 0
        while at < end:
            new = next(values) if new is None or not new.num_rows else new
            count = min(new.num_rows, end - at)
            places = change.updated[at : at + count] - start - done
            until = batch.num_rows if at + count == end else int(change.updated[at + count]) - start
            rows = _assigned(batch.slice(done, until - done), places, new.slice(0, count), change.assigned)
            yield _Piece(rows, new_rows.moved(rows, places))
            new, at, done = new.slice(count), at + count, until
        if done < batch.num_rows:
            yield _Piece(batch.slice(done))
        start += batch.num_rows
    if at < len(change.updated):
        raise ValueError("more rows are updated than the file has")


def _assigned(
    rows: pa.RecordBatch, places: Positions, new: pa.RecordBatch, assigned: Mapping[int, frozenset[str]] | None
) -> pa.RecordBatch:
    """The rows, at these places with new values in the columns that are assigned."""
    columns = list(rows.columns)
    clauses = None if assigned is None else np.asarray(new.column(new.schema.get_field_index(CLAUSE)))
    for name, values in zip(new.schema.names, new.columns, strict=True):
        if name == CLAUSE:
            continue
        there = np.arange(new.num_rows)
        if assigned is not None and clauses is not None:
            there = np.flatnonzero(np.isin(clauses, [clause for clause, names in assigned.items() if name in names]))
        chosen = np.arange(rows.num_rows)
        chosen[places[there]] = rows.num_rows + there
        at = rows.schema.get_field_index(name)
        columns[at] = pa.concat_arrays([columns[at], values.cast(columns[at].type)]).take(pa.array(chosen))
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _kept(pieces: Iterator[_Piece], gone: Positions) -> Iterator[pa.RecordBatch]:
    """The rows that stay in their file."""
    start = 0
    for piece in pieces:
        low, high = np.searchsorted(gone, (start, start + piece.rows.num_rows))
        stays = np.ones(piece.rows.num_rows, dtype=bool)
        stays[gone[low:high] - start] = False
        if piece.moved is not None:
            stays &= ~piece.moved
        start += piece.rows.num_rows
        yield piece.rows if stays.all() else piece.rows.filter(pa.array(stays))


def appended(tasks: Sequence[Rewritten], inserted: Sequence[NewFile]) -> list[NewFile]:
    """All rows that go behind what their buckets hold, in the tasks' order, then those that are new; numbered from 0 in each bucket."""
    return one_after_another([*(done.moved for done in tasks), inserted])


def matching_rows(  # noqa: PLR0913 - a file and what is asked of its rows
    files: TableFiles,
    schema: Schema,
    one: PlannedFile,
    condition: ds.Expression,
    columns: Collection[str],
    check: Check = go_on,
    *,
    counted: bool = False,
) -> Positions:
    """The rows of a file for which a condition over these columns is true; ``counted`` in it, also where it reads none of its columns."""
    numbers_of_rows = [NO_ROWS]
    start = 0
    for batch in read_batches(files, schema, [one], Selection(columns=sorted(columns), counted=counted)):
        check()
        numbers = pa.array(np.arange(start, start + batch.num_rows))
        matching = pa.Table.from_batches([batch]).append_column(_ROW, numbers).filter(condition)
        numbers_of_rows.append(matching.column(_ROW).to_numpy())
        start += batch.num_rows
    return np.concatenate(numbers_of_rows)
