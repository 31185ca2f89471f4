"""Which bucket a row belongs to (`paimon-append.md` §5): one row at a time, or whole Arrow columns at once."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from model.schema.schema import Schema
from model.schema.types import DataType
from table.format.rows import binary_row
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
    return list(column.to_pylist())


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
        return int(struct.unpack("<i", struct.pack("<f", value or 0.0))[0])
    if root == "DOUBLE":
        return _fold(struct.unpack("<q", struct.pack("<d", value or 0.0))[0])
    if root == "DATE":
        return int(value.toordinal() - binary_row.EPOCH_DAY)
    if root == "DECIMAL":
        return _decimal_hash(value)
    if isinstance(value, str | bytes):
        hashed = 0
        for byte in value.encode() if isinstance(value, str) else value:
            hashed = (31 * hashed + (byte - 256 if byte > 127 else byte)) & _MASK
        return hashed
    return int(value)


def _fold(value: int) -> int:
    bits = value & 0xFFFFFFFFFFFFFFFF
    return (bits ^ bits >> 32) & _MASK


def _decimal_hash(value: Decimal) -> int:
    """``BigDecimal.hashCode`` of the value without trailing zeros: 31 · hash(unscaled) + scale."""
    sign, digits, exponent = value.normalize(binary_row.WIDE).as_tuple()
    unscaled = int("".join(map(str, digits)))
    scale = -int(exponent)
    hashed, magnitude = 0, unscaled
    words = []
    while magnitude:
        words.append(magnitude & _MASK)
        magnitude >>= 32
    for word in reversed(words):
        hashed = (31 * hashed + word) & _MASK
    return (31 * (-hashed if sign else hashed) + scale) & _MASK
