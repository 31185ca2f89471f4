"""The bucket of a row as a native column expression, equal to `table/write/bucket.py` (`paimon-append.md` §5).

Spark's ``hash`` of a binary whose length is a multiple of four is the Murmur3 Paimon applies to its row bytes, so the
bytes of the row are put together from native functions. Types whose bits SQL cannot reach go through Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from model.schema.schema import Schema
from model.schema.types import DataType, Field, LocalZonedTimestampType, TimestampType
from sql.spark.read.reads import named
from table.format.rows import binary_row
from table.write.bucket import buckets_of

_WIDTHS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "DATE": 32, "TIME": 32}


def bucket_column(schema: Schema) -> Column:
    """The bucket of each row of a frame with the table's columns; an INT from 0 to the number of buckets less one.

    The expression must be analyzed with ANSI mode off and the session zone UTC, as `sql.spark.write.writes` does.
    """
    fields = schema.bucket_fields
    function = schema.options.get("bucket-function.type", "default").lower()
    if function == "mod":
        return F.coalesce(F.pmod(named(fields[0].name), F.lit(schema.bucket).cast("bigint")), F.lit(0)).cast("int")
    if function == "hive" or not all(native(f.type) for f in fields):
        return _through_arrow(schema, fields)
    hashed = F.hash(_row_bytes(fields)).cast("bigint")
    return (F.abs(hashed) % schema.bucket).cast("int")


def native(type_: DataType) -> bool:
    """Whether the type's row bytes can be built from native functions."""
    if type_.root in ("FLOAT", "DOUBLE"):
        return False
    return type_.root != "DECIMAL" or binary_row.compact(type_)


def _little_endian(number: Column) -> Column:
    """The eight bytes of a BIGINT, lowest first: a cast gives them highest first."""
    swapped: Column | None = None
    for byte in range(8):
        part = F.shiftleft(F.shiftrightunsigned(number, 8 * byte).bitwiseAND(F.lit(0xFF).cast("bigint")), 56 - 8 * byte)
        swapped = part if swapped is None else swapped.bitwiseOR(part)
    assert swapped is not None
    return swapped.cast("binary")


def _row_bytes(fields: tuple[Field, ...]) -> Column:
    head = binary_row.header_size(len(fields))
    start: Column = F.lit(head + 8 * len(fields)).cast("bigint")
    slots: list[Column] = []
    tails: list[Column] = []
    for field in fields:
        column = named(field.name)
        slot, tail, length = _slot(field.type, column, start)
        slots.append(slot)
        if tail is not None and length is not None:
            tails.append(tail)
            start = start + length
    return F.concat(*_header(fields, head), *slots, *tails)


def _header(fields: tuple[Field, ...], size: int) -> list[Column]:
    words = []
    for word in range(size // 8):
        bits: Column = F.lit(0).cast("bigint")
        for index, field in enumerate(fields):
            position = 8 + index - 64 * word
            if 0 <= position < 64:
                flag = F.shiftleft(F.lit(1).cast("bigint"), position)
                bits = F.when(named(field.name).isNull(), bits.bitwiseOR(flag)).otherwise(bits)
        words.append(_little_endian(bits))
    return words


def _slot(type_: DataType, column: Column, start: Column) -> tuple[Column, Column | None, Column | None]:
    """A field's eight bytes, and for one with a variable part that part and its length in bytes."""
    if isinstance(type_, TimestampType | LocalZonedTimestampType):
        return _timestamp(type_, column, start)
    if type_.root in ("CHAR", "VARCHAR", "BINARY", "VARBINARY"):
        return _bytes(column.cast("binary"), start)
    return _little_endian(F.coalesce(_fixed(type_, column), F.lit(0).cast("bigint"))), None, None


def _fixed(type_: DataType, column: Column) -> Column:
    root = type_.root
    if root == "BOOLEAN":
        return column.cast("bigint")
    if root == "DECIMAL":
        scale = getattr(type_, "scale", 0)
        return (column.cast("decimal(38,18)") * F.lit(10**scale).cast("decimal(19,0)")).cast("bigint")
    number = F.unix_date(column) if root == "DATE" else F.call_function("time_to_millis", column) if root == "TIME" else column
    number = number.cast("bigint")
    if root in _WIDTHS:
        return number.bitwiseAND(F.lit((1 << _WIDTHS[root]) - 1).cast("bigint"))
    return number


def _timestamp(type_: DataType, column: Column, start: Column) -> tuple[Column, Column | None, Column | None]:
    micros = F.unix_micros(column.cast("timestamp_ltz"))
    zero = F.lit(0).cast("bigint")
    rest = F.pmod(micros, F.lit(1000).cast("bigint"))
    millis = _div(micros - rest, 1000)
    if binary_row.compact(type_):
        return _little_endian(F.coalesce(millis, zero)), None, None
    nanos = F.coalesce(rest * 1000, zero)
    slot = _little_endian(nanos.bitwiseOR(F.shiftleft(start, 32)))
    return slot, _little_endian(F.coalesce(millis, zero)), F.lit(8).cast("bigint")


def _bytes(data: Column, start: Column) -> tuple[Column, Column, Column]:
    """Up to seven bytes lie in the slot with their number; more lie behind, padded to a multiple of eight. NULL is zeros."""
    size = F.octet_length(data).cast("bigint")
    short = F.concat(_padded(data, F.lit(7)), F.unhex(F.hex(size + 128)))
    padded_size = _div(size + 7, 8) * 8
    long = _little_endian(size.bitwiseOR(F.shiftleft(start, 32)))
    zeros = F.unhex(F.lit("0000000000000000"))
    slot = F.when(data.isNull(), zeros).when(size <= 7, short).otherwise(long)
    nothing = F.unhex(F.lit(""))
    tail = F.when(size > 7, _padded(data, padded_size.cast("int"))).otherwise(nothing)
    return slot, tail, F.when(size > 7, padded_size).otherwise(F.lit(0).cast("bigint"))


def _div(number: Column, by: int) -> Column:
    """Integer division of a BIGINT that is a multiple, or positive."""
    return F.call_function("div", number, F.lit(by).cast("bigint"))


def _padded(data: Column, size: Column) -> Column:
    return F.call_function("rpad", data, size, F.unhex(F.lit("00")))


def _through_arrow(schema: Schema, fields: tuple[Field, ...]) -> Column:
    names = [f.name for f in fields]

    def buckets(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        for columns in batches:
            arrays = [column.cast(pa.time32("ms"), safe=False) if pa.types.is_time(column.type) else column for column in columns]
            yield pa.array(buckets_of(schema, pa.RecordBatch.from_arrays(arrays, names=names)))

    def single(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return buckets((column,) for column in batches)

    function: Any = arrow_udf(single if len(fields) == 1 else buckets, "int")  # type: ignore[call-overload]
    made: Column = function(*[named(name) for name in names])
    return made
