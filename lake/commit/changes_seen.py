"""What a change of rows went by, held against what the catalog knows to have come since: a snapshot's file may still be on its way."""

from __future__ import annotations

from catalog import CatalogStore
from lake.tables.handle import LakeTable
from model.snapshot import Snapshot
from table.write.seen import Later, Seen, check_seen


def seen_until_now(catalog: CatalogStore, table: LakeTable, seen: Seen, latest: Snapshot | None = None) -> Seen:
    """The same rows as of now; raises `RewriteConflict` where rows that matter were changed since.

    ``latest``: the newest snapshot, where that is known; nothing is asked where it is the one that was looked at.
    """
    if latest is not None and (latest.id, latest.key) == (seen.snapshot, seen.key):
        return seen
    with catalog.reading() as tx:
        rows = tx.snapshots.changes_since(table.table_id, table.identifier.branch, seen.snapshot, appends=seen.replaced is not None)
    later = (Later(id=number, key=key, change=Snapshot.from_json(body) if body else None) for number, key, body in rows)
    return check_seen(table.files, table.schema, seen, later)
