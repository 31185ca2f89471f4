"""A table's past: its snapshots, and going back to one of them or to an older schema."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from catalog import CatalogStore, CatalogTransaction
from catalog.records import SnapshotRow, TableRow
from lake.access.guard import needs, require_options
from lake.access.rules import require_columns_kept
from lake.commit.claims import Claim, claimed_in
from lake.commit.decided import follow, require_table_writable
from lake.commit.publish import Publisher
from lake.register.expired import check_there, forget_expired, is_past, left_by_expiry
from lake.register.whole import require_whole
from lake.tables.consumers import Filed, Lowered, file_lowered, filed_consumers, lower_consumers
from lake.tables.handle import LakeTable, require_newest
from lake.tables.stale import remove_stale, stale_file, stale_schema
from lake.tables.tags import FoundTags, Tags, hold_retention, require_same
from model.access import Access, table_resource
from model.catalog_errors import ChangedMeanwhile, SchemaStillUsed, StaleRollback
from model.errors import SnapshotNotExist, TableDamaged, TableNotExist, TagNotExist
from model.identifier import Identifier
from model.schema.replaced import REPLACE_TABLE, lays_otherwise, means_other_columns
from model.schema.schema import Schema
from model.snapshot import Snapshot
from model.text.whole_number import whole_number

_CLEARED_AT_ONCE = 200
"""So many files of expired snapshots are deleted while a table is held."""


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
        self.standing = tags.standing
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

        One that has expired is taken from a tag that keeps it. Where the table was replaced since, the schema of before is its present
        one again, which takes ALTER, too.
        Raises `SnapshotNotExist`, `TableDamaged`, `TableDiverged`, `StaleRollback` where the latest is not the one expected, or
        `ChangedMeanwhile` where the snapshot went, or became another, meanwhile.
        """
        self.require_newest(table)
        forget_expired(self._catalog, table)
        require_table_writable(table.files)
        with self._catalog.reading() as tx:
            wanted = tx.snapshots.get(table.table_id, table.identifier.branch, snapshot_id)
        if wanted is None and (kept_by := self._tags.of_expired(table, snapshot_id)) is not None:
            return self.rollback_to_tag(table, kept_by.name, expected=expected, claim=claim)
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
        left, or `ChangedMeanwhile` where it was given to another snapshot meanwhile.
        """
        self.require_newest(table)
        forget_expired(self._catalog, table)
        tag = self._tags.find(table, name)
        branch = table.identifier.branch
        require_table_writable(table.files)
        if tag is not None:
            self._tags.require_whole(table, tag, data=True)
            with self._catalog.reading() as tx:
                is_expired = tx.snapshots.get(table.table_id, branch, int(tag.snapshot["id"])) is None
            if is_expired:
                clear_all_expired(self._catalog, table)  # before the table is held: there may be many
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
            may_be_replaced = False
            if row is None:
                may_be_replaced = _may_be_replaced(tx, table, snapshot)
                clear_expired(tx, table)
                lower_earliest_hint(table, snapshot.id)  # before its file is there: till then readers look for themselves
                # When it was decided is not known any more, and nothing is before it whose age goes by it.
                row = SnapshotRow(snapshot_id=snapshot.id, snapshot_uuid=snapshot.key, body=snapshot.to_json(), published=False)
                tx.snapshots.insert(table.table_id, branch, row)
            done = self._back_to(tx, table, row, filed, tags, may_be_replaced=may_be_replaced)
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
        require_table_writable(table.files)
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
            self._schema_back(tx, table, row, schema_id, body)
        remove_stale(self._publisher, table)

    def _schema_back(self, tx: CatalogTransaction, table: LakeTable, row: TableRow, schema_id: int, body: Mapping[str, Any]) -> None:
        branch = table.identifier.branch
        for newer, old in tx.tables.schemas(table.table_id, branch):
            if newer > schema_id:
                tx.stale.add(table.table_id, *stale_schema(table.files, newer, old))
        require_options(self.caller, table.identifier, row.schema["options"], body["options"])
        require_columns_kept(tx, table.identifier, table.table_id, row.schema, body)
        tx.tables.drop_schemas(table.table_id, branch, above=schema_id)
        tx.tables.set_schema(table.table_id, branch, schema_id, published=min(schema_id, row.published_schema_id))

    def _before_replaced(self, tx: CatalogTransaction, table: LakeTable, to: SnapshotRow) -> None:
        """Where the table was replaced since a snapshot, make the schema of that current again.

        Its rows are not, or not wholly, in the present columns, or not where the present options say.

        Raises what `rollback_schema` raises.
        """
        branch, row = table.identifier.branch, tx.tables.find(table.identifier)
        bodies = [to.body, *(one.body for one in tx.snapshots.history(table.table_id, branch))]
        bodies += [tag.snapshot for tag in tx.tags.all(table.table_id, branch)]
        schema_id = max(int(body["schemaId"]) for body in bodies)
        body = tx.tables.schema(table.table_id, schema_id, branch)
        if row is None or body is None:
            return
        old, present = Schema.from_json(body), Schema.from_json(row.schema)
        gone = {field.id for field in old.fields} - {field.id for field in present.fields}
        if old.bucket == present.bucket and not gone and not lays_otherwise(old, present):
            return
        self.caller.require(Access.ALTER, table_resource(table.identifier))
        self._schema_back(tx, table, row, schema_id, body)

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

    def _back_to(
        self,
        tx: CatalogTransaction,
        table: LakeTable,
        row: SnapshotRow,
        filed: Filed,
        found: FoundTags,
        *,
        may_be_replaced: bool = False,
    ) -> WentBack:
        """``may_be_replaced``: whether a replacement may be among the later snapshots that the catalog knows no more."""
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
        if may_be_replaced or any(Snapshot.from_json(gone.body).done == REPLACE_TABLE for gone in removed):
            self._before_replaced(tx, table, row)
        return WentBack(
            to=Snapshot.from_json(row.body),
            removed=tuple(Snapshot.from_json(gone.body) for gone in removed),
            tags=tuple(tag.name for tag in later),
            lowered=lower_consumers(tx, table, [row.snapshot_id + 1], filed),
        )

    def _require_whole(self, table: LakeTable, row: SnapshotRow) -> None:
        """Raise `TableDamaged` for a snapshot that nobody could read, `ChangedMeanwhile` for one that went while it was looked at."""
        try:
            require_whole(table, Snapshot.from_json(row.body), data=True)
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


def _another(table: LakeTable, snapshot_id: int) -> ChangedMeanwhile:
    name = str(table.identifier)
    return ChangedMeanwhile(f"Snapshot {snapshot_id} of {name} expired, or became another, meanwhile. Repeat it.", resource_name=name)


def clear_all_expired(catalog: CatalogStore, table: LakeTable, *, gone: Container[str] = ()) -> int | None:
    """Delete the files of expired snapshots (`left_by_expiry`), however many, and return the id of the catalog's earliest.

    ``gone`` has the keys of those that are known to have expired. The table is not held while they are looked for, and for a few at a
    time while they are deleted: who wants to change what is retained must not wait for a store. What has expired stays so; only where
    its id lives again meanwhile its file is another's.
    """
    branch = table.identifier.branch
    with catalog.reading() as tx:
        left = left_by_expiry(tx, table.table_id, table.files, gone=gone)
    for at in range(0, len(left), _CLEARED_AT_ONCE):
        with catalog.transaction() as tx:
            hold_retention(tx, table)
            _delete_expired(tx, table, left[at : at + _CLEARED_AT_ONCE])
    with catalog.reading() as tx:
        earliest = tx.snapshots.earliest(table.table_id, branch)
    return None if earliest is None else earliest.snapshot_id


def clear_stale_snapshots(catalog: CatalogStore, table: LakeTable, gone: Container[str] = ()) -> None:
    """Delete the files of expired snapshots, those with the keys of ``gone`` among them, and tell readers where history begins.

    Where that cannot be told they look for it, as the hint names a file that is not there: no reason to keep what those files needed.
    """
    earliest = clear_all_expired(catalog, table, gone=gone)
    if earliest is not None:
        follow(lambda: _tell_earliest(table, earliest), f"The hint where the history of {table.identifier} begins is still the old one")


def _tell_earliest(table: LakeTable, earliest: int) -> None:
    hint = table.files.layout.earliest_hint()
    if table.files.read_hint(hint) != earliest:
        table.files.io.write(hint, str(earliest).encode())


def clear_expired(tx: CatalogTransaction, table: LakeTable) -> None:
    """The same for the few that may have come since, the caller holding the table.

    An expiry that was killed leaves them: were their ids to live again, by going back to a tag, they would be in the way.
    """
    _delete_expired(tx, table, left_by_expiry(tx, table.table_id, table.files))


def _delete_expired(tx: CatalogTransaction, table: LakeTable, ids: Iterable[int]) -> None:
    earliest = tx.snapshots.earliest(table.table_id, table.identifier.branch)
    if earliest is not None:
        table.files.delete(table.files.layout.snapshot_file(number) for number in ids if number < earliest.snapshot_id)


def lower_earliest_hint(table: LakeTable, snapshot_id: int) -> None:
    """Let the hint name no snapshot after this one, which is about to live again.

    Clients believe the hint while its file is there: they would not see what lies before it, and their expiry would leave a hole.
    """
    files = table.files
    if (files.read_hint(files.layout.earliest_hint()) or 0) > snapshot_id:
        files.io.write(files.layout.earliest_hint(), str(snapshot_id).encode())


def _may_be_replaced(tx: CatalogTransaction, table: LakeTable, expired: Snapshot) -> bool:
    """Whether a replacement may lie between an expired snapshot and the earliest that is kept, of which nothing else is known any more.

    Schemas do not tell one from a DROP and ADD of a column: then its schema counts as replaced, too, as values would be lost otherwise.
    Another number of buckets alone may be an ALTER's: then the present schema stays, as files tell their own number.
    """
    branch = table.identifier.branch
    earliest = tx.snapshots.earliest(table.table_id, branch)
    if earliest is None:
        return False
    bodies = [tx.tables.schema(table.table_id, number, branch) for number in (expired.schema_id, int(earliest.body["schemaId"]))]
    schemas = [Schema.from_json(body) for body in bodies if body is not None]
    return len(schemas) == 2 and (means_other_columns(*schemas) or lays_otherwise(*schemas))


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
