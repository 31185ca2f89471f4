"""A table's past: its snapshots, and going back to one of them or to an older schema."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

from catalog import CatalogStore, CatalogTransaction
from catalog.records import SnapshotRow, TableRow
from lake.access.guard import needs, require_options
from lake.access.rules import require_columns_kept
from lake.commit.claims import Claim, claimed_in
from lake.commit.decided import follow, require_writable
from lake.commit.publish import Publisher
from lake.register.expired import check_there, forget_expired, is_past, left_by_expiry
from lake.register.whole import require_whole
from lake.tables.consumers import Filed, Lowered, file_lowered, filed_consumers, lower_consumers
from lake.tables.handle import LakeTable, require_newest
from lake.tables.stale import remove_stale, stale_file, stale_schema
from lake.tables.tags import FoundTags, Tags, require_same
from model.access import Access
from model.catalog_errors import SchemaStillUsed, StaleRollback
from model.errors import RewriteConflict, SnapshotNotExist, TableDamaged, TableNotExist, TagNotExist
from model.identifier import Identifier
from model.snapshot import Snapshot
from model.text.whole_number import whole_number


@dataclass(frozen=True, slots=True, kw_only=True)
class WentBack:
    """What going back in a table's past did."""

    to: Snapshot
    removed: tuple[Snapshot, ...]
    """The later ones."""
    tags: tuple[str, ...]
    """What was on them."""
    lowered: Lowered
    """Consumers that had read of them."""
    tidy: bool = False
    """Whether their own files are gone."""


class History:
    """Looks at the snapshots of tables, and takes tables back."""

    def __init__(self, catalog: CatalogStore, publisher: Publisher, tags: Tags) -> None:
        self._catalog = catalog
        self._publisher = publisher
        self._tags = tags
        self.caller = tags.caller

    def page(self, table: LakeTable, *, below: int | None, limit: int) -> list[Snapshot]:
        """Snapshots with ids below one, newest first, their files in place."""
        table.latest()
        forget_expired(self._catalog, table)
        with self._catalog.reading() as tx:
            rows = tx.snapshots.page(table.table_id, table.identifier.branch, below=below, limit=limit)
        return [Snapshot.from_json(row.body) for row in rows]

    def version(self, table: LakeTable, version: str) -> Snapshot:
        """The snapshot that ``EARLIEST``, ``LATEST``, a number or a tag's name means; raises `SnapshotNotExist`."""
        latest = table.latest()
        branch = table.identifier.branch
        row: SnapshotRow | None = None
        if version == "LATEST" and latest is not None:
            return latest
        forget_expired(self._catalog, table)
        if version == "LATEST":
            pass
        elif version == "EARLIEST":
            with self._catalog.reading() as tx:
                row = tx.snapshots.earliest(table.table_id, branch)
        elif version.isascii() and version.isdecimal():
            if (snapshot_id := whole_number(version)) is not None:
                with self._catalog.reading() as tx:
                    row = tx.snapshots.get(table.table_id, branch, snapshot_id)
        elif (tag := self._tags.find(table, version)) is not None:
            return Snapshot.from_json(tag.snapshot)
        if row is None:
            raise SnapshotNotExist(f"Table {table.identifier} has no snapshot {version}.", resource_name=version)
        return Snapshot.from_json(row.body)

    def is_past(self, table: LakeTable, snapshot_id: int, key: str) -> bool:
        """Whether the snapshot of a key is one of the table's past; see `lake.register.expired.is_past`."""
        table.latest()
        forget_expired(self._catalog, table)
        with self._catalog.reading() as tx:
            return is_past(tx, table.table_id, table.identifier.branch, snapshot_id, key)

    @needs(Access.DELETE)
    def rollback_to_snapshot(
        self, table: LakeTable, snapshot_id: int, *, expected: int | None = None, claim: Claim | None = None
    ) -> WentBack:
        """Make a snapshot the latest again, once under a claim; later ones, and the tags on them, are gone, and consumers read on after it.

        Raises `SnapshotNotExist`, `TableDamaged`, `TableDiverged`, `StaleRollback` where the latest is not the one expected, or
        `RewriteConflict` where the snapshot went, or became another, meanwhile.
        """
        self.require_newest(table)
        forget_expired(self._catalog, table)
        _require_writable(table)
        with self._catalog.reading() as tx:
            wanted = tx.snapshots.get(table.table_id, table.identifier.branch, snapshot_id)
        if wanted is not None:
            self._require_whole(table, wanted)
        filed, tags = filed_consumers(self._catalog, table), self._tags.look(table)
        with self._catalog.transaction() as tx, claimed_in(tx, claim):
            self._hold(tx, table)
            _check_latest(tx, table, expected)
            row = tx.snapshots.get(table.table_id, table.identifier.branch, snapshot_id)
            if row is None:
                raise SnapshotNotExist(f"Table {table.identifier} has no snapshot {snapshot_id}.", resource_name=str(snapshot_id))
            if wanted is None or wanted.snapshot_uuid != row.snapshot_uuid:
                raise _another(table, snapshot_id)
            check_there(table, row)
            done = self._back_to(tx, table, row, filed, tags)
        return self._followed(table, done)

    @needs(Access.DELETE)
    def rollback_to_tag(self, table: LakeTable, name: str, *, expected: int | None = None, claim: Claim | None = None) -> WentBack:
        """Make a tag's snapshot the latest again, once under a claim, also where it has expired.

        Raises `TagNotExist`, `StaleRollback`, `TableDamaged`, `TableDiverged`, `SnapshotNotExist` for a tag of a line the table has
        left, or `RewriteConflict` where it was given to another snapshot meanwhile.
        """
        self.require_newest(table)
        forget_expired(self._catalog, table)
        tag = self._tags.find(table, name)
        branch = table.identifier.branch
        _require_writable(table)
        if tag is not None:
            self._tags.require_whole(table, tag)
        filed, tags = filed_consumers(self._catalog, table), self._tags.look(table)
        with self._catalog.transaction() as tx, claimed_in(tx, claim):
            self._hold(tx, table)
            _check_latest(tx, table, expected)
            if tag is None:
                raise TagNotExist(name, str(table.identifier))
            require_same(tx, table, tag)
            snapshot = Snapshot.from_json(tag.snapshot)
            row = tx.snapshots.get(table.table_id, branch, snapshot.id)
            _check_line(tx, table, name, snapshot, row)
            if row is None:
                clear_expired(tx, table)
                lower_earliest_hint(table, snapshot.id)  # before its file is there: till then readers look for themselves
                tx.snapshots.insert(
                    table.table_id, branch, snapshot_id=snapshot.id, uuid=snapshot.key, body=snapshot.to_json(), published=False
                )
                row = SnapshotRow(snapshot_id=snapshot.id, snapshot_uuid=snapshot.key, body=snapshot.to_json(), published=False)
            done = self._back_to(tx, table, row, filed, tags)
        return self._followed(table, done)

    @needs(Access.ALTER)
    def rollback_schema(self, table: LakeTable, schema_id: int) -> None:
        """Make an older schema the current one; newer ones are gone.

        Raises `SchemaStillUsed` while snapshots or tags need one of them, `TableDiverged` where files are ahead of the catalog and may need
        one, `InvalidSchemaChange` for a column that a policy or a column
        grant names, and `Forbidden` for options by which the server takes rows or history away, without the right to do so.
        """
        branch = table.identifier.branch
        self.require_newest(table)
        tags = self._tags.all(table)
        _require_writable(table)
        with self._catalog.transaction() as tx:
            row = self._hold(tx, table)
            body = tx.tables.schema(table.table_id, schema_id, branch)
            if body is None or schema_id > row.schema_id:
                raise SnapshotNotExist(f"Table {table.identifier} has no schema {schema_id}.", resource_name=str(schema_id))
            used = max(
                (
                    int(snapshot_body["schemaId"])
                    for snapshot_body in [*(s.body for s in tx.snapshots.history(table.table_id, branch)), *(t.snapshot for t in tags)]
                ),
                default=0,
            )
            if used > schema_id:
                raise SchemaStillUsed(
                    f"Schema {used} of {table.identifier} is newer than {schema_id} and is still referenced by snapshots or tags.",
                    resource_name=str(table.identifier),
                )
            for newer, old in tx.tables.schemas(table.table_id, branch):
                if newer > schema_id:
                    tx.stale.add(table.table_id, *stale_schema(table.files, newer, old))
            require_options(self.caller, table.identifier, row.schema["options"], body["options"])
            require_columns_kept(tx, table.identifier, table.table_id, row.schema, body)
            tx.tables.drop_schemas(table.table_id, branch, above=schema_id)
            tx.tables.set_schema(table.table_id, branch, schema_id, published=min(schema_id, row.published_schema_id))
        remove_stale(self._publisher, table)

    def require_newest(self, table: LakeTable) -> None:
        """Raise `TableDiverged` where files are ahead of the catalog: what it knows is not all that would go."""
        require_newest(self._publisher, table)

    def _hold(self, tx: CatalogTransaction, table: LakeTable) -> TableRow:
        """The table's row, no commit going on until the transaction ends."""
        locked = tx.tables.lock(Identifier(table.identifier.database, table.identifier.table))
        row = tx.tables.find(table.identifier)
        if row is None or locked.table_id != table.table_id or locked.location != table.location:
            raise TableNotExist(str(table.identifier))
        return row

    def _back_to(self, tx: CatalogTransaction, table: LakeTable, row: SnapshotRow, filed: Filed, found: FoundTags) -> WentBack:
        branch, files = table.identifier.branch, table.files
        tx.holds.require_no_backup(f"Rolling {table.identifier} back")
        self._tags.take_in(tx, table, found)  # also those that clients wrote as files, whoever looked last
        removed = sorted(tx.snapshots.remove(table.table_id, branch, above=row.snapshot_id), key=lambda gone: gone.snapshot_id)
        for gone in removed:
            stale_file(tx, table, files.layout.snapshot_file(gone.snapshot_id), gone.body)
        later = [tag for tag in tx.tags.all(table.table_id, branch) if int(tag.snapshot["id"]) > row.snapshot_id]
        for tag in later:
            self._tags.drop(tx, table, tag)
        tx.snapshots.point(table.table_id, branch, row)
        return WentBack(
            to=Snapshot.from_json(row.body),
            removed=tuple(Snapshot.from_json(gone.body) for gone in removed),
            tags=tuple(tag.name for tag in later),
            lowered=lower_consumers(tx, table, [row.snapshot_id + 1], filed),
        )

    def _require_whole(self, table: LakeTable, row: SnapshotRow) -> None:
        """Raise `TableDamaged` for a snapshot that nobody could read, `RewriteConflict` for one that went while it was looked at."""
        try:
            require_whole(table, Snapshot.from_json(row.body))
        except TableDamaged:
            with self._catalog.reading() as tx:
                if tx.snapshots.by_uuid(table.table_id, row.snapshot_uuid, table.identifier.branch) is None:
                    raise _another(table, row.snapshot_id) from None
            raise

    def _followed(self, table: LakeTable, done: WentBack) -> WentBack:
        file_lowered(self._catalog, table, done.lowered)
        return replace(done, tidy=self.tidy(table))

    def tidy(self, table: LakeTable) -> bool:
        """Remove the files of what is gone, and publish what is the latest now; False where that is still to be done."""
        return follow(lambda: self._tidied(table), f"Files of what {table.identifier} had are still there")

    def _tidied(self, table: LakeTable) -> None:
        self._publisher.remove_stale(table.table_id, table.files)
        table.latest()


def _another(table: LakeTable, snapshot_id: int) -> RewriteConflict:
    name = str(table.identifier)
    return RewriteConflict(f"Snapshot {snapshot_id} of {name} expired, or became another, meanwhile. Repeat it.", resource_name=name)


def _require_writable(table: LakeTable) -> None:
    require_writable(table.files.io, table.files.layout.manifest_dir())


def clear_expired(tx: CatalogTransaction, table: LakeTable, *, gone: Container[str] = ()) -> int | None:
    """Delete the files of expired snapshots (`left_by_expiry`) and return the id of the catalog's earliest; the caller holds the table.

    An expiry that was killed leaves them: were their ids to live again, by going back to a tag, they would be in the way.
    """
    row = tx.snapshots.earliest(table.table_id, table.identifier.branch)
    if row is None:
        return None
    left = left_by_expiry(tx, table.table_id, table.files, gone=gone)
    table.files.delete(table.files.layout.snapshot_file(snapshot_id) for snapshot_id in left)
    return row.snapshot_id


def lower_earliest_hint(table: LakeTable, snapshot_id: int) -> None:
    """Let the hint name no snapshot after this one, which is about to live again.

    Clients believe the hint while its file is there: they would not see what lies before it, and their expiry would leave a hole.
    """
    files = table.files
    if (files.read_hint(files.layout.earliest_hint()) or 0) > snapshot_id:
        files.io.write(files.layout.earliest_hint(), str(snapshot_id).encode())


def _check_line(tx: CatalogTransaction, table: LakeTable, name: str, snapshot: Snapshot, row: SnapshotRow | None) -> None:
    """Raise `SnapshotNotExist` for a tag whose snapshot is none of the table's past: one of a line that a rollback has left."""
    if row is None:
        latest = tx.snapshots.latest(table.table_id, table.identifier.branch)
        if latest is None or snapshot.id < latest.snapshot_id:
            return
    elif Snapshot.from_json(row.body).stands_for(snapshot.key):
        return
    raise SnapshotNotExist(
        f"Tag {name} of table {table.identifier} is of a snapshot {snapshot.id} that is none of the table's: the table was rolled back "
        "before it, and the rows written since would be lost. The tag can be read and deleted.",
        resource_name=str(snapshot.id),
    )


def _check_latest(tx: CatalogTransaction, table: LakeTable, expected: int | None) -> None:
    if expected is None:
        return
    latest = tx.snapshots.latest(table.table_id, table.identifier.branch)
    if latest is None or latest.snapshot_id != expected:
        raise StaleRollback(latest.snapshot_id if latest else None, expected)
