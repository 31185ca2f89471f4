"""Bodies of rows as batches that fit a table, read as streams with bounded memory."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import IO

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

from model.errors import InvalidData
from model.schema.schema import Schema
from model.schema.types import ArrayType, BinaryType, MapType, RowType, VarBinaryType
from table.format.parquet.batches import bounded_batches
from table.format.rows.arrow import arrow_type
from table.format.rows.cast import Fitting, fit
from table.format.rows.unpacked import plain_pieces
from workers.ndjson import NdjsonRows, values_of_texts
from workers.task import BodyTask
from workers.validation import check_schema, validated

_PIECE_BYTES = 8 << 20
"""What rows of a batch take whose values are named by dictionaries or views."""
_UNPACKED_BYTES = 1 << 30
"""What a batch may take once it is unpacked; ten megabytes that name a terabyte would be written for hours."""
_CSV_BLOCK_BYTES = 8 << 20
"""A CSV row must fit into one block."""


def parquet_batches(body: IO[bytes], schema: Schema, table: str) -> Iterator[pa.RecordBatch]:
    """Rows of a Parquet file; ``body`` must be able to seek."""
    source = pa.PythonFile(body, mode="r")
    try:
        file = pq.ParquetFile(source)
    except MemoryError:
        raise
    except (pa.ArrowException, OSError) as problem:
        raise InvalidData(f"The body is not a Parquet file that can be read: {problem}") from problem
    try:
        check_schema(file.schema_arrow)
        yield from _fitted(map(validated, bounded_batches(source)), schema, table, Fitting())
    except OSError as problem:  # Arrow's own word for damage inside a Parquet file; the body lies on our disk or in memory
        raise InvalidData(f"The Parquet body is damaged: {problem}") from problem


def arrow_batches(body: IO[bytes], schema: Schema, table: str, names: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Rows of an Arrow IPC stream, its columns called by these names, one after another, where there are any."""
    try:
        stream = ipc.open_stream(pa.PythonFile(_Whole(body), mode="r"))
    except MemoryError:
        raise
    except (pa.ArrowException, OSError) as problem:
        if getattr(problem, "errno", None) is not None:
            raise
        raise InvalidData(f"The body is not an Arrow IPC stream that can be read: {problem}") from problem
    try:
        check_schema(stream.schema)
        pieces = (piece for batch in stream for piece in plain_pieces(validated(batch), _PIECE_BYTES, most_together=_UNPACKED_BYTES))
        named = pieces if names is None else (piece.rename_columns(names) for piece in pieces)
        yield from _fitted(named, schema, table, Fitting())
    except OSError as problem:
        if problem.errno is not None:
            raise
        raise InvalidData(f"The Arrow body is cut short or damaged: {problem}") from problem  # Arrow's own word for it, without a number


class _Whole(io.RawIOBase):
    """A body whose reads give all that was asked for, as Arrow expects; a network gives what has come."""

    def __init__(self, body: IO[bytes]) -> None:
        self._body = body

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            return self._body.read()
        parts: list[bytes] = []
        while size > 0 and (part := self._body.read(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def csv_batches(body: IO[bytes], schema: Schema, table: str) -> Iterator[pa.RecordBatch]:
    """Rows of CSV with a header line; an empty value is NULL, a quoted empty one is the empty string, a blank line is skipped."""
    fields = schema.fields
    # Times have no cast from text, so the CSV reader itself reads them; everything else is fitted by our own rules.
    types = {field.name: arrow_type(field.type) if field.type.root == "TIME" else pa.string() for field in fields}
    try:
        stream = pacsv.open_csv(
            pa.PythonFile(body, mode="r"),
            read_options=pacsv.ReadOptions(block_size=_CSV_BLOCK_BYTES, use_threads=False),
            parse_options=pacsv.ParseOptions(newlines_in_values=True),
            convert_options=pacsv.ConvertOptions(
                column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as problem:
        if "Empty CSV file" in str(problem):
            raise InvalidData("The CSV body is empty; its first line must name the columns.") from problem
        raise
    yield from _fitted(_decoded(iter(stream), schema), schema, table, Fitting(from_text=True, plainly=True))


def _decoded(batches: Iterator[pa.RecordBatch], schema: Schema) -> Iterator[pa.RecordBatch]:
    """What CSV holds as JSON does: base64 in binary columns, JSON itself in ARRAY, MAP and ROW columns."""
    rows = 0
    for batch in batches:
        columns = list(batch.columns)
        for position, name in enumerate(batch.schema.names):
            field = schema.find(name)
            if field is not None and isinstance(field.type, BinaryType | VarBinaryType):
                columns[position] = _bytes(name, columns[position], first_row=rows)
            elif field is not None and isinstance(field.type, ArrayType | MapType | RowType):
                columns[position] = values_of_texts(columns[position], field, first_row=rows)
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        rows += batch.num_rows


def _bytes(name: str, texts: pa.Array, *, first_row: int) -> pa.Array:
    values: list[bytes | None] = []
    for number, text in enumerate(texts.to_pylist(), first_row + 1):
        try:
            values.append(None if text is None else base64.b64decode(text, validate=True))
        except ValueError as problem:
            written = "is not base64, which binary values are written in"
            raise InvalidData(f"Column {name}, row {number}: {text[:80]!r} {written}.") from problem
    return pa.array(values, pa.binary())


def ndjson_batches(body: IO[bytes], schema: Schema, table: str) -> Iterator[pa.RecordBatch]:
    """Rows of JSON objects, one a line, keys being column names."""
    return NdjsonRows(schema, table).batches(body)


def batches_of(task: BodyTask, body: IO[bytes]) -> Iterator[pa.RecordBatch]:
    """Rows of a task's body."""
    if task.names is not None and task.media_type == ARROW_STREAM:
        return arrow_batches(body, task.schema, task.table, task.names)
    return READERS[task.media_type](body, task.schema, task.table)


def _fitted(batches: Iterator[pa.RecordBatch], schema: Schema, table: str, how: Fitting) -> Iterator[pa.RecordBatch]:
    rows = 0
    for batch in batches:
        if batch.num_rows or not rows:  # also an empty first one: its columns must exist
            yield fit(batch, schema, replace(how, first_row=rows), table=table)
        rows += batch.num_rows


Reader = Callable[[IO[bytes], Schema, str], Iterator[pa.RecordBatch]]
"""Batches of a body that fit a schema; the name is the table's, for errors."""
ARROW_STREAM = "application/vnd.apache.arrow.stream"
READERS: dict[str, Reader] = {
    "application/vnd.apache.parquet": parquet_batches,
    ARROW_STREAM: arrow_batches,
    "text/csv": csv_batches,
    "application/x-ndjson": ndjson_batches,
}
TEXTS = frozenset({"text/csv", "application/x-ndjson"})
"""Formats without offsets or lengths to lie about, of which a small body is read where it is."""


def readable(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches; what is said of a broken body becomes `InvalidData`."""
    try:
        yield from batches
    except MemoryError:
        raise
    except UnicodeDecodeError as problem:
        name = problem.object[:80].decode(errors="backslashreplace")
        raise InvalidData(f"The body cannot be read: the name {name!r} of a column is not UTF-8.") from problem
    except (pa.ArrowException, EOFError, OverflowError) as problem:
        raise InvalidData(f"The body cannot be read: {problem}") from problem
