"""What the files of each partition hold together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from model.schema.types import DataType
from table.scan.planning.live_files import BucketSums
from table.scan.skipping.partition_filter import by_value


@dataclass(slots=True, kw_only=True)
class PartitionSums:
    """Files of one partition together."""

    rows: int = 0
    size: int = 0
    files: int = 0
    newest_millis: int = 0
    oldest_millis: int | None = None
    """Of the file that was made first; None without any."""
    total_buckets: int = -1
    """As the last of its buckets has it."""

    def add(self, bucket: BucketSums) -> None:
        """Count one of its buckets."""
        self.rows += bucket.rows
        self.size += bucket.size
        self.files += bucket.files
        self.newest_millis = max(self.newest_millis, bucket.newest_millis)
        self.oldest_millis = bucket.oldest_millis if self.oldest_millis is None else min(self.oldest_millis, bucket.oldest_millis)
        self.total_buckets = bucket.total_buckets


def sums_by_partition(buckets: Iterable[BucketSums], types: Sequence[DataType]) -> dict[bytes, PartitionSums]:
    """Sums by the partition's row, which is spelled as of its first bucket, in the order these are first seen.

    ``types`` are those of the partition columns: rows of the same values are one partition, however writers spell them.
    """
    sums: dict[bytes, PartitionSums] = {}
    written_as = by_value(types)
    for bucket in buckets:
        sums.setdefault(written_as(bucket.partition), PartitionSums()).add(bucket)
    return sums
