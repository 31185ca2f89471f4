"""What of a query speaks of partitions, buckets and statistics, entry by entry (`paimon-append.md` §4.7, 8.4)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product

from model.predicate import And, Compare, In, IsNull, Op, Predicate, all_of, columns_of
from model.schema.casting import is_cast
from model.schema.replaced import routes_otherwise
from model.schema.schema import Schema
from table.format.deletions import Deletions, key_of
from table.format.manifests.entries import DataFile, ManifestEntry
from table.format.rows import binary_row
from table.format.rows.stats import ColumnStats, bounded, column_stats
from table.format.store import TableFiles
from table.scan.planning.plan import PlannedFile
from table.scan.skipping.prune import may_match
from table.write.bucket import bucket_of

_MOST_KEYS = 1000
"""More combinations of bucket keys than this are not worth hashing."""


class PartitionPruning:
    """Decides per distinct partition, once."""

    def __init__(self, schema: Schema, predicate: Predicate | None) -> None:
        self._names = schema.partition_keys
        self._types = [field.type for field in schema.partition_fields]
        self.predicate = only_columns(predicate, frozenset(self._names).__contains__)
        self._values: dict[bytes, tuple[object, ...]] = {}
        self._kept: dict[bytes, bool] = {}

    def values(self, partition: bytes) -> tuple[object, ...]:
        values = self._values.get(partition)
        if values is None:
            values = self._values[partition] = binary_row.decode(self._types, partition)
        return values

    def keep(self, partition: bytes) -> bool:
        if self.predicate is None:
            return True
        matches = self._kept.get(partition)
        if matches is None:
            matches = self._kept[partition] = self.may_hold(self.values(partition))
        return matches

    def may_hold(self, values: Sequence[object]) -> bool:
        """Whether rows of a partition, by its values, may match."""
        if self.predicate is None:
            return True
        return may_match(self.predicate, {name: exactly(value) for name, value in zip(self._names, values, strict=True)}, 1)


def exactly(value: object) -> ColumnStats:
    """The statistics of a column that holds one value everywhere."""
    return ColumnStats(null_count=1) if value is None else bounded(value, value, 0)


def only_columns(predicate: Predicate | None, known: Callable[[str], bool]) -> Predicate | None:
    """The conjuncts that speak of known columns only."""
    if isinstance(predicate, And):
        return all_of(*(only_columns(part, known) for part in predicate.parts))
    return predicate if predicate is not None and all(known(column) for column in columns_of(predicate)) else None


def wanted_buckets(schema: Schema, predicate: Predicate | None) -> frozenset[int] | None:
    """The buckets that may hold matching rows when every bucket key is given by value; None means all."""
    if schema.bucket <= 1 or predicate is None:
        return None
    parts = predicate.parts if isinstance(predicate, And) else (predicate,)
    by_column: dict[str, tuple[object, ...]] = {}
    for part in parts:
        if isinstance(part, Compare) and part.op is Op.EQ:
            by_column[part.column] = (part.value,)
        elif isinstance(part, In):
            by_column.setdefault(part.column, part.values)
    wanted = [by_column.get(name) for name in schema.bucket_keys]
    choices = [values for values in wanted if values is not None]
    if len(choices) != len(wanted):
        return None
    if any(_unhashable(f.type.root, v) for f, values in zip(schema.bucket_fields, choices, strict=True) for v in values):
        return None
    count = 1
    for values in choices:
        count *= len(values)
    return None if count > _MOST_KEYS else frozenset(bucket_of(schema, row) for row in product(*choices))


class BucketPruning:
    """Leaves out files of buckets that hold no matching row, where they were routed as the table's rows are now."""

    def __init__(self, files: TableFiles, schema: Schema, predicate: Predicate | None) -> None:
        self.buckets = wanted_buckets(schema, predicate)
        self._files = files
        self._schema = schema
        self._alike = {schema.id: True}

    def keep(self, entry: ManifestEntry) -> bool:
        """Whether a file may hold matching rows."""
        if self.buckets is None or entry.bucket in self.buckets or entry.total_buckets != self._schema.bucket:
            return True
        return not self.routed(entry.file.schema_id)

    def routed(self, schema_id: int) -> bool:
        """Whether rows of a version of the schema got their buckets as the table's get theirs now; not after a replacement, perhaps."""
        alike = self._alike.get(schema_id)
        if alike is None:
            alike = self._alike[schema_id] = not routes_otherwise(self._files.read_schema(schema_id), self._schema)
        return alike


def _unhashable(root: str, value: object) -> bool:
    """Floats: 0.0 = −0.0 and NaN = NaN for a query while their hashes differ. Literals of another type are not hashed either."""
    if root in ("FLOAT", "DOUBLE"):
        return True
    if root in ("TINYINT", "SMALLINT", "INT", "BIGINT"):
        bits = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}[root]
        return not isinstance(value, int) or isinstance(value, bool) or not -(1 << bits) <= value < 1 << bits
    if root == "DATE":
        return type(value) is not dt.date
    return root not in ("CHAR", "VARCHAR") or not isinstance(value, str)


class StatsPruning:
    """Compares the query with a file's statistics, which are under the names and types of the file's own schema."""

    def __init__(self, files: TableFiles, schema: Schema, predicate: Predicate | None) -> None:
        self._files = files
        self._schema = schema
        self.predicate = only_columns(predicate, lambda name: schema.find(name) is not None)
        self._names: dict[int, tuple[Schema, Mapping[str, str | None]]] = {}

    def keep(self, entry: ManifestEntry) -> bool:
        if self.predicate is None:
            return True
        return may_match(self.predicate, self.stats(entry.file), entry.file.row_count)

    def stats(self, file: DataFile) -> dict[str, ColumnStats]:
        """The statistics by the table's present column names."""
        schema, names = self.mapping(file.schema_id)
        stored = column_stats(file.value_stats, file.value_stats_cols, schema)
        stats_by_name = {}
        for name, old in names.items():
            if old is None:
                stats_by_name[name] = ColumnStats(null_count=file.row_count)
            elif old in stored:
                stats_by_name[name] = stored[old]
        return stats_by_name

    def mapping(self, schema_id: int) -> tuple[Schema, Mapping[str, str | None]]:
        """For each column the query asks about: its name in the file's schema, None where the file has no such column.

        A column whose values are cast is left out: the old type's bounds say nothing of the new one's.
        """
        mapping = self._names.get(schema_id)
        if mapping is None:
            schema = self._schema if schema_id == self._schema.id else self._files.read_schema(schema_id)
            by_id = {f.id: f for f in schema.fields}
            names: dict[str, str | None] = {}
            for name in columns_of(self.predicate):
                now = self._schema.field(name)
                then = by_id.get(now.id)
                if then is None or not is_cast(then.type, now.type):
                    names[name] = None if then is None else then.name
            mapping = self._names[schema_id] = (schema, names)
        return mapping


def file_stats(files: TableFiles, schema: Schema, columns: Iterable[str]) -> Callable[[DataFile], dict[str, ColumnStats]]:
    """A function giving a file's statistics under the table's present names, for exact aggregates."""
    return StatsPruning(files, schema, all_of(*(IsNull(column) for column in columns))).stats


def planned_file(
    files: TableFiles, schema: Schema, entry: ManifestEntry, partitions: PartitionPruning, deletions: Deletions
) -> PlannedFile:
    """The entry's file with where it lies, and which of its rows are deleted."""
    values = partitions.values(entry.partition)
    external = entry.file.external_path
    path = files.reach.external(external) if external else files.data_file(schema, values, entry.bucket, entry.file.file_name)
    vector = deletions.get(key_of(entry)) if deletions else None
    return PlannedFile(path=path, partition=values, bucket=entry.bucket, file=entry.file, vector=vector)
