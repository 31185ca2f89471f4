"""Results as bytes, batch by batch: JSON, NDJSON, CSV and Arrow, in memory bounded by a few megabytes."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from model.errors import AnalysisError
from server.formats.text_turns import text_turn
from server.formats.texts import csv_quoted, csv_texts, join, json_texts
from sql.execution.array_memory import memory_of
from sql.execution.results import ResultColumn, result_schema

PIECE_BYTES = 1 << 20
"""Arrow bytes turned into text at a time."""

NOTHING_NOW = b""
"""What a writer gives for a batch without rows: of rows without end, that none is there now."""
Batches = Iterator[pa.RecordBatch]
More = Callable[[], bool]
"""Asked after the last row: whether rows were cut off."""
Tell = Callable[[Exception], dict[str, Any]]
"""Turns a failure into the problem document clients are shown."""


class BrokenStream(Exception):
    """The rows ended in a failure this format has no words for: the connection is cut so that nobody takes it for the end."""


@dataclass(frozen=True, slots=True)
class Format:
    """One way to write a result."""

    media_type: str
    write: Callable[..., Iterator[bytes]]
    check: Callable[[Sequence[ResultColumn]], None] = lambda columns: None
    idle_line: bytes | None = None
    """What may be sent while no row comes."""


def write_json(columns: Sequence[ResultColumn], batches: Batches, tell: Tell, more: More = lambda: False) -> Iterator[bytes]:
    """``{"columns":[…],"rows":[…]}``, each row on a line of its own; then, where it is so, ``truncated`` or ``error``."""
    head = [{"name": c.name, "type": str(c.type)} for c in columns]
    pending = b'{"columns":' + orjson.dumps(head) + b',"rows":['
    first, tail = True, b"\n]}\n"
    try:
        for batch in batches:
            for piece in pieces(batch):
                data = _rows(piece, columns, json_texts, opening=",\n[", between=",", closing="]")
                yield pending + (data[1:] if first else data)
                pending, first = b"", False
        if more():
            tail = b'\n],"truncated":true}\n'
    except Exception as failure:  # headers are gone: the failure becomes part of the body, and `tell` logs a bug
        tail = b'\n],"error":' + orjson.dumps(tell(failure)) + b"}\n"
    yield pending + tail


def write_ndjson(columns: Sequence[ResultColumn], batches: Batches, tell: Tell, more: More = lambda: False) -> Iterator[bytes]:
    """One object per row and line; a failure on the way is a last line ``{"$error": …}``."""
    objects = _Objects(columns)
    try:
        for batch in batches:
            if not batch.num_rows:
                yield NOTHING_NOW
            yield from objects.lines(batch)
    except Exception as failure:  # headers are gone: the failure becomes the last line, and `tell` logs a bug
        yield b'{"$error":' + orjson.dumps(tell(failure)) + b"}\n"


def write_events(columns: Sequence[ResultColumn], batches: Batches, tell: Tell, more: More = lambda: False) -> Iterator[bytes]:
    """One server-sent event per row, its data the row as an object; then an event ``end`` or, on a failure, ``error``."""
    objects = _Objects(columns)
    last = b"event: end\ndata: {}\n\n"
    try:
        for batch in batches:
            if not batch.num_rows:
                yield NOTHING_NOW
            for lines in objects.lines(batch):
                yield b"".join(b"data: %b\n\n" % row for row in lines.splitlines())
    except Exception as failure:  # headers are gone: the failure becomes the last event, and `tell` logs a bug
        last = b"event: error\ndata: " + orjson.dumps(tell(failure)) + b"\n\n"
    yield last


def write_csv(columns: Sequence[ResultColumn], batches: Batches, tell: Tell, more: More = lambda: False) -> Iterator[bytes]:
    """A header line, then a line per row; a failure on the way cuts the connection."""
    header = csv_quoted(pa.array([c.name for c in columns], pa.string())).to_pylist()
    yield (",".join(header) + "\n").encode()
    try:
        for batch in batches:
            if not batch.num_rows:
                yield NOTHING_NOW
            for piece in pieces(batch):
                yield _rows(piece, columns, csv_texts, opening="", between=",", closing="\n")
    except Exception as failure:  # CSV has no place for it
        tell(failure)
        raise BrokenStream from failure


def write_arrow(columns: Sequence[ResultColumn], batches: Batches, tell: Tell, more: More = lambda: False) -> Iterator[bytes]:
    """An Arrow IPC stream; a failure on the way leaves it without its end mark and cuts the connection."""
    sink = io.BytesIO()
    writer = pa.ipc.new_stream(sink, result_schema(columns))
    begun = False
    try:
        for batch in batches:
            for piece in pieces(batch) if begun or batch.num_rows else (batch,):  # the schema goes out before the first row is there
                writer.write_batch(piece)
                yield _taken(sink)
                begun = True
            if not batch.num_rows:
                yield NOTHING_NOW
    except Exception as failure:  # the format's own sign of a broken stream is a missing end
        tell(failure)
        raise BrokenStream from failure
    writer.close()
    yield _taken(sink)


def distinct_names(columns: Sequence[ResultColumn]) -> None:
    """Raise `AnalysisError` where two columns would be one key of an object."""
    seen: set[str] = set()
    for column in columns:
        if column.name in seen:
            raise AnalysisError(
                f"Two columns are called {column.name!r}, and NDJSON rows are objects: "
                "name them apart with AS, or ask for application/json."
            )
        seen.add(column.name)


JSON = Format("application/json", write_json)
NDJSON = Format("application/x-ndjson", write_ndjson, check=distinct_names, idle_line=b"\n")
CSV = Format("text/csv", write_csv)
ARROW = Format("application/vnd.apache.arrow.stream", write_arrow)
EVENTS = Format("text/event-stream", write_events, check=distinct_names, idle_line=b":\n\n")
FORMATS = {format_.media_type: format_ for format_ in (JSON, NDJSON, CSV, ARROW, EVENTS)}
ENDLESS = {format_.media_type: format_ for format_ in (NDJSON, ARROW, EVENTS, CSV)}
"""What rows without end are written in; JSON would be one value that never ends."""


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch so that its text stays small; an empty one disappears."""
    if batch.num_rows == 0:
        return
    step = max(1, batch.num_rows * PIECE_BYTES // max(1, batch.nbytes))
    if step >= batch.num_rows:
        yield batch  # itself: streams of one text get the same one, and its bytes are known by it
        return
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def _rows(
    batch: pa.RecordBatch,
    columns: Sequence[ResultColumn],
    texts: Callable[[pa.Array, Any], pa.Array],
    *,
    opening: str,
    between: str,
    closing: str,
) -> bytes:
    if not columns:
        return (opening + closing).encode() * int(batch.num_rows)
    parts: list[pa.Array | str] = [opening]
    with text_turn(batch):
        for number, (array, column) in enumerate(zip(batch.columns, columns, strict=True)):
            parts += [between, texts(array, column.type)] if number else [texts(array, column.type)]
        return _bytes_of(join(*parts, closing))


class _LastWritten:
    """The bytes of the small batches written last: streams of one text all write the same batch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: tuple[tuple[pa.RecordBatch, Hashable, bytes], ...] = ()

    def find(self, batch: pa.RecordBatch, shape: Hashable) -> bytes | None:
        """What `keep` was given for the very same batch; a thousand streams ask at once, so that no lock is taken."""
        for known, of, data in self._known:
            if known is batch and of == shape:
                return data
        return None

    def keep(self, batch: pa.RecordBatch, shape: Hashable, data: bytes) -> None:
        with self._lock:
            self._known = ((batch, shape, data), *self._known[:_REMEMBERED])


_LAST_WRITTEN = _LastWritten()
_REMEMBERED = 7
_SMALL_BYTES = 64 << 10


class _Objects:
    """Writes batches of some columns as objects, one a line."""

    def __init__(self, columns: Sequence[ResultColumn]) -> None:
        self._columns = columns
        self._names = [orjson.dumps(c.name).decode() for c in columns]
        self._shape = tuple((name, str(c.type)) for name, c in zip(self._names, columns, strict=True))

    def lines(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        """The lines of a batch, in pieces of bounded size; nothing of an empty one."""
        known = _LAST_WRITTEN.find(batch, self._shape)
        if known is not None:
            yield known
            return
        for piece in pieces(batch):
            data = _written(piece, self._columns, self._names)
            if piece is batch and memory_of(batch) <= _SMALL_BYTES:
                _LAST_WRITTEN.keep(batch, self._shape, data)
            yield data


def _written(batch: pa.RecordBatch, columns: Sequence[ResultColumn], names: Sequence[str]) -> bytes:
    if not columns:
        return b"{}\n" * int(batch.num_rows)
    parts: list[pa.Array | str] = []
    with text_turn(batch):
        for number, (array, column) in enumerate(zip(batch.columns, columns, strict=True)):
            parts += [f"{',' if number else '{'}{names[number]}:", json_texts(array, column.type)]
        return _bytes_of(join(*parts, "}\n"))


def _bytes_of(texts: pa.Array) -> bytes:
    """The texts one after another; they lie so in memory already."""
    if pc.any(texts.is_null()).as_py():
        raise AssertionError("a row became NULL")
    offsets, data = texts.buffers()[1:3]
    ends = memoryview(offsets).cast("i")
    start, end = ends[texts.offset], ends[texts.offset + len(texts)]
    return memoryview(data)[start:end].tobytes()


def _taken(sink: io.BytesIO) -> bytes:
    data = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return data
