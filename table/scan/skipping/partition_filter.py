"""Which manifests may speak of given partitions and buckets, so that a small change does not read a large table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from model.schema.types import DataType
from table.format.manifests.entries import EMPTY_ROW, ManifestFile, bounds_of, within
from table.format.rows import binary_row


class BucketFilter:
    """Partitions and buckets a change is about."""

    def __init__(self, types: Sequence[DataType], partitions: Collection[bytes], buckets: Collection[int] | None = None) -> None:
        self._types = list(types)
        self.partitions = frozenset(partitions)
        self.buckets = None if buckets is None else frozenset(buckets)
        """None means all."""
        self._rows = [binary_row.decode(self._types, p) for p in self.partitions] if types else []

    def may_hold(self, meta: ManifestFile) -> bool:
        """Whether a manifest may have such entries."""
        buckets = self.buckets
        if buckets is not None and not any(within(bucket, meta.min_bucket, meta.max_bucket, unbounded=True) for bucket in buckets):
            return False
        if not self._types or meta.partition_stats.min_values == EMPTY_ROW:
            return True
        bounds = bounds_of(meta.partition_stats, self._types)
        return bounds is None or any(all(within(*cell, unbounded=False) for cell in zip(row, *bounds, strict=True)) for row in self._rows)


def by_value(types: Sequence[DataType]) -> Callable[[bytes], bytes]:
    """What makes one of all the bytes in which clients write a partition's row.

    pypaimon leaves out the slot that Java and we keep for a NULL of a long DECIMAL or TIMESTAMP; all write other rows alike, which are
    compared as they are. What was made is remembered.
    """
    wide = [at for at, type_ in enumerate(types) if not binary_row.compact(type_)]
    made: dict[bytes, bytes] = {}
    if not wide:
        return lambda partition: partition

    def one(partition: bytes) -> bytes:
        if partition not in made:
            made[partition] = _written_alike(types, wide, partition)
        return made[partition]

    return one


def _written_alike(types: Sequence[DataType], wide: Sequence[int], partition: bytes) -> bytes:
    try:
        nulls = binary_row.nulls(partition)
        if not any(nulls[at] for at in wide):
            return partition
        return binary_row.encode_prefixed(types, binary_row.decode(types, partition))
    except (ValueError, IndexError, OverflowError):  # no such row
        return partition


def among(types: Sequence[DataType], partitions: Iterable[bytes]) -> Callable[[bytes], bool]:
    """Whether a partition is one of these, in whatever bytes either is written."""
    one = by_value(types)
    wanted = frozenset(map(one, partitions))
    return lambda partition: one(partition) in wanted
