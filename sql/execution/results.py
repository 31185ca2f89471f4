"""What a statement gives back: columns, and rows as Arrow batches that may be streamed."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, Protocol
from uuid import UUID

import pyarrow as pa

from model.errors import LakeError, StatementCanceled, TooManyStatements, Unavailable
from model.schema.types import BigIntType, DataType, IntervalDayTimeType, IntervalYearMonthType, NullType, VarCharType
from sql.execution.reading_memory import Came, ReadingMemory, StepMemory, uncounted
from table.format.io.patience import carried
from table.format.rows.array_memory import memory_of
from table.format.rows.arrow import arrow_type

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One column of a result."""

    name: str
    type: DataType
    comment: str | None = None


def strings(*names: str) -> list[ResultColumn]:
    """Columns that are all STRING."""
    return [ResultColumn(name, VarCharType()) for name in names]


class Waiting(Protocol):
    """Rows that come from time to time, for a reader that does other things meanwhile."""

    def never_wait(self) -> None:
        """Give an empty batch at once whenever no row is there."""
        ...

    def call_when_due(self, call: Callable[[], None]) -> float:
        """Call once when there may be more, from any thread; returns in how many seconds to ask anyway."""
        ...


class Analysed:
    """What describing a query has found, for running the same text; whoever holds it only gives it back.

    `sql.statements.base.AnalysedStatement` is what it is to those who run it.
    """

    __slots__ = ()


class ResultKind(StrEnum):
    """Whether rows carry an answer or only say that it worked; the values are Flink's words."""

    SUCCESS = "SUCCESS"
    SUCCESS_WITH_CONTENT = "SUCCESS_WITH_CONTENT"


STRING = VarCharType(nullable=False)


def result_arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type of a result column: a table's, or what stands for the types only results have."""
    match type_:
        case IntervalDayTimeType():
            return pa.duration("ms")
        case IntervalYearMonthType():
            return pa.int32()
        case NullType():
            return pa.null()
    return arrow_type(type_)


def result_schema(columns: Iterable[ResultColumn]) -> pa.Schema:
    """The Arrow schema of a result's batches. Names may repeat; NOT NULL is a promise of the column types only."""
    return pa.schema([pa.field(c.name, result_arrow_type(c.type)) for c in columns])


class ResultSet:
    """Columns and the batches under them; whoever takes it closes it, which frees what the rows needed."""

    def __init__(  # noqa: PLR0913 - the fields of a record
        self,
        columns: Sequence[ResultColumn],
        open_batches: Callable[[], Iterator[pa.RecordBatch]],
        *,
        kind: ResultKind = ResultKind.SUCCESS_WITH_CONTENT,
        is_query: bool = False,
        job_id: str | None = None,
        affected_rows: int | None = None,
        close: Callable[[], None] | None = None,
    ) -> None:
        self.columns = tuple(columns)
        self.kind = kind
        self.is_query = is_query
        self.job_id = job_id
        """The 32 hex digits of the job that made the rows, where one did."""
        self.affected_rows = affected_rows
        """Rows an INSERT wrote; None for everything else."""
        self.held: pa.RecordBatch | None = None
        """The rows of a small result that is all in memory."""
        self.size = 0
        """Bytes of the rows that lie in memory until they are read."""
        self.reading_bytes = 0
        """Bytes that reading the rows takes at a time, about; 0 where they lie in memory, or are bounded otherwise."""
        self.memory: ReadingMemory | None = None
        self.steps: StepMemory | None = None
        """The first counts these bytes from the first batch on to the end, the other, of rows without end, what reading each step takes."""
        self.erased_rows: int | None = None
        """Rows that a call took away for good, for the audit log; None for everything else."""
        self.snapshot_id: int | None = None
        """The snapshot a write made; None for everything else."""
        self.notices: tuple[str, ...] = ()
        """What its reader is to know beside the rows, such as that an option has no effect."""
        self.parameters: tuple[ResultColumn, ...] = ()
        """Of a statement that is only described (`sql.execution.describe`): the values its placeholders want."""
        self.analysed: Analysed | None = None
        """Of a query that is only described: what running it can go on from, for whoever runs the same text next."""
        self.unbounded = False
        """Whether the rows go on forever; an empty batch then says that none came for a moment."""
        self.waiting: Waiting | None = None
        """Of rows without end that need no thread while none comes."""
        self.made_while_read = False
        """Whether reading the rows is what makes them: what its statement may take, and a cancel, hold until it is closed."""
        self._making = 0.0
        self._making_since: float | None = None
        self.truncated = False
        """Whether rows were cut off; known when all that are left were read."""
        self.on_failure: Callable[[BaseException], None] | None = None
        """Hears of what reading the rows failed with."""
        self.placed: Callable[[BaseException], object] | None = None
        """Notes on such a failure, also for want of memory, how far the text of several statements came of which this is the last."""
        self._open = open_batches
        self._next = carried(_next)
        """Whoever reads the rows, on whatever thread, waits for stores as long as the statement that made the result may."""
        self._releases: list[Callable[[], None]] = [close] if close else []
        self._lock, self._closed = threading.Lock(), False
        self._reason: LakeError | None = None

    @property
    def types(self) -> tuple[DataType, ...]:
        """The columns' types."""
        return tuple(column.type for column in self.columns)

    @classmethod
    def ok(cls) -> ResultSet:
        """The answer of a statement that only takes effect: one row saying OK."""
        return cls.of_rows([ResultColumn("result", STRING)], [("OK",)], kind=ResultKind.SUCCESS, is_query=False)

    @classmethod
    def of_job(cls, job_id: UUID) -> ResultSet:
        """The answer of a statement that is a job from now on: its id."""
        return cls.of_rows(strings("job id"), [(str(job_id),)], job_id=job_id.hex)

    @classmethod
    def written(cls, rows: int, snapshot_id: int | None, *, job_id: str | None = None) -> ResultSet:
        """The answer of an INSERT: how many rows it wrote, and the snapshot that holds them (None where it wrote none)."""
        columns = [ResultColumn("rows", BigIntType(nullable=False)), ResultColumn("snapshot_id", BigIntType())]
        result = cls.of_rows(columns, [(rows, snapshot_id)], job_id=job_id, affected_rows=rows)
        result.snapshot_id = snapshot_id
        return result

    @classmethod
    def of_rows(
        cls,
        columns: Sequence[ResultColumn],
        rows: Iterable[Sequence[Any]],
        *,
        kind: ResultKind = ResultKind.SUCCESS_WITH_CONTENT,
        is_query: bool = False,
        job_id: str | None = None,
        affected_rows: int | None = None,
    ) -> ResultSet:
        """A small result held in memory."""
        batch = batch_of_rows(columns, rows)
        result = cls(columns, lambda: iter((batch,)), kind=kind, is_query=is_query, job_id=job_id, affected_rows=affected_rows)
        result.held = batch
        result.size = memory_of(batch)
        return result

    @classmethod
    def of_batch(cls, columns: Sequence[ResultColumn], batch: pa.RecordBatch) -> ResultSet:
        """A small result of these rows."""
        return cls(columns, lambda: iter((batch,)))

    @classmethod
    def of_batches(cls, columns: Sequence[ResultColumn], batches: Iterable[pa.RecordBatch]) -> ResultSet:
        """The result of a query whose rows lie in memory until it is closed."""
        rows = deque(batches)

        def taken() -> Iterator[pa.RecordBatch]:
            while rows:
                yield rows.popleft()

        result = cls(columns, taken, is_query=True, close=rows.clear)
        result.size = sum(map(memory_of, rows))
        return result

    @classmethod
    def of_strings(cls, names: Sequence[str], rows: Iterable[Sequence[str | None]], *, is_query: bool = False) -> ResultSet:
        """A small result whose columns are all STRING."""
        return cls.of_rows(strings(*names), rows, is_query=is_query)

    @classmethod
    def streaming(
        cls,
        columns: Sequence[ResultColumn],
        open_batches: Callable[[], Iterator[pa.RecordBatch]],
        close: Callable[[], None] | None = None,
        *,
        is_query: bool = True,
        job_id: str | None = None,
    ) -> ResultSet:
        """A result read once, batch by batch, on the thread of whoever takes it; ``close`` frees what it needs."""
        return cls(columns, open_batches, is_query=is_query, job_id=job_id, close=close)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema every batch has."""
        return result_schema(self.columns)

    @property
    def closed(self) -> bool:
        """True once the resources are freed."""
        return self._closed

    def on_close(self, release: Callable[[], None]) -> None:
        """Free one more thing when the result is closed; at once where it is closed already."""
        with self._lock:
            if not self._closed:
                self._releases.append(release)
                return
        release()

    def batches(self, *, again: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the batches; raise `StatementCanceled` once somebody has closed the result.

        Reading to the end, or failing, closes the result; `TooManyStatements` does not, where what others take leaves no memory to begin:
        the batches may be asked for once more. ``again`` says that they will be; else it waits longer.
        """
        try:
            with ExitStack() as taken:
                opened = (self._open, uncounted) if self.memory is None else self._with_memory(self.memory, taken, again=again)
                yield from self._read(*opened)
        except Exception as problem:
            if self.placed is not None:
                self.placed(problem)
            raise

    def _with_memory(self, memory: ReadingMemory, taken: ExitStack, *, again: bool) -> tuple[Callable[[], Iterator[pa.RecordBatch]], Came]:
        try:
            with self._time():  # waiting counts as making the rows: a limit ends it
                counted = memory.taken(lambda: self._timed(self._open()), self.check_open, again=again, is_made=not self.made_while_read)
                few, came = taken.enter_context(counted)
            return (self._open if few is None else partial(iter, few)), came
        except TooManyStatements:
            raise
        except Exception as problem:  # of rows that were read to see how many there are: it ends as at any other row
            return partial(_raise, problem), uncounted

    def _read(self, open_batches: Callable[[], Iterator[pa.RecordBatch]], came: Came) -> Iterator[pa.RecordBatch]:
        """The batches; ``came`` is told the bytes of each."""
        try:
            if self._closed:
                raise self._closed_early()
            for batch in self._timed(open_batches()):
                came(memory_of(batch))
                yield batch
                if self._closed:
                    raise self._closed_early()
            if self._closed:  # a stream that is closed just ends
                raise self._closed_early()
        except (OSError, Unavailable, pa.ArrowInvalid, StatementCanceled) as problem:
            if self._closed:  # the files went away, or whoever makes the rows stopped, because of the close: the true story
                raise self._closed_early() from problem
            self._failed(problem)
            raise
        except Exception as problem:
            self._failed(problem)
            raise
        finally:
            self.close()

    def _timed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches; the time until each is there counts, that in which nobody asks for one does not."""
        while True:
            with self._time():
                batch = self._next(batches)
            if batch is None:
                return
            yield batch

    @contextmanager
    def _time(self) -> Iterator[None]:
        if self._making_since is not None:  # it counts already
            yield
            return
        self._making_since = since = time.monotonic()
        try:
            yield
        finally:
            self._making_since = None
            self._making += time.monotonic() - since

    @property
    def making_seconds(self) -> float:
        """How long the rows have been made while they were read; from any thread."""
        since = self._making_since
        return self._making + (0.0 if since is None else time.monotonic() - since)

    def check_open(self) -> None:
        """Raise the reason where the result is closed: whoever makes its rows asks between steps."""
        if self._closed:
            raise self._closed_early()

    def moved_to(self, open_batches: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """The rows, once, for whoever puts them where the result reads them from now on."""
        rows, self._open = self._open(), open_batches
        self.held, self.size = None, 0
        return rows

    def _failed(self, problem: BaseException) -> None:
        if self.on_failure is not None:
            self.on_failure(problem)

    def limited(self, most: int) -> ResultSet:
        """The first rows of this result, which closing the new one closes; ``truncated`` says at the end whether there were more."""
        made = ResultSet(
            self.columns,
            lambda: made._first(self, most),
            kind=self.kind,
            is_query=self.is_query,
            job_id=self.job_id,
            affected_rows=self.affected_rows,
            close=self.close,
        )
        made.snapshot_id, made.unbounded, made.waiting, made.steps = self.snapshot_id, self.unbounded, self.waiting, self.steps
        made.notices, made.made_while_read = self.notices, self.made_while_read
        made.size, made.reading_bytes = self.size, self.reading_bytes
        return made

    def _first(self, whole: ResultSet, most: int) -> Iterator[pa.RecordBatch]:
        left = most
        try:
            for batch in whole._open():
                if batch.num_rows > left:
                    self.truncated = True
                    if left or not most:
                        yield batch.slice(0, left)
                    return
                left -= batch.num_rows
                if not left and self.unbounded:  # the next row may never come
                    self.truncated = True
                    yield batch
                    return
                yield batch
        finally:
            if not whole.reading_bytes:
                whole.held, whole._open = None, lambda: iter(())  # its rows are read: they lie wherever this one is put

    def collect(self) -> list[tuple[Any, ...]]:
        """All rows as Python values; for small results and tests."""
        rows: list[tuple[Any, ...]] = []
        for batch in self.batches():
            columns = [column.to_pylist() for column in batch.columns]
            rows.extend(zip(*columns, strict=True) if columns else [()] * batch.num_rows)
        return rows

    def close(self, reason: LakeError | None = None) -> None:
        """Free everything; from any thread, any number of times. Whoever still reads is told the reason."""
        with self._lock:
            if not self._closed:
                self._reason = reason
            self._closed = True
            releases, self._releases = self._releases, []
        for release in reversed(releases):
            try:
                release()
            except Exception:  # one resource that fails to go must not keep the others
                _log.exception("A result's resource could not be released")

    def _closed_early(self) -> LakeError:
        return self._reason or StatementCanceled("The result was closed before all of it was read.")

    def __enter__(self) -> ResultSet:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _raise(problem: Exception) -> NoReturn:
    raise problem


def _next(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return next(batches, None)


def batch_of_rows(columns: Sequence[ResultColumn], rows: Iterable[Sequence[Any]]) -> pa.RecordBatch:
    """Rows of internal values as one Arrow batch."""
    all_rows = list(rows)
    schema = result_schema(columns)
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(all_rows), pa.struct([])))
    arrays = [pa.array([row[i] for row in all_rows], field.type) for i, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
