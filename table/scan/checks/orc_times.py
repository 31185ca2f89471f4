"""Times in ORC that only one of two readers gives.

Arrow's counts nanoseconds from 1970 in 64 bits, and Spark's fails at what Arrow writes for a fraction of a second before 1970.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator

import pyarrow as pa

from model.errors import UnsupportedType
from model.schema.schema import Schema
from model.schema.type_parts import walk
from model.schema.types import Field, LocalZonedTimestampType, TimestampType
from model.text.file_name import file_name
from table.format.manifests.entries import DataFile
from table.format.orc import has_fractions_before_1970
from table.format.rows.stats import ColumnStats, column_stats

_ARROWS_WORDS = "out of range for nanosecond resolution"
_FIRST, _LAST = dt.datetime(1677, 9, 22), dt.datetime(2262, 4, 11)
"""Days on which all times are read."""
_SECOND_DAY = dt.datetime(1970, 1, 2)
"""Some writers note bounds in a zone of their own."""


def columns_beyond(problem: Exception, file: DataFile, schema: Schema, names: Iterable[str] | None = None) -> list[str]:
    """The columns whose times Arrow may have met there, of those read; none for any other failure.

    Where the manifest tells of nearer times only, they are the work of a changed bit.
    """
    if _ARROWS_WORDS not in str(problem):
        return []
    stats = column_stats(file.value_stats, file.value_stats_cols, schema)
    fields = schema.fields if names is None else [schema.field(name) for name in names]
    near = {name for name, bounds in stats.items() if _near(bounds.min, bounds.max)}
    return [field.name for field in fields if _has_times(field) and field.name not in near]


def not_read_here(path: str, columns: Iterable[str]) -> UnsupportedType:
    """The error of a statement that needs them."""
    return UnsupportedType(
        f"The file {file_name(path)} holds times before September 1677 or after April 2262 in column {' or '.join(columns)}, which are not "
        "read from ORC here. Leave the column out, or let Spark read it: SELECT … ORDER BY …, also behind INSERT INTO a table in Parquet."
    )


def columns_before_1970(file: DataFile, schema: Schema) -> list[str]:
    """The columns that may hold times at which Spark's reader fails, by what the manifest tells of the file.

    Not those whose first is so early that Arrow, which makes such times, could not have counted to it.
    """
    stats = column_stats(file.value_stats, file.value_stats_cols, schema)
    written = schema.fields if file.write_cols is None else [field for field in schema.fields if field.name in file.write_cols]

    def is_settled(bounds: ColumnStats) -> bool:
        first = bounds.min.replace(tzinfo=None) if isinstance(bounds.min, dt.datetime) else None
        return bounds.null_count == file.row_count or (first is not None and not _FIRST <= first < _SECOND_DAY)

    settled = {name for name, bounds in stats.items() if is_settled(bounds)}
    return [field.name for field in written if _has_times(field) and field.name not in settled]


def not_for_spark(batch: pa.RecordBatch) -> bool:
    """Whether an ORC file has times at which Spark's reader fails, and Arrow's does not."""
    return any(has_fractions_before_1970(times) for column in batch.columns for times in _times_in(column))


def _times_in(array: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_timestamp(array.type):
        yield array
    elif pa.types.is_map(array.type):
        yield from _times_in(array.keys)
        yield from _times_in(array.items)
    elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        yield from _times_in(array.flatten())
    elif pa.types.is_struct(array.type):
        for part in array.flatten():
            yield from _times_in(part)


def _has_times(field: Field) -> bool:
    return any(isinstance(part, TimestampType | LocalZonedTimestampType) for part in walk(field.type))


def _near(low: object, high: object) -> bool:
    if not isinstance(low, dt.datetime) or not isinstance(high, dt.datetime):
        return False
    return low.replace(tzinfo=None) >= _FIRST and high.replace(tzinfo=None) <= _LAST
