"""One column of many row bytes (`paimon-append.md` §4.4) as an array, without a loop over the rows.

Values are what `binary_row.decode` gives, as numbers that compare as those do: days for DATE, milliseconds for TIME,
microseconds for TIMESTAMP, unscaled numbers for DECIMAL up to 18 digits, UTF-8 for texts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from model.schema.types import DataType, LocalZonedTimestampType, TimestampType
from table.format.rows import binary_row

Array = np.ndarray[Any, np.dtype[Any]]
_SLOT = 8
_FIXED = {
    "BOOLEAN": "u1", "TINYINT": "i1", "SMALLINT": "<i2", "INT": "<i4", "BIGINT": "<i8", "DATE": "<i4", "TIME": "<i4", "FLOAT": "<f4",
    "DOUBLE": "<f8", "DECIMAL": "<i8",
}  # fmt: skip
_VARIABLE = frozenset({"CHAR", "VARCHAR", "BINARY", "VARBINARY"})


def decodable(type_: DataType) -> bool:
    """Whether columns of the type are read here."""
    return (
        (type_.root in _FIXED and binary_row.compact(type_))
        or type_.root in _VARIABLE
        or isinstance(type_, TimestampType | LocalZonedTimestampType)
    )


class RowColumn:
    """The values of one column and where they are NULL; texts and bytes as an Arrow array, others as numbers."""

    def __init__(self, values: Array | pa.Array, nulls: Array) -> None:
        self.values = values
        self.nulls = nulls

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.values.nbytes) + int(self.nulls.nbytes)


def row_column(rows: pa.Array, arity: int, position: int, type_: DataType) -> RowColumn | None:
    """A column of rows that all have ``arity`` fields; None where one has another number, or the type is not `decodable`."""
    if not decodable(type_):
        return None
    _, offsets, data = rows.buffers()
    starts = np.frombuffer(offsets, dtype="<i4")[rows.offset : rows.offset + len(rows) + 1].astype(np.int64)
    raw = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.zeros(0, dtype=np.uint8)
    head = 4 + binary_row.header_size(arity)
    sizes = np.diff(starts)
    starts = starts[:-1]
    if len(rows) and (rows.null_count or int(sizes.min()) < head + _SLOT * arity):
        return None
    if not np.array_equal(_gathered(raw, starts, ">i4"), np.full(len(rows), arity)):
        return None
    bit = 8 + position
    nulls = (raw[starts + (4 + bit // 8)] >> (bit % 8)) & 1 == 1
    slots = starts + (head + _SLOT * position)
    if type_.root in _VARIABLE:
        return RowColumn(_texts(raw, starts + 4, slots, nulls), nulls)
    if isinstance(type_, TimestampType | LocalZonedTimestampType):
        return RowColumn(_micros(type_, raw, starts + 4, slots, nulls), nulls)
    numbers = _gathered(raw, slots, _FIXED[type_.root])
    return RowColumn(_widened(numbers != 0 if type_.root == "BOOLEAN" else numbers), nulls)


def _gathered(raw: Array, places: Array, dtype: str) -> Array:
    """The number that begins at each place."""
    width = np.dtype(dtype).itemsize
    if not len(places):
        return np.zeros(0, dtype=dtype)
    windows = np.lib.stride_tricks.sliding_window_view(raw, width)
    return np.ascontiguousarray(windows[places]).view(dtype).reshape(-1)


def _widened(numbers: Array) -> Array:
    return numbers.astype(np.float64 if numbers.dtype.kind == "f" else np.int64)


def _micros(type_: DataType, raw: Array, rows: Array, slots: Array, nulls: Array) -> Array:
    if binary_row.compact(type_):
        return _gathered(raw, slots, "<i8") * 1000
    nanos, offsets = _gathered(raw, slots, "<u4"), _gathered(raw, slots + 4, "<u4")
    places = np.where(nulls, slots, rows + offsets)
    micros: Array = _gathered(raw, places, "<i8") * 1000 + nanos // 1000
    return micros


def _texts(raw: Array, rows: Array, slots: Array, nulls: Array) -> pa.Array:
    """Texts of up to 7 bytes lie in the slot, which then ends with their length; of longer ones it has length and offset."""
    mark = raw[slots + 7] if len(slots) else np.zeros(0, dtype=np.uint8)
    inside = mark & 0x80 != 0
    sizes = np.where(inside, mark & 0x7F, _gathered(raw, slots, "<u4").astype(np.int64))
    places = np.where(inside, slots, rows + _gathered(raw, slots + 4, "<u4"))
    sizes[nulls] = 0
    ends = np.concatenate(([0], np.cumsum(sizes)))
    # Each byte's place: its text's, and how far it is behind that text's first.
    picked = np.repeat(places - ends[:-1], sizes) + np.arange(int(ends[-1]))
    return pa.Array.from_buffers(pa.large_binary(), len(rows), [None, pa.py_buffer(ends.astype("<i8")), pa.py_buffer(raw[picked])])
