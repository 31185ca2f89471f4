"""A data file's indexes held against its rows: what an index leaves out, no query that asks it finds.

Asked are the same readers as in a query, for the types whose values a query asks an index for. Rows are compared batch by batch, so that
no more is held than the index. One of more than 64 MB is not compared, nor a bitmap of more than 100,000 values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from model.options.file_index import BITMAP, BLOOM, RANGE
from model.schema.schema import Schema
from model.schema.type_parts import unreadable_in_sql
from model.schema.types import DataType, Field
from table.index.bitmap import BitmapIndex
from table.index.bloom import holds_all
from table.index.container import UnreadableIndex, decode
from table.index.range_bitmap import RangeBitmapIndex
from table.index.rows_by_value import rows_by_value
from table.index.values import ascending
from table.scan.evolution import in_form

_ASKED = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "TIMESTAMP", "DECIMAL", "VARCHAR", "VARBINARY"})
"""Types of which `table.index.values.literal` asks."""
_MOST_VALUES = 100_000
"""Values of a bitmap index that is compared; each takes 300 bytes, in as many files as are looked at side by side."""
_MOST_BYTES = 64 << 20
"""Bytes of an index that is compared, which are held as long as its file is looked at."""


class ComparedIndexes:
    """The indexes of one file, and what its rows have shown so far."""

    def __init__(self, container: bytes | None, schema: Schema | None) -> None:
        """Of no container, or one that cannot be read, nothing is compared: the file is read as if it had none."""
        try:
            bodies = {} if container is None else decode(container)
        except UnreadableIndex:
            bodies = {}
        fields = [] if schema is None else [field for field in schema.fields if field.name in bodies and _is_asked(field.type)]
        self._columns = [_Column(field, bodies[field.name]) for field in fields]

    def look(self, rows: pa.RecordBatch) -> None:
        """Note the rows that follow, as they lie in the file; a column whose values are of another type is compared no more."""
        for column in list(self._columns):
            if (at := rows.schema.get_field_index(column.field.name)) >= 0:
                try:
                    values = in_form(rows.column(at), column.field.type)
                except pa.ArrowException:  # whoever looks at the columns tells it, where it is a fault of the file
                    self._columns.remove(column)
                else:
                    column.look(values)

    def fault(self) -> str | None:
        """What is wrong with an index, once all rows were looked at."""
        for column in self._columns:
            if column.leaves_out is not None:
                return f"has a {column.leaves_out} index of column {column.field.name} that leaves out rows, or tells of other ones"
        return None


def _is_asked(type_: DataType) -> bool:
    return type_.root in _ASKED and unreadable_in_sql(type_) is None


class _Index(Protocol):
    """One index of a column."""

    def tells(self, values: pa.Array, begin: int) -> bool:
        """Whether it tells the rows from ``begin`` on as they are; raises `UnreadableIndex`."""


class _Column:
    """One column of the file."""

    def __init__(self, field: Field, bodies: Mapping[str, bytes | None]) -> None:
        self.field = field
        self.leaves_out: str | None = None
        """The kind of an index that is not what the rows are."""
        self._bodies = {kind: body for kind, body in bodies.items() if kind in _KINDS and body is not None and len(body) <= _MOST_BYTES}
        self._indexes: dict[str, _Index] = {}
        self._rows = 0

    def look(self, values: pa.Array) -> None:
        for kind in (*self._bodies, *self._indexes):
            try:
                if kind in self._bodies:
                    self._indexes[kind] = _KINDS[kind](self._bodies.pop(kind), self.field.type)
                agrees = self._indexes[kind].tells(values, self._rows)
            except (UnreadableIndex, struct.error):
                self._indexes.pop(kind, None)
                continue
            if not agrees:
                self.leaves_out = kind
                self._bodies, self._indexes = {}, {}
                break
        self._rows += len(values)


class _Bloom:
    def __init__(self, body: bytes, type_: DataType) -> None:
        self._body, self._type = body, type_

    def tells(self, values: pa.Array, _: int) -> bool:
        return holds_all(self._body, self._type, values)


class _Bitmaps:
    def __init__(self, body: bytes, type_: DataType) -> None:
        self._type = type_
        self._index = BitmapIndex.decode(body, type_, most_values=_MOST_VALUES)
        self._apart = self._index.lie_apart()
        self._nulls = self._index.having([None])

    def tells(self, values: pa.Array, begin: int) -> bool:
        end = begin + len(values)
        if not self._apart or end > self._index.rows or pc.count_distinct(values).as_py() > len(self._index.places):
            return False
        for key, numbers in rows_by_value(self._type, values, begin):
            rows = BitMap(numbers)
            if not (rows == self._nulls & BitMap(range(begin, end)) if key is None else rows <= self._index.having([key])):
                return False
        return True


class _RangeBitmaps:
    def __init__(self, body: bytes, type_: DataType) -> None:
        index = RangeBitmapIndex.decode(body, type_)
        self._type, self._rows = type_, index.rows
        self._present, self._slices = index.slices()
        self._ordered = index.ordered()

    def tells(self, values: pa.Array, begin: int) -> bool:
        end, ordered = begin + len(values), self._ordered
        numbers = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False)).astype(np.uint32) + np.uint32(begin)
        rows = BitMap(numbers)
        if ordered is None or end > self._rows or rows != self._present & BitMap(range(begin, end)):
            return False
        if not rows:
            return True
        coded = values.drop_null().dictionary_encode()
        places = _places_in(ordered, ascending(self._type, coded.dictionary))
        if places is None or (len(ordered) - 1) >> len(self._slices):
            return False
        codes = places[coded.indices.to_numpy()]
        return all(BitMap(numbers[codes >> bit & 1 == 1]) == having & rows for bit, having in enumerate(self._slices))


_KINDS: Mapping[str, Callable[[bytes, DataType], _Index]] = {BLOOM: _Bloom, BITMAP: _Bitmaps, RANGE: _RangeBitmaps}


def _places_in(ordered: pa.Array, wanted: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """Where each of some values lies among ascending ones; None where one does not."""
    last = len(ordered) - 1
    low, high = np.zeros(len(wanted), np.int64), np.full(len(wanted), len(ordered), np.int64)
    if last < 0:
        return None
    for _ in range(len(ordered).bit_length()):
        middle = (low + high) // 2
        is_below = pc.less(ordered.take(pa.array(np.minimum(middle, last))), wanted).to_numpy(zero_copy_only=False)
        low, high = np.where((low < high) & is_below, middle + 1, low), np.where((low < high) & ~is_below, middle, high)
    at = np.minimum(low, last)
    return at if pc.all(pc.equal(ordered.take(pa.array(at)), wanted)).as_py() else None
