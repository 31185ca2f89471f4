"""The row bytes of whole Arrow columns (`paimon-append.md` §5), laid out and hashed without a loop over the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from model.schema.types import DataType
from table.format.rows import binary_row
from table.format.rows.murmur import murmur3, murmur3_rows

_FEW_ROWS = 16
"""Fewer rows than this are hashed one by one: numpy's overhead per word of a long text would be more."""
_CHUNK_BYTES = 4 << 20
"""Row bytes laid out at once."""


class RowMatrix:
    """The row bytes of many rows as matrices of 4-byte words, hashed word by word.

    Rows differ in length only by their variable parts, so rows are grouped by the lengths of those.
    """

    def __init__(self, types: Sequence[DataType], columns: Sequence[pa.Array], rows: int) -> None:
        self.rows = rows
        self.head = binary_row.header_size(len(types))
        self.fixed = np.zeros((rows, self.head + 8 * len(types)), dtype=np.uint8)
        self.lengths = np.full(rows, self.fixed.shape[1], dtype=np.int64)
        self.tails: list[_Tail] = []
        for index, (type_, column) in enumerate(zip(types, columns, strict=True)):
            self._put(index, type_, column)

    def _put(self, index: int, type_: DataType, column: pa.Array) -> None:
        nulls = np.asarray(column.is_null())
        bit = 8 + index
        self.fixed[nulls, bit // 8] |= np.uint8(1 << (bit % 8))
        slot = self.fixed[:, self.head + 8 * index : self.head + 8 * index + 8]
        width = _fixed_bytes(type_, column)
        if width is not None:
            width[nulls] = 0
            slot[:] = width
            return
        tail = _tail(type_, column, nulls)
        slot[:] = tail.slots(self.lengths)
        self.lengths += tail.padded
        self.tails.append(tail)

    def hashes(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The hash of every row."""
        result = np.zeros(self.rows, dtype=np.int32)
        for group in self._groups():
            if len(group) < _FEW_ROWS:
                for row in group:
                    result[row] = murmur3(self._matrix(np.array([row])).tobytes())
                continue
            step = max(1, _CHUNK_BYTES // int(self.lengths[group[0]]))
            for at in range(0, len(group), step):
                picked = group[at : at + step]
                result[picked] = murmur3_rows(self._matrix(picked).view("<u4"))
        return result

    def _groups(self) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
        """Row numbers, those together whose variable parts have the same lengths."""
        if not self.rows:
            return []
        kind = np.zeros(self.rows, dtype=np.int64)
        for tail in self.tails:
            words = tail.padded // 8
            kind = np.unique(kind * (int(words.max()) + 1) + words, return_inverse=True)[1]
        ordered = np.argsort(kind, kind="stable")
        return np.split(ordered, np.flatnonzero(np.diff(kind[ordered])) + 1)

    def _matrix(self, picked: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The whole bytes of some rows of one group."""
        return np.ascontiguousarray(np.hstack([self.fixed[picked], *(tail.take(picked) for tail in self.tails)]))


class _Tail(Protocol):
    """The variable parts of one column."""

    padded: np.ndarray[Any, np.dtype[np.int64]]
    """Bytes each row takes in the variable part: a multiple of 8, 0 for what fits the slot."""

    def slots(self, offsets: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.uint8]]: ...
    def take(self, picked: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.uint8]]: ...


class _Reserved:
    """Variable parts of one width for every row, NULLs too: long decimals and precise timestamps."""

    def __init__(self, numbers: np.ndarray[Any, Any], matrix: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
        self._numbers = numbers
        self._matrix = matrix
        self.padded = np.full(len(matrix), matrix.shape[1], dtype=np.int64)

    def slots(self, offsets: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The number kept beside the value, and where the value begins."""
        return _number_and_offset(self._numbers, offsets)

    def take(self, picked: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The variable parts of some rows."""
        taken: np.ndarray[Any, np.dtype[np.uint8]] = self._matrix[picked]
        return taken


class _Bytes:
    """Texts and bytes: up to 7 lie in the slot, longer ones behind it."""

    def __init__(self, column: pa.Array, nulls: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
        column = column.cast(pa.large_binary())
        _, offsets, data = column.buffers()
        ends = np.frombuffer(offsets, dtype="<i8")[column.offset : column.offset + len(column) + 1]
        self._starts = ends[:-1]
        self._sizes = np.where(nulls, 0, np.diff(ends))
        self._data = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.zeros(1, dtype=np.uint8)
        self._nulls = nulls
        self.padded = np.where(self._sizes > 7, (self._sizes + 7) // 8 * 8, 0)

    def slots(self, offsets: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Short values themselves; sizes and offsets of long ones."""
        slots = _number_and_offset(self._sizes, offsets)
        short = np.flatnonzero(self._sizes <= 7)
        slots[short] = self._gather(short, 8)
        slots[short, 7] = np.uint8(0x80) | self._sizes[short].astype(np.uint8)
        slots[self._nulls] = 0
        return slots

    def take(self, picked: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The variable parts of some rows, which all have the same padded size."""
        return self._gather(picked, int(self.padded[picked[0]]))

    def _gather(self, picked: np.ndarray[Any, np.dtype[np.int64]], width: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
        places = np.arange(width)
        gathered: np.ndarray[Any, np.dtype[np.uint8]] = self._data[np.minimum(self._starts[picked, None] + places, len(self._data) - 1)]
        gathered[places >= self._sizes[picked, None]] = 0
        return gathered


def _number_and_offset(numbers: np.ndarray[Any, Any], offsets: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.column_stack([numbers, offsets]).astype("<u4").view(np.uint8)


def _tail(type_: DataType, column: pa.Array, nulls: np.ndarray[Any, np.dtype[np.bool_]]) -> _Tail:
    match type_.root:
        case "TIMESTAMP":
            micros = filled(column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64()), "<i8")
            millis = micros // 1000
            return _Reserved((micros - millis * 1000) * 1000, millis.astype("<i8").view(np.uint8).reshape(-1, 8))
        case "DECIMAL":
            return _wide_decimal(column, nulls)
    return _Bytes(column, nulls)


def _wide_decimal(column: pa.Array, nulls: np.ndarray[Any, np.dtype[np.bool_]]) -> _Reserved:
    """The shortest big-endian two's complement of each decimal, in 16 bytes."""
    data = np.frombuffer(column.cast(pa.decimal128(38, column.type.scale)).buffers()[1], dtype=np.uint8).reshape(-1, 16)
    big = data[column.offset : column.offset + len(column), ::-1].copy() if len(data) != len(column) else data[:, ::-1].copy()
    big[nulls] = 0
    negative = big[:, :1] >> 7
    leading = np.logical_and.accumulate(big[:, :15] == negative * np.uint8(255), axis=1)
    dropped = (leading & (big[:, 1:] >> 7 == negative)).sum(axis=1)
    places = np.arange(16) + dropped[:, None]
    digits = np.where(places < 16, np.take_along_axis(big, np.minimum(places, 15), axis=1), 0).astype(np.uint8)
    return _Reserved(np.where(nulls, 0, 16 - dropped), digits)


def _fixed_bytes(type_: DataType, column: pa.Array) -> np.ndarray[Any, np.dtype[np.uint8]] | None:
    """Eight bytes per row for a type that fits its slot, or None for one with a variable part."""
    root = type_.root
    if root in ("TINYINT", "SMALLINT", "INT", "DATE", "TIME"):
        width = {"TINYINT": 1, "SMALLINT": 2}.get(root, 4)
        numbers = filled(column if root not in ("DATE", "TIME") else column.cast(pa.int32()), f"<i{width}")
        return _padded(numbers.view(np.uint8).reshape(-1, width))
    if root == "BIGINT":
        return filled(column, "<i8").view(np.uint8).reshape(-1, 8).copy()
    if root == "BOOLEAN":
        return _padded(filled(column.cast(pa.uint8()), "<u1").reshape(-1, 1))
    if root == "FLOAT":
        return _padded(filled(column, "<f4").view(np.uint8).reshape(-1, 4))
    if root == "DOUBLE":
        return filled(column, "<f8").view(np.uint8).reshape(-1, 8).copy()
    if root == "TIMESTAMP" and binary_row.compact(type_):
        return filled(column.cast(pa.timestamp("ms", tz=column.type.tz)).cast(pa.int64()), "<i8").view(np.uint8).reshape(-1, 8).copy()
    if root == "DECIMAL" and binary_row.compact(type_):
        return _unscaled(column).view(np.uint8).reshape(-1, 8).copy()
    return None


def filled(column: pa.Array, dtype: str) -> np.ndarray[Any, Any]:
    """A column of numbers, 0 for NULL."""
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
