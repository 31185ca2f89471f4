"""Which data files the lines of a table's history need: all that any snapshot of any line has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from model.snapshot import Snapshot
from table.format.manifests.entries import EntryKind, ManifestEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of history: a branch's snapshots, or the snapshot of a tag."""

    branch: str
    snapshots: Sequence[Snapshot]
    published: frozenset[int] = frozenset()
    """Of these the files are to be there."""


Wanted = dict[tuple[object, ...], tuple[Line, int, ManifestEntry]]
"""Data files by what tells them from others: where some were taken over, those of two partitions may have one name."""


def need(line: Line, snapshot: Snapshot, entries: Iterable[ManifestEntry], needed: Wanted, *, alone: bool) -> None:
    """Add to what a snapshot needs the files that a manifest adds.

    Those that it removes are taken out where the snapshot is looked at ``alone``, all that its base tells: behind another snapshot of
    its line, that one needs them.
    """
    for entry in entries:
        if entry.kind is EntryKind.ADD:
            needed[_key(entry)] = (line, snapshot.id, entry)
        elif alone:
            needed.pop(_key(entry), None)


def goes_on_from(before: tuple[int, Iterable[str]] | None, snapshot: Snapshot, base: Sequence[str]) -> bool:
    """Whether a snapshot begins with what the one before it left, given as its id and the manifests it has: its base names the same."""
    return before is not None and before[0] == snapshot.id - 1 and sorted(before[1]) == sorted(base)


def _key(entry: ManifestEntry) -> tuple[object, ...]:
    return entry.partition, entry.bucket, entry.file.file_name, entry.file.external_path
