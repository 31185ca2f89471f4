"""Sequence numbers: what keeps a bucket's rows in write order (`paimon-append.md` §4.7)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from model.snapshot import Snapshot
from table.cache import ByteCache
from table.manifest import DataFile, ManifestEntry, NewFile
from table.store import TableFiles

BucketKey = tuple[bytes, int]


_CACHED_BYTES = 128 << 20


class BucketTops:
    """The highest sequence number of each (partition, bucket), remembered per snapshot so that a hot table pays once."""

    def __init__(self) -> None:
        self._known: ByteCache[tuple[str, str], dict[BucketKey, int]] = ByteCache(_CACHED_BYTES, _tops_bytes)

    def of(self, files: TableFiles, snapshot: Snapshot | None) -> dict[BucketKey, int]:
        """The tops at a snapshot; treat the answer as read-only."""
        if snapshot is None:
            return {}
        found = self._known.get((files.location, snapshot.delta_manifest_list))
        if found is None:
            found = {(sums.partition, sums.bucket): sums.top_sequence for sums in files.bucket_sums(snapshot)}
            self.remember(files, snapshot.delta_manifest_list, found)
        return found

    def remember(self, files: TableFiles, delta_manifest_list: str, tops: dict[BucketKey, int]) -> None:
        """Keep what a new snapshot's tops will be, so that the next commit need not read anything."""
        self._known.put((files.location, delta_manifest_list), tops)

    def forget(self) -> None:
        """Forget everything; the next commit of each table reads its files again."""
        self._known.clear()


def _tops_bytes(tops: dict[BucketKey, int]) -> int:
    """About what the numbers of so many buckets take: a slot, a key of two and a number each."""
    return 64 + sum(270 + len(partition) for partition, _ in tops)


TOPS = BucketTops()


def raise_tops(tops: dict[BucketKey, int], entries: Iterable[ManifestEntry]) -> None:
    """Raise the tops to what the entries hold."""
    for entry in entries:
        key = (entry.partition, entry.bucket)
        tops[key] = max(tops.get(key, -1), entry.file.max_sequence_number)


def in_sequence(adds: Sequence[NewFile], tops: dict[BucketKey, int]) -> list[DataFile]:
    """The files of one write, shifted behind each bucket's top; their numbers count from 0 per bucket.

    ``tops`` is read, never changed: several writes of a group are shifted one after another by the caller.
    """
    return [_shifted(new.file, tops.get((new.partition, new.bucket), -1) + 1) for new in adds]


def _shifted(file: DataFile, by: int) -> DataFile:
    if by == 0:
        return file
    return replace(file, min_sequence_number=file.min_sequence_number + by, max_sequence_number=file.max_sequence_number + by)
