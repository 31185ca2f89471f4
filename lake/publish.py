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
        self._noted: LRUCache[UUID, str | None] = LRUCache(10_000)
        """The latest snapshot's uuid per table whose file is known to exist; ids come again after a rollback."""

    def latest(self, table_id: UUID, files: TableFiles, branch: str) -> Snapshot | None:
        """The newest decided snapshot, its file in place before the answer mentions it."""
        with self._catalog.reading() as tx:
            row = tx.snapshots.latest(table_id, branch)
        if row is None:
            return None
        snapshot = Snapshot.from_json(row.body)
        if not row.published and not self._known(table_id, snapshot.uuid):
            self.catch_up(table_id, files, branch)
        return snapshot

    def _known(self, table_id: UUID, uuid: str | None) -> bool:
        with self._lock:
            return uuid is not None and self._noted.get(table_id) == uuid

    def catch_up(self, table_id: UUID, files: TableFiles, branch: str) -> None:
        """Publish every decided snapshot whose file may be missing, oldest first."""
        with self._catalog.reading() as tx:
            waiting = tx.snapshots.unpublished(table_id, branch)
        for row in waiting:
            self.publish(table_id, files, branch, row)

    def publish(self, table_id: UUID, files: TableFiles, branch: str, row: SnapshotRow) -> None:
        """Put one snapshot's file there; a foreign file in its place marks the table as diverged."""
        snapshot = Snapshot.from_json(row.body)
        outcome = files.publish_snapshot(snapshot)
        self._hook("published")
        if outcome is Published.FOREIGN:
            path = files.layout.snapshot_file(snapshot.id)
            with self._catalog.transaction() as tx:
                tx.tables.set_diverged(table_id, path)
            return
        with self._catalog.reading() as tx:
            noted = tx.snapshots.published(table_id, branch, snapshot.id, location=files.location)
        if not noted:  # renamed or dropped meanwhile: a file left here would be in the way of the next table of this name
            if outcome is Published.WRITTEN:
                files.io.delete(files.layout.snapshot_file(snapshot.id))
            return
        files.write_hints(snapshot.id, earliest=1 if snapshot.id == 1 else None)
        self._hook("hinted")
        with self._lock:
            self._noted[table_id] = snapshot.uuid

    def check_free(self, table_id: UUID, files: TableFiles, branch: str, snapshot_id: int, table: str) -> None:
        """Raise `TableDiverged` when a file of that id lies there before the catalog decided one.

        A file another server has decided and published meanwhile is no divergence but a lost race: `CommitConflict`.
        """
        path = files.layout.snapshot_file(snapshot_id)
        if not files.io.exists(path):
            return
        with self._catalog.reading() as tx:
            row = tx.snapshots.latest(table_id, branch)
        if row is not None and row.snapshot_id >= snapshot_id:
            raise CommitConflict(table, expected=str(snapshot_id - 1))
        raise TableDiverged(table, path=path)

    def schemas(self, table_id: UUID, files: TableFiles, *, published: int, newest: Schema) -> None:
        """Put the files of all decided schema versions there."""
        for schema_id in range(published + 1, newest.id + 1):
            with self._catalog.reading() as tx:
                body = tx.tables.schema(table_id, schema_id)
            if body is not None:
                files.write_schema(Schema.from_json(body))
        self._hook("schema published")
        with self._catalog.reading() as tx:
            tx.tables.schema_published(table_id, newest.id)
