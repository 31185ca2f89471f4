"""Which bucket a row belongs to (`paimon-append.md` §5): one row at a time, or whole Arrow columns at once."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from model.schema.schema import Schema
from model.schema.types import DataType, LocalZonedTimestampType, TimestampType
from table.format.rows import binary_row
from table.format.rows.arrow import arrow_type
from table.format.rows.moments import date_of, days_of, epoch_micros, time_of
from table.format.rows.murmur import murmur3
from table.format.rows.row_matrix import RowMatrix, filled

_MASK = 0xFFFFFFFF


def bucket_of(schema: Schema, values: Sequence[object]) -> int:
    """The bucket of one row, from its bucket-key values in the key's order."""
    types = [field.type for field in schema.bucket_fields]
    match schema.options.get("bucket-function.type", "default").lower():
        case "mod":
            value = values[0]
            return 0 if value is None else int(value) % schema.bucket  # type: ignore[call-overload]
        case "hive":
            hashed = 0
            for type_, value in zip(types, values, strict=True):
                hashed = (31 * hashed + _hive_hash(type_, value)) & _MASK
            return (hashed & 0x7FFFFFFF) % schema.bucket
    return abs(murmur3(binary_row.encode(types, values))) % schema.bucket


def buckets_of(schema: Schema, batch: pa.RecordBatch | pa.Table) -> np.ndarray[Any, np.dtype[np.int32]]:
    """The bucket of every row; the batch must hold the bucket-key columns under their names and canonical types."""
    fields = schema.bucket_fields
    columns = [_array(batch.column(batch.schema.get_field_index(field.name))) for field in fields]
    if schema.options.get("bucket-function.type", "default").lower() == "default":
        rows = RowMatrix([field.type for field in fields], columns, batch.num_rows)
        return np.asarray(np.abs(rows.hashes().astype(np.int64)) % schema.bucket, dtype=np.int32)
    if schema.options["bucket-function.type"].lower() == "mod":
        return np.asarray(filled(columns[0], "<i8") % schema.bucket, dtype=np.int32)
    return _row_by_row(schema, [field.type for field in fields], columns, batch.num_rows)


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _row_by_row(schema: Schema, types: Sequence[DataType], columns: Sequence[pa.Array], rows: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Hive's function is rare."""
    values = [internal_values(type_, column) for type_, column in zip(types, columns, strict=True)]
    return np.fromiter((bucket_of(schema, row) for row in zip(*values, strict=True)), dtype=np.int32, count=rows)


def internal_values(type_: DataType, column: pa.Array) -> list[object]:
    """A column as the Python values row bytes are made of."""
    if type_.root == "TIME":
        return list(column.cast(pa.time32("ms")).cast(pa.int32()).to_pylist())
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):  # a day or a time that Python has not
        return [None if number is None else _moment(type_, column.type, number) for number in _numbers(column).to_pylist()]


def _numbers(column: pa.Array) -> pa.Array:
    return column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())


_MICROS = {"s": 1_000_000, "ms": 1000, "us": 1}


def _moment(type_: DataType, stored: pa.DataType, number: int) -> object:
    """A day or a time by its number."""
    if type_.root == "DATE":
        return date_of(number)
    return time_of(number * _MICROS[stored.unit], zoned=isinstance(type_, LocalZonedTimestampType))


def as_column(type_: DataType, values: Sequence[Any]) -> pa.Array:
    """The column of such values, as `arrow_type` has it."""
    if isinstance(type_, TimestampType | LocalZonedTimestampType):
        micros = pa.array([None if value is None else epoch_micros(value) for value in values], pa.int64())
        return micros.cast(pa.timestamp("us", tz=arrow_type(type_).tz)).cast(arrow_type(type_))
    if type_.root == "DATE":
        return pa.array([None if value is None else days_of(value) for value in values], pa.int32()).cast(pa.date32())
    if type_.root == "TIME":
        return pa.array(values, pa.int32()).cast(pa.time32("ms"))
    return pa.array(values, arrow_type(type_))


def partitions_of(schema: Schema, batch: pa.RecordBatch) -> tuple[list[tuple[object, ...]], np.ndarray[Any, np.dtype[np.int64]]]:
    """The partitions of a batch's rows, as first seen, and which of them each row is of; a zero with a sign is another than one without."""
    fields = schema.partition_fields
    columns = [internal_values(field.type, batch.column(batch.schema.get_field_index(field.name))) for field in fields]
    if not columns:
        return [()], np.zeros(batch.num_rows, dtype=np.int64)
    told_apart = [_by_bits(values) if f.type.root in ("FLOAT", "DOUBLE") else values for f, values in zip(fields, columns, strict=True)]
    seen: dict[tuple[object, ...], int] = {}
    groups = np.fromiter((seen.setdefault(row, len(seen)) for row in zip(*told_apart, strict=True)), dtype=np.int64, count=batch.num_rows)
    firsts = np.unique(groups, return_index=True)[1].tolist()
    return [tuple(values[first] for values in columns) for first in firsts], groups


def _by_bits(values: list[Any]) -> list[object]:
    """Floats by what tells them apart in row bytes: -0.0 is equal to 0.0, and NaN to nothing."""
    return [None if value is None else struct.pack("<d", value) for value in values]


def _hive_hash(type_: DataType, value: Any) -> int:
    """The 32-bit hash of one field as Hive computes it."""
    if value is None:
        return 0
    root = type_.root
    if root == "BOOLEAN":
        return int(value)
    if root == "BIGINT":
        return _fold(value)
    if root == "FLOAT":
        return int(struct.unpack("<i", struct.pack("<f", _one_of_its_kind(value)))[0])
    if root == "DOUBLE":
        return _fold(struct.unpack("<q", struct.pack("<d", _one_of_its_kind(value)))[0])
    if root == "DATE":
        return days_of(value)
    if root == "DECIMAL":
        return _decimal_hash(value)
    if isinstance(value, str | bytes):
        hashed = 0
        for byte in value.encode() if isinstance(value, str) else value:
            hashed = (31 * hashed + (byte - 256 if byte > 127 else byte)) & _MASK
        return hashed
    return int(value)


def _one_of_its_kind(value: float) -> float:
    """Java hashes one zero and one NaN, whatever their signs."""
    return math.nan if value != value else value or 0.0


def _fold(value: int) -> int:
    bits = value & 0xFFFFFFFFFFFFFFFF
    return (bits ^ bits >> 32) & _MASK


def _decimal_hash(value: Decimal) -> int:
    """``BigDecimal.hashCode`` of the value without trailing zeros behind the point: 31 · hash(unscaled) + scale."""
    sign, digits, exponent = value.normalize(binary_row.WIDE).as_tuple()
    scale = max(0, -int(exponent))
    unscaled = int("".join(map(str, digits))) * 10 ** max(0, int(exponent))
    hashed, magnitude = 0, unscaled
    words = []
    while magnitude:
        words.append(magnitude & _MASK)
        magnitude >>= 32
    for word in reversed(words):
        hashed = (31 * hashed + word) & _MASK
    return (31 * (-hashed if sign else hashed) + scale) & _MASK
