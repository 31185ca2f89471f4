"""The hints of a table's newest and earliest snapshot, held to what is decided: Java's readers believe one whose snapshot is the last."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from catalog import CatalogTransaction
from table.format.layout import TableLayout, branch_of_snapshot
from table.format.store import TableFiles


def lower_hints(tx: CatalogTransaction, table_id: UUID, files: TableFiles, removed: Collection[str]) -> None:
    """Let no hint name one of the snapshots just removed: Java's readers believe it where there is no next one.

    While the files are still on record, so that a crash in between leaves it to be done again. A hint of another snapshot stays: it may
    be all that tells of one that is newer than an old catalog.
    """
    for branch in {branch for path in removed if (branch := branch_of_snapshot(path)) is not None}:
        layout, row = TableLayout(files.location, branch), tx.snapshots.latest(table_id, branch)
        hint = files.read_hint(layout.latest_hint())
        if row is None or hint is None or hint <= row.snapshot_id:
            continue
        named = layout.snapshot_file(hint)
        if layout.below(named) in removed and not files.io.file_exists(named):
            files.io.write(layout.latest_hint(), str(row.snapshot_id).encode())


def raise_hint(files: TableFiles, path: str, to: int, *, above: int) -> None:
    """Let a hint name no snapshot up to one that has expired: Java's readers believe it where the one after it has expired, too."""
    hint = files.read_hint(path)
    if hint is not None and hint <= above:
        files.io.write(path, str(to).encode())


def hints_beyond(files: TableFiles, newest: int) -> bool:
    """Whether the hint names a later snapshot whose file is there."""
    hint = files.read_hint(files.layout.latest_hint()) or 0
    return hint > newest and files.io.file_exists(files.layout.snapshot_file(hint))
