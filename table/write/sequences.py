"""What a commit to buckets must know of them: sequence numbers, which keep rows in write order (`paimon-append.md` §4.7), and how many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from model.snapshot import Snapshot
from table.format.cache import IDLE_SECONDS, ByteCache
from table.format.manifests.entries import DataFile, ManifestEntry, NewFile
from table.format.store import TableFiles
from table.scan.planning.live_files import BucketSums

BucketKey = tuple[bytes, int]


_CACHED_BYTES = 128 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """The buckets of a snapshot."""

    tops: dict[BucketKey, int]
    """The highest sequence number of each."""
    numbers: frozenset[int]
    """How many buckets partitions have: one number, or several where 'bucket' was changed and not all are rewritten."""

    @classmethod
    def of_sums(cls, sums: Iterable[BucketSums]) -> Buckets:
        """Those of live files, summed by bucket."""
        sums = list(sums)
        tops = {(bucket.partition, bucket.bucket): bucket.top_sequence for bucket in sums}
        return cls(tops=tops, numbers=frozenset(bucket.total_buckets for bucket in sums))


class KnownBuckets:
    """The buckets of snapshots, remembered so that a hot table pays once."""

    def __init__(self) -> None:
        self._known: ByteCache[tuple[str, str], Buckets] = ByteCache(_CACHED_BYTES, _bytes_of, idle_seconds=IDLE_SECONDS)

    def of(self, files: TableFiles, snapshot: Snapshot | None) -> Buckets:
        """The buckets at a snapshot; treat the answer as read-only."""
        if snapshot is None:
            return Buckets(tops={}, numbers=frozenset())
        buckets = self._known.get((files.location, snapshot.delta_manifest_list))
        if buckets is None:
            buckets = Buckets.of_sums(files.bucket_sums(snapshot))
            self.remember(files, snapshot.delta_manifest_list, buckets)
        return buckets

    def remember(self, files: TableFiles, delta_manifest_list: str, buckets: Buckets) -> None:
        """Keep what a new snapshot's buckets will be, so that the next commit need not read anything."""
        self._known.put((files.location, delta_manifest_list), buckets)

    def forget(self) -> None:
        """Forget everything; the next commit of each table reads its files again."""
        self._known.clear()


def _bytes_of(buckets: Buckets) -> int:
    """About what the numbers of so many buckets take: a slot, a key of two and a number each."""
    return 64 + sum(270 + len(partition) for partition, _ in buckets.tops)


BUCKETS = KnownBuckets()


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


def one_after_another(writes: Iterable[Sequence[NewFile]]) -> list[NewFile]:
    """The files of several writes as those of one: the rows of each bucket behind those of the writes before, numbered from 0."""
    tops: dict[BucketKey, int] = {}
    files: list[NewFile] = []
    for write in writes:
        shifted = [replace(new, file=file) for new, file in zip(write, in_sequence(write, tops), strict=True)]
        for new in shifted:
            key = (new.partition, new.bucket)
            tops[key] = max(tops.get(key, -1), new.file.max_sequence_number)
        files += shifted
    return files
