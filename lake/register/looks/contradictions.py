"""Manifests that contradict each other, and snapshots whose counts are not those of their entries: each file is whole, and they do not fit.

A file is removed that is not there, or added that is there already: readers fail, leave it out, or show its rows twice. No row is lost
by it: `CALL sys.remove_unexisting_files` writes the manifests of the latest snapshot anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from lake.register.looks.needed import Line, goes_on_from
from model.snapshot import CommitKind, Snapshot
from model.text.sql_text import literal
from table.format.manifests.entries import EntryKind, ManifestEntry, ManifestFile
from table.scan.planning.live import Key, settle

REMOVED_FILES = "REMOVE_UNEXISTING_FILES"
"""The operation of a snapshot that does without what was lost; its delta does not tell the files of manifests that were lost."""
_COUNTED_SINCE = 3
"""The version of snapshots from which on every writer tells counts."""

Listed = Callable[[str], Sequence[ManifestFile] | None]
Entries = Callable[[ManifestFile], Sequence[ManifestEntry] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """What does not fit in a snapshot."""

    snapshot: Snapshot
    manifest: str | None
    """The name of the manifest; None where it is the snapshot's own file."""
    problem: str


class Contradictions:
    """The contradictions of a table's lines; a snapshot that several lines have is told once."""

    def __init__(self, listed: Listed, entries: Entries) -> None:
        """``listed`` and ``entries`` tell what a list and a manifest hold, None of one that cannot be read."""
        self._listed, self._entries = listed, entries
        self._seen = set[str]()

    def of(self, line: Line, *, table: str) -> Iterator[Contradiction]:
        """Those of one line, oldest first, with the way out; ``table`` as it is written.

        Snapshots of which something cannot be read are passed over: nothing tells what contradicts that.
        """
        contradictions = list[Contradiction]()
        running: _Running | None = None
        before: tuple[int, Sequence[str]] | None = None
        for snapshot in line.snapshots:
            base, delta = self._listed(snapshot.base_manifest_list), self._listed(snapshot.delta_manifest_list)
            if base is None or delta is None:
                running = before = None
                continue
            if running is None or not goes_on_from(before, snapshot, [meta.file_name for meta in base]):
                running = None if snapshot.key in self._seen else _Running()
            before = snapshot.id, [meta.file_name for meta in (*base, *delta)]
            if running is None:
                continue
            problems = self._told(running, snapshot, base if running.is_new else (), delta)
            if problems is None:
                running = None
            elif snapshot.key not in self._seen:
                contradictions += problems
            self._seen.add(snapshot.key)
        present = self._present(line) if contradictions and line.published else frozenset()
        for one in contradictions:
            yield replace(one, problem=f"{one.problem}; {_way_out(table, stays=one.manifest in present)}")

    def _told(
        self, running: _Running, snapshot: Snapshot, base: Sequence[ManifestFile], delta: Sequence[ManifestFile]
    ) -> list[Contradiction] | None:
        """What contradicts what is live, and this changes; None where a manifest cannot be read."""
        contradictions = []
        changed_rows = 0
        for meta in (*base, *delta):
            if (entries := self._entries(meta)) is None:
                return None
            if wrong := running.settle(entries):
                contradictions.append(Contradiction(snapshot=snapshot, manifest=meta.file_name, problem=told_of(wrong)))
        for meta in delta:
            changed_rows += rows_of(self._entries(meta) or ())
        problems = []
        if snapshot.version >= _COUNTED_SINCE:
            if snapshot.delta_record_count != changed_rows and not _tells_no_changes(snapshot):
                counts = f"tells {snapshot.delta_record_count:,} rows as added by it"
                problems.append(f"{counts}, and the entries of its delta hold {changed_rows:,}")
            surplus = snapshot.total_record_count - running.rows
            if surplus not in (0, running.surplus):  # later ones count from the first that is wrong
                problems.append(wrong_total(snapshot, running.rows))
            running.surplus = surplus
        running.is_new = False
        if problems:
            contradictions.append(Contradiction(snapshot=snapshot, manifest=None, problem="; it ".join(problems)))
        return contradictions

    def _present(self, line: Line) -> frozenset[str | None]:
        """The manifests by which the newest snapshot contradicts itself, and None where it has a wrong total."""
        newest, running = line.snapshots[-1], _Running()
        present = set[str | None]()
        for name in (newest.base_manifest_list, newest.delta_manifest_list):
            for meta in self._listed(name) or ():
                if running.settle(self._entries(meta) or ()):
                    present.add(meta.file_name)
        if newest.total_record_count != running.rows:
            present.add(None)
        return frozenset(present)


class _Running:
    """What is live in one snapshot of a line after the other, and how many rows that has."""

    def __init__(self) -> None:
        self._live: dict[Key, ManifestEntry] = {}
        self.is_new = True
        self.rows = self.surplus = 0
        """``surplus``: by how many rows the snapshot before tells more."""

    def settle(self, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
        """Let entries change what is live; returns those that contradict it."""
        wrong = settle(self._live, entries)
        self.rows += rows_of(entries) - rows_of(wrong)
        return wrong


def _tells_no_changes(snapshot: Snapshot) -> bool:
    """Whether it may count other changes than its delta has: it does without what was lost, or Java wrote its lists anew, and tells 0."""
    anew = snapshot.commit_kind is CommitKind.OVERWRITE and snapshot.delta_record_count == 0
    return anew or snapshot.done == REMOVED_FILES


def rows_of(entries: Sequence[ManifestEntry]) -> int:
    """By how many rows entries change a table."""
    return sum(entry.file.row_count if entry.kind is EntryKind.ADD else -entry.file.row_count for entry in entries)


def told_of(wrong: Sequence[ManifestEntry]) -> str:
    """What is wrong with a manifest of which these entries contradict those before them."""
    removed = [entry.file.file_name for entry in wrong if entry.kind is EntryKind.DELETE]
    added = [entry.file.file_name for entry in wrong if entry.kind is EntryKind.ADD]
    kinds = (("removes", removed, "is not there: nothing before it adds it"), ("adds", added, "is there already"))
    return " and ".join(f"{verb} {_files(names)} that {what}" for verb, names, what in kinds if names)


def wrong_total(snapshot: Snapshot, rows: int) -> str:
    """What is wrong with a snapshot whose files hold another number of rows."""
    return f"tells {snapshot.total_record_count:,} rows in all, and its files hold {rows:,}"


def _files(names: Sequence[str]) -> str:
    return f"file {names[0]}" if len(names) == 1 else f"{len(names):,} files, the first of them {names[0]},"


def _way_out(table: str, *, stays: bool) -> str:
    if not stays:
        return "the latest snapshot does not have it, and it goes when this one expires and no tag has it"
    statement = f"CALL sys.remove_unexisting_files({literal(table)}, dry_run => false)"
    return f"{statement} writes the manifests of the latest snapshot anew, without losing rows"
