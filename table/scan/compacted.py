"""Where `scan.mode` = `compacted-full` reads: the latest snapshot that is a compaction (`paimon-append.md` §8.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from model.options.table import TABLE_OPTIONS
from model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot


def last_compacted(snapshots: Sequence[Snapshot], options: Mapping[str, str]) -> Snapshot | None:
    """The latest of the snapshots, oldest first, that compacts; None where none does.

    With `full-compaction.delta-commits` only that of every so many commits of a streaming writer is a full one, and each that is asked
    for, as this server's are (`FullCompactedStartingScanner`).
    """
    every = TABLE_OPTIONS.read(options, "full-compaction.delta-commits") or 1
    return next((s for s in reversed(snapshots) if s.commit_kind is CommitKind.COMPACT and _is_full(s, every)), None)


def _is_full(snapshot: Snapshot, every: int) -> bool:
    return snapshot.commit_identifier % every == 0 or snapshot.commit_identifier == BATCH_COMMIT_IDENTIFIER
