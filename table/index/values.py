"""Column values as the indexes know them: 64-bit hashes for Bloom filters, order-preserving bytes for bitmaps."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from model.schema.decimals import held
from model.schema.types import DataType, DecimalType, LocalZonedTimestampType, TimestampType
from table.format.rows.arrow import arrow_type

Hashes = np.ndarray[Any, np.dtype[np.int64]]
_TEXTS = frozenset({"CHAR", "VARCHAR", "BINARY", "VARBINARY"})
_WHOLE = {"TINYINT": "i1", "SMALLINT": "i2", "INT": "i4", "BIGINT": "i8", "DATE": "i4", "TIME": "i4", "TIMESTAMP": "i8"}
_FLOATS = {"FLOAT": ("f4", "i4"), "DOUBLE": ("f8", "i8")}


def numbers(type_: DataType, column: pa.Array) -> np.ndarray[Any, Any]:
    """A column without NULLs as the numbers Java Paimon indexes: floats by their bits, times by what they count."""
    if type_.root in _FLOATS:
        float_, bits = _FLOATS[type_.root]
        values = np.array(column.to_numpy(zero_copy_only=False), dtype=float_)
        values[np.isnan(values)] = np.nan  # Java knows one NaN
        return values.view(bits)
    if isinstance(type_, DecimalType):
        words = np.frombuffer(column.cast(arrow_type(type_)).buffers()[1] or b"", dtype="<i8")
        return words[2 * column.offset : 2 * (column.offset + len(column)) : 2]  # up to 18 digits fit the lower half
    if isinstance(type_, TimestampType | LocalZonedTimestampType):
        unit = "ms" if type_.precision <= 3 else "us"
        column = column.cast(pa.timestamp(unit, column.type.tz), safe=False).cast(pa.int64())
    elif type_.root == "TIME":
        column = column.cast(pa.time32("ms")).cast(pa.int32())
    elif type_.root == "DATE":
        column = column.cast(pa.int32())
    elif type_.root == "BOOLEAN":
        column = column.cast(pa.int8())
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=_WHOLE.get(type_.root, "i1"))


def hashes(type_: DataType, column: pa.Array) -> Hashes:
    """The 64-bit hashes of the distinct values of a column, NULL left out."""
    distinct = pc.unique(column).drop_null()
    if type_.root in _TEXTS:
        texts = distinct.cast(pa.binary()).to_pylist()
        return np.fromiter((xxhash.xxh64_intdigest(text) for text in texts), dtype=np.uint64, count=len(texts)).view(np.int64)
    return _mixed(numbers(type_, distinct).astype(np.int64))


def _mixed(key: Hashes) -> Hashes:
    """Thomas Wang's 64-bit mix, with arithmetic shifts to the right as Java's ``>>``."""
    key = ~key + (key << 21)
    key = key ^ (key >> 24)
    key = key + (key << 3) + (key << 8)
    key = key ^ (key >> 14)
    key = key + (key << 2) + (key << 4)
    key = key ^ (key >> 28)
    return key + (key << 31)


def keys(type_: DataType, column: pa.Array) -> list[bytes]:
    """Values without NULL as a bitmap index stores them: texts as UTF-8, numbers big-endian."""
    if type_.root in _TEXTS:
        return list(column.cast(pa.binary()).to_pylist())
    values = numbers(type_, column)
    data, width = values.astype(values.dtype.newbyteorder(">")).tobytes(), values.dtype.itemsize
    return [data[at : at + width] for at in range(0, len(data), width)]


def ascending(type_: DataType, column: pa.Array) -> pa.Array:
    """Values without NULL as an array that Arrow orders as Java compares them; not of floats."""
    return column.cast(pa.large_binary()) if type_.root in _TEXTS else pa.array(numbers(type_, column), pa.int64())


def ascending_keys(type_: DataType, keys_: Sequence[bytes]) -> pa.Array:
    """Values as `ascending` has them, by one key or more of one index, of equal widths but for texts."""
    if type_.root in _TEXTS:
        return pa.array(keys_, pa.large_binary())
    return pa.array(np.frombuffer(b"".join(keys_), dtype=f">i{len(keys_[0])}").astype("i8"))


def key_order(type_: DataType, key: bytes) -> bytes | int:
    """Sorts keys as Java compares the values."""
    if type_.root in _TEXTS:
        return key
    value = int.from_bytes(key, "big", signed=True)
    if type_.root in _FLOATS and value < 0:
        return value ^ ((1 << (8 * len(key) - 1)) - 1)
    return value


def literal(type_: DataType, value: object) -> pa.Array | None:
    """A query's literal as a column of one; None where the index cannot tell whether a row equals it.

    Floats are left out (0.0 = −0.0 for a query, not for its bits), and CHAR, whose padding is Spark's to judge.
    """
    root = type_.root
    if root in ("TINYINT", "SMALLINT", "INT", "BIGINT"):
        fits = isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63
        return pa.array([value], pa.int64()).cast(arrow_type(type_)) if fits and _in_range(root, value) else None
    if isinstance(type_, TimestampType | LocalZonedTimestampType):
        zoned = isinstance(type_, LocalZonedTimestampType)
        if not isinstance(value, dt.datetime) or (value.tzinfo is not None) != zoned:
            return None
        return None if type_.precision < 6 and value.microsecond % 10 ** (6 - type_.precision) else pa.array([value], arrow_type(type_))
    if isinstance(type_, DecimalType):
        return _decimal(type_, value)
    expected: dict[str, type] = {"VARCHAR": str, "VARBINARY": bytes, "BOOLEAN": bool}
    if root in expected:
        return pa.array([value], arrow_type(type_)) if isinstance(value, expected[root]) else None
    return pa.array([value], arrow_type(type_)) if root == "DATE" and type(value) is dt.date else None


def _decimal(type_: DecimalType, value: object) -> pa.Array | None:
    if isinstance(value, bool) or not isinstance(value, Decimal | int):
        return None
    exact = held(type_, Decimal(value))
    return None if exact is None else pa.array([exact], arrow_type(type_))


def _in_range(root: str, value: object) -> bool:
    bits = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}[root]
    return isinstance(value, int) and -(1 << bits) <= value < 1 << bits
