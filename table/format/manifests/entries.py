"""Manifest entries, data files and manifest lists as records (`paimon-append.md` §4)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from model.schema.types import DataType
from table.format.rows import binary_row

EMPTY_ROW = bytes(12)
"""A row of arity 0 with its prefix: what unpartitioned tables and key statistics carry."""


class EntryKind(IntEnum):
    """Whether an entry adds or removes its file."""

    ADD = 0
    DELETE = 1


class FileSource(IntEnum):
    """Who wrote a file: a user's write or a rewrite."""

    APPEND = 0
    COMPACT = 1


@dataclass(frozen=True, slots=True)
class SimpleStats:
    """Minimum row, maximum row (both with arity prefix) and NULL counts over some columns."""

    min_values: bytes = EMPTY_ROW
    max_values: bytes = EMPTY_ROW
    null_counts: Sequence[int | None] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One data file as a manifest describes it."""

    file_name: str
    file_size: int
    row_count: int
    value_stats: SimpleStats
    value_stats_cols: Sequence[str] | None
    """Columns the statistics cover, in order; None means every column of the file's schema, () means none."""
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    creation_time_millis: int
    """Local wall clock written as if it were UTC, as Paimon does."""
    file_source: FileSource | None = FileSource.APPEND
    level: int = 0
    extra_files: Sequence[str] = ()
    delete_row_count: int | None = 0
    embedded_file_index: bytes | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: Sequence[str] | None = None
    write_cols_sequences: Sequence[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVector:
    """Where it is written which rows of a data file are deleted."""

    path: str
    offset: int
    length: int
    cardinality: int | None
    """How many they are; None where the writer did not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """One line of a manifest: a file added to or removed from a partition and bucket."""

    kind: EntryKind
    partition: bytes
    """The partition's row bytes with arity prefix; `EMPTY_ROW` when unpartitioned."""
    bucket: int
    total_buckets: int
    file: DataFile
    vector: DeletionVector | None = field(default=None, compare=False)
    """Which of its rows are deleted, where somebody looked that up; a manifest does not tell."""

    def key(self) -> tuple[object, ...]:
        """What makes two entries speak of the same file."""
        f = self.file
        return (self.partition, self.bucket, f.level, f.file_name, tuple(f.extra_files), f.embedded_file_index, f.external_path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """One line of a manifest list: a manifest and what may be in it."""

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A data file that is written and not yet committed.

    Its sequence numbers count from 0 inside its own (partition, bucket) of this write, in write order;
    the commit shifts them behind what the bucket already holds.
    """

    partition: bytes
    bucket: int
    file: DataFile


def bounds_of(stats: SimpleStats, types: Sequence[DataType]) -> tuple[tuple[object, ...], tuple[object, ...]] | None:
    """Minimum and maximum of some columns; None where the bytes are no rows of these types, and so rule nothing out."""
    try:
        return binary_row.decode(types, stats.min_values), binary_row.decode(types, stats.max_values)
    except ValueError:
        return None


def within(value: Any, low: Any, high: Any, *, unbounded: bool) -> bool:
    """Whether bounds allow a value; ``unbounded`` is the answer where there are none, as in a column that holds NULLs only.

    NULLs lie outside all bounds. NaN compares with nothing: it is never ruled out, and a bound that is NaN, as Java's and pypaimon's
    may be beside numbers, rules nothing out.
    """
    if value is None:
        return True
    if low is None and high is None:
        return unbounded
    return low is None or high is None or not (value < low or value > high)


def partition_stats(partitions: Sequence[bytes], types: Sequence[DataType]) -> SimpleStats:
    """Minimum, maximum and NULL counts over the partition columns of some entries, never shortened."""
    if not types:
        return SimpleStats()
    rows = [binary_row.decode(types, partition) for partition in partitions]
    lows: list[object] = []
    highs: list[object] = []
    nulls: list[int] = []
    for column in zip(*rows, strict=True):
        values: list[Any] = [value for value in column if value is not None]
        lows.append(min(values, default=None, key=_in_java_order))
        highs.append(max(values, default=None, key=_in_java_order))
        nulls.append(len(column) - len(values))
    return SimpleStats(binary_row.encode_prefixed(types, lows), binary_row.encode_prefixed(types, highs), nulls)


def _in_java_order(value: Any) -> Any:
    """What sorts values as Java does, by whose readers the bounds are used: NaN behind all numbers, -0.0 before 0.0."""
    return (math.isnan(value), value, math.copysign(1.0, value)) if isinstance(value, float) else value


def manifest_file(name: str, size: int, entries: Sequence[ManifestEntry], partition_types: Sequence[DataType]) -> ManifestFile:
    """What a manifest list says of a manifest of so many bytes that holds these entries."""
    added = sum(entry.kind is EntryKind.ADD for entry in entries)
    return ManifestFile(
        file_name=name,
        file_size=size,
        num_added_files=added,
        num_deleted_files=len(entries) - added,
        partition_stats=partition_stats([entry.partition for entry in entries], partition_types),
        schema_id=max(entry.file.schema_id for entry in entries),
        min_bucket=min(entry.bucket for entry in entries),
        max_bucket=max(entry.bucket for entry in entries),
        min_level=min(entry.file.level for entry in entries),
        max_level=max(entry.file.level for entry in entries),
    )


def _stats_bytes(stats: SimpleStats) -> int:
    return 180 + len(stats.min_values) + len(stats.max_values) + 8 * len(stats.null_counts)


def entries_bytes(entries: Sequence[ManifestEntry]) -> int:
    """About what decoded entries take: objects and numbers, and what grows with names and statistics."""
    return 64 + sum(
        900 + len(e.partition) + len(e.file.file_name) + _stats_bytes(e.file.value_stats) + 72 * len(e.file.value_stats_cols or ())
        for e in entries
    )


def list_bytes(manifests: Sequence[ManifestFile]) -> int:
    """About what the decoded manifests of a list take."""
    return 64 + sum(600 + _stats_bytes(m.partition_stats) for m in manifests)
