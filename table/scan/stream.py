"""Where a stream stands in a table's history, and the rows of the next snapshot (`paimon-append.md` §8.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cachetools import LRUCache

from model.predicate import Predicate
from model.schema.schema import Schema
from model.snapshot import CommitKind, Operation, Snapshot
from model.wall_clock import epoch_of_wall
from table.format.manifests.entries import EntryKind, ManifestEntry, ManifestFile
from table.format.store import TableFiles
from table.scan.planning.entry_scan import PlannedFile, plan_entries, plan_scan


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A stream's whole memory: the snapshot it reads next, and whether all of that or only what it added."""

    next_snapshot_id: int
    whole: bool = False
    created_since: int | None = None
    """With ``whole``: only files made at this time (milliseconds) or later."""
    before_key: str | None = field(default=None, compare=False)
    """The key of the snapshot before the next, where that is known."""
    own_key: str | None = field(default=None, compare=False)
    """The key of the next, where that is known: the stream was to begin with it, or has read a part of it."""

    def after(self, snapshot: Snapshot) -> Cursor:
        """The cursor once a snapshot is read."""
        return Cursor(next_snapshot_id=snapshot.id + 1, before_key=snapshot.key)

    @property
    def known(self) -> tuple[int, str] | None:
        """The id and key of the newest snapshot on which the stream builds: where it is not the table's any more, that was rolled back."""
        if self.own_key is not None:
            return self.next_snapshot_id, self.own_key
        return None if self.before_key is None else (self.next_snapshot_id - 1, self.before_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRules:
    """Which snapshots a stream reads, and in what order their partitions come."""

    overwrites: bool = False
    """Whether what an OVERWRITE adds counts as new rows."""
    sort_partitions: bool = False
    """Smaller partition values first; else the partition that was there first."""


_IN_PLACE = (Operation.DELETE, Operation.UPDATE, Operation.MERGE, "COMPACT", "RESCALE")
"""What writes files anew that hold rows a stream has had: no overwrite that brings new ones.

Paimon's streams show those of its own sorting and rescaling again: its snapshots do not tell what made them, ours do.
"""


def beyond(snapshot: Snapshot, bound: int | None) -> bool:
    """Whether a snapshot lies past a stream's bound, a watermark in milliseconds since 1970 (`scan.bounded.watermark`)."""
    return bound is not None and snapshot.watermark is not None and snapshot.watermark > bound


class Order(Protocol):
    """Puts what one snapshot adds in the order of its partitions."""

    def ranked(self, files: TableFiles, snapshot: Snapshot, entries: Sequence[ManifestEntry], *, whole: bool) -> list[ManifestEntry]:
        """The entries, those of older partitions first; in a partition as they came."""
        ...


class PartitionOrder:
    """Which partition was there first, for a stream that remembers. Only streams over partitioned tables need to know."""

    def __init__(self) -> None:
        self._ranks: dict[bytes, int] | None = None

    def ranked(self, files: TableFiles, snapshot: Snapshot, entries: Sequence[ManifestEntry], *, whole: bool) -> list[ManifestEntry]:
        """The entries, those of older partitions first; in a partition as they came."""
        if len({entry.partition for entry in entries}) < 2 and self._ranks is None:
            return list(entries)
        if self._ranks is None:
            self._ranks = {}
            if not whole:  # what was there before this snapshot, once; from here on each partition is met as it is made
                for meta in files.base_manifests(snapshot):
                    self._meet(files.partitions_in(meta))
        self._meet(entry.partition for entry in entries)
        ranks = self._ranks
        return sorted(entries, key=lambda entry: ranks[entry.partition])

    def _meet(self, partitions: Iterable[bytes]) -> None:
        assert self._ranks is not None
        for partition in partitions:
            self._ranks.setdefault(partition, len(self._ranks))


class SettledOrder:
    """Which partition was there first as a snapshot's own manifests tell: the same whoever asks, and whenever."""

    def __init__(self) -> None:
        self._partitions: LRUCache[str, tuple[bytes, ...]] = LRUCache(10_000)

    def ranked(self, files: TableFiles, snapshot: Snapshot, entries: Sequence[ManifestEntry], *, whole: bool) -> list[ManifestEntry]:
        """The entries, those of older partitions first; in a partition as they came."""
        if len({entry.partition for entry in entries}) < 2:
            return list(entries)
        ranks: dict[bytes, int] = {}
        for meta in () if whole else files.base_manifests(snapshot):
            for partition in self._of(files, meta):
                ranks.setdefault(partition, len(ranks))
        for entry in entries:
            ranks.setdefault(entry.partition, len(ranks))
        return sorted(entries, key=lambda entry: ranks[entry.partition])

    def _of(self, files: TableFiles, meta: ManifestFile) -> tuple[bytes, ...]:
        partitions = self._partitions.get(meta.file_name)
        if partitions is None:
            partitions = self._partitions[meta.file_name] = tuple(dict.fromkeys(entry.partition for entry in files.manifest(meta)))
        return partitions


def plan_next(  # noqa: PLR0913 - where a stream is and what it reads
    files: TableFiles,
    schema: Schema,
    snapshot: Snapshot,
    cursor: Cursor,
    rules: StreamRules,
    order: Order,
    predicate: Predicate | None = None,
) -> tuple[PlannedFile, ...]:
    """The files a stream reads of its next snapshot, in order; none for a compaction, or an overwrite it was not told to show.

    ``schema`` is the one the stream gives rows under, whichever the table has by now: files are read by field id.
    Raises `UnsupportedType` as `plan_scan` does.
    """
    if cursor.whole and cursor.created_since is None and not schema.partition_keys:
        return tuple(plan_scan(files, schema, snapshot, predicate).files)
    if cursor.whole:
        since = cursor.created_since
        entries = [e for e in files.live_entries(snapshot) if since is None or epoch_of_wall(e.file.creation_time_millis) >= since]
    elif snapshot.commit_kind is CommitKind.APPEND or (
        rules.overwrites and snapshot.commit_kind is CommitKind.OVERWRITE and snapshot.done not in _IN_PLACE
    ):
        delta = files.delta_manifests(snapshot)
        entries = [e for meta in delta for e in files.manifest(meta) if e.kind is EntryKind.ADD]
    else:
        return ()
    if schema.partition_keys and not rules.sort_partitions:
        entries = order.ranked(files, snapshot, entries, whole=cursor.whole)
    planned = plan_entries(files, schema, snapshot, entries, predicate).files
    if rules.sort_partitions:
        return tuple(sorted(planned, key=lambda one: tuple((value is not None, value) for value in one.partition)))
    return tuple(planned)
