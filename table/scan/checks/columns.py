"""The columns of a data file held against the schema it was written with and what its manifest tells of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import pyarrow as pa

from model.errors import LakeError
from model.schema.schema import Schema
from model.schema.types import DataType, Field
from table.format.manifests.entries import DataFile
from table.format.rows.arrow import arrow_type
from table.format.rows.stats import column_stats


def column_fault(file_schema: pa.Schema, file: DataFile, schema: Schema) -> str | None:
    """What is wrong with the columns of a file that was written with a schema."""
    wanted = [field for field in schema.fields if field.name not in schema.partition_keys]
    there = dict(zip(file_schema.names, file_schema.types, strict=True))
    if problem := lacking_fault(file_schema.names, file, schema, wanted):
        return problem
    for field in wanted:
        if field.name in there and not _may_be(there[field.name], field.type):
            return f"has {there[field.name]} in column {field.name}, which is {field.type.sql()}"
    return None


def lacking_fault(there: Sequence[str], file: DataFile, schema: Schema, wanted: Collection[Field]) -> str | None:
    """What is wrong with a file whose columns are those that are ``there``, where ``wanted`` ones of its schema are not.

    A file that was taken over may lack columns, and then they are NULL: one is missed where its manifest tells values of it, or where
    another stands there that the schema does not have, or has once, as after a change in the name.
    """
    present = frozenset(there)
    lacking = [field for field in wanted if field.name not in present and (file.write_cols is None or field.name in file.write_cols)]
    if not lacking:
        return None
    stats = column_stats(file.value_stats, file.value_stats_cols, schema)
    known, counts = frozenset(schema.field_names), Counter(there)
    unknown = [name for name in there if (name not in known and not name.startswith("_")) or counts[name] > 1]
    for field in lacking:
        nulls = stats[field.name].null_count if field.name in stats else None
        if nulls is not None and nulls < file.row_count:
            return f"lacks column {field.name}, of which its manifest tells {file.row_count - nulls:,} values"
        if unknown and file.external_path is None:
            return f"has a column {unknown[0]!r} and none called {field.name}"
    return None


def _may_be(file_type: pa.DataType, type_: DataType) -> bool:
    """Whether a file's type is one that some writer stores a column's values as."""
    try:
        wanted = arrow_type(type_)
    except LakeError:
        return True
    if pa.types.is_decimal(file_type) and pa.types.is_decimal(wanted):
        return bool(file_type.scale == wanted.scale)
    if pa.types.is_unsigned_integer(file_type):
        return False
    kinds = [name for name, (stored, meant) in _KINDS.items() if any(getattr(pa.types, test)(wanted) for test in meant)]
    return not kinds or any(getattr(pa.types, test)(file_type) for name in kinds for test in _KINDS[name][0])


_TEXT = ("is_string", "is_large_string", "is_binary", "is_large_binary", "is_fixed_size_binary", "is_dictionary")
_KINDS = {
    "boolean": (("is_boolean",), ("is_boolean",)),
    "integer": (("is_integer",), ("is_integer",)),
    "floating": (("is_floating",), ("is_floating",)),
    "decimal": (("is_decimal", "is_integer"), ("is_decimal",)),
    "date": (("is_date", "is_int32"), ("is_date",)),
    "time": (("is_time", "is_integer"), ("is_time",)),
    "timestamp": (("is_timestamp", "is_int64"), ("is_timestamp",)),
    "text": (_TEXT, ("is_string", "is_binary", "is_fixed_size_binary")),
    "nested": (("is_nested",), ("is_nested",)),
}
"""For each kind of column: what it may lie in a file as, and what it is here."""
