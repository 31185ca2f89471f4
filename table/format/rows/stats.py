"""Value statistics of data files: how they are shortened, stored and read back (`paimon-append.md` §4.6)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from model.errors import InvalidOption
from model.schema.schema import Schema
from model.schema.types import AtomicType, DataType, DecimalType, Field
from table.format.manifests.entries import EMPTY_ROW, SimpleStats, bounds_of
from table.format.parquet.nan import nan_shows
from table.format.rows import binary_row
from table.format.rows.moments import FarDate, PaimonTime

DEFAULT_MODE = "truncate(16)"
_TRUNCATE = re.compile(r"truncate\((\d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStats:
    """What is known of one column in one file; no minimum and maximum means unknown, no count likewise."""

    min: object = None
    max: object = None
    null_count: int | None = None


NOTHING = ColumnStats()


@dataclass(frozen=True, slots=True)
class StatsMode:
    """How much of a column's statistics is kept."""

    name: str
    length: int | None = None

    @classmethod
    def parse(cls, text: str) -> StatsMode:
        """Read ``none``, ``counts``, ``full`` or ``truncate(n)``; raises `InvalidOption`."""
        lowered = text.strip().lower()
        if lowered in ("none", "counts", "full"):
            return cls(lowered)
        if (match := _TRUNCATE.fullmatch(lowered)) and int(match[1]) > 0:
            return cls("truncate", int(match[1]))
        raise InvalidOption(f"Statistics mode '{text}': one of none, counts, full, truncate(16) is expected.")

    def keep(self, stats: ColumnStats) -> ColumnStats:
        """The statistics as this mode stores them."""
        if self.name == "none":
            return NOTHING
        if self.name == "counts" or stats.min != stats.min:
            return ColumnStats(null_count=stats.null_count)
        if self.length is None or not isinstance(stats.min, str | bytes) or not isinstance(stats.max, str | bytes):
            return stats
        high = shortened_max(stats.max, self.length)
        if high is None:
            return ColumnStats(null_count=stats.null_count)
        return ColumnStats(min=stats.min[: self.length], max=high, null_count=stats.null_count)


def shortened_max(value: str | bytes, length: int) -> str | bytes | None:
    """The shortest text of at most ``length`` code points (or bytes) that is not below the value; None where none exists."""
    if len(value) <= length:
        return value
    if isinstance(value, bytes):
        head = bytearray(value[:length])
        while head:
            if head[-1] < 0xFF:
                head[-1] += 1
                return bytes(head)
            head.pop()
        return None
    text = value[:length]
    while text:
        following = ord(text[-1]) + 1
        if following <= 0x10FFFF and not 0xD800 <= following <= 0xDFFF:
            return text[:-1] + chr(following)
        text = text[:-1]
    return None


class StatsModes:
    """The mode of each column of a schema, and how a file's statistics are stored under them."""

    def __init__(self, schema: Schema) -> None:
        options = schema.options
        default = StatsMode.parse(options.get("metadata.stats-mode", DEFAULT_MODE))
        first = int(options.get("metadata.stats-keep-first-n-columns", "-1"))
        self.dense = options.get("metadata.stats-dense-store", "true").lower() != "false"
        self.fields = schema.fields
        self.modes: list[StatsMode] = []
        for index, field in enumerate(schema.fields):
            own = options.get(f"fields.{field.name}.stats-mode")
            mode = StatsMode.parse(own) if own else default
            if own is None and 0 <= first <= index:
                mode = StatsMode("none")
            self.modes.append(mode)

    def collected(self) -> list[Field]:
        """The columns whose statistics are wanted at all."""
        return [f for f, mode in zip(self.fields, self.modes, strict=True) if mode.name != "none" and isinstance(f.type, AtomicType)]

    def store(self, stats: Mapping[str, ColumnStats]) -> tuple[SimpleStats, tuple[str, ...] | None]:
        """Statistics by column name as a manifest holds them, with the names they cover (None means all columns)."""
        columns = [(f, mode) for f, mode in zip(self.fields, self.modes, strict=True)]
        if self.dense:
            columns = [(f, mode) for f, mode in columns if mode.name != "none" and isinstance(f.type, AtomicType)]
        values = [mode.keep(stats.get(f.name, NOTHING)) for f, mode in columns]
        types = [f.type for f, _ in columns]
        stored = SimpleStats(_row(types, [v.min for v in values]), _row(types, [v.max for v in values]), [v.null_count for v in values])
        return stored, None if len(columns) == len(self.fields) else tuple(f.name for f, _ in columns)


def _row(types: Sequence[DataType], values: Sequence[object]) -> bytes:
    """Nested columns have no statistics; they hold a NULL of a type that takes no space."""
    return binary_row.with_arity(len(types), binary_row.encode([_placeholder(t) for t in types], values))


def _placeholder(type_: DataType) -> DataType:
    return type_ if isinstance(type_, AtomicType) else _NESTED


_NESTED = AtomicType()


def column_stats(stats: SimpleStats, cols: Sequence[str] | None, schema: Schema) -> dict[str, ColumnStats]:
    """A manifest's statistics by column name of the file's schema; columns without are left out."""
    names = schema.field_names if cols is None else tuple(cols)
    if not names or EMPTY_ROW in (stats.min_values, stats.max_values) or len(stats.null_counts) not in (0, len(names)):
        return {}
    fields = [schema.find(name) for name in names]
    if any(field is None for field in fields):
        return {}
    types = [_placeholder(field.type) for field in fields if field is not None]
    bounds = bounds_of(stats, types)
    if bounds is None:
        return {}
    low, high = bounds
    counts = stats.null_counts or [None] * len(names)
    return {n: bounded(a, b, c) for n, a, b, c in zip(names, low, high, counts, strict=True)}


def bounded(low: object, high: object, null_count: int | None) -> ColumnStats:
    """Bounds that Python has not count as unknown: answers are made of bounds, too."""
    if isinstance(low, FarDate | PaimonTime) or isinstance(high, FarDate | PaimonTime):
        return ColumnStats(null_count=null_count)
    return ColumnStats(min=low, max=high, null_count=null_count)


# Statistics of files being described


def stats_of_batches(columns: Mapping[str, tuple[DataType, Sequence[pa.Array]]]) -> dict[str, ColumnStats]:
    """Statistics computed from the data itself, for formats whose footers cannot be read here."""
    return {name: _of_arrays(type_, arrays) for name, (type_, arrays) in columns.items() if isinstance(type_, AtomicType)}


def _of_arrays(type_: DataType, arrays: Sequence[pa.Array]) -> ColumnStats:
    lows: list[Any] = []
    highs: list[Any] = []
    nulls = 0
    for array in arrays:
        nulls += array.null_count
        if pa.types.is_floating(array.type) and pc.any(pc.is_nan(array)).as_py():
            return ColumnStats(min=_NAN, max=_NAN, null_count=sum(a.null_count for a in arrays))
        try:
            extremes = _extremes(array)
        except (OverflowError, ValueError):
            # A time beyond the year 9999 has no Python value.
            return ColumnStats(min=_NAN, max=_NAN, null_count=sum(a.null_count for a in arrays))
        if extremes is not None:
            lows.append(extremes[0])
            highs.append(extremes[1])
    if not lows:
        return ColumnStats(null_count=nulls)
    return _signed_zero(ColumnStats(min=_internal(type_, min(lows)), max=_internal(type_, max(highs)), null_count=nulls))


def _extremes(array: pa.Array) -> tuple[Any, Any] | None:
    if len(array) == array.null_count:
        return None
    if pa.types.is_boolean(array.type):
        both = array.drop_null().unique().to_pylist()
        return min(both), max(both)
    if pa.types.is_time(array.type):
        array = array.cast(pa.int32())
    extremes = pc.min_max(array)
    return extremes["min"].as_py(), extremes["max"].as_py()


def _internal(type_: DataType, value: Any) -> object:
    return bytes(value) if isinstance(value, memoryview | bytearray) else value


def _signed_zero(stats: ColumnStats) -> ColumnStats:
    """−0.0 and 0.0 are equal and ordered differently by readers; bounds that are zero include both."""
    low = -0.0 if isinstance(stats.min, float) and stats.min == 0 else stats.min
    high = 0.0 if isinstance(stats.max, float) and stats.max == 0 else stats.max
    return ColumnStats(min=low, max=high, null_count=stats.null_count)


def merge_stats(parts: Sequence[Mapping[str, ColumnStats]]) -> dict[str, ColumnStats]:
    """The statistics of several pieces of one file together."""
    merged: dict[str, ColumnStats] = {}
    for part in parts:
        for name, stats in part.items():
            merged[name] = _union(merged[name], stats) if name in merged else stats
    return merged


def _union(first: ColumnStats, other: ColumnStats) -> ColumnStats:
    """Pieces of NULLs only have no bounds and say so by having none; a piece with unknown bounds is marked by NaN."""
    lows: list[Any] = [v for v in (first.min, other.min) if v is not None]
    highs: list[Any] = [v for v in (first.max, other.max) if v is not None]
    nulls = None if first.null_count is None or other.null_count is None else first.null_count + other.null_count
    if any(value != value for value in lows + highs):
        return ColumnStats(min=_NAN, max=_NAN, null_count=nulls)
    return ColumnStats(min=min(lows, default=None), max=max(highs, default=None), null_count=nulls)


_NAN = float("nan")


def stats_from_parquet(metadata: pq.FileMetaData, fields: Sequence[Field]) -> dict[str, ColumnStats]:
    """Statistics of a Parquet file from its footer, for given top-level columns; what a footer lacks or leaves NaN out of is unknown."""
    positions: dict[str, int] = {}
    for i in range(len(metadata.schema)):
        # A ROW's part and a column whose name has a dot may have the same path; which is which cannot be told.
        path = metadata.schema.column(i).path
        positions[path] = -1 if path in positions else i
    stats = {}
    for field in fields:
        position = positions.get(field.name, -1)
        if position >= 0 and isinstance(field.type, AtomicType):
            of_groups = _of_row_groups(metadata, position, field.type)
            of_numbers_alone = field.type.root in _FLOATS and not nan_shows(metadata)
            stats[field.name] = ColumnStats(null_count=of_groups.null_count) if of_numbers_alone else of_groups
    return stats


_FLOATS = frozenset({"FLOAT", "DOUBLE"})
_DAY_MILLIS = 86_400_000


def _of_row_groups(metadata: pq.FileMetaData, position: int, type_: DataType) -> ColumnStats:
    decode = _DECODERS.get(type_.root, _as_is)
    lows: list[Any] = []
    highs: list[Any] = []
    nulls: int | None = 0
    bounded = True
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(position)
        stats = chunk.statistics
        if stats is None or not stats.has_null_count:
            return NOTHING
        nulls = nulls + stats.null_count if nulls is not None else None
        if stats.has_min_max:
            low, high = _bounds(stats)
            if type_.root == "TIME" and not _are_times(stats):  # Python wraps one that is none
                bounded = False
                continue
            lows.append(decode(type_, low))
            highs.append(decode(type_, high))
        elif stats.null_count < chunk.num_values:
            bounded = False
    if not bounded or not lows or any(value is None or value != value for value in lows + highs):
        return ColumnStats(null_count=nulls)
    return _signed_zero(ColumnStats(min=min(lows), max=max(highs), null_count=nulls))


def _are_times(stats: pq.Statistics) -> bool:
    """Whether a footer's bounds of a TIME are of a day, in the milliseconds or microseconds they lie in."""
    day = _DAY_MILLIS * (1_000 if stats.physical_type == "INT64" else 1)
    return bool(stats.min_raw >= 0 and stats.max_raw < day)


def _bounds(stats: pq.Statistics) -> tuple[Any, Any]:
    """A footer's bounds; a time beyond the year 9999 has no Python value and counts as unknown."""
    try:
        return stats.min, stats.max
    except (OverflowError, ValueError):
        return None, None


def _as_is(_: DataType, value: Any) -> object:
    return value


def _decode_decimal(type_: DataType, value: Any) -> object:
    assert isinstance(type_, DecimalType)
    if value is None:
        return None
    if isinstance(value, Decimal):
        return _of_digits(type_, binary_row.WIDE.quantize(value, Decimal(1).scaleb(-type_.scale)))
    if isinstance(value, bytes):
        value = int.from_bytes(value, "big", signed=True)
    value = binary_row.WIDE.scaleb(Decimal(value), -type_.scale)
    return _of_digits(type_, value)


def _of_digits(type_: DecimalType, value: Decimal) -> Decimal | None:
    """The value where it has no more digits than its type's, which is no bound then."""
    return value if abs(value) < Decimal(10) ** (type_.precision - type_.scale) else None


def _decode_time(_: DataType, value: Any) -> object:
    if value is None or isinstance(value, int):
        return value
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def _decode_timestamp(type_: DataType, value: Any) -> object:
    """Footers of either writer: zoned or not by the annotation, while the schema says what the column is."""
    if not isinstance(value, dt.datetime):
        return None
    zoned = type_.sql().endswith("ZONE")
    naive = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    return naive.replace(tzinfo=dt.UTC) if zoned else naive


def _decode_text(_: DataType, value: Any) -> object:
    return value.decode() if isinstance(value, bytes) else value


_DECODERS: dict[str, Callable[[DataType, Any], object]] = {
    "DECIMAL": _decode_decimal,
    "TIME": _decode_time,
    "TIMESTAMP": _decode_timestamp,
    "CHAR": _decode_text,
    "VARCHAR": _decode_text,
}
