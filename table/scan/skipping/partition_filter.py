"""Which manifests may speak of given partitions and buckets, so that a small change does not read a large table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from model.schema.types import DataType
from table.format.manifest import EMPTY_ROW, ManifestEntry, ManifestFile, bounds_of
from table.format.rows import binary_row


class BucketFilter:
    """Partitions and buckets a change is about."""

    def __init__(self, types: Sequence[DataType], partitions: Collection[bytes], buckets: Collection[int] | None = None) -> None:
        self._types = list(types)
        self.partitions = frozenset(partitions)
        self.buckets = None if buckets is None else frozenset(buckets)
        """None means all."""
        self._rows = [binary_row.decode(self._types, p) for p in self.partitions] if types else []

    def holds(self, entry: ManifestEntry) -> bool:
        """Whether an entry's file lies there."""
        return entry.partition in self.partitions and (self.buckets is None or entry.bucket in self.buckets)

    def may_hold(self, meta: ManifestFile) -> bool:
        """Whether a manifest may have such entries."""
        if self.buckets is not None and meta.min_bucket is not None and meta.max_bucket is not None:
            low, high = meta.min_bucket, meta.max_bucket
            if not any(low <= bucket <= high for bucket in self.buckets):
                return False
        if not self._types or meta.partition_stats.min_values == EMPTY_ROW:
            return True
        bounds = bounds_of(meta.partition_stats, self._types)
        return bounds is None or any(self._inside(row, *bounds) for row in self._rows)

    @staticmethod
    def _inside(row: Sequence[Any], lows: Sequence[Any], highs: Sequence[Any]) -> bool:
        for value, low, high in zip(row, lows, highs, strict=True):
            if value != value or low != low or high != high:
                continue  # NaN compares with nothing
            # NULLs lie outside the bounds, and a column of NULLs has none.
            if value is not None and low is not None and high is not None and not low <= value <= high:
                return False
            if value is not None and low is None and high is None:
                return False
        return True
