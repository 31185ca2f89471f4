"""A table's snapshots and tags as the catalog knows them, for reads of the past."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from catalog import CatalogStore
from lake.register.expired import forget_expired
from lake.tables.handle import LakeTable
from lake.tables.tags import Tags
from model.snapshot import Snapshot
from table.scan.time_travel import Versions


class CatalogVersions(Versions):
    """What Postgres tells of one table."""

    def __init__(self, catalog: CatalogStore, tags: Tags, table: LakeTable, *, told: bool) -> None:
        """``told``: whether the caller may know what hidden rows tell, such as how far event time has come."""
        self._told = told
        self.table = str(table.identifier)
        self._catalog = catalog
        self._tags = tags
        self._opened = table

    def latest(self) -> Snapshot | None:
        """The newest snapshot, its file in place; whatever is decided is published by then."""
        return self._opened.latest()

    def find(self, snapshot_id: int) -> Snapshot | None:
        """The snapshot of that id."""
        forget_expired(self._catalog, self._opened)
        with self._catalog.reading() as tx:
            row = tx.snapshots.get(self._opened.table_id, self._opened.identifier.branch, snapshot_id) if snapshot_id < 2**63 else None
        return Snapshot.from_json(row.body) if row else None

    def history(self) -> Sequence[Snapshot]:
        """All that are left, oldest first."""
        forget_expired(self._catalog, self._opened)
        with self._catalog.reading() as tx:
            rows = tx.snapshots.history(self._opened.table_id, self._opened.identifier.branch)
        snapshots = [Snapshot.from_json(row.body) for row in rows]
        return snapshots if self._told else [replace(snapshot, watermark=None) for snapshot in snapshots]

    def tags(self) -> Mapping[str, Snapshot]:
        """Tags of the catalog and of clients."""
        return {tag.name: Snapshot.from_json(tag.snapshot) for tag in self._tags.all(self._opened)}
