"""A DataFrame's rows as a result: collected where they are surely few, else written to the spool and streamed from there."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st

from model.types import DataType, LocalZonedTimestampType
from sql.results import ResultColumn, ResultSet, result_schema
from sql.spark.prepared import Prepared
from sql.spark.settings import LOCAL_FILES
from sql.statements.base import ExecutionContext
from table.storage_errors import translating

FEW_ROWS = 100_000
_UNLIKE_ARROW = (st.YearMonthIntervalType, st.DayTimeIntervalType, st.TimeType, st.NullType, st.CharType, st.VarcharType)
"""Types `_shown` stands something else for; a small result without them goes as it is, which spares Spark two analyses."""


def result_of(context: ExecutionContext, query: Prepared) -> ResultSet:
    """Run the query now; its rows can be read until the result is closed."""
    frame, columns = query.frame, query.columns()
    few = query.bound is not None and query.bound <= FEW_ROWS
    if not few or any(isinstance(field.dataType, _UNLIKE_ARROW) for field in frame.schema.fields):
        frame = in_arrow(frame, columns)
    if few:
        rows = frame.toArrow()
        batches = [fitted(batch, columns) for batch in rows.to_batches()]
        return ResultSet(columns, lambda: iter(batches), is_query=True)
    return _spooled(context, frame, columns)


def in_arrow(frame: DataFrame, columns: list[ResultColumn]) -> DataFrame:
    """The same rows with names that do not repeat and types that Arrow and Parquet carry."""
    plain = frame.toDF(*[f"c{i}" for i in range(len(columns))])
    return plain.select(*[_shown(F.col(f"c{i}"), f.dataType).alias(f"c{i}") for i, f in enumerate(frame.schema.fields)])


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


def _spooled(context: ExecutionContext, shown: DataFrame, columns: list[ResultColumn]) -> ResultSet:
    entry = context.spool.new(context.cancellation)
    try:
        shown.write.options(**LOCAL_FILES).option("compression", "zstd").parquet(entry.path)
        entry.finish()
    except BaseException:
        entry.remove()
        raise

    def read() -> Iterator[pa.RecordBatch]:
        io = context.spool.file_io
        for status in sorted(io.list(entry.path), key=lambda found: found.path):
            if status.path.endswith(".parquet"):
                with translating(status.path), io.arrow().open_input_file(io.arrow_path(status.path)) as source:
                    for batch in pq.ParquetFile(source).iter_batches(batch_size=16_384):
                        yield fitted(batch, columns)

    return ResultSet.streaming(columns, read, entry.remove)
