"""Which snapshots are a branch's after a repair that cannot go on from the catalog's newest: a line that lacks none between two others.

Damage in the middle ends no line: a snapshot that cannot be read stays in its place, so that those before it can be asked for as ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from catalog.records import SnapshotRow
from lake.register.whole import is_readable
from model.errors import TableDamaged
from model.snapshot import Snapshot
from table.format.store import TableFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The snapshots of a branch, oldest first, the newest of which can be read."""

    snapshots: tuple[Snapshot, ...]
    aside: tuple[int, ...]
    """Files that lie in the way of the line, or behind its end."""
    beside: tuple[Snapshot, ...]
    """What else can be read, newest first: before a gap in which no snapshot is known, or of another line."""


def readable_line(files: TableFiles, history: Sequence[SnapshotRow], *, newest_schema: int) -> Line | None:
    """The line to the newest snapshot that can be read, of the files and of the catalog; None where none can be read."""
    return _found(files, history, newest_schema).line()


def line_of_files(files: TableFiles, history: Sequence[SnapshotRow], *, newest_schema: int) -> Line | None:
    """The line to the newest readable snapshot of the files, where they left the catalog's line before its end; else None.

    In the place of a published snapshot nobody else's comes to lie, but after a newer catalog went back before it, or forward to a branch.
    Where it went back to a tag of an expired snapshot, its line may end before the catalog's begins.
    """
    return _found(files, history, newest_schema).line_of_files()


def _found(files: TableFiles, history: Sequence[SnapshotRow], newest_schema: int) -> _Found:
    there = set(files.snapshot_ids())
    ids = {row.snapshot_uuid: row.snapshot_id for row in history}
    stored = {
        i: snapshot
        for i in sorted(there)
        if (snapshot := read_snapshot(files, i)) is not None
        and snapshot.schema_id <= newest_schema
        and ids.setdefault(snapshot.key, i) == i  # a commit has one id: elsewhere it is a copy of its file
    }
    known = {row.snapshot_id: Snapshot.from_json(row.body) for row in history}
    return _Found(files=files, history=history, there=there, stored=stored, known=known)


def read_snapshot(files: TableFiles, snapshot_id: int, at: str | None = None) -> Snapshot | None:
    """The snapshot that a file tells, ``at`` another place than its own; None for a file that is missing, or tells none or another."""
    try:
        snapshot = files.read_snapshot(snapshot_id) if at is None else files.snapshot_at(at, snapshot_id)
    except TableDamaged:  # not JSON, or not a snapshot
        return None
    return snapshot if snapshot is not None and snapshot.id == snapshot_id else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What the catalog knows of a branch, and what lies in its directory."""

    files: TableFiles
    history: Sequence[SnapshotRow]
    there: set[int]
    stored: Mapping[int, Snapshot]
    """The snapshots that files tell and whose schemas are known, each commit once."""
    known: Mapping[int, Snapshot]

    def line(self) -> Line | None:
        newest = self._newest()
        return None if newest is None else self._line_to(newest)

    def line_of_files(self) -> Line | None:
        agreed = self._agreed(max(self.stored, default=0))
        others = sorted((i for i in self.stored if i > agreed), reverse=True)
        published = {row.snapshot_id for row in self.history if row.published}
        if published.isdisjoint(others) and not self._goes_on_below():
            return None
        newest = next((self.stored[i] for i in others if is_readable(self.files, self.stored[i])), None)
        return None if newest is None else self._line_to(newest)

    def _goes_on_below(self) -> bool:
        """Whether all files lie before the catalog's earliest, and go on later than its newest: a newer catalog went back to a tag."""
        newest = self.stored[max(self.stored)] if self.stored else None
        if newest is None or not self.known or newest.id >= min(self.known):
            return False
        return newest.time_millis > self.known[max(self.known)].time_millis

    def _line_to(self, newest: Snapshot) -> Line:
        agreed = newest.id if newest is not self.stored.get(newest.id) else self._agreed(newest.id)
        chosen = self._chosen(agreed, newest.id)
        first = newest.id
        while first - 1 in chosen:
            first -= 1
        while first not in self.there and not is_readable(self.files, chosen[first]):  # nothing of it is left: expired, and no gap
            first += 1
        snapshots = tuple(chosen[i] for i in range(first, newest.id + 1))
        expired = min(self.known) if agreed else 0  # files before it were left by an expiry, and may lack their rows
        beside = tuple(self._beside({snapshot.key for snapshot in snapshots}, expired=expired))
        keys = {snapshot.key for snapshot in (*snapshots, *beside)}
        in_the_line = {snapshot.id for snapshot in snapshots if snapshot is self.stored.get(snapshot.id) or self._same(snapshot.id)}
        lost = (i for i in self.there if expired <= i < first and not (i in self.stored and self.stored[i].key in keys))
        aside = sorted({*lost, *(i for i in self.there if i >= first and i not in in_the_line)})
        return Line(snapshots=snapshots, aside=tuple(aside), beside=beside)

    def _same(self, snapshot_id: int) -> bool:
        known, stored = self.known.get(snapshot_id), self.stored.get(snapshot_id)
        return known is not None and stored is not None and known.key == stored.key

    def _newest(self) -> Snapshot | None:
        for snapshot_id in sorted({*self.known, *self.stored}, reverse=True):
            for snapshot in (self.stored.get(snapshot_id), self.known.get(snapshot_id)):
                if snapshot is not None and is_readable(self.files, snapshot):
                    return snapshot
        return None

    def _agreed(self, newest: int) -> int:
        """The newest snapshot that the catalog and the files have alike: up to it, the catalog's line is the line of the files."""
        return max((i for i in self.stored if i <= newest and self._same(i)), default=0)

    def _chosen(self, agreed: int, newest: int) -> dict[int, Snapshot]:
        """The line's snapshots by id, as far as any are known; expiry goes by what each took away, so no two lines may be mixed."""
        parted = any(agreed < i <= newest and i in self.known and not self._same(i) for i in self.stored)
        chosen = {i: snapshot for i, snapshot in self.stored.items() if agreed < i <= newest}
        for row in self.history:
            snapshot_id = row.snapshot_id
            if snapshot_id not in chosen and snapshot_id <= newest and not (parted and snapshot_id > agreed) and not self._is_expired(row):
                chosen[snapshot_id] = self.known[snapshot_id]
        return chosen

    def _is_expired(self, row: SnapshotRow) -> bool:
        """Whether a client took its file; they take the oldest first and never the latest: without that, missing files tell nothing."""
        if row.snapshot_id >= min(self.there, default=0):
            return False
        latest = self.history[-1]
        if latest.published and latest.snapshot_id not in self.there and max(self.there) < latest.snapshot_id:
            return not is_readable(self.files, self.known[row.snapshot_id])
        return row.published or self.files.is_expired(self.known[row.snapshot_id])

    def _beside(self, left_out: set[str], *, expired: int) -> Iterator[Snapshot]:
        """What can be read and is not in the line, newest first."""
        rows = {row.snapshot_id: row for row in self.history}
        seen = set(left_out)
        for snapshot_id in sorted({*self.known, *self.stored}, reverse=True):
            row = rows.get(snapshot_id)
            ours = None if row is None or (row is not self.history[-1] and self._is_expired(row)) else self.known[snapshot_id]
            theirs = self.stored.get(snapshot_id) if snapshot_id >= expired else None
            for snapshot in (ours, theirs):
                if snapshot is not None and snapshot.key not in seen and is_readable(self.files, snapshot):
                    seen.add(snapshot.key)
                    yield snapshot
