"""Which data files the lines of a table's history need: all that any snapshot of any line has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from model.identifier import MAIN_BRANCH
from model.snapshot import Snapshot
from table.format.manifests.entries import EntryKind, ManifestEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of history: a branch's snapshots, or the snapshot of a tag."""

    branch: str
    snapshots: Sequence[Snapshot]
    published: frozenset[int] = frozenset()
    """Of these the files are to be there."""


Key = tuple[object, ...]
"""What tells a data file from others: where some were taken over, those of two partitions may have one name."""
Wanted = dict[Key, tuple[Line, int, ManifestEntry]]
"""Data files, each with the newest snapshot that needs it, and its line: main's latest before a branch's, and that before an older one."""


class NeededByLine:
    """The data files that the snapshots of a line need, which come oldest first."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._needed: dict[Key, ManifestEntry] = {}
        self._until: dict[Key, int] = {}
        """The last snapshot that needs one, where a later one does not."""
        self._last = 0
        """The snapshot that was added last."""

    def add(self, snapshot_id: int, entries: Iterable[ManifestEntry], *, follows: bool) -> None:
        """Add what the manifests of a snapshot add: of its delta alone where it ``follows`` the one before, else of all it has.

        Those that it removes are taken out where it does not follow: behind another snapshot of the line, that one needs them.
        """
        alone: dict[Key, ManifestEntry] = {}
        for entry in entries:
            key = _key(entry)
            if entry.kind is EntryKind.ADD:
                alone[key] = entry
            elif follows:
                self._until[key] = self._last
            else:
                alone.pop(key, None)
        if not follows:
            self._until |= dict.fromkeys(self._needed.keys() - self._until.keys(), self._last)
        for key in alone:
            self._until.pop(key, None)
        self._needed |= alone
        self._last = snapshot_id

    def into(self, wanted: Wanted) -> None:
        """Add them to what other lines need."""
        line = self._line
        latest = line.snapshots[-1].id if line.snapshots else 0
        for key, entry in self._needed.items():
            new = (line, min(self._until.get(key, latest), latest), entry)
            if key not in wanted or _telling(new) > _telling(wanted[key]):
                wanted[key] = new


def _telling(one: tuple[Line, int, ManifestEntry]) -> tuple[bool, bool, int]:
    """What matters more to whoever hears that a file is lost."""
    line, snapshot_id, _ = one
    return bool(line.published) and snapshot_id == line.snapshots[-1].id, line.branch == MAIN_BRANCH, snapshot_id


def goes_on_from(before: tuple[int, Iterable[str]] | None, snapshot: Snapshot, base: Sequence[str]) -> bool:
    """Whether a snapshot begins with what the one before it left, given as its id and the manifests it has: its base names the same."""
    return before is not None and before[0] == snapshot.id - 1 and sorted(before[1]) == sorted(base)


def _key(entry: ManifestEntry) -> Key:
    return entry.partition, entry.bucket, entry.file.file_name, entry.file.external_path
