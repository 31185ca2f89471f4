"""Which bucket a row belongs to (`paimon-append.md` §5): one row at a time, or whole Arrow columns at once."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from model.schema import Schema
from model.types import DataType
from table import binary_row

_SEED = 42
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


def murmur3(row: bytes) -> int:
    """Murmur3-32 with seed 42 over bytes whose number is a multiple of 4, as a signed int."""
    h = _SEED
    for (k,) in struct.iter_unpack("<I", row):
        k = k * 0xCC9E2D51 & _MASK
        k = (k << 15 | k >> 17) & _MASK
        h ^= k * 0x1B873593 & _MASK
        h = (h << 13 | h >> 19) & _MASK
        h = (h * 5 + 0xE6546B64) & _MASK
    h ^= len(row)
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def buckets_of(schema: Schema, batch: pa.RecordBatch | pa.Table) -> np.ndarray[Any, np.dtype[np.int32]]:
    """The bucket of every row; the batch must hold the bucket-key columns under their names and canonical types."""
    fields = schema.bucket_fields
    columns = [_array(batch.column(batch.schema.get_field_index(field.name))) for field in fields]
    if schema.options.get("bucket-function.type", "default").lower() == "default":
        rows = _RowBytes([field.type for field in fields], columns, batch.num_rows)
        return np.asarray(np.abs(rows.hashes().astype(np.int64)) % schema.bucket, dtype=np.int32)
    return _by_distinct_rows(schema, [field.type for field in fields], columns, batch.num_rows)


def _array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _by_distinct_rows(
    schema: Schema, types: Sequence[DataType], columns: Sequence[pa.Array], rows: int
) -> np.ndarray[Any, np.dtype[np.int32]]:
    """The other functions are rare; they are computed row by row."""
    values = [internal_values(type_, column) for type_, column in zip(types, columns, strict=True)]
    return np.fromiter((bucket_of(schema, row) for row in zip(*values, strict=True)), dtype=np.int32, count=rows)


def internal_values(type_: DataType, column: pa.Array) -> list[object]:
    """A column as the Python values row bytes are made of."""
    if type_.root == "TIME":
        return list(column.cast(pa.time32("ms")).cast(pa.int32()).to_pylist())
    return list(column.to_pylist())


class _RowBytes:
    """The row bytes of many rows as a matrix of 4-byte words, hashed word by word.

    Rows differ in length only by their variable parts, so rows are grouped by length.
    """

    def __init__(self, types: Sequence[DataType], columns: Sequence[pa.Array], rows: int) -> None:
        self.rows = rows
        self.arity = len(types)
        self.head = binary_row.header_size(self.arity)
        fixed = np.zeros((rows, self.head + 8 * self.arity), dtype=np.uint8)
        self.fixed = fixed
        self.lengths = np.full(rows, fixed.shape[1], dtype=np.int64)
        self.variable: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        self.tails: list[list[bytes]] = []
        for index, (type_, column) in enumerate(zip(types, columns, strict=True)):
            self._put(index, type_, column)

    def _put(self, index: int, type_: DataType, column: pa.Array) -> None:
        nulls = np.asarray(column.is_null())
        bit = 8 + index
        self.fixed[nulls, bit // 8] |= np.uint8(1 << (bit % 8))
        slot = slice(self.head + 8 * index, self.head + 8 * index + 8)
        width = _fixed_bytes(type_, column)
        if width is not None:
            width[nulls] = 0
            self.fixed[:, slot] = width
            return
        self._put_variable(slot, type_, column)

    def _put_variable(self, slot: slice, type_: DataType, column: pa.Array) -> None:
        tails: list[bytes] = []
        cache: dict[object, tuple[bytes, bytes]] = {}
        offsets = self.lengths
        slots = np.zeros((self.rows, 8), dtype=np.uint8)
        for row, value in enumerate(internal_values(type_, column)):
            found = cache.get(value)
            if found is None:
                found = _slot_and_tail(type_, value)
                if len(cache) < 100_000:
                    cache[value] = found
            head, tail = found
            if tail:
                head = head[:4] + struct.pack("<I", int(offsets[row]))
                offsets[row] += len(tail)
            slots[row] = np.frombuffer(head, dtype=np.uint8)
            tails.append(tail)
        self.fixed[:, slot] = slots
        self.tails.append(tails)

    def hashes(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The hash of every row."""
        result = np.zeros(self.rows, dtype=np.int32)
        for length in np.unique(self.lengths):
            picked = np.flatnonzero(self.lengths == length)
            rows = self.fixed[picked]
            extra = int(length) - rows.shape[1]
            if extra:
                joined = b"".join(b"".join(tails[row] for tails in self.tails) for row in picked)
                rows = np.hstack([rows, np.frombuffer(joined, dtype=np.uint8).reshape(len(picked), extra)])
            result[picked] = _murmur3_rows(np.ascontiguousarray(rows).view("<u4"))
        return result


def _slot_and_tail(type_: DataType, value: object) -> tuple[bytes, bytes]:
    """A single value's slot and variable part; the slot's offset is filled in by the caller."""
    row = binary_row.encode([type_], [value])
    return row[8:16], row[16:]


def _fixed_bytes(type_: DataType, column: pa.Array) -> np.ndarray[Any, np.dtype[np.uint8]] | None:
    """Eight bytes per row for a type that fits its slot, or None for one with a variable part."""
    root = type_.root
    if root in ("TINYINT", "SMALLINT", "INT", "DATE", "TIME"):
        width = {"TINYINT": 1, "SMALLINT": 2}.get(root, 4)
        numbers = _filled(column if root not in ("DATE", "TIME") else column.cast(pa.int32()), f"<i{width}")
        return _padded(numbers.view(np.uint8).reshape(-1, width))
    if root == "BIGINT":
        return _filled(column, "<i8").view(np.uint8).reshape(-1, 8).copy()
    if root == "BOOLEAN":
        return _padded(_filled(column.cast(pa.uint8()), "<u1").reshape(-1, 1))
    if root == "FLOAT":
        return _padded(_filled(column, "<f4").view(np.uint8).reshape(-1, 4))
    if root == "DOUBLE":
        return _filled(column, "<f8").view(np.uint8).reshape(-1, 8).copy()
    if root == "TIMESTAMP" and binary_row.compact(type_):
        return _filled(column.cast(pa.timestamp("ms", tz=column.type.tz)).cast(pa.int64()), "<i8").view(np.uint8).reshape(-1, 8).copy()
    if root == "DECIMAL" and binary_row.compact(type_):
        return _unscaled(column).view(np.uint8).reshape(-1, 8).copy()
    return None


def _filled(column: pa.Array, dtype: str) -> np.ndarray[Any, Any]:
    filled = column.fill_null(0) if column.null_count else column
    return np.ascontiguousarray(filled.to_numpy(zero_copy_only=False).astype(dtype, copy=False))


def _padded(narrow: np.ndarray[Any, np.dtype[np.uint8]]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    wide = np.zeros((narrow.shape[0], 8), dtype=np.uint8)
    wide[:, : narrow.shape[1]] = narrow
    return wide


def _unscaled(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The low eight bytes of each decimal128: the whole value for a precision up to 18."""
    column = column.cast(pa.decimal128(38, column.type.scale))
    data = np.frombuffer(column.buffers()[1], dtype="<i8")
    return np.ascontiguousarray(data[2 * column.offset : 2 * (column.offset + len(column)) : 2])


def _murmur3_rows(words: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.int32]]:
    with np.errstate(over="ignore"):
        h = np.full(words.shape[0], _SEED, dtype=np.uint32)
        for at in range(words.shape[1]):
            k = words[:, at] * np.uint32(0xCC9E2D51)
            k = (k << np.uint32(15)) | (k >> np.uint32(17))
            h ^= k * np.uint32(0x1B873593)
            h = (h << np.uint32(13)) | (h >> np.uint32(19))
            h = h * np.uint32(5) + np.uint32(0xE6546B64)
        h ^= np.uint32(words.shape[1] * 4)
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        h ^= h >> np.uint32(16)
    signed: np.ndarray[Any, np.dtype[np.int32]] = h.view(np.int32)
    return signed


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
