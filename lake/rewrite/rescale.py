"""Partitions written anew with the number of buckets their table has by now, or with another, each key's rows in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lake.rewrite.compaction import check_rows
from lake.tables.handle import LakeTable
from model.snapshot import CommitKind, Snapshot
from table.compaction.rewrite import planned
from table.format.deletions import with_vectors
from table.format.layout import partition_dirs
from table.format.manifests.entries import ManifestEntry
from table.format.rows import binary_row
from table.scan.read import read_batches
from table.scan.skipping.partition_filter import BucketFilter
from table.write.snapshot_builder import with_buckets
from table.write.writer import write_batches

if TYPE_CHECKING:
    from lake.lake import Lake


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgrown:
    """A partition whose files are of another number of buckets than the table's."""

    row: bytes
    """Its values, as manifests hold them."""
    name: str
    buckets: int
    entries: Sequence[ManifestEntry]

    @property
    def rows(self) -> int:
        """Rows in it."""
        return sum(entry.file.row_count for entry in self.entries)

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(entry.file.file_size for entry in self.entries)


def outgrown(table: LakeTable, snapshot: Snapshot | None, *, buckets: int | None = None) -> Iterator[Outgrown]:
    """The partitions that have another number of buckets than the table, or than is wanted, by name, with their files in reading order."""
    schema = table.schema
    wanted = schema.bucket if buckets is None else buckets
    if schema.bucket <= 0:
        return
    types = [field.type for field in schema.partition_fields]
    rows = sorted({bucket.partition for bucket in table.files.bucket_sums(snapshot)})
    for row in rows:
        entries = with_vectors(table.files, schema, snapshot, table.files.touched_entries(snapshot, BucketFilter(types, {row})))
        if all(entry.total_buckets == wanted for entry in entries):
            continue
        ordered = sorted(entries, key=lambda entry: (entry.bucket, entry.file.min_sequence_number))
        name = "/".join(partition_dirs(schema, binary_row.decode(types, row)))
        yield Outgrown(row=row, name=name, buckets=max(entry.total_buckets for entry in entries), entries=ordered)


def rescale(lake: Lake, table: LakeTable, partition: Outgrown, *, buckets: int | None = None, check: Callable[[], None]) -> None:
    """Write a partition anew as one commit, with the table's number of buckets or another; raises `RewriteConflict` where somebody changed
    it meanwhile.

    A key lay in one bucket, which is read from its first row to its last, so that its rows come to its new bucket in their order.
    """

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in read_batches(table.files, table.schema, planned(table.files, table.schema, partition.entries)):
            check()
            yield batch

    with table.write() as write:
        schema = table.schema if buckets is None else with_buckets(table.schema, buckets)
        check_rows(table, partition.entries, write.add(write_batches(table.files, schema, batches(), rewrites=True)))
        request = write.request(CommitKind.OVERWRITE, deletes=tuple(partition.entries), operation="RESCALE", buckets=buckets)
        lake.commit(table, request)
