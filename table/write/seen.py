"""What a change of rows went by, and whether it still holds when it is decided: no two changes both go by rows that the other changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from model.errors import RewriteConflict
from model.predicate import Predicate
from model.schema.schema import Schema
from model.snapshot import CommitKind, Operation, Snapshot
from table.format.manifests.entries import EntryKind
from table.format.store import TableFiles
from table.scan.planning.entry_scan import plan_entries


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The rows a change of rows has looked at."""

    snapshot: int
    """The snapshot they are of, 0 for none."""
    key: str | None
    """Its key: after a rollback another one may have its id."""
    predicate: Predicate | None = None
    """What is certain of every row that matters; None for no restriction."""
    whole: bool = False
    """Whether rows matter that are not changed, too: those a subquery reads, or that a MERGE finds missing."""
    replaced: Callable[[bytes], bool] | None = None
    """Of an overwrite by rows of the table itself: the partitions it replaces. What came into one or went matters, rows that were only
    added too, as they would go unseen; elsewhere, what changed rows that match."""

    @classmethod
    def of(
        cls,
        snapshot: Snapshot | None,
        predicate: Predicate | None,
        *,
        whole: bool = False,
        replaced: Callable[[bytes], bool] | None = None,
    ) -> Seen:
        """Rows of a snapshot, None for a table without any."""
        number, key = (snapshot.id, snapshot.key) if snapshot else (0, None)
        return cls(snapshot=number, key=key, predicate=predicate, whole=whole, replaced=replaced)


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """A snapshot as far as a change of rows must know it: the one it looked at, or one that came since."""

    id: int
    key: str
    change: Snapshot | None
    """The snapshot, where it may have changed rows: it does not have the same rows in other files, nor, where appends do not matter,
    appends rows that went by nothing."""


def check_seen(files: TableFiles, schema: Schema, seen: Seen, later: Iterable[Later]) -> Seen:
    """The same rows as of the last of the later snapshots; raises `RewriteConflict` where one of them changed rows that matter.

    Rows that went are no matter of a condition on rows alone: where they were to be changed, their files are gone, which the commit sees.
    """
    last, key, looked = seen.snapshot, seen.key, False
    for snapshot in later:
        looked = True
        if snapshot.id == seen.snapshot and snapshot.key == seen.key:
            continue
        if snapshot.id != last + 1:
            raise _gone(last)
        if snapshot.change is not None and _matters(files, schema, snapshot.change, seen):
            raise RewriteConflict(
                f"Snapshot {snapshot.id} changed rows that may matter while others were being changed; nothing was changed.",
                resource_name=str(snapshot.id),
            )
        last, key = snapshot.id, snapshot.key
    if seen.snapshot and not looked:
        raise _gone(seen.snapshot)
    return replace(seen, snapshot=last, key=key)


def _gone(snapshot: int) -> RewriteConflict:
    return RewriteConflict(
        f"Snapshots from {snapshot} on have expired or were rolled back while rows were being changed; nothing was changed. "
        "'snapshot.num-retained.min' keeps more of them.",
        resource_name=str(snapshot),
    )


def _matters(files: TableFiles, schema: Schema, change: Snapshot, seen: Seen) -> bool:
    if seen.replaced is None:
        return seen.whole or _concerns(files, schema, change, seen.predicate)
    entries = list(files.delta_entries(change))
    if any(seen.replaced(entry.partition) for entry in entries):
        return True
    only_added = change.commit_kind is CommitKind.APPEND and change.operation != Operation.MERGE
    return not only_added and bool(plan_entries(files, schema, change, entries, seen.predicate).files)


def _concerns(files: TableFiles, schema: Schema, snapshot: Snapshot, predicate: Predicate | None) -> bool:
    """Whether files that a snapshot added may hold rows that match."""
    added = (entry for entry in files.delta_entries(snapshot) if entry.kind is EntryKind.ADD)
    return bool(plan_entries(files, schema, snapshot, added, predicate).files)
