"""All the snapshots that the catalog has of a table, of whichever branch or tag."""

from __future__ import annotations

from uuid import UUID

from catalog import CatalogTransaction
from model.identifier import MAIN_BRANCH
from model.snapshot import Snapshot


def known_lines(tx: CatalogTransaction, table_id: UUID, *, but: str | None = None) -> list[list[Snapshot]]:
    """The history of each branch, main's first and the oldest snapshot of each first, then every tag alone; without one branch's.

    Ask in a transaction that sees one moment (`CatalogStore.consistent`), or holds the table: a snapshot may go from branch to branch.
    """
    branches = [branch for branch in (MAIN_BRANCH, *tx.branches.names(table_id)) if branch != but]
    lines = [[Snapshot.from_json(row.body) for row in tx.snapshots.history(table_id, branch)] for branch in branches]
    return lines + [[Snapshot.from_json(row.snapshot)] for branch in branches for row in tx.tags.all(table_id, branch)]
