"""Files, partitions, buckets of one table, and its indexes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from model.options.masking import masked_all
from model.partition import partition_name
from model.predicate import And, Compare, In, Op, Predicate
from model.schema.types import ArrayType, BigIntType, DataType, Field, IntType, RowType, VarCharType
from model.wall_clock import wall_of_epoch
from sql.system.base import SystemScan, as_json, moment, shown_row, system_table
from table.format.deletions import deletions_of
from table.format.formats import format_of
from table.format.layout import partition_shown, partition_spec
from table.format.manifests.entries import ManifestEntry, ManifestFile
from table.format.rows import binary_row
from table.format.rows.stats import column_stats
from table.index.container import SUFFIX, decode
from table.scan.planning.live_files import BucketSums, LiveFiles
from table.scan.planning.partition_sums import sums_by_partition
from table.scan.skipping.partition_filter import by_value

_VECTOR = {
    "f0": VarCharType(nullable=False), "f1": IntType(nullable=False), "f2": IntType(nullable=False), "_CARDINALITY": BigIntType(),
}  # fmt: skip
"""A deletion vector as Paimon tells it: the data file, where the vector begins in the index file, its bytes, the rows it takes away."""
_VECTORS = ArrayType(element=RowType(fields=tuple(Field(id=at, name=name, type=type_) for at, (name, type_) in enumerate(_VECTOR.items()))))
_FILE_COLUMNS: dict[str, str | DataType] = {
    "partition": "STRING",
    "bucket": "INT NOT NULL",
    "file_path": "STRING NOT NULL",
    "file_format": "STRING NOT NULL",
    "schema_id": "BIGINT NOT NULL",
    "level": "INT NOT NULL",
    "record_count": "BIGINT NOT NULL",
    "file_size_in_bytes": "BIGINT NOT NULL",
    "min_key": "STRING",
    "max_key": "STRING",
}


class _Live:
    """The live files a condition on ``partition`` and ``bucket`` may match; other manifests are not opened."""

    def __init__(self, scan: SystemScan, shown_partition: Callable[[SystemScan, bytes], str]) -> None:
        self._scan = scan
        self._buckets = _wanted(scan.predicate, "bucket")
        self._partitions = _wanted(scan.predicate, "partition")
        self._shown = shown_partition
        self._names: dict[bytes, str] = {}

    def name(self, partition: bytes) -> str:
        """The partition as this table shows it."""
        name = self._names.get(partition)
        if name is None:
            name = self._names[partition] = self._shown(self._scan, partition)
        return name

    def entries(self) -> Iterator[ManifestEntry]:
        """The entries, in manifest order."""
        live = self._live()
        return live.within(self._named(live), self._bucket_numbers())

    def sums(self) -> list[BucketSums]:
        """The files of each bucket together, in the order buckets are first seen."""
        live = self._live()
        wanted, numbers = self._named(live), self._bucket_numbers()
        return [s for s in live.sums() if (wanted is None or s.partition in wanted) and (numbers is None or s.bucket in numbers)]

    def _live(self) -> LiveFiles:
        return self._scan.opened.files.live_among(self._scan.snapshot, self._keep)

    def _named(self, live: LiveFiles) -> frozenset[bytes] | None:
        """The wanted partitions as row bytes."""
        if self._partitions is None:
            return None
        return frozenset(partition for partition in live.partitions() if self.name(partition) in self._partitions)

    def _bucket_numbers(self) -> frozenset[int] | None:
        return None if self._buckets is None else frozenset(b for b in self._buckets if isinstance(b, int))

    def _keep(self, meta: ManifestFile) -> bool:
        if self._buckets is None or meta.min_bucket is None or meta.max_bucket is None:
            return True
        return any(isinstance(b, int) and meta.min_bucket <= b <= meta.max_bucket for b in self._buckets)


def _wanted(predicate: Predicate | None, column: str) -> frozenset[object] | None:
    """The values a column must have one of; None where the condition does not say."""
    for part in predicate.parts if isinstance(predicate, And) else (predicate,):
        if isinstance(part, Compare) and part.column == column and part.op is Op.EQ:
            return frozenset((part.value,))
        if isinstance(part, In) and part.column == column:
            return frozenset(part.values)
    return None


def _braces(scan: SystemScan, partition: bytes) -> str:
    types = [f.type for f in scan.opened.schema.partition_fields]
    return shown_row(types, binary_row.decode(types, partition))


def _named(scan: SystemScan, partition: bytes) -> str:
    schema = scan.opened.schema
    return partition_shown(schema, binary_row.decode([f.type for f in schema.partition_fields], partition))


def _head(scan: SystemScan, live: _Live, entry: ManifestEntry) -> tuple[Any, ...]:
    file = entry.file
    path = scan.opened.files.data_path(scan.opened.schema, entry)
    # An append table has no key, whose range Paimon shows as an empty row.
    return (
        live.name(entry.partition), entry.bucket, path, format_of(file.file_name), file.schema_id, file.level, file.row_count,
        file.file_size, None, None,
    )  # fmt: skip


@system_table(
    "files",
    **_FILE_COLUMNS,
    null_value_counts="STRING NOT NULL",
    min_value_stats="STRING NOT NULL",
    max_value_stats="STRING NOT NULL",
    min_sequence_number="BIGINT",
    max_sequence_number="BIGINT",
    creation_time="TIMESTAMP(3)",
    deleteRowCount="BIGINT",
    file_source="STRING",
    first_row_id="BIGINT",
    write_cols="ARRAY<STRING>",
)
def files(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """The data files of the snapshot with their statistics."""
    live = _Live(scan, _braces)
    for entry in live.entries():
        file = entry.file
        stats = column_stats(file.value_stats, file.value_stats_cols, scan.opened.schema_at(file.schema_id))
        yield (
            *_head(scan, live, entry),
            as_json({name: s.null_count for name, s in stats.items()}),
            as_json({name: _plain(s.min) for name, s in stats.items()}),
            as_json({name: _plain(s.max) for name, s in stats.items()}),
            file.min_sequence_number,
            file.max_sequence_number,
            moment(file.creation_time_millis),
            file.delete_row_count,
            None if file.file_source is None else file.file_source.name,
            file.first_row_id,
            None if file.write_cols is None else list(file.write_cols),
        )


def _plain(value: object) -> object:
    """A bound as JSON can hold it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and value - value != 0:
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


@system_table("file_key_ranges", **_FILE_COLUMNS, first_row_id="BIGINT")
def file_key_ranges(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """The data files; append tables have no key whose ranges could be told."""
    live = _Live(scan, _braces)
    for entry in live.entries():
        yield (*_head(scan, live, entry), entry.file.first_row_id)


@system_table(
    "partitions",
    partition="STRING",
    record_count="BIGINT NOT NULL",
    file_size_in_bytes="BIGINT NOT NULL",
    file_count="BIGINT NOT NULL",
    last_update_time="TIMESTAMP(3)",
    created_at="TIMESTAMP(3)",
    created_by="STRING",
    updated_by="STRING",
    options="STRING",
    total_buckets="INT NOT NULL",
    done="BOOLEAN NOT NULL",
    deleted_record_count="BIGINT",
)
def partitions(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """The partitions of the snapshot, by name."""
    live = _Live(scan, _named)
    types = [field.type for field in scan.opened.schema.partition_fields]
    by_name = sorted(sums_by_partition(live.sums(), types).items(), key=lambda item: live.name(item[0]))
    deleted = _deleted(scan, by_value(types))
    for (partition, s), details in zip(by_name, _told(scan, [partition for partition, _ in by_name]), strict=True):
        made = details.made or (moment(s.oldest_millis), None, None, None)
        newest, gone = moment(s.newest_millis), deleted.get(partition, 0)
        yield live.name(partition), s.rows, s.size, s.files, newest, *made, s.total_buckets, details.done, gone


def _deleted(scan: SystemScan, written_as: Callable[[bytes], bytes]) -> dict[bytes, int | None]:
    """How many rows of each partition deletion vectors take away; None where one does not tell, as of writers before Paimon 1.0."""
    counts: dict[bytes, int | None] = {}
    for (partition, _, _), vector in deletions_of(scan.opened.files, scan.opened.schema, scan.snapshot).items():
        before = counts.get(written_as(partition), 0)
        counts[written_as(partition)] = None if before is None or vector.cardinality is None else before + vector.cardinality
    return counts


@dataclass(frozen=True, slots=True)
class _Told:
    """What is known of a partition besides its files."""

    done: bool = False
    made: tuple[object, ...] | None = None
    """When and by whom it was made, by whom changed, and its options, as JSON; None where the catalog has no such partition by now."""


def _told(scan: SystemScan, partitions: Sequence[bytes]) -> Sequence[_Told]:
    schema = scan.opened.schema
    if not schema.partition_keys:
        return [_Told()] * len(partitions)
    types = [field.type for field in schema.partition_fields]
    specs = [partition_spec(schema, binary_row.decode(types, partition)) for partition in partitions]
    rows = scan.lake.partitions_named(scan.opened, specs)
    made = {row.name: (_wall(row.created_at), row.created_by, row.updated_by, as_json(masked_all(row.options))) for row in rows}
    done = scan.lake.partitions_done(scan.opened, specs, rows)
    names = [partition_name(spec, schema.partition_keys) for spec in specs]
    return [_Told(is_done, made.get(name)) for is_done, name in zip(done, names, strict=True)]


def _wall(at: dt.datetime) -> dt.datetime | None:
    """As the times of files are told."""
    return moment(wall_of_epoch(int(at.timestamp() * 1000)))


@system_table(
    "buckets",
    partition="STRING",
    bucket="INT NOT NULL",
    record_count="BIGINT NOT NULL",
    file_size_in_bytes="BIGINT NOT NULL",
    file_count="BIGINT NOT NULL",
    last_update_time="TIMESTAMP(3)",
)
def buckets(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """The buckets of the snapshot."""
    live = _Live(scan, _braces)
    for s in sorted(live.sums(), key=lambda s: (live.name(s.partition), s.bucket)):
        yield live.name(s.partition), s.bucket, s.rows, s.size, s.files, moment(s.newest_millis)


@system_table(
    "table_indexes",
    partition="STRING",
    bucket="INT NOT NULL",
    index_type="STRING NOT NULL",
    file_name="STRING NOT NULL",
    file_size="BIGINT NOT NULL",
    row_count="BIGINT NOT NULL",
    dv_ranges=_VECTORS,
    row_range_start="BIGINT",
    row_range_end="BIGINT",
    index_field_id="INT",
    index_field_name="STRING",
)
def table_indexes(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """The index files of the snapshot: deletion vectors and global indexes."""
    snapshot = scan.snapshot
    if snapshot is None or snapshot.index_manifest is None:
        return
    for entry in scan.opened.files.index_manifest(snapshot.index_manifest):
        ranges = entry.get("_DELETIONS_VECTORS_RANGES")
        vectors = None if ranges is None else [{name: vector.get(name) for name in _VECTOR} for vector in ranges]
        yield (
            _braces(scan, entry["_PARTITION"]), entry["_BUCKET"], entry["_INDEX_TYPE"], entry["_FILE_NAME"], entry["_FILE_SIZE"],
            entry["_ROW_COUNT"], vectors, *_global_index(scan, entry.get("_GLOBAL_INDEX")),
        )  # fmt: skip


def _global_index(scan: SystemScan, meta: Mapping[str, Any] | None) -> tuple[int | None, int | None, int | None, str | None]:
    """The rows that an index is about, the id of its first column and the names of all; no names where a column is gone."""
    if meta is None:
        return None, None, None, None
    names = {field.id: field.name for field in scan.opened.schema.fields}
    ids = [meta["_INDEX_FIELD_ID"], *(meta.get("_EXTRA_FIELD_IDS") or ())]
    columns = ",".join(names[field_id] for field_id in ids) if names.keys() >= set(ids) else None
    return meta["_ROW_RANGE_START"], meta["_ROW_RANGE_END"], meta["_INDEX_FIELD_ID"], columns


@system_table(
    "file_indexes",
    partition="STRING",
    bucket="INT NOT NULL",
    file_path="STRING NOT NULL",
    file_size_in_bytes="BIGINT NOT NULL",
    record_count="BIGINT NOT NULL",
    schema_id="BIGINT NOT NULL",
    column_name="STRING NOT NULL",
    index_type="STRING NOT NULL",
    storage_type="STRING NOT NULL",
    index_file_path="STRING",
    index_size_in_bytes="BIGINT NOT NULL",
    index_container_size_in_bytes="BIGINT NOT NULL",
    is_empty="BOOLEAN NOT NULL",
)
def file_indexes(scan: SystemScan) -> Iterable[Sequence[Any]]:
    """The indexes of the snapshot's data files, one row for each column and kind."""
    live = _Live(scan, _braces)
    opened = scan.opened
    for entry in live.entries():
        file = entry.file
        beside = next((path for path in opened.files.extra_paths(opened.schema, entry) if path.endswith(SUFFIX)), None)
        container = file.embedded_file_index or (opened.files.io.read(beside) if beside else None)
        if container is None:
            continue
        stored = "FILE" if beside else "EMBEDDED"
        for column, kinds in decode(container).items():
            for kind, body in kinds.items():
                yield (
                    live.name(entry.partition), entry.bucket, opened.files.data_path(opened.schema, entry), file.file_size,
                    file.row_count, file.schema_id, column, kind, stored, beside, len(body or b""), len(container), body is None,
                )  # fmt: skip
