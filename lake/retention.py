"""Expiry, rollback and tags: the catalog decides what is kept, then the files nothing needs any more are deleted.

A crash between the two leaves files that `sys.remove_orphan_files` finds, and never a snapshot without its files.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catalog import CatalogTransaction
from lake.names import check_name
from lake.table import LakeTable
from lake.tags import Tag, tag_body, tag_from_json
from model.errors import InvalidName, SnapshotNotExist, TableNotExist, TagNotExist
from model.identifier import MAIN_BRANCH
from model.snapshot import Snapshot
from table.consumers import read_consumers
from table.expire import ExpiryRules, Garbage, expired_before, left_by_expiry, left_by_rollback, left_by_tag

if TYPE_CHECKING:
    from lake.lake import Lake


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What went, or would go."""

    snapshots: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    data_files: int = 0
    metadata_files: int = 0
    size: int = 0
    """Bytes of the files, as far as metadata tells."""

    def __add__(self, other: Removed) -> Removed:
        return Removed(
            snapshots=self.snapshots + other.snapshots,
            tags=self.tags + other.tags,
            data_files=self.data_files + other.data_files,
            metadata_files=self.metadata_files + other.metadata_files,
            size=self.size + other.size,
        )


def _removed(snapshots: Sequence[Snapshot], garbage: Garbage, tags: Sequence[str] = ()) -> Removed:
    return Removed(
        snapshots=tuple(s.id for s in snapshots),
        tags=tuple(tags),
        data_files=len(garbage.data),
        metadata_files=len(garbage.metadata),
        size=garbage.size,
    )


def _lock(tx: CatalogTransaction, table: LakeTable) -> None:
    """Keep what is retained from being changed by others until the transaction ends; commits go on."""
    row = tx.tables.lock_retention(table.identifier)
    if row is None or row != (table.table_id, table.location):
        raise TableNotExist(str(table.identifier))


def _kept_elsewhere(tx: CatalogTransaction, table: LakeTable) -> list[Snapshot]:
    """Snapshots of other branches: their data lies in this table's directories, too."""
    found = []
    for branch in tx.snapshots.branches(table.table_id):
        if branch != table.identifier.branch:
            found += [Snapshot.from_json(row.body) for row in tx.snapshots.history(table.table_id, branch)]
    return found


def _tags(tx: CatalogTransaction, table: LakeTable) -> list[Tag]:
    return [tag_from_json(name, body) for name, body in tx.tags.all(table.table_id)]


def _delete(table: LakeTable, garbage: Garbage) -> None:
    """Data first, then what names it: a half done deletion is never visible as a snapshot that lacks files."""
    for path in (*garbage.data, *garbage.metadata):
        table.files.io.delete(path)


def expire_snapshots(lake: Lake, table: LakeTable, rules: ExpiryRules, *, dry_run: bool = False, now_millis: int | None = None) -> Removed:
    """Let snapshots go by count and age; what tags, branches and consumers need stays."""
    if table.identifier.branch != MAIN_BRANCH:
        return Removed()
    table.latest()  # publishes what is decided, so that no file is missing below
    now = time.time_ns() // 1_000_000 if now_millis is None else now_millis
    with lake.catalog.transaction() as tx:
        _lock(tx, table)
        # A busy table may keep hundreds of thousands of snapshots: only those one run may take are read, and their successor.
        most = None if rules.per_run is None else rules.per_run + 1
        history = [Snapshot.from_json(row.body) for row in tx.snapshots.history(table.table_id, table.identifier.branch, first=most)]
        newest = tx.snapshots.latest(table.table_id, table.identifier.branch)
        unread = min((consumer.next_snapshot for consumer in read_consumers(table.files)), default=None)
        latest = newest.snapshot_id if newest else None
        end = expired_before(history, rules, first_unread=unread, now_millis=now, latest=latest)
        expired = [s for s in history if s.id < end]
        if not expired:
            return Removed()
        first = history[len(expired)]
        kept = [tag.snapshot for tag in _tags(tx, table) if tag.snapshot.id < first.id] + _kept_elsewhere(tx, table)
        if not dry_run:
            tx.snapshots.remove(table.table_id, table.identifier.branch, [s.id for s in expired])
    garbage = left_by_expiry(table.files, table.schema, expired, kept, first)
    if not dry_run:
        lake.hook("expiry decided")
        _delete(table, garbage)
        for snapshot in expired:
            table.files.io.delete(table.files.layout.snapshot_file(snapshot.id))
        clear_stale_snapshots(lake, table)
    return _removed(expired, garbage)


def clear_stale_snapshots(lake: Lake, table: LakeTable) -> None:
    """Delete snapshot files older than the catalog's earliest, which a crash left, and tell readers where history begins."""
    with lake.catalog.reading() as tx:
        earliest = tx.snapshots.earliest_id(table.table_id, table.identifier.branch)
    if earliest is None:
        return
    for snapshot_id in table.files.snapshot_ids():
        if snapshot_id < earliest:
            table.files.io.delete(table.files.layout.snapshot_file(snapshot_id))
    if table.files.read_hint(table.files.layout.earliest_hint()) != earliest:
        table.files.io.write(table.files.layout.earliest_hint(), str(earliest).encode())


def create_tag(
    lake: Lake,
    table: LakeTable,
    name: str,
    *,
    snapshot_id: int | None = None,
    retained: dt.timedelta | None = None,
    replace: bool = False,
) -> Tag:
    """Keep a snapshot under a name, for a time or for good; raises `SnapshotNotExist`, `InvalidName` or, to replace, `TagNotExist`."""
    check_name(name, "tag")
    latest = table.latest()
    with lake.catalog.transaction() as tx:
        _lock(tx, table)
        wanted = snapshot_id if snapshot_id is not None else latest.id if latest else 0
        row = tx.snapshots.get(table.table_id, table.identifier.branch, wanted)
        if row is None:
            raise SnapshotNotExist(f"Table {table.identifier} has no snapshot {wanted or ''} to tag.", resource_name=str(wanted))
        body = tag_body(row.body, retained=retained, now=dt.datetime.now())
        if replace and not tx.tags.drop(table.table_id, name):
            raise TagNotExist(name, str(table.identifier))
        if not tx.tags.put(table.table_id, name, body):
            raise InvalidName(f"Tag {name} already exists on table {table.identifier}.")
    _write_tag(table, name, body)
    return tag_from_json(name, body)


def _write_tag(table: LakeTable, name: str, body: dict[str, Any]) -> None:
    table.files.io.write(table.files.layout.tag_file(name), json.dumps(body, indent=2).encode())


def rename_tag(lake: Lake, table: LakeTable, name: str, to: str) -> None:
    """Give a tag another name; raises `TagNotExist` or `InvalidName`."""
    check_name(to, "tag")
    with lake.catalog.transaction() as tx:
        _lock(tx, table)
        body = tx.tags.get(table.table_id, name)
        if body is None:
            raise TagNotExist(name, str(table.identifier))
        if not tx.tags.put(table.table_id, to, body):
            raise InvalidName(f"Tag {to} already exists on table {table.identifier}.")
        tx.tags.drop(table.table_id, name)
    _write_tag(table, to, dict(body))
    table.files.io.delete(table.files.layout.tag_file(name))


def delete_tag(lake: Lake, table: LakeTable, name: str, *, dry_run: bool = False) -> Removed:
    """Forget a tag, and with it what only it kept; raises `TagNotExist`."""
    with lake.catalog.transaction() as tx:
        _lock(tx, table)
        tags = _tags(tx, table)
        dropped = next((tag for tag in tags if tag.name == name), None)
        if dropped is None:
            raise TagNotExist(name, str(table.identifier))
        history = tx.snapshots.history(table.table_id, table.identifier.branch)
        garbage = Garbage()
        others = [tag.snapshot for tag in tags if tag.name != name]
        still_there = any(row.snapshot_id == dropped.snapshot.id for row in history)
        neighbours = _neighbours(dropped.snapshot, [*others, *(Snapshot.from_json(row.body) for row in history[:1])])
        kept = neighbours + _kept_elsewhere(tx, table)
        if not dry_run:
            tx.tags.drop(table.table_id, name)
    if not still_there and not any(s.id == dropped.snapshot.id for s in others):
        garbage = left_by_tag(table.files, table.schema, dropped.snapshot, kept)
    if not dry_run:
        lake.hook("tag dropped")
        _delete(table, garbage)
        table.files.io.delete(table.files.layout.tag_file(name))
    return _removed([], garbage, [name])


def _neighbours(tagged: Snapshot, others: Sequence[Snapshot]) -> list[Snapshot]:
    """The nearest kept snapshots on either side: a file lives from one commit to another, so what farther ones need these need, too."""
    before = max((s for s in others if s.id < tagged.id), key=lambda s: s.id, default=None)
    after = min((s for s in others if s.id > tagged.id), key=lambda s: s.id, default=None)
    return [s for s in (before, after) if s is not None]


def rollback(lake: Lake, table: LakeTable, to: Snapshot, *, dry_run: bool = False) -> Removed:
    """Make a snapshot the latest again; later snapshots and their tags go, and the files only they had.

    The files of later snapshots are away before the decision, and are put back by whoever looks at the table where a
    crash comes between: until then they are on record as not published.
    """
    latest = table.latest()
    branch = table.identifier.branch
    if not dry_run:
        with lake.catalog.transaction() as tx:
            tx.snapshots.unpublish_after(table.table_id, branch, to.id)
    with lake.catalog.transaction() as tx:
        row = tx.tables.lock(table.identifier)
        if row.table_id != table.table_id or row.location != table.location:
            raise TableNotExist(str(table.identifier))
        history = [Snapshot.from_json(found.body) for found in tx.snapshots.history(table.table_id, branch)]
        removed = [s for s in history if s.id > to.id]
        tags = _tags(tx, table)
        later = [tag for tag in tags if tag.snapshot.id > to.id]
        kept = [tag.snapshot for tag in tags if tag.snapshot.id <= to.id] + _kept_elsewhere(tx, table)
        garbage = left_by_rollback(table.files, table.schema, removed, to, kept)
        if dry_run or latest is None:
            return _removed(removed, garbage, [tag.name for tag in later])
        tx.snapshots.roll_back(table.table_id, branch, to.id, uuid=to.uuid or "", body=to.to_json())
        for tag in later:
            tx.tags.drop(table.table_id, tag.name)
            table.files.io.delete(table.files.layout.tag_file(tag.name))
        for snapshot in reversed(removed):
            table.files.io.delete(table.files.layout.snapshot_file(snapshot.id))
        table.files.publish_snapshot(to)
        table.files.write_hints(to.id)
        lake.hook("rollback deciding")
    _delete(table, garbage)
    return _removed(removed, garbage, [tag.name for tag in later])
