"""Streaming queries that are more than a tail: micro-batches of Spark, handed to the client as they come."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import queue
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from model.watermark import is_over
from sql.results import ResultColumn, ResultSet, result_schema
from sql.spark.damage import Reading
from sql.spark.errors import translating
from sql.spark.prepared import Prepared, prepared
from sql.spark.results import in_arrow, result_of, rows_at, write_rows
from sql.statements.base import ExecutionContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_TICK_SECONDS = 1.0
_MOST_BATCHES = 16
"""Arrow batches that wait for a slow client; the query waits with them."""
_MICRO_BATCH_BYTES = 64 << 20
"""Data files of one table read at once, so that a long history comes in parts."""


def follow(context: ExecutionContext, tree: exp.Expr, limit: int | None) -> ResultSet:
    """Start a query; its rows come as the result is read, and closing that stops it."""
    entry = context.spool.new(context.cancellation, caller=context.lake.caller)
    running = _Running(context, entry.path, limit)
    try:
        with prepared(context, tree, stream=True, micro_batch=_MICRO_BATCH_BYTES) as found:
            if not found.frame.isStreaming:  # all of its tables end by themselves
                entry.remove()
                return result_of(context, found)
            columns = found.columns()
            running.start(in_arrow(found.frame, columns), columns, found)
    except BaseException:
        running.close()
        entry.remove()
        raise
    result = ResultSet.streaming(columns, running.batches, entry.remove)
    result.on_close(running.close)
    result.unbounded = True
    return result


class _Running:
    """A query that runs, and the rows it has made and nobody has taken yet."""

    def __init__(self, context: ExecutionContext, checkpoint: str, limit: int | None) -> None:
        self._context = context
        self._checkpoint = checkpoint
        self._rows_in = f"{checkpoint}/rows"
        self._left = limit
        self._rows: queue.Queue[pa.RecordBatch] = queue.Queue(_MOST_BATCHES)
        self._closed = threading.Event()
        self._query: StreamingQuery | None = None
        self._columns: list[ResultColumn] = []
        self._views: Mapping[str, str] = {}
        self._reading: Reading | None = None

    def start(self, frame: DataFrame, columns: list[ResultColumn], query: Prepared) -> None:
        """Begin; the session's Spark is this thread's."""
        self._columns = columns
        self._views = dict(query.views)
        self._reading = query.reading
        writer = frame.writeStream.foreachBatch(self._take).option("checkpointLocation", self._checkpoint)
        self._query = writer.start()

    def close(self) -> None:
        """Stop the query; from any thread, any number of times."""
        self._closed.set()
        started = self._query
        if started is not None:
            with contextlib.suppress(Exception):  # the JVM may be gone, and the query with it
                started.stop()

    def _take(self, frame: DataFrame, number: int) -> None:
        """One micro-batch, on a thread of Spark's, through files; returns when there is room for its last row."""
        path, io = f"{self._rows_in}/{number}", self._context.spool.file_io
        write_rows(frame, path)
        for batch in rows_at(io, path, self._columns):
            while not self._closed.is_set():
                with contextlib.suppress(queue.Full):
                    self._rows.put(batch, timeout=_TICK_SECONDS / 4)
                    break
        io.delete_tree(path)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as they come; an empty batch where none came for a moment. Raises what the query failed with."""
        schema = result_schema(self._columns)
        nothing = pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)
        yield nothing
        while not self._closed.is_set() and self._left != 0:
            try:
                batch = self._rows.get(timeout=_TICK_SECONDS)
            except queue.Empty:
                if self._over():
                    return
                yield nothing
                continue
            if self._left is not None:
                batch = batch.slice(0, self._left)
                self._left -= batch.num_rows
            yield batch

    def _over(self) -> bool:
        """Whether no more rows can come; raises where that is because the query failed."""
        query = self._query
        assert query is not None
        with translating(self._context.source, self._views, self._context.spark.lost, self._reading):
            if not query.isActive:
                if (problem := query.exception()) is not None and not self._closed.is_set():
                    raise problem
                return self._rows.empty()
            return at_end(query.lastProgress) and self._rows.empty()


def at_end(progress: Any) -> bool:
    """Whether all sources of a query have told that they end here (`scan.bounded.watermark`), and what it held back has come out."""
    if progress is None:
        return False
    found: Mapping[str, Any] = progress if isinstance(progress, Mapping) else progress.jsonValue
    if not found["sources"] or not all(_ended(source.get("endOffset")) for source in found["sources"]):
        return False
    watermark = (found.get("eventTime") or {}).get("watermark")
    return not found.get("stateOperators") or watermark is None or is_over(millis_of(watermark))


def millis_of(text: str) -> int:
    """A time as Spark's progress has it, in milliseconds since 1970."""
    return int(dt.datetime.fromisoformat(text).timestamp() * 1000)


def _ended(offset: Any) -> bool:
    with contextlib.suppress(ValueError):
        offset = json.loads(offset) if isinstance(offset, str) else offset
    return isinstance(offset, Mapping) and offset.get("end") is True
