"""Rows of a data file held against the statistics its manifest tells: what is left to see damage by where pages have no checksums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from model.schema.schema import Schema
from model.schema.types import AtomicType, DataType
from table.format.formats import format_of
from table.format.manifests.entries import DataFile
from table.format.rows.stats import ColumnStats, column_stats, stats_from_parquet, stats_of_batches

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_BOUNDED = frozenset(
    {"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "DATE", "TIME", "VARCHAR", "BINARY", "VARBINARY"}
)
"""Types of whose values every writer's bounds are bounds; ORC's writers note times in zones and units of their own, and pad CHAR."""
_REACHED = _BOUNDED - {"FLOAT", "DOUBLE", "VARCHAR", "BINARY", "VARBINARY"}
"""Of these some row has each bound: they are not shortened, and have no second zero."""

_PLAIN = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "VARCHAR"})
"""Types whose values a footer and a manifest spell alike."""
_LEAST_SHORTENED = 16
"""No writer shortens texts of fewer letters in a footer."""


def has_checksums(file: DataFile) -> bool:
    """Whether a file's pages have checksums of their own."""
    return format_of(file.file_name) == "parquet"


class ToldStats:
    """What a manifest tells of some columns of a file, and what its rows have shown so far."""

    def __init__(self, file: DataFile, schema: Schema, names: Iterable[str]) -> None:
        stats = column_stats(file.value_stats, file.value_stats_cols, schema)
        fields = [schema.field(name) for name in names if name in stats]
        self._types: dict[str, DataType] = {field.name: field.type for field in fields if isinstance(field.type, AtomicType)}
        self._told = {name: stats[name] for name in self._types}
        self._nulls: dict[str, int] = {}
        self._seen: dict[str, list[Any]] = {}

    @property
    def columns(self) -> Sequence[tuple[str, DataType | None]]:
        """The columns to be shown to it, and the types whose values it compares; of others it counts the NULLs."""
        return [(name, type_ if type_.root in _BOUNDED else None) for name, type_ in self._types.items()]

    def look(self, arrays: dict[str, pa.Array]) -> str | None:
        """What is wrong with some more rows, None for nothing."""
        compared = {name: self._types[name] for name in arrays if self._types[name].root in _BOUNDED}
        actual = stats_of_batches({name: (type_, [arrays[name]]) for name, type_ in compared.items()})
        for name, array in arrays.items():
            recorded = self._told[name]
            self._nulls[name] = self._nulls.get(name, 0) + array.null_count
            if recorded.null_count is not None and self._nulls[name] > recorded.null_count:
                return f"has more NULLs in column {name} than the {recorded.null_count:,} its manifest tells"
            if name in actual and (problem := self._outside(name, recorded, actual[name])):
                return problem
        return None

    def end(self) -> str | None:
        """What is wrong with all rows together, once each was looked at."""
        for name, nulls in self._nulls.items():
            recorded = self._told[name]
            if recorded.null_count is not None and nulls != recorded.null_count:
                return f"has {nulls:,} NULLs in column {name} where its manifest tells {recorded.null_count:,}"
            seen = self._seen.get(name)
            if seen and self._types[name].root in _REACHED and (min(seen), max(seen)) != (recorded.min, recorded.max):
                return f"has other smallest and largest values in column {name} than its manifest tells"
        return None

    def _outside(self, name: str, recorded: ColumnStats, actual: ColumnStats) -> str | None:
        bounds: list[Any] = [recorded.min, recorded.max, actual.min, actual.max]
        if any(bound is None or bound != bound for bound in bounds):
            return None
        if actual.min < recorded.min or actual.max > recorded.max:  # type: ignore[operator]
            return f"has values in column {name} that are outside of what its manifest tells"
        self._seen.setdefault(name, []).extend(bounds[2:])
        return None


def bounds_fault(metadata: pq.FileMetaData, file: DataFile, schema: Schema) -> str | None:
    """What a Parquet footer tells of its columns otherwise than the manifest: Spark leaves out row groups by it."""
    recorded = column_stats(file.value_stats, file.value_stats_cols, schema)
    fields = [schema.field(name) for name in recorded]
    for name, actual in stats_from_parquet(metadata, fields).items():
        wanted, root = recorded[name], schema.field(name).type.root
        if None not in (wanted.null_count, actual.null_count) and wanted.null_count != actual.null_count:
            return f"tells {actual.null_count:,} NULLs in column {name} where its manifest tells {wanted.null_count:,}"
        low, high = (actual.min, wanted.min), (actual.max, wanted.max)
        if root not in _BOUNDED or any(bound is None or bound != bound for bound in (*low, *high)):
            continue
        if not (_same(*low) and _same(*high)):
            return f"tells other smallest and largest values of column {name} than its manifest"
    return None


def holds_other_partition(metadata: pq.FileMetaData, file: DataFile, schema: Schema, partition: Sequence[object]) -> bool:
    """Whether a Parquet footer tells of values in partition columns that are not those of the file's partition."""
    told = stats_from_parquet(metadata, schema.partition_fields)
    for field, value in zip(schema.partition_fields, partition, strict=True):
        known = told.get(field.name)
        if known is None:
            continue
        if known.null_count is not None and known.null_count != (file.row_count if value is None else 0):
            return True
        if value is None or field.type.root not in _PLAIN or known.min is None or known.max is None:
            continue
        whole = not isinstance(value, str) or len(value) < _LEAST_SHORTENED
        if not all(bound == value or (not whole and _same(bound, value)) for bound in (known.min, known.max)):
            return True
    return False


def _same(actual: Any, recorded: Any) -> bool:
    """Whether two bounds may be one: those of texts and bytes may be shortened, and then the last part of an upper one grows."""
    if isinstance(recorded, str | bytes) and isinstance(actual, type(recorded)) and len(recorded) != len(actual):
        length = max(0, min(len(recorded), len(actual)) - 1)
        return bool(actual[:length] == recorded[:length])
    return bool(actual == recorded)
