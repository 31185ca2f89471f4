"""The live files of many manifests by their columns: nothing is decoded but the entries that are asked for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table.live import Netted, netted
from table.manifest import ManifestEntry
from table.manifest_columns import ManifestColumns, Mask, Numbers


@dataclass(slots=True)
class BucketSums:
    """Files of one bucket together."""

    partition: bytes
    bucket: int
    files: int = 0
    rows: int = 0
    size: int = 0
    deleted_rows: int = 0
    oldest_millis: int = 0
    newest_millis: int = 0
    top_sequence: int = -1
    total_buckets: int = -1
    """As the last of its files has it."""


class LiveFiles:
    """What is live in some manifests; raises `live.Irregular` for histories that only the plain rule tells."""

    def __init__(self, names: Sequence[str], manifests: Sequence[ManifestColumns]) -> None:
        self.manifests = list(manifests)
        self.netted: Netted = netted(names, self.manifests)

    def masks(self) -> Iterator[tuple[ManifestColumns, Mask | None]]:
        """Each manifest's columns and which entries are live; None means all."""
        return zip(self.manifests, self.netted.alive, strict=True)

    def first_orphan(self) -> ManifestEntry | None:
        """A DELETE whose ADD is not in these manifests."""
        for columns, rows in zip(self.manifests, self.netted.orphans, strict=True):
            if len(rows):
                return next(columns.entries(rows[:1]))
        return None

    def entries(self) -> Iterator[ManifestEntry]:
        """The live entries, in manifest order, made as they are asked for."""
        for columns, alive in self.masks():
            yield from columns.entries(None if alive is None else np.flatnonzero(alive))

    def within(self, partitions: Collection[bytes] | None = None, buckets: Collection[int] | None = None) -> Iterator[ManifestEntry]:
        """The live entries of some partitions and buckets, in manifest order; None means all."""
        for columns, alive in self.masks():
            yield from columns.entries(np.flatnonzero(_masked(alive, _inside(columns, partitions, buckets))))

    def smallest(self, partitions: Collection[bytes] | None, buckets: Collection[int] | None, *, below: int) -> Iterator[ManifestEntry]:
        """The live entries of files smaller than ``below`` bytes in some partitions and buckets, in manifest order."""
        for columns, alive in self.masks():
            mask = _inside(columns, partitions, buckets) & (columns.numbers("file_size") < below)
            yield from columns.entries(np.flatnonzero(_masked(alive, mask)))

    def of_keys(self, digests: Collection[bytes]) -> Iterator[ManifestEntry]:
        """The live entries of these keys (`key_digest`), in manifest order."""
        wanted = pa.array(list(digests), pa.binary(16))
        for columns, alive in self.masks():
            met = pc.is_in(columns.column("key"), value_set=wanted).to_numpy(zero_copy_only=False)
            yield from columns.entries(np.flatnonzero(_masked(alive, met)))

    def sums(self) -> list[BucketSums]:
        """Sums by partition and bucket, in the order these are first seen."""
        found: dict[tuple[bytes, int], BucketSums] = {}
        for columns, alive in self.masks():
            _add_sums(found, columns, alive)
        return list(found.values())


def _masked(alive: Mask | None, mask: Mask) -> Mask:
    return mask if alive is None else mask & alive


def _inside(columns: ManifestColumns, partitions: Collection[bytes] | None, buckets: Collection[int] | None) -> Mask:
    mask = np.ones(len(columns), dtype=bool)
    if partitions is not None:
        chosen = pc.is_in(columns.partitions, value_set=pa.array(list(partitions), pa.binary())).to_numpy(zero_copy_only=False)
        mask = chosen[columns.partition_codes]
    if buckets is not None:
        mask &= np.isin(columns.numbers("bucket"), np.fromiter(buckets, dtype=np.int64))
    return mask


def _add_sums(found: dict[tuple[bytes, int], BucketSums], columns: ManifestColumns, alive: Mask | None) -> None:
    """Add one manifest's live files, group by group."""
    rows: Numbers = np.arange(len(columns)) if alive is None else np.flatnonzero(alive)
    if not len(rows):
        return
    codes, buckets = columns.partition_codes[rows].astype(np.int64), columns.numbers("bucket")[rows].astype(np.int64)
    groups = (codes << 32) + buckets
    order = np.argsort(groups, kind="stable")
    starts = np.concatenate(([0], np.flatnonzero(np.diff(groups[order])) + 1))
    rows, ends = rows[order], np.concatenate((starts[1:], [len(rows)]))
    sizes, counts = columns.numbers("file_size")[rows], columns.numbers("row_count")[rows]
    created, tops = columns.numbers("creation_time")[rows], columns.numbers("max_sequence_number")[rows]
    deleted = columns.column("delete_row_count").fill_null(0).to_numpy()[rows]
    values = zip(
        rows[starts].tolist(),
        rows[ends - 1].tolist(),
        (ends - starts).tolist(),
        np.add.reduceat(counts, starts).tolist(),
        np.add.reduceat(sizes, starts).tolist(),
        np.add.reduceat(deleted, starts).tolist(),
        np.minimum.reduceat(created, starts).tolist(),
        np.maximum.reduceat(created, starts).tolist(),
        np.maximum.reduceat(tops, starts).tolist(),
        strict=True,
    )
    partitions = columns.partitions.to_pylist()
    for first, last, *sums in sorted(values):
        key = (partitions[columns.partition_codes[first]], int(columns.numbers("bucket")[first]))
        group = found.get(key)
        if group is None:
            group = found[key] = BucketSums(*key, oldest_millis=sums[4])
        group.files += sums[0]
        group.rows += sums[1]
        group.size += sums[2]
        group.deleted_rows += sums[3]
        group.oldest_millis = min(group.oldest_millis, sums[4])
        group.newest_millis = max(group.newest_millis, sums[5])
        group.top_sequence = max(group.top_sequence, sums[6])
        group.total_buckets = int(columns.numbers("total_buckets")[last])
