"""Whether a dropped table's files show that it was used after the drop: it was brought back, and the catalog is older than its warehouse.

Nothing else tells: a restored backup, or a standby that lagged, knows of the drop and not of the UNDROP.
"""

from __future__ import annotations

from catalog import CatalogStore
from catalog.objects.drops import DroppedTable
from lake.register.readable_line import read_snapshot
from lake.register.unknown_branches import unknown_branches
from model.identifier import MAIN_BRANCH
from model.text.sql_text import quote
from table.format.io.file_io import FileIO
from table.format.layout import TableLayout
from table.format.store import TableFiles


def used_since(catalog: CatalogStore, io: FileIO, dropped: DroppedTable) -> str | None:
    """In which its files are other than the catalog knows, in words; None where it knows all of them.

    Its rows of snapshots and schemas stay while it is kept. What was taken back and is still on record to be removed counts for nothing.
    """
    table_id, location = dropped.table_id, dropped.own_directory or dropped.location
    with catalog.reading() as tx:
        branches = [MAIN_BRANCH, *tx.branches.names(table_id)]
        unknown = unknown_branches(tx, io, table_id, location)
        stale = tx.stale.paths(table_id)
    if unknown:
        return f"the catalog does not have its branch {', '.join(unknown)}"
    for branch in branches:
        files = TableFiles(io, location, branch)
        there = [number for number in files.snapshot_ids() if files.layout.below(files.layout.snapshot_file(number)) not in stale]
        with catalog.reading() as tx:  # after the files: a snapshot is in the catalog before it is there
            latest = tx.snapshots.latest(table_id, branch)
            schema_id = max((number for number, _ in tx.tables.schemas(table_id, branch)), default=-1)
        newest = 0 if latest is None else latest.snapshot_id
        if there and there[-1] > newest:
            return f"{_snapshot(files.layout, there[-1])} is newer than the catalog's {newest or 'table, which has none'}"
        if latest is not None and newest in there:
            stored = read_snapshot(files, newest)
            if stored is not None and stored.key != latest.snapshot_uuid:
                return f"{_snapshot(files.layout, newest)} is another snapshot than the catalog's"
        elif latest is not None and latest.published and there:  # whoever expires by files never takes the newest
            return f"its newest snapshot there is {there[-1]}, and the catalog's is {newest}: it was rolled back, or the warehouse is older"
        schema_file = files.layout.schema_file(schema_id + 1)
        if io.file_exists(schema_file) and files.layout.below(schema_file) not in stale:
            return f"{files.layout.below(schema_file)} is newer than the catalog's schema {schema_id}"
    return None


def undrop_of(dropped: DroppedTable) -> str:
    """The statement that brings it back."""
    if not dropped.housed:
        return f"UNDROP DATABASE {quote(dropped.database)}"
    return f"UNDROP TABLE {quote(dropped.database)}.{quote(dropped.name)} WITH ID {dropped.drop_id}"


def _snapshot(layout: TableLayout, snapshot_id: int) -> str:
    return layout.below(layout.snapshot_file(snapshot_id))
