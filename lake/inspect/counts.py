"""What a table holds, in numbers: fed by every commit, counted anew from the manifests where that was not possible."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from catalog import CatalogStore, CatalogTransaction
from catalog.listing import EVERYTHING, Slice
from catalog.objects.snapshots import Added
from catalog.records import CountsRow, PartitionRow
from lake.access.callers import EVERYBODY
from lake.commit.publish import Publisher
from lake.tables.handle import LakeTable
from model.partition import PartitionStatistics, partition_name
from model.schema.schema import Schema
from model.snapshot import Snapshot
from table.format.layout import partition_spec
from table.format.manifests.entries import EntryKind, ManifestEntry
from table.format.rows import binary_row
from table.write.snapshot_builder import COMMITTED_BY

_COUNTS_AT_MOST = 3
"""So often maintenance counts a table anew that is committed to meanwhile."""


def statistics_of(table: LakeTable, snapshot: Snapshot) -> list[PartitionStatistics]:
    """What a snapshot's own changes add to each partition."""
    return sums_of_entries(table.schema, table.files.delta_entries(snapshot))


def sums_of_entries(schema: Schema, changes: Iterable[ManifestEntry]) -> list[PartitionStatistics]:
    """What some changes add to each partition."""
    return _summed(schema, map(_change, changes))


def _change(entry: ManifestEntry) -> tuple[bytes, Sequence[int]]:
    file, sign = entry.file, 1 if entry.kind is EntryKind.ADD else -1
    return entry.partition, (sign * file.row_count, sign * file.file_size, sign, file.creation_time_millis, entry.total_buckets)


def _summed(schema: Schema, groups: Iterable[tuple[bytes, Sequence[int]]]) -> list[PartitionStatistics]:
    """Partitions' sums of groups of files: rows, bytes, files, the newest file's time, the number of buckets."""
    types = [field.type for field in schema.partition_fields]
    sums: dict[bytes, list[int]] = {}
    for partition, (records, size, files, last, buckets) in groups:
        sums_of_partition = sums.setdefault(partition, [0, 0, 0, 0, 0])
        sums_of_partition[0] += records
        sums_of_partition[1] += size
        sums_of_partition[2] += files
        sums_of_partition[3] = max(sums_of_partition[3], last)
        sums_of_partition[4] = buckets
    by_spec: dict[str, PartitionStatistics] = {}
    for partition, (records, size, files, last, buckets) in sums.items():
        spec = partition_spec(schema, binary_row.decode(types, partition))
        name = partition_name(spec, schema.partition_keys)
        same = by_spec.get(name)  # NULL and '' are two rows of bytes and lie in one directory
        by_spec[name] = PartitionStatistics(
            spec=spec,
            record_count=records + (same.record_count if same else 0),
            file_size=size + (same.file_size if same else 0),
            file_count=files + (same.file_count if same else 0),
            last_file_millis=max(last, same.last_file_millis if same else 0),
            total_buckets=buckets,
        )
    return list(by_spec.values())


def added_by(changes: Sequence[PartitionStatistics], *, listed: bool = True) -> Added:
    """The sum over all partitions."""
    return Added(
        records=sum(change.record_count for change in changes),
        size=sum(change.file_size for change in changes),
        files=sum(change.file_count for change in changes),
        last_millis=max((change.last_file_millis for change in changes), default=0),
        listed=listed,
    )


def committed_by(snapshot: Snapshot) -> str:
    """Who made a snapshot; everybody has one name where callers are not told apart."""
    return snapshot.properties.get(COMMITTED_BY, EVERYBODY.principal)


def by_name(changes: Sequence[PartitionStatistics], keys: tuple[str, ...]) -> list[tuple[str, PartitionStatistics]]:
    """What a commit adds to each partition, by its name; nothing for a table without partitions."""
    return [(partition_name(change.spec, keys), change) for change in changes] if keys else []


def takes_files_away(changes: Sequence[PartitionStatistics]) -> bool:
    """Whether a partition may be left without files, whose row goes then."""
    return any(change.file_count <= 0 for change in changes)


def follow(tx: CatalogTransaction, table: LakeTable, changes: Sequence[PartitionStatistics], snapshot: Snapshot) -> None:
    """Let the partitions' rows follow a commit."""
    if keys := table.schema.partition_keys:
        tx.partitions.add(table.table_id, table.identifier.branch, by_name(changes, keys), by=committed_by(snapshot))


def totals(catalog: CatalogStore, publisher: Publisher, table: LakeTable) -> tuple[Snapshot, CountsRow] | None:
    """The latest snapshot, its file in place, with its totals; None for a table never written."""
    while True:
        with catalog.reading() as tx:
            counted = tx.snapshots.latest_counted(table.table_id, table.identifier.branch)
        if counted is None:
            return None
        row, counts = counted
        latest = publisher.ready(table.table_id, table.files, table.identifier.branch, row)
        if counts.counted:
            return latest, counts
        _count(catalog, table, latest)


def partition_page(catalog: CatalogStore, table: LakeTable, wanted: Slice = EVERYTHING) -> list[PartitionRow]:
    """Partitions by name."""
    _list(catalog, table)
    with catalog.reading() as tx:
        return tx.partitions.page(table.table_id, table.identifier.branch, wanted)


def partitions_named(catalog: CatalogStore, table: LakeTable, names: Sequence[str]) -> list[PartitionRow]:
    """Those of these names that exist."""
    _list(catalog, table)
    with catalog.reading() as tx:
        return tx.partitions.named(table.table_id, table.identifier.branch, names)


def last_changes(catalog: CatalogStore, table: LakeTable, names: Sequence[str]) -> dict[str, datetime]:
    """When the catalog heard last of a change of each of these partitions, by Postgres's clock.

    Where commits outrun each of a few counts, all may have changed when the branch came to what is not counted; maintenance does not wait
    until there are fewer.
    """
    is_listed = any(_is_listed(catalog, table) for _ in range(_COUNTS_AT_MOST))
    with catalog.reading() as tx:
        rows = tx.partitions.named(table.table_id, table.identifier.branch, names)
        since = tx.partitions.unlisted_since(table.table_id, table.identifier.branch)
    changes = {row.name: row.updated_at for row in rows}
    return changes if is_listed else {name: max(changes.get(name, since), since) for name in names}


def _list(catalog: CatalogStore, table: LakeTable) -> None:
    """See to it that the partitions' rows hold for the latest snapshot."""
    while not _is_listed(catalog, table):
        pass


def _is_listed(catalog: CatalogStore, table: LakeTable) -> bool:
    """Whether the partitions' rows hold for the latest snapshot, which is counted where they did not; False when that was outrun."""
    with catalog.reading() as tx:
        counts = tx.snapshots.counts(table.table_id, table.identifier.branch)
    if counts is None or counts.listed:
        return True
    latest = table.latest()
    return latest is None or _count(catalog, table, latest)


def _count(catalog: CatalogStore, table: LakeTable, latest: Snapshot) -> bool:
    """Count a snapshot's live files; False when the table has gone on meanwhile."""
    sums = table.files.bucket_sums(latest)
    statistics = _summed(table.schema, ((s.partition, (s.rows, s.size, s.files, s.newest_millis, s.total_buckets)) for s in sums))
    keys = table.schema.partition_keys
    with catalog.transaction() as tx:
        tx.tables.stay(table.table_id)
        is_counted = tx.snapshots.count(table.table_id, table.identifier.branch, uuid=latest.key, totals=added_by(statistics))
        if is_counted and keys:
            tx.partitions.replace(
                table.table_id, table.identifier.branch, [(partition_name(partition.spec, keys), partition) for partition in statistics]
            )
    return is_counted
