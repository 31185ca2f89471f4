"""A DataFrame's rows as a result: collected where they are surely few and narrow, else written to the spool and streamed from there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from model.errors import ExecutionError
from model.schema.types import DataType, LocalZonedTimestampType
from sql.execution.reading_memory import reading_bytes
from sql.execution.results import ResultColumn, ResultSet, result_schema
from sql.spark.read.prepared import Prepared
from sql.spark.session.settings import LOCAL_FILES
from sql.statements.base import ExecutionContext
from table.format.io.file_io import FileIO
from table.format.io.storage_errors import translating
from table.format.parquet.batches import bounded_batches
from table.format.rows.domain import value_fault

FEW_ROWS = 100_000
FEW_BYTES = 32 << 20
"""What one result may take that is collected: of Spark's heap, which all statements share, and of this process."""
_LEAST_SPACE = 1024
"""A result whose texts have less space than this goes through the spool at once: many of them would not fit."""
_BATCH_ROWS = 16_384
_TIMES = "spark.sql.parquet.outputTimestampType"
_TOO_WIDE = "a value of the result has no space in memory"
_SPOOL_FILES = {
    # Rows of many megabytes lie in the heap until their group is written.
    "parquet.block.size": str(16 << 20),
    "parquet.block.size.row.check.min": "10",
    "parquet.page.size.row.check.min": "10",
    # Ten thousand times the same megabyte would be a megabyte here, and ten gigabytes where it is read.
    "parquet.enable.dictionary": "false",
}
_WIDTHS: dict[type[st.DataType], int] = {
    st.BooleanType: 1, st.ByteType: 1, st.ShortType: 2, st.IntegerType: 4, st.LongType: 8, st.FloatType: 4, st.DoubleType: 8,
    st.DateType: 4, st.TimestampType: 8, st.TimestampNTZType: 8, st.DecimalType: 16, st.NullType: 4, st.TimeType: 4,
    st.YearMonthIntervalType: 4, st.DayTimeIntervalType: 8,
}  # fmt: skip
"""Bytes a value takes in Arrow."""
_OF_ANY_LENGTH = (st.StringType, st.BinaryType)
_UNLIKE_ARROW = (st.YearMonthIntervalType, st.DayTimeIntervalType, st.TimeType, st.NullType, st.CharType, st.VarcharType)
"""Types `_shown` stands something else for; a small result of numbers and times goes as it is, which spares Spark two analyses."""


def result_of(context: ExecutionContext, query: Prepared) -> ResultSet:
    """Run the query now; its rows can be read until the result is closed.

    Collected is only what surely takes no more than `FEW_BYTES`; a result that turns out wider runs once more, into the spool.
    """
    frame, columns = query.frame, query.columns()
    types = [field.dataType for field in frame.schema.fields]
    space = None if query.bound is None or query.bound > FEW_ROWS else space_of_texts(types, query.bound)
    if space is None:
        return _spooled(context, in_arrow(frame, columns), columns)
    plain = not any(isinstance(type_, (*_OF_ANY_LENGTH, *_UNLIKE_ARROW)) for type_ in types)
    try:
        rows = (frame if plain else in_arrow(frame, columns, space=space)).toArrow()
    except PySparkException as problem:
        if _TOO_WIDE not in str(problem):
            raise
        context.cancellation.check()
        return _spooled(context, in_arrow(frame, columns), columns)
    return ResultSet.of_batches(columns, (fitted(batch, columns) for batch in rows.to_batches()))


def space_of_texts(types: Sequence[st.DataType], rows: int) -> int | None:
    """The bytes each text or binary value may have so that so many rows are few bytes; None where that is not to be known."""
    fixed = texts = 0
    for type_ in types:
        if isinstance(type_, _OF_ANY_LENGTH):
            texts += 1
            fixed += 4
        elif type(type_) in _WIDTHS:
            fixed += _WIDTHS[type(type_)]
        else:
            return None
    left = FEW_BYTES // max(rows, 1) - fixed
    space = left // texts if texts else left
    return space if space >= (_LEAST_SPACE if texts else 0) else None


def in_arrow(frame: DataFrame, columns: list[ResultColumn], *, space: int | None = None) -> DataFrame:
    """The same rows with names that do not repeat and types that Arrow and Parquet carry; longer texts than ``space`` bytes fail."""
    plain = frame.toDF(*[f"c{i}" for i in range(len(columns))])
    columns_of_result = ((f"c{i}", _shown(F.col(f"c{i}"), field.dataType), field.dataType) for i, field in enumerate(frame.schema.fields))
    return plain.select(*[_narrow(column, type_, space).alias(name) for name, column, type_ in columns_of_result])


def _narrow(column: Column, type_: st.DataType, space: int | None) -> Column:
    if space is None or not isinstance(type_, _OF_ANY_LENGTH):
        return column
    return F.when(F.octet_length(column) > space, F.raise_error(F.lit(_TOO_WIDE))).otherwise(column)


def _shown(column: Column, type_: st.DataType) -> Column:
    """Types Arrow or Parquet would not carry, as what stands for them in results."""
    match type_:
        case st.YearMonthIntervalType():
            return column.cast("interval month").cast("int")
        case st.DayTimeIntervalType():
            return F.call_function("unix_millis", F.timestamp_micros(F.lit(0)) + column)
        case st.TimeType():
            return F.call_function("time_to_millis", column).cast("int")
        case st.NullType():
            return column.cast("int")
        case st.CharType() | st.VarcharType():
            return column.cast("string")
    return column


def fitted(batch: pa.RecordBatch, columns: list[ResultColumn]) -> pa.RecordBatch:
    """A batch from Spark under the result's own Arrow types."""
    schema = result_schema(columns)
    arrays = [_as(array, field.type, column.type) for array, field, column in zip(batch.columns, schema, columns, strict=True)]
    for column, array in zip(columns, arrays, strict=True):
        if (fault := value_fault(array)) is not None:  # Spark hands on what files of other clients hold
            raise ExecutionError(f"Column {column.name} of the result holds what is no {column.type.sql()}: {fault}.")
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as(array: pa.Array, wanted: pa.DataType, type_: DataType) -> pa.Array:
    if array.type == wanted:
        return array
    if pa.types.is_null(wanted):
        return pa.nulls(len(array))
    if isinstance(type_, LocalZonedTimestampType) and array.type.tz is None:
        return array.cast(pa.timestamp(wanted.unit)).cast(pa.int64()).cast(wanted)
    # A declared TIMESTAMP(3) has milliseconds, whatever Spark carries it in.
    return array.cast(options=pc.CastOptions(wanted, allow_time_truncate=True))


def _spooled(context: ExecutionContext, frame: DataFrame, columns: list[ResultColumn]) -> ResultSet:
    entry = context.spool.new(context.cancellation, caller=context.lake.caller)
    try:
        write_rows(frame, entry.path)
        entry.finish()
    except BaseException:
        entry.remove()
        raise
    result = ResultSet.streaming(columns, lambda: rows_at(context.spool.file_io, entry.path, columns), entry.remove)
    result.reading_bytes = reading_bytes([entry.bytes])
    return result


def write_rows(frame: DataFrame, path: str) -> None:
    """Let Spark write the rows of `in_arrow` to a directory, where `rows_at` reads them."""
    writer = frame.write.options(**LOCAL_FILES, **_SPOOL_FILES).option("compression", "zstd")
    conf = frame.sparkSession.conf
    before = conf.get(_TIMES, None)
    conf.set(_TIMES, "TIMESTAMP_MICROS")  # tables' files have milliseconds where a column has no more; a result must not lose any
    try:
        writer.parquet(path)
    finally:
        conf.set(_TIMES, before or "TIMESTAMP_MILLIS")


def rows_at(io: FileIO, path: str, columns: list[ResultColumn]) -> Iterator[pa.RecordBatch]:
    """The rows in a directory, a bounded batch at a time."""
    for status in sorted(io.list(path), key=lambda found: found.path):
        if status.path.endswith(".parquet"):
            with translating(status.path), io.open_input(status.path) as source:
                for batch in bounded_batches(source, most_rows=_BATCH_ROWS):
                    yield fitted(batch, columns)
