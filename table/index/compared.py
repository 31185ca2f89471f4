"""A data file's indexes held against its rows: what an index leaves out, no query that asks it finds.

Asked are the same readers as in a query, for the types whose values a query asks an index for.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pyarrow as pa
from pyroaring import BitMap

from model.options.file_index import BITMAP, BLOOM, RANGE
from model.schema.schema import Schema
from model.schema.type_parts import unreadable_in_sql
from model.schema.types import DataType, Field
from table.index.bitmap import BitmapIndex
from table.index.bloom import holds_all
from table.index.container import UnreadableIndex, decode
from table.index.range_bitmap import RangeBitmapIndex
from table.index.rows_by_value import RowsByValue
from table.scan.evolution import in_form

_ASKED = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "TIMESTAMP", "DECIMAL", "VARCHAR", "VARBINARY"})
"""Types of which `table.index.values.literal` asks."""


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
            try:
                leaves_out = column.leaves_out()
            except (UnreadableIndex, struct.error):
                continue
            if leaves_out:
                return f"has a {leaves_out} index of column {column.field.name} that leaves out rows, or tells of other ones"
        return None


def _is_asked(type_: DataType) -> bool:
    return type_.root in _ASKED and unreadable_in_sql(type_) is None


class _Column:
    """One column of the file."""

    def __init__(self, field: Field, bodies: Mapping[str, bytes | None]) -> None:
        self.field = field
        self._bodies = {kind: body for kind, body in bodies.items() if body is not None}
        self._seen = RowsByValue(field.type)
        self._outside_bloom = False

    def look(self, values: pa.Array) -> None:
        if (body := self._bodies.get(BLOOM)) is not None:
            try:
                self._outside_bloom |= not holds_all(body, self.field.type, values)
            except (UnreadableIndex, struct.error):
                del self._bodies[BLOOM]
        if not self._bodies.keys().isdisjoint((BITMAP, RANGE)):
            self._seen.add(values)

    def leaves_out(self) -> str | None:
        """The kind of an index that is not what the rows are; raises `UnreadableIndex`."""
        if self._outside_bloom:
            return BLOOM
        if (body := self._bodies.get(BITMAP)) is not None and not self._is_of_rows(BitmapIndex.decode(body, self.field.type)):
            return BITMAP
        if (body := self._bodies.get(RANGE)) is not None:
            return None if RangeBitmapIndex.decode(body, self.field.type).is_of(self._seen) else RANGE
        return None

    def _is_of_rows(self, index: BitmapIndex) -> bool:
        seen = self._seen
        if not index.lie_apart():
            return False
        nulls = index.having([None]) & BitMap(range(seen.count))
        return index.rows >= seen.count and nulls == seen.nulls and all(rows <= index.having([key]) for key, rows in seen.rows.items())
