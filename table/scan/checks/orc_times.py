"""Times in ORC that other writers know and Arrow's reader does not give: it counts nanoseconds from 1970 in 64 bits."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from model.errors import UnsupportedType
from model.schema.schema import Schema
from model.schema.type_parts import walk
from model.schema.types import Field, LocalZonedTimestampType, TimestampType
from model.text.file_name import file_name
from table.format.manifests.entries import DataFile
from table.format.rows.stats import column_stats

_ARROWS_WORDS = "out of range for nanosecond resolution"
_FIRST, _LAST = dt.datetime(1677, 9, 22), dt.datetime(2262, 4, 11)
"""Days on which all times are read."""


def columns_beyond(problem: Exception, file: DataFile, schema: Schema, names: Iterable[str] | None = None) -> list[str]:
    """The columns whose times Arrow may have met there, of those read; none for any other failure.

    Where the manifest tells of nearer times only, they are the work of a changed bit.
    """
    if _ARROWS_WORDS not in str(problem):
        return []
    told = column_stats(file.value_stats, file.value_stats_cols, schema)
    fields = schema.fields if names is None else [schema.field(name) for name in names]
    near = {name for name, bounds in told.items() if _near(bounds.min, bounds.max)}
    return [field.name for field in fields if _has_times(field) and field.name not in near]


def not_read_here(path: str, columns: Iterable[str]) -> UnsupportedType:
    """The error of a statement that needs them."""
    return UnsupportedType(
        f"The file {file_name(path)} holds times before September 1677 or after April 2262 in column {' or '.join(columns)}, which are not "
        "read from ORC here. Leave the column out, or let Spark read it: SELECT … ORDER BY …, also behind INSERT INTO a table in Parquet."
    )


def _has_times(field: Field) -> bool:
    return any(isinstance(part, TimestampType | LocalZonedTimestampType) for part in walk(field.type))


def _near(low: object, high: object) -> bool:
    if not isinstance(low, dt.datetime) or not isinstance(high, dt.datetime):
        return False
    return low.replace(tzinfo=None) >= _FIRST and high.replace(tzinfo=None) <= _LAST
