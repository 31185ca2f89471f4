"""Whether a dropped table's files show that it was used after the drop: it was brought back, and the catalog is older than its warehouse.

Nothing else tells: a restored backup, or a standby that lagged, knows of the drop and not of the UNDROP. That leaves a file in the
table's directory, as who only reads changes none; or another table was made there once this one had gone for good.
"""

from __future__ import annotations

import json

from catalog import CatalogStore
from catalog.objects.drops import DroppedTable
from lake.register.own_files import others_schema
from lake.register.readable_line import read_snapshot
from lake.register.unknown_branches import unknown_branches
from lake.tables.tag_files import replacement, stored_tags, tag_in
from model.identifier import MAIN_BRANCH
from model.text.sql_text import quote
from table.format.io.file_io import FileIO
from table.format.json_document import parse_json
from table.format.layout import TableLayout
from table.format.store import TableFiles

_CLOCKS_APART_MILLIS = 60_000
"""By so much the times of a store's files may be behind Postgres's clock."""


def note_undrop(io: FileIO, dropped: DroppedTable) -> None:
    """Leave a file in a table's directory that tells which drop was taken back last."""
    if dropped.own_directory is not None:
        body = {"drop": dropped.drop_id, "droppedMillis": _millis(dropped)}
        io.write(TableLayout(dropped.own_directory).undrop_file(), json.dumps(body).encode())


def _is_taken_back(io: FileIO, location: str, dropped: DroppedTable) -> bool:
    """Whether a drop, or a later one, was taken back: by its time, as an older catalog gives its numbers a second time."""
    try:
        millis = parse_json(io.read(TableLayout(location).undrop_file()))["droppedMillis"]
        return isinstance(millis, int) and millis >= _millis(dropped)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False


def _millis(dropped: DroppedTable) -> int:
    return round(dropped.dropped_at.timestamp() * 1000)


def used_since(catalog: CatalogStore, io: FileIO, dropped: DroppedTable) -> str | None:
    """In which its files are other than the catalog knows, in words; None where it knows all of them.

    Its rows of snapshots and schemas stay while it is kept. What was taken back and is still on record to be removed counts for nothing.
    """
    table_id, location = dropped.table_id, dropped.own_directory or dropped.location
    with catalog.reading() as tx:
        branches = [MAIN_BRANCH, *tx.branches.names(table_id)]
        unknown = unknown_branches(tx, io, table_id, location)
        stale = tx.stale.paths(table_id)
        others = others_schema(tx, table_id, MAIN_BRANCH, TableFiles(io, location))
    if _is_taken_back(io, location, dropped):
        return "its drop was taken back"
    if others is not None:
        return f"{TableLayout(location).below(others)} is another table's, made in its place"
    if unknown:
        return f"the catalog does not have its branch {', '.join(unknown)}"
    lines = (TableFiles(io, location, branch) for branch in branches)
    return next(
        filter(None, (_by_snapshots(catalog, dropped, line, stale) or _besides(catalog, dropped, line, stale) for line in lines)), None
    )


def _by_snapshots(catalog: CatalogStore, dropped: DroppedTable, files: TableFiles, stale: set[str]) -> str | None:
    """What the snapshots of a branch tell of it."""
    branch = files.layout.branch
    there = [number for number in files.snapshot_ids() if files.layout.below(files.layout.snapshot_file(number)) not in stale]
    with catalog.reading() as tx:  # after the files: a snapshot is in the catalog before it is there
        latest = tx.snapshots.latest(dropped.table_id, branch)
    newest = 0 if latest is None else latest.snapshot_id
    if there and there[-1] > newest:
        return f"{_snapshot(files.layout, there[-1])} is newer than the catalog's {newest or 'table, which has none'}"
    if latest is None:
        return None
    if newest in there:
        stored = read_snapshot(files, newest)
        is_another = stored is not None and stored.key != latest.snapshot_uuid
        return f"{_snapshot(files.layout, newest)} is another snapshot than the catalog's" if is_another else None
    if latest.published and there:  # whoever expires by files never takes the newest
        return f"its newest snapshot there is {there[-1]}, and the catalog's is {newest}: it was rolled back, or the warehouse is older"
    if latest.published and branch != MAIN_BRANCH and TableFiles(files.io, files.location).schema_ids():
        return f"its branch {branch} is not there any more"
    return None


def _besides(catalog: CatalogStore, dropped: DroppedTable, files: TableFiles, stale: set[str]) -> str | None:
    """What its schemas and tags tell."""
    schemas, stored = files.schema_ids(), stored_tags(files)
    with catalog.reading() as tx:
        known = max((number for number, _ in tx.tables.schemas(dropped.table_id, files.layout.branch)), default=-1)
        rows = {row.name: row for row in tx.tags.all(dropped.table_id, files.layout.branch)}
    for number in schemas:
        path = files.layout.below(files.layout.schema_file(number))
        if number > known and path not in stale:
            return f"{path} is newer than the catalog's schema {known}"
    since = dropped.dropped_at.timestamp() * 1000 - _CLOCKS_APART_MILLIS
    for name, status in stored.items():
        if status.mtime_millis < since:  # a client's, of before the drop, that nobody has taken in
            continue
        path = files.layout.below(files.layout.tag_file(name))
        other = tag_in(files, name) if name not in rows else replacement(files, rows[name], status)
        if path not in stale and other is not None:
            return f"{path} is a tag that the catalog does not have"
    return None


def undrop_of(dropped: DroppedTable) -> str:
    """The statement that brings it back."""
    if not dropped.housed:
        return f"UNDROP DATABASE {quote(dropped.database)}"
    return f"UNDROP TABLE {quote(dropped.database)}.{quote(dropped.name)} WITH ID {dropped.drop_id}"


def _snapshot(layout: TableLayout, snapshot_id: int) -> str:
    return layout.below(layout.snapshot_file(snapshot_id))
