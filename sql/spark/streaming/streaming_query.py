"""Streaming queries that are more than a tail: micro-batches of Spark, handed to the client as they come."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from model.errors import LakeError, StreamEnded
from model.options.watermark import is_over
from model.work.quota import SPARK_STREAMS, STREAMS
from sql.execution.open_streams import OpenStreams
from sql.execution.results import ResultColumn, ResultSet, result_schema
from sql.spark.read.prepared import Prepared, prepared
from sql.spark.read.results import in_arrow, result_of, rows_at, write_rows
from sql.spark.session.damage import Reading
from sql.spark.session.errors import translating
from sql.spark.streaming.handed import Handed
from sql.spark.streaming.partitions import Partitions
from sql.spark.streaming.rights import Rights
from sql.statements.base import ExecutionContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from sql.spark.streaming.once import Once

_TICK_SECONDS = 1.0
_MOST_BATCHES = 16
"""Arrow batches that wait for a slow client; the query waits with them."""
_BEGIN_SECONDS = 20.0
_BEGIN_LOOK_SECONDS = 0.01
_STOP_WITHIN = "30s"
"""A micro-batch that does not end keeps nobody who ends its query longer."""
_WAITS_FOR_DATA = "Waiting for data to arrive"
"""Spark's words where it has looked for the next batch and found none."""
_MICRO_BATCH_BYTES = 64 << 20
"""Data files of one table read at once, so that a long history comes in parts."""


def follow(context: ExecutionContext, tree: exp.Expr, limit: int | None) -> ResultSet:
    """Start a query; its rows come as the result is read, and closing that stops it.

    Raises `TooManyStatements` where as many are open as may be, and `QuotaExceeded` where the caller has as many as it may.
    """
    context.lake.quotas.check(context.lake.caller, STREAMS, "open streams")  # counted later, as those that need no Spark
    running = _Running(context, limit)
    try:
        with prepared(context, tree, stream=True, micro_batch=_MICRO_BATCH_BYTES) as query:
            if not query.frame.isStreaming:  # all of its tables end by themselves
                running.close()
                return result_of(context, query)
            columns = query.columns()
            running.start(in_arrow(query.frame, columns), columns, query)
        running.wait_until_begun()
    except BaseException:
        running.close()
        raise
    result = ResultSet.streaming(columns, running.batches, running.close)
    result.unbounded, result.waiting = True, running
    return result


class _Running:
    """A query that runs, and the rows it has made and nobody has taken yet. Who reads or closes it never waits for Spark."""

    def __init__(self, context: ExecutionContext, limit: int | None) -> None:
        self._context = context
        self._left = limit
        self._rows: queue.Queue[pa.RecordBatch] = queue.Queue(_MOST_BATCHES)
        self._closed = threading.Event()
        self._begun = threading.Event()
        self._ended = threading.Event()
        """Whether no more rows come than are there."""
        self._problem: Exception | None = None
        self._waits = True
        self._call: Callable[[], None] | None = None
        self._calling = threading.Lock()
        self._query: StreamingQuery | None = None
        self._run_id: str | None = None
        self._columns: list[ResultColumn] = []
        self._views: Mapping[str, str] = {}
        self._reading: Reading | None = None
        self._handed: Handed | None = None
        """Where a consumer is told what has been read."""
        self._rights: Rights | None = None
        self._refusal: LakeError | None = None
        self._topics: list[Partitions] = []
        self._rows_in = ""
        self.principal = context.lake.caller.principal
        """Whose it is."""
        self._streams: OpenStreams = context.spark_streams
        self._freed = contextlib.ExitStack()
        self._freed.callback(context.lake.quotas.take(context.lake.caller, SPARK_STREAMS, "open streams on Spark"))
        try:
            self._streams.take(self.principal)
        except LakeError:
            self._freed.close()
            raise

    def start(self, frame: DataFrame, columns: list[ResultColumn], query: Prepared) -> None:
        """Begin; the session's Spark is this thread's."""
        self._columns = columns
        self._views = dict(query.views)
        self._reading = query.reading
        self._handed = Handed() if query.reading.has_consumer else None
        self._rights = Rights(self._context, query.reading.tables, query.reading.sources)
        self._topics = query.topics
        for topic in query.topics:
            self._freed.callback(topic.close)
        entry = self._context.spool.new(self._context.cancellation, caller=self._context.lake.caller)
        self._freed.callback(entry.remove)
        checkpoint = entry.path
        self._rows_in = f"{checkpoint}/rows"
        frame.sparkSession.conf.set("spark.sql.streaming.stopTimeout", _STOP_WITHIN)
        self._query = frame.writeStream.foreachBatch(self._take).option("checkpointLocation", checkpoint).start()
        self._run_id = str(self._query.runId)

    def wait_until_begun(self) -> None:
        """Until its sources were asked once, or for some seconds; raises what it failed with by then.

        Spark gives each process of Python ten seconds to start: queries that begin together are kept to the threads for statements.
        """
        until = time.monotonic() + _BEGIN_SECONDS
        while not self._begun.wait(_BEGIN_LOOK_SECONDS) and time.monotonic() < until:
            self._context.cancellation.check()
            if self.look():
                break
            with self._translating():
                if self._query is None or str(self._query.status["message"]).startswith("Waiting"):
                    break
        if self._problem is None:
            self._streams.watch(self)
        else:
            raise self._problem

    def close(self) -> None:
        """Stop the query soon; from any thread, any number of times."""
        with self._calling:
            if self._closed.is_set():
                return
            self._closed.set()
        self._woken()
        self._streams.end(self)

    def end(self) -> None:
        """Stop it in Spark and free what it holds."""
        with contextlib.suppress(Exception):  # the JVM may be gone, and the query with it
            if self._query is not None:
                self._query.stop()
        if self._run_id is not None:
            self._streams.stopped(self._run_id)
        self._freed.close()

    def look(self) -> bool:
        """Ask Spark how it is; whether it has ended."""
        try:
            with self._translating():
                if not self._over():
                    return False
        except Exception as problem:  # whatever it is, its reader is told
            self._problem = problem
        self._ended.set()
        self._woken()
        return True

    def never_wait(self) -> None:
        """Give an empty batch at once whenever no row is there."""
        self._waits = False

    def call_when_due(self, call: Callable[[], None]) -> float:
        """Call once when there are rows, or when no more come."""
        with self._calling:
            if self._rows.empty() and not self._ended.is_set() and not self._closed.is_set():
                self._call = call
                return math.inf if self._handed is None else self._handed.seconds()
        call()
        return math.inf

    def _woken(self) -> None:
        with self._calling:
            call, self._call = self._call, None
        if call is not None:
            call()

    def _take(self, frame: DataFrame, number: int) -> None:
        """One micro-batch, on a thread of Spark's, through files; returns when there is a place for its last row.

        Where a consumer is to know of it, when its rows count as read: Spark tells the source that it is done as soon as it plans the next.
        """
        self._begun.set()
        assert self._rights is not None
        try:
            self._rights.now()
        except LakeError as refusal:
            self._refusal = refusal
            raise
        path, io = f"{self._rows_in}/{number}", self._context.spool.file_io
        write_rows(frame, path)
        for batch in rows_at(io, path, self._columns):
            if self._handed is not None:
                self._handed.add()
            while not self._closed.is_set():
                with contextlib.suppress(queue.Full):
                    self._rows.put(batch, timeout=_TICK_SECONDS / 4)
                    self._woken()
                    break
        io.delete_tree(path)
        if self._handed is not None and not self._handed.wait(self._closed.is_set):
            raise StreamEnded("The stream was closed before its rows were read.")

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as they come; an empty batch where none came for a moment. Raises what the query failed with."""
        schema = result_schema(self._columns)
        nothing = pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)
        yield nothing
        while not self._closed.is_set() and self._left != 0:
            if self._handed is not None:
                self._handed.ask()
            ended = self._ended.is_set()  # before the rows: those that came until then are given
            try:
                batch = self._rows.get(block=self._waits, timeout=_TICK_SECONDS)
            except queue.Empty:
                if ended and self._problem is not None:
                    raise self._problem from None
                if ended:
                    return
                yield nothing
                continue
            if self._left is not None:
                batch = batch.slice(0, self._left)
                self._left -= batch.num_rows
            if self._handed is not None:
                self._handed.give()
            yield batch

    def _over(self) -> bool:
        """Whether no more rows can come; raises where that is because the query failed."""
        query = self._query
        assert query is not None
        if not query.isActive:
            if (problem := self._refusal or query.exception()) is not None and not self._closed.is_set():
                raise problem
            return True
        progress: Any = query.lastProgress
        for topic in self._topics:
            topic.look(progress if progress is None or isinstance(progress, Mapping) else progress.jsonValue)
        return at_end(progress, query)

    def _translating(self) -> contextlib.AbstractContextManager[None]:
        return translating(self._context.source, self._views, self._context.spark.lost, self._reading)


def at_end(progress: Any, query: StreamingQuery | Once | None) -> bool:
    """Whether all sources of a query have told that they end here (`scan.bounded.watermark`), and what it held back has come out.

    ``progress`` is what the query told last. Spark waits for data only after it has found that no batch without rows is needed, and
    tells a new watermark for which none is, as of a join that keeps its rows, not before it has been idle for ten seconds.
    """
    if progress is None or query is None:
        return False
    fields: Mapping[str, Any] = progress if isinstance(progress, Mapping) else progress.jsonValue
    if not fields["sources"] or not all(_ended(source.get("endOffset")) for source in fields["sources"]):
        return False
    watermark = (fields.get("eventTime") or {}).get("watermark")
    if not fields.get("stateOperators") or watermark is None or is_over(millis_of(watermark)):
        return True
    return bool(query.status["message"] == _WAITS_FOR_DATA)  # of later than the progress: a batch that ran before it says otherwise


def millis_of(text: str) -> int:
    """A time as Spark's progress has it, in milliseconds since 1970."""
    return int(dt.datetime.fromisoformat(text).timestamp() * 1000)


def _ended(offset: Any) -> bool:
    with contextlib.suppress(ValueError):
        offset = json.loads(offset) if isinstance(offset, str) else offset
    return isinstance(offset, Mapping) and offset.get("end") is True
