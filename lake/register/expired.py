"""Snapshots that clients expired: noticed when somebody looks at a table's past, and the catalog's no more from then on.

Paimon's clients delete the files of old snapshots without asking a catalog; Java's committers do so by themselves. They take the oldest
first and never the latest: a missing prefix is such an expiry. A hole among the files is damage, and nothing is concluded from it.
Of a snapshot that is not noted as published, as where a dump was made just after its commit, what it names is gone, too.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from uuid import UUID

from catalog import CatalogStore, CatalogTransaction
from catalog.records import SnapshotRow
from lake.commit.ahead import ahead_of
from lake.tables.handle import LakeTable
from model.errors import TableDamaged
from model.identifier import Identifier
from model.snapshot import Snapshot
from table.format.store import TableFiles

_log = logging.getLogger(__name__)


def forget_expired(catalog: CatalogStore, table: LakeTable) -> bool:
    """Let the catalog forget the snapshots whose files clients removed; False where there are none, which costs a look at one file."""
    files, branch = table.files, table.identifier.branch
    with catalog.reading() as tx:
        earliest = tx.snapshots.earliest(table.table_id, branch)
    if earliest is None or files.io.file_exists(files.layout.snapshot_file(earliest.snapshot_id)):
        return False
    if not earliest.published and not files.is_expired(Snapshot.from_json(earliest.body)):
        return False
    with catalog.transaction() as tx:
        table_row = tx.tables.lock_retention(Identifier(table.identifier.database, table.identifier.table))
        if table_row != (table.table_id, table.location):
            return False
        there = set(files.snapshot_ids())
        known = tx.snapshots.ids(table.table_id, branch)
        newest = tx.snapshots.latest(table.table_id, branch)
        if not known or newest is None or (newest.published and newest.snapshot_id not in there):
            return False  # no expiry takes the latest
        if not has_lists(files, Snapshot.from_json(newest.body)):
            return False  # nor what it names: the files are elsewhere, as on a disk that is not mounted

        def gone(snapshot_id: int, published: bool) -> bool:
            row = None if published else tx.snapshots.get(table.table_id, branch, snapshot_id)
            return snapshot_id not in there and (row is None or files.is_expired(Snapshot.from_json(row.body)))

        first = next((snapshot_id for snapshot_id, published in known if not gone(snapshot_id, published)), None)
        if first is None:
            return False  # nothing that the catalog knows is there: it is older than the warehouse, which commits and the doctor tell
        tx.snapshots.forget(table.table_id, branch, below=first)
    _log.info("Snapshots %d to %d of %s were expired by a client.", known[0][0], first - 1, table.identifier)
    return first > known[0][0]


def left_by_expiry(tx: CatalogTransaction, table_id: UUID, files: TableFiles, *, gone: Container[str] = ()) -> list[int]:
    """The ids of snapshot files before the catalog's earliest that have expired: a crash left them, or their turn comes now.

    ``gone`` has the keys of those that are known to have. An older catalog does not know what else may lie there: a newer one went back to
    a tag whose snapshot had expired, and its line goes on below the ids of this one. So none is told where the files are ahead, or one of
    them is newer than all that the catalog has: where it was made by another line, so was perhaps what lies before it.
    """
    branch = files.layout.branch
    earliest, newest = tx.snapshots.earliest(table_id, branch), tx.snapshots.latest(table_id, branch)
    below = [] if earliest is None else [snapshot_id for snapshot_id in files.snapshot_ids() if snapshot_id < earliest.snapshot_id]
    if not below or newest is None or _is_ahead(tx, table_id, files, newest):
        return []
    last = tx.snapshots.last_expired(table_id, branch)
    known_until = Snapshot.from_json(newest.body).time_millis

    def has_expired(stored: Snapshot) -> bool:
        is_gone = stored.key in gone or (last is not None and Snapshot.from_json(last).stands_for(stored.key))
        return is_gone or not has_lists(files, stored)

    left = []
    for snapshot_id in below:
        try:
            stored = files.read_snapshot(snapshot_id)
        except TableDamaged:  # torn: it keeps nothing
            stored = None
        if stored is not None and stored.time_millis > known_until and not has_expired(stored):
            return []
        left.append(snapshot_id)
    return left


def _is_ahead(tx: CatalogTransaction, table_id: UUID, files: TableFiles, newest: SnapshotRow) -> bool:
    """Whether files tell what the catalog lacks; of what is committed meanwhile it hears with the next look."""
    while ahead_of(tx, table_id, files, newest) is not None:
        latest = tx.snapshots.latest(table_id, files.layout.branch)
        if latest is None or latest.snapshot_id <= newest.snapshot_id:
            return True
        newest = latest
    return False


def has_lists(files: TableFiles, snapshot: Snapshot) -> bool:
    """Whether anything is left of what a snapshot names: nothing is where it has expired, and only its own file stayed."""
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    return any(files.io.file_exists(files.layout.manifest(name)) for name in lists)


def is_past(tx: CatalogTransaction, table_id: UUID, branch: str, snapshot_id: int, key: str) -> bool:
    """Whether the snapshot of a key is one of a branch's past, of which the last expired one is known still.

    What was read of a line that a rollback has left is not, though another snapshot of its id has expired since. Where the catalog did not
    keep what expired, as under an earlier server beside this one, it counts as the past's.
    """
    row = tx.snapshots.get(table_id, branch, snapshot_id)
    if row is not None:
        return Snapshot.from_json(row.body).stands_for(key)
    earliest = tx.snapshots.earliest(table_id, branch)
    if earliest is None or earliest.snapshot_id < snapshot_id:
        return False
    body = tx.snapshots.last_expired(table_id, branch)
    if body is None:
        return True
    expired = Snapshot.from_json(body)
    # Where a later one has expired, too, so has the one after it, which is told by who goes on from there.
    return expired.id != snapshot_id or expired.stands_for(key)


def check_there(table: LakeTable, row: SnapshotRow) -> None:
    """Raise `TableDamaged` for a snapshot in the middle of history whose file is gone: who reads files could not go on from it."""
    path = table.files.layout.snapshot_file(row.snapshot_id)
    if row.published and not table.files.io.file_exists(path):
        raise TableDamaged(str(table.identifier), file=path, problem="is missing between snapshots that are there")
