"""Few rows that a client sent as Arrow, read by workers and written anew: what ends Arrow's reader costs the client's call alone."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import orjson
import pyarrow as pa
import pyarrow.ipc as ipc

from model.errors import BadRequest, InvalidData, Unavailable, UnsupportedType
from table.format.rows.array_memory import memory_of
from workers.pool import WorkerLimits, WorkerLost, WorkerPool
from workers.spool import in_memory
from workers.validation import check_names, check_schema, validated

_log = logging.getLogger(__name__)
_SCHEMA, _ROWS = "schema", "rows"
"""What of a stream is wanted."""
_JOINED_BYTES = 16 << 20
"""How much wait to be joined, at least; more where what was joined is larger, so that no row is copied more than a few times."""


class ArrowReader(Protocol):
    """Reads what a client sent."""

    def schema(self, stream: Iterable[bytes], owner: str) -> pa.Schema:
        """The columns at the beginning of an Arrow IPC stream; raises `BadRequest`, and `InvalidData` for a name that is no text."""

    def rows(self, stream: Iterable[bytes], owner: str) -> list[pa.RecordBatch]:
        """The rows of an Arrow IPC stream, validated, in one batch; none where none came.

        Raises `BadRequest`, `InvalidData` or `UnsupportedType`.
        """


class ArrowProcesses:
    """Lets workers read, in fair turns among owners; they start when the first stream is read, or by `begin`."""

    def __init__(self, limits: WorkerLimits) -> None:
        self._pool = WorkerPool(replace(limits, kept=0), what="parameters")  # each is busy for moments only
        self._lock = threading.Lock()
        self._begun = False

    def begin(self) -> None:
        """Start the first worker, without waiting for it, where none was started yet."""
        with self._lock:
            begun, self._begun = self._begun, True
        if not begun and not self._pool.pids():
            self._pool.start(1)

    def pids(self) -> list[int]:
        """The processes there are."""
        return self._pool.pids()

    def close(self) -> None:
        """End the workers."""
        self._pool.close()

    def schema(self, stream: Iterable[bytes], owner: str) -> pa.Schema:
        """As an `ArrowReader`; raises `Unavailable` and `TooManyStatements` besides."""
        return ipc.read_schema(pa.py_buffer(self._ask(_SCHEMA, stream, owner)))

    def rows(self, stream: Iterable[bytes], owner: str) -> list[pa.RecordBatch]:
        """As an `ArrowReader`; raises `Unavailable` and `TooManyStatements` besides."""
        return list(ipc.open_stream(pa.py_buffer(self._ask(_ROWS, stream, owner))))

    def _ask(self, wanted: str, stream: Iterable[bytes], owner: str) -> bytes:
        """The same stream as a worker writes it, which is what Arrow's own writer makes of arrays that were validated in full."""
        with in_memory() as file:
            file.writelines(stream)
            file.flush()
            try:
                self._pool.ask(orjson.dumps({"arrow": wanted}), file.fileno(), owner=owner)
            except WorkerLost as lost:
                _log.warning("A worker ended (%s) while it read %s of %s", "it took too long" if lost.late else lost.status, wanted, owner)
                if lost.killed and not lost.late:
                    raise Unavailable(f"The process that read the rows was ended by {lost.status}; send them again.") from lost
                how = f"took longer than {self._pool.limits.seconds:g} seconds" if lost.late else f"ended ({lost.status})"
                raise InvalidData(f"The process that read the rows {how}: they are damaged. Nothing was done with them.") from lost
            return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)


class ArrowHere:
    """Reads in this process: what a worker does."""

    def schema(self, stream: Iterable[bytes], owner: str = "") -> pa.Schema:
        """As an `ArrowReader`."""
        return _schema(_messages(stream))

    def rows(self, stream: Iterable[bytes], owner: str = "") -> list[pa.RecordBatch]:
        """As an `ArrowReader`."""
        messages = _messages(stream)
        schema = _schema(messages)
        check_schema(schema)
        if any(pa.types.is_dictionary(field.type) for field in schema):
            raise UnsupportedType("Parameters that are encoded by a dictionary are not read here; send plain values.")
        return _joined(_batch(message, schema) for message in messages)


def rewritten(task: dict[str, Any], file: int) -> dict[str, Any]:
    """Do such a task in a worker: read the stream in a file, and write there what was wanted of it."""
    with os.fdopen(os.dup(file), "r+b") as stream:
        stream.seek(0)
        sent = [stream.read()]
        if task["arrow"] == _SCHEMA:
            schema, batches = _HERE.schema(sent), list[pa.RecordBatch]()
        else:
            batches = _HERE.rows(sent)
            schema = batches[0].schema if batches else pa.schema([])
        stream.seek(0)
        stream.truncate()
        with ipc.new_stream(stream, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    return {}


_HERE = ArrowHere()


def _messages(stream: Iterable[bytes]) -> Iterator[pa.Message]:
    try:
        yield from ipc.MessageReader.open_stream(pa.py_buffer(b"".join(stream)))
    except (pa.ArrowException, OSError) as problem:
        raise _unreadable(problem) from None


def _schema(messages: Iterator[pa.Message]) -> pa.Schema:
    first = next(messages, None)
    if first is None:
        raise BadRequest("The rows cannot be read: their stream does not begin with a schema.")
    try:
        schema = ipc.read_schema(first)
    except (pa.ArrowException, OSError) as problem:
        raise _unreadable(problem) from None
    check_names(schema)
    return schema


def _batch(message: pa.Message, schema: pa.Schema) -> pa.RecordBatch:
    try:
        batch = ipc.read_record_batch(message, schema)
    except (pa.ArrowException, OSError) as problem:
        raise _unreadable(problem) from None
    return validated(batch)


def _joined(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """All rows in one batch: a client that sends each row in one of its own sends arrays that take a hundred times the values."""
    joined: list[pa.RecordBatch] = []
    waiting, kept = 0, 0
    for batch in batches:
        if joined and not batch.num_rows:
            continue
        joined.append(batch)
        waiting += memory_of(batch)
        if waiting > max(_JOINED_BYTES, kept):
            joined = [pa.concat_batches(joined)]
            waiting, kept = 0, memory_of(joined[0])
    return [pa.concat_batches(joined)] if len(joined) > 1 else joined


def _unreadable(problem: Exception) -> BadRequest:
    return BadRequest(f"The rows cannot be read: {problem}")
