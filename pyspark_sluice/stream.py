"""The streaming source: snapshots become micro-batches, in write order within each partition and bucket.

Spark keeps one process per query and source, where `StreamReader` plans; `read` runs in the tasks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from model.schema.schema import Schema
from model.snapshot import CommitKind, Snapshot
from pyspark_sluice.catalog import RemoteTable
from pyspark_sluice.history import History
from pyspark_sluice.options import SourceOptions
from pyspark_sluice.pieces import LastRow, Piece, Split, read_last, read_split, splits
from pyspark_sluice.position import Budget, Position
from table.scan.planning.plan import PlannedFile

_ANY_ROWS = 2**63 - 1
"""A limit that only says that some other one counts: with none at all, as `Trigger.Once` asks, everything is read at once."""
_POLL_SECONDS = 0.05
"""Spark that asks again so soon after it was told of nothing new has nothing else to do, and may be kept waiting."""
_WAIT_SECONDS = 0.1
"""For so long at most: its other sources wait meanwhile, and so does a query that is to stop."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a table from where its options say, or from the checkpoint, and then follows it."""

    def __init__(self, options: SourceOptions, schema: Schema | None, shape: StructType) -> None:
        self._options = options
        self._pinned = schema
        self._shape = shape
        self._history: History | None = None
        self._target: int | None = None
        self._nothing_at = 0.0
        self._asked = False
        self._initial: Position | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_history": None}  # tasks need none, and its thread stays here

    @property
    def _table(self) -> History:
        if self._history is None:
            table = RemoteTable(self._options)
            try:
                self._history = History(table, self._pinned, self._options, self._shape.names)
            except BaseException:
                table.close()
                raise
        return self._history

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where the query begins without a checkpoint."""
        self._initial = self._table.start()
        return self._initial.to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """The first of the limits given; the others are kept as well."""
        options = self._options
        if options.max_rows is not None:
            return ReadMaxRows(options.max_rows)
        if options.max_bytes is not None:
            return ReadMaxBytes(options.max_bytes)
        if options.max_files is not None:
            return ReadMaxFiles(options.max_files)
        return ReadAllAvailable() if self._table.most_snapshots is None else ReadMaxRows(_ANY_ROWS)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read what is there by now, and nothing that comes later."""
        self._target = self._table.newest() + 1

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """How far the next micro-batch goes; ``start`` where there is nothing new."""
        position = Position.from_json(start)
        is_repeat, self._asked = self._asked, True
        if position.end and not is_repeat and self._options.end_of_time is not None:
            # Spark forgets the watermarks of its sources when it stops, and perhaps that this one's time has ended: it is told again.
            return replace(position, end=False, ending=True).to_json()
        patience = _WAIT_SECONDS if self._target is None and time.monotonic() - self._nothing_at < _POLL_SECONDS else 0.0
        end = self._advance(position, self._budget(limit), patience)
        if end != position:
            return end.to_json()
        if self._target is not None and self._options.drain and not end.end:
            return self._drained(end).to_json()
        self._nothing_at = time.monotonic()
        is_told = self._target is not None and self._table.consumer is not None and not (end.cursor.whole or end.end)
        return replace(end, told=end.told or is_told).to_json()

    def _advance(self, start: Position, budget: Budget, patience: float) -> Position:
        if start.end:
            return start
        if start.ending:
            return replace(start, ending=False, end=True)
        if self._table.over_before(start):
            # Spark says that a start is done as little as an end: the consumer hears of it with the planning of what follows.
            is_untold = self._table.consumer is not None and start == self._initial and self._options.end_of_time is None
            return replace(start, told=True) if is_untold else self._ended(start, start)
        return self._through(start, budget, patience)

    def _through(self, start: Position, budget: Budget, patience: float) -> Position:
        """How far the snapshots that are there, and the budget, let a position go."""
        end = start
        first: Snapshot | None = None
        for snapshot in self._table.snapshots(start, patience=patience, before=self._target):
            first = first or snapshot
            whole = end.cursor.whole
            if not whole and self._table.beyond(snapshot):
                return self._ended(start, end)
            if budget.taken and self._may_move_keys(snapshot):
                return end  # one micro-batch would read a key's new bucket beside its old one
            planned = self._table.planned(snapshot, end)
            if (within := self._within(snapshot, planned, end, budget)) is not None:
                return within
            end = end.past(snapshot)
            if whole and self._table.beyond(snapshot):  # where it starts it reads all there is, as Paimon does
                return self._ended(start, end)
            if planned and budget.last_snapshot():
                return end
        if budget.taken or self._target is not None:
            return end
        # Without rows there is no micro-batch, but that the checkpoint's snapshot does not expire is worth one.
        return end if first is not None and self._table.is_to_be_left(first, end.snapshot - start.snapshot) else start

    def _within(self, snapshot: Snapshot, planned: Sequence[PlannedFile], end: Position, budget: Budget) -> Position | None:
        """Where among a snapshot's files the budget is used up; None where it takes all of them."""
        begin, rows = self._table.standing(snapshot, end) if end.inside else (0, 0)
        for number in range(begin, len(planned)):
            file = planned[number].file
            first = rows if number == begin else 0
            taken = budget.take(file.row_count - first, file.file_size / max(1, file.row_count))
            if first + taken < file.row_count:
                return self._table.inside(snapshot, end, number, first + taken)
        return None

    def _may_move_keys(self, snapshot: Snapshot) -> bool:
        """Whether a key may lie in another bucket from here on."""
        return snapshot.commit_kind is CommitKind.OVERWRITE and self._table.schema.bucket > 0

    def _ended(self, start: Position, end: Position) -> Position:
        """The end of a stream, which comes after its last rows: Spark says that these are done when it plans what follows them."""
        if self._options.end_of_time is not None:
            return replace(end, ending=True)
        return replace(end, end=True) if end == start else end

    def _drained(self, end: Position) -> Position:
        """The end of a stream that is drained, once all that was there is read: that it is told by itself is what tells the consumer."""
        drained = replace(end, drained=True, told=False)
        return replace(drained, end=True) if self._options.end_of_time is None else replace(drained, ending=True)

    def _budget(self, limit: ReadLimit) -> Budget:
        if isinstance(limit, ReadAllAvailable):
            return Budget()
        options = self._options
        return Budget(rows=options.max_rows, nbytes=options.max_bytes, files=options.max_files, snapshots=self._table.most_snapshots)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One for each partition and bucket with rows between two offsets, or the row that ends event time."""
        table = self._table
        first, last = Position.from_json(start), Position.from_json(end)
        if first.ending and last.end and self._options.end_of_time is not None:
            return [LastRow(self._options.end_of_time)]
        if (last.ending or last.end) and last.stands_at(first):
            return []  # no rollback since concerns what has ended; a query that was started again does not fail where a running one goes on
        for position in (first, last):  # between plan and reading, as before a restart, others may have come in the place of these
            table.require_past(position)
        return splits(table.files, table.schema, self._pieces(first, last), parallelism=self._options.parallelism)

    def _pieces(self, start: Position, end: Position) -> Iterator[Piece]:
        last = end.snapshot + (1 if end.inside else 0)
        position = start
        for snapshot in self._table.between(start, last):
            here = end if snapshot.id == end.snapshot else position  # they are of one plan where both are inside of it
            planned = self._table.planned(snapshot, here)
            self._table.check_types(planned)
            begin = self._table.standing(snapshot, position) if position.inside else (0, 0)
            stop = self._table.standing(snapshot, end) if here is end else (len(planned), 0)
            for number in range(begin[0], min(len(planned), stop[0] + 1)):
                rows = planned[number].file.row_count
                first = begin[1] if number == begin[0] else 0
                until = stop[1] if number == stop[0] else rows
                if first < until:
                    yield Piece(planned=planned[number], start=first, stop=until)
            position = position.past(snapshot)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one, in order."""
        if isinstance(partition, LastRow):
            return read_last(partition, self._shape)
        assert isinstance(partition, Split)
        return read_split(partition, self._shape.names, self._shape)

    def commit(self, end: dict[str, Any]) -> None:
        """Everything before an offset is done: the consumer, if any, goes on there."""
        self._table.done(Position.from_json(end))

    def stop(self) -> None:
        """Let go of the server."""
        if self._history is not None:
            self._history.close()
