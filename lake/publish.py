"""Put decided snapshots and schemas where file readers look; whoever needs one first does it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from uuid import UUID

from cachetools import LRUCache

from catalog import CatalogStore
from catalog.records import SnapshotRow
from model.errors import CommitConflict, TableDiverged
from model.schema import Schema
from model.snapshot import Snapshot
from table.store import Published, TableFiles

Hook = Callable[[str], None]
"""Called with the name of a step that was just finished; tests stop the process there."""


def no_hook(_: str) -> None:
    """Do nothing between the steps."""


class Publisher:
    """Publishes snapshots in order of their ids."""

    def __init__(self, catalog: CatalogStore, hook: Hook = no_hook) -> None:
        self._catalog = catalog
        self._hook = hook
        self._lock = threading.Lock()
        self._noted: LRUCache[tuple[UUID, str], str] = LRUCache(10_000)
        """The newest snapshot of each branch whose file this process knows to be there."""

    def latest(self, table_id: UUID, files: TableFiles, branch: str) -> Snapshot | None:
        """The newest decided snapshot, its file in place before the answer mentions it."""
        with self._catalog.reading() as tx:
            row = tx.snapshots.latest(table_id, branch)
        if row is None:
            return None
        snapshot = Snapshot.from_json(row.body)
        if not row.published and not self.known(table_id, branch, row.snapshot_uuid):
            self.catch_up(table_id, files, branch)
        return snapshot

    def known(self, table_id: UUID, branch: str, key: str) -> bool:
        """Whether this process has seen to it that the file of the branch's newest snapshot is there."""
        with self._lock:
            return self._noted.get((table_id, branch)) == key

    def catch_up(self, table_id: UUID, files: TableFiles, branch: str) -> None:
        """Publish every decided snapshot whose file may be missing, oldest first."""
        with self._catalog.reading() as tx:
            waiting = tx.snapshots.unpublished(table_id, branch)
        for row in waiting:
            self.publish(table_id, files, branch, row)

    def publish(self, table_id: UUID, files: TableFiles, branch: str, row: SnapshotRow) -> bool:
        """Put one snapshot's file there; False where a foreign file lies in its place, which marks the table as diverged."""
        snapshot = Snapshot.from_json(row.body)
        outcome = files.publish_snapshot(snapshot)
        self._hook("published")
        if outcome is Published.FOREIGN and self.remove_stale(table_id, files):
            outcome = files.publish_snapshot(snapshot)
        if outcome is Published.FOREIGN:
            path = files.layout.snapshot_file(snapshot.id)
            with self._catalog.transaction() as tx:
                tx.tables.set_diverged(table_id, path)
            return False
        # Before it is noted, so that a crash in between leaves a snapshot that is published again, hints and all.
        files.write_hints(snapshot.id, earliest=1 if snapshot.id == 1 else None)
        self._hook("hinted")
        with self._catalog.reading() as tx:
            noted = tx.snapshots.published(table_id, branch, snapshot.id, location=files.location)
        self._hook("noted")
        if not noted:  # renamed or dropped meanwhile: a file left here would be in the way of the next table of this name
            if outcome is Published.WRITTEN:
                files.io.delete(files.layout.snapshot_file(snapshot.id))
                files.remove_hints()  # readers look for themselves where there are none
            return True
        with self._lock:
            self._noted[(table_id, branch)] = row.snapshot_uuid
        return True

    def remove_stale(self, table_id: UUID, files: TableFiles) -> int:
        """Remove the files of snapshots, schemas and tags that are no more; returns how many were on record.

        One process at a time: between looking at a file and removing it nobody may put the next of its name there.
        """
        with self._catalog.transaction() as tx:
            rows = tx.stale.lock(table_id)
            for row in rows:
                files.remove_marked(row.path, row.mark)
            if rows:
                tx.stale.removed(table_id)
        with self._lock:  # one of them may be the newest snapshot's again, taken away and put back
            for key in [key for key in self._noted if key[0] == table_id]:
                del self._noted[key]
        return len(rows)

    def check_free(self, table_id: UUID, files: TableFiles, branch: str, snapshot_id: int, table: str) -> None:
        """Raise `TableDiverged` when a file of that id lies there before the catalog decided one.

        A file another server has decided and published meanwhile is no divergence but a lost race: `CommitConflict`.
        """
        path = files.layout.snapshot_file(snapshot_id)
        if not files.io.exists(path):
            return
        if self.remove_stale(table_id, files) and not files.io.exists(path):
            return
        with self._catalog.reading() as tx:
            row = tx.snapshots.latest(table_id, branch)
        if row is not None and row.snapshot_id >= snapshot_id:
            raise CommitConflict(table, expected=str(snapshot_id - 1))
        raise TableDiverged(table, path=path)

    def schemas(self, table_id: UUID, files: TableFiles, branch: str, *, published: int, newest: Schema) -> None:
        """Put the files of all decided schema versions there."""
        for schema_id in range(published + 1, newest.id + 1):
            with self._catalog.reading() as tx:
                body = tx.tables.schema(table_id, schema_id, branch)
            if body is not None:
                files.write_schema(Schema.from_json(body))
        self._hook("schema published")
        with self._catalog.reading() as tx:
            tx.tables.schema_published(table_id, newest.id, branch)
