"""The live files of some manifests: of many by their columns, so that only the entries asked for are decoded, of few entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from table.format.manifests.columns import ManifestColumns, Mask, Numbers, digest_of
from table.format.manifests.entries import EntryKind, ManifestEntry
from table.scan.planning.live import Netted, netted

_BUCKETS = 1 << 32
"""More than there are bucket numbers."""


@dataclass(slots=True)
class BucketSums:
    """Files of one bucket together."""

    partition: bytes
    bucket: int
    files: int = 0
    rows: int = 0
    size: int = 0
    oldest_millis: int = 0
    newest_millis: int = 0
    top_sequence: int = -1
    total_buckets: int = -1
    """As the last of its files has it."""

    def add(self, entry: ManifestEntry) -> None:
        """Count a live file."""
        file = entry.file
        self.oldest_millis = min(self.oldest_millis, file.creation_time_millis) if self.files else file.creation_time_millis
        self.newest_millis = max(self.newest_millis, file.creation_time_millis) if self.files else file.creation_time_millis
        self.files += 1
        self.rows += file.row_count
        self.size += file.file_size
        self.top_sequence = max(self.top_sequence, file.max_sequence_number)
        self.total_buckets = entry.total_buckets


def sums_of(entries: Iterable[ManifestEntry]) -> list[BucketSums]:
    """Sums of live files by partition and bucket, in the order these are first seen."""
    sums: dict[tuple[bytes, int], BucketSums] = {}
    for entry in entries:
        key = (entry.partition, entry.bucket)
        group = sums.get(key)
        if group is None:
            group = sums[key] = BucketSums(*key)
        group.add(entry)
    return list(sums.values())


class LiveFiles(Protocol):
    """What is live in some manifests, each entry an ADD, in manifest order."""

    def orphans(self) -> Iterator[ManifestEntry]:
        """The DELETEs whose ADD is not in these manifests."""

    def entries(self) -> Iterator[ManifestEntry]:
        """The live entries, made as they are asked for."""

    def within(self, partitions: Collection[bytes] | None = None, buckets: Collection[int] | None = None) -> Iterator[ManifestEntry]:
        """The live entries of some partitions and buckets; None means all."""

    def smallest(
        self, partitions: Collection[bytes] | None, buckets: Collection[int] | None, *, below: int, total_buckets: int, most: int
    ) -> Iterator[ManifestEntry]:
        """The ``most`` smallest files of each bucket among those below so many bytes."""

    def of_keys(self, digests: Collection[bytes]) -> Iterator[ManifestEntry]:
        """The live entries of these keys (`digest_of`)."""

    def names_among(self, names: Collection[str], partitions: Collection[bytes]) -> set[str]:
        """Which of these names are of live files in some partitions, or of what lies beside them."""

    def partitions(self) -> list[bytes]:
        """The partitions entries are of, in the order these are first seen; of some none may be live."""

    def sizes(self) -> Numbers:
        """The bytes of each live file."""

    def sums(self, *, below: int | None = None) -> list[BucketSums]:
        """Sums by partition and bucket, in the order these are first seen; of files smaller than ``below`` bytes only."""


class ListedFiles:
    """`LiveFiles` by the entries themselves; any history can be told so."""

    def __init__(self, merged: Callable[[], Iterable[ManifestEntry]], *, has_deletes: bool) -> None:
        """``merged``: what is left of the manifests' entries; without deletes it is asked for anew each time, and as far as needed."""
        self._orphans: list[ManifestEntry] = []
        self._merged = merged
        if has_deletes:
            left = list(merged())
            self._orphans = [entry for entry in left if entry.kind is EntryKind.DELETE]
            live = [entry for entry in left if entry.kind is EntryKind.ADD]
            self._merged = lambda: live

    def orphans(self) -> Iterator[ManifestEntry]:
        """As `LiveFiles`."""
        return iter(self._orphans)

    def entries(self) -> Iterator[ManifestEntry]:
        """As `LiveFiles`."""
        return iter(self._merged())

    def within(self, partitions: Collection[bytes] | None = None, buckets: Collection[int] | None = None) -> Iterator[ManifestEntry]:
        """As `LiveFiles`."""
        chosen, numbers = (None if values is None else frozenset(values) for values in (partitions, buckets))
        return (
            entry
            for entry in self._merged()
            if (chosen is None or entry.partition in chosen) and (numbers is None or entry.bucket in numbers)
        )

    def smallest(
        self, partitions: Collection[bytes] | None, buckets: Collection[int] | None, *, below: int, total_buckets: int, most: int
    ) -> Iterator[ManifestEntry]:
        """As `LiveFiles`."""
        groups: dict[tuple[bytes, int], list[tuple[int, int, ManifestEntry]]] = {}
        for place, entry in enumerate(self.within(partitions, buckets)):
            if entry.file.file_size < below and entry.total_buckets == total_buckets:
                groups.setdefault((entry.partition, entry.bucket), []).append((entry.file.file_size, place, entry))
        chosen = [one for group in groups.values() for one in nsmallest(most, group)]
        return (entry for _, _, entry in sorted(chosen, key=lambda one: one[1]))

    def of_keys(self, digests: Collection[bytes]) -> Iterator[ManifestEntry]:
        """As `LiveFiles`."""
        return (entry for entry in self._merged() if digest_of(entry) in digests)

    def names_among(self, names: Collection[str], partitions: Collection[bytes]) -> set[str]:
        """As `LiveFiles`."""
        wanted = set(names)
        return {name for entry in self.within(partitions) for name in (entry.file.file_name, *entry.file.extra_files) if name in wanted}

    def partitions(self) -> list[bytes]:
        """As `LiveFiles`."""
        return list(dict.fromkeys(entry.partition for entry in self._merged()))

    def sizes(self) -> Numbers:
        """As `LiveFiles`."""
        return np.fromiter((entry.file.file_size for entry in self._merged()), dtype=np.int64)

    def sums(self, *, below: int | None = None) -> list[BucketSums]:
        """As `LiveFiles`."""
        return sums_of(entry for entry in self._merged() if below is None or entry.file.file_size < below)


class ColumnFiles:
    """`LiveFiles` by the manifests' columns; raises `live.Irregular` for histories that only the plain rule tells."""

    def __init__(self, names: Sequence[str], manifests: Sequence[ManifestColumns]) -> None:
        self.manifests = list(manifests)
        self.netted: Netted = netted(names, self.manifests)

    def masks(self) -> Iterator[tuple[ManifestColumns, Mask | None]]:
        """Each manifest's columns and which entries are live; None means all."""
        return zip(self.manifests, self.netted.alive, strict=True)

    def orphans(self) -> Iterator[ManifestEntry]:
        """As `LiveFiles`."""
        for columns, rows in zip(self.manifests, self.netted.orphans, strict=True):
            if len(rows):
                yield from columns.entries(rows)

    def entries(self) -> Iterator[ManifestEntry]:
        """As `LiveFiles`."""
        for columns, alive in self.masks():
            yield from columns.entries(None if alive is None else np.flatnonzero(alive))

    def within(self, partitions: Collection[bytes] | None = None, buckets: Collection[int] | None = None) -> Iterator[ManifestEntry]:
        """As `LiveFiles`."""
        for columns, alive in self.masks():
            yield from columns.entries(np.flatnonzero(_masked(alive, _inside(columns, partitions, buckets))))

    def smallest(
        self, partitions: Collection[bytes] | None, buckets: Collection[int] | None, *, below: int, total_buckets: int, most: int
    ) -> Iterator[ManifestEntry]:
        """As `LiveFiles`."""
        chosen = []
        for columns, alive in self.masks():
            mask = _inside(columns, partitions, buckets) & (columns.numbers("file_size") < below)
            chosen.append(np.flatnonzero(_masked(alive, mask & (columns.numbers("total_buckets") == total_buckets))))
        ranks: dict[bytes, int] = {}
        groups = self._gathered(chosen, lambda columns: partition_ranks(columns, ranks) * _BUCKETS + columns.numbers("bucket"))
        order = np.lexsort((self._gathered(chosen, lambda columns: columns.numbers("file_size")), groups))
        starts = np.concatenate(([0], np.flatnonzero(np.diff(groups[order])) + 1))
        places = np.arange(len(order)) - np.repeat(starts, np.diff(np.concatenate((starts, [len(order)]))))
        smallest = np.zeros(len(order), dtype=bool)
        smallest[order[places < most]] = True
        at = 0
        for columns, rows in zip(self.manifests, chosen, strict=True):
            yield from columns.entries(rows[smallest[at : at + len(rows)]])
            at += len(rows)

    def _gathered(self, chosen: Sequence[Numbers], values: Callable[[ManifestColumns], Numbers]) -> Numbers:
        """A number of each chosen row, over all manifests."""
        parts = [values(columns)[rows] for columns, rows in zip(self.manifests, chosen, strict=True)]
        return np.concatenate([*parts, np.zeros(0, dtype=np.int64)])

    def of_keys(self, digests: Collection[bytes]) -> Iterator[ManifestEntry]:
        """As `LiveFiles`."""
        for columns, alive in self.masks():
            yield from columns.entries(np.flatnonzero(_masked(alive, columns.of_keys(digests))))

    def names_among(self, names: Collection[str], partitions: Collection[bytes]) -> set[str]:
        """As `LiveFiles`."""
        wanted = pa.array(list(names), pa.string())
        matches: set[str] = set()
        for columns, alive in self.masks():
            rows = pa.array(np.flatnonzero(_masked(alive, _inside(columns, partitions, None))))
            for column in (columns.column("file_name").take(rows), columns.column("extra_files").take(rows).flatten()):
                matches.update(column.filter(pc.is_in(column, value_set=wanted)).to_pylist())
        return matches

    def partitions(self) -> list[bytes]:
        """As `LiveFiles`."""
        return list(dict.fromkeys(partition for columns in self.manifests for partition in columns.partitions.to_pylist()))

    def sizes(self) -> Numbers:
        """As `LiveFiles`."""
        parts = [columns.numbers("file_size")[... if alive is None else alive] for columns, alive in self.masks()]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts]).astype(np.int64)

    def sums(self, *, below: int | None = None) -> list[BucketSums]:
        """As `LiveFiles`."""
        sums: dict[tuple[bytes, int], BucketSums] = {}
        for columns, alive in self.masks():
            if below is not None:
                alive = _masked(alive, columns.numbers("file_size") < below)
            _add_sums(sums, columns, alive)
        return list(sums.values())


def partition_ranks(columns: ManifestColumns, ranks: dict[bytes, int]) -> Numbers:
    """A number for each row's partition, the same in all manifests that share ``ranks``."""
    by_code = np.array([ranks.setdefault(partition, len(ranks)) for partition in columns.partitions.to_pylist()], dtype=np.int64)
    codes: Numbers = by_code[columns.partition_codes]
    return codes


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
    groups = codes * _BUCKETS + buckets
    order = np.argsort(groups, kind="stable")
    starts = np.concatenate(([0], np.flatnonzero(np.diff(groups[order])) + 1))
    rows, ends = rows[order], np.concatenate((starts[1:], [len(rows)]))
    sizes, counts = columns.numbers("file_size")[rows], columns.numbers("row_count")[rows]
    created, tops = columns.numbers("creation_time")[rows], columns.numbers("max_sequence_number")[rows]
    values = zip(
        rows[starts].tolist(),
        rows[ends - 1].tolist(),
        (ends - starts).tolist(),
        np.add.reduceat(counts, starts).tolist(),
        np.add.reduceat(sizes, starts).tolist(),
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
            group = found[key] = BucketSums(*key, oldest_millis=sums[3])
        group.files += sums[0]
        group.rows += sums[1]
        group.size += sums[2]
        group.oldest_millis = min(group.oldest_millis, sums[3])
        group.newest_millis = max(group.newest_millis, sums[4])
        group.top_sequence = max(group.top_sequence, sums[5])
        group.total_buckets = int(columns.numbers("total_buckets")[last])
