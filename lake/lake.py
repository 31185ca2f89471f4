"""Databases and tables: the catalog decides, the files follow, and both are called from SQL and REST."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from catalog import CatalogStore
from catalog.listing import Slice
from catalog.records import TableRow
from lake.adopt import LakeAdoption
from lake.base import seen
from lake.client_commit import ClientCommit, ClientCommitter
from lake.commit import AnswerOf, Claim, Claimed, Committer, Listener
from lake.databases import own_directory
from lake.guard import asks_itself, its_database, needs
from lake.idempotency import Idempotency, IdempotencyClaim, Replay
from lake.metadata import LakeMetadata, Spec
from lake.names import check_name, external_location
from lake.partitions import Partition, partitions
from lake.publish import Hook, no_hook
from lake.repair import Repair, repair
from lake.replace import partition_filter, replace_schema
from lake.streams import LakeStreams
from lake.table import LakeTable
from lake.travel import CatalogVersions
from model.access import Access, database_resource, table_resource
from model.catalog_errors import MetadataOnlyTable, PartitionNotExist
from model.errors import CommitConflict, Forbidden, InvalidName, InvalidOption, TableAlreadyExist, TableNotExist
from model.identifier import Identifier
from model.partition import partition_name
from model.schema import Schema, other_kind
from model.schema_change import SchemaChange, apply_changes
from model.snapshot import CommitKind, Snapshot
from table.commit import CommitRequest
from table.file_io import FileIO, local_path
from table.store import TableFiles
from table.travel import BatchScan, resolve

Decided = Callable[[Schema], None]


class Lake(LakeMetadata, LakeAdoption, LakeStreams):
    """All tables of one catalog and warehouse, as one caller may use them."""

    def __init__(
        self,
        catalog: CatalogStore,
        warehouse: str,
        *,
        file_io: FileIO | None = None,
        hook: Hook = no_hook,
        token: str | None = None,
        import_dirs: Sequence[str] = (),
    ) -> None:
        super().__init__(catalog, warehouse, file_io=file_io, hook=hook, token=token, import_dirs=import_dirs)
        self.listeners: list[Listener] = []
        """Told of each commit made through this lake."""
        self._committer = Committer(catalog, self._publisher, hook, self._heard)
        self._client_committer = ClientCommitter(catalog, self.file_io, self._publisher, hook)
        self.idempotency = Idempotency(catalog)

    def _heard(self, table_id: UUID, added: int) -> None:
        for listener in self.listeners:
            listener(table_id, added)

    def close(self) -> None:
        """Stop background work; the catalog store is its owner's to close."""
        self.idempotency.close()

    # Tables

    @asks_itself
    def describe_all(self, database: str, wanted: Slice, *, type_: str | None = None) -> list[TableRow]:
        """A database's tables as the catalog has them, as far as the caller may open them; raises `DatabaseNotExist`."""
        self.caller.require_sight_of_database(database)
        with self.catalog.reading() as tx:
            rows = seen(
                lambda part: tx.tables.rows(database, part, type_=type_),
                lambda row: row.name,
                lambda name: self.caller.sees(table_resource(Identifier(database, name))),
                wanted,
                all_=self.caller.administrator,
            )
            if not rows:
                tx.databases.get(database)
        for row in rows:
            self._ready(row)
        return rows

    @asks_itself
    def location_of(self, table: Identifier) -> str:
        """Where a table of that name lies."""
        return f"{self.warehouse}/{table.database}.db/{table.table}"

    @asks_itself
    def open(self, table: Identifier) -> LakeTable:
        """The table as the catalog has it now.

        Raises `TableNotExist`, `DatabaseNotExist`, `Forbidden`, or `MetadataOnlyTable` for what other engines run.
        """
        opened = self.open_any(table)
        if (kind := other_kind(opened.schema.options)) is not None:
            raise MetadataOnlyTable(str(table), kind)
        return opened

    @asks_itself
    def open_any(self, table: Identifier) -> LakeTable:
        """The table, of whatever kind."""
        return self._ready(self._visible(table))

    @asks_itself
    def open_to_write(self, table: Identifier) -> LakeTable:
        """The table, for a caller who may add and replace its rows."""
        opened = self.open(table)
        self.caller.require(Access.UPDATE, table_resource(table))
        return opened

    @asks_itself
    def describe(self, table: Identifier) -> TableRow:
        """What the catalog says of a table of whatever kind, its schema's file in place."""
        row = self._visible(table)
        self._ready(row)
        return row

    @asks_itself
    def describe_id(self, table_id: UUID) -> TableRow:
        """The same of a table known by its id."""
        with self.catalog.reading() as tx:
            row = tx.tables.by_id(table_id)
        if row is None or not self.caller.sees(table_resource(Identifier(row.database, row.name))):
            raise TableNotExist(str(table_id))
        self._ready(row)
        return row

    def _visible(self, table: Identifier) -> TableRow:
        """The table's row, for who may know of it: to others it does not exist or is forbidden, by what they may know of its database."""
        if self.caller.sees(table_resource(table)):
            return self._row(table)
        if self.caller.sees_database(table.database):
            self._row(table)
        raise Forbidden(f"{self.caller.principal} may not do this: nothing is granted on table {table} to it.")

    def _row(self, table: Identifier) -> TableRow:
        with self.catalog.reading() as tx:
            row = tx.tables.find(table)
            if row is None:
                tx.databases.get(table.database)
                raise TableNotExist(str(table))
        return row

    def _open(self, table: Identifier) -> LakeTable:
        return self._ready(self._row(table))

    @needs(Access.CREATETABLE, its_database)
    def create_table(self, table: Identifier, schema: Schema, *, if_not_exists: bool = False, path: str | None = None) -> bool:
        """Add a table; False when one of that name exists and that is fine.

        The row is decided first, under a lock on the directory, then the schema file is written; `open` writes it
        where a crash came between. With a ``path`` the files lie there and stay when the table is dropped.
        Raises `TableAlreadyExist`, `DatabaseNotExist`, `InvalidName`.
        """
        check_name(table.table, "table")
        location = external_location(self.warehouse, path) if path is not None else self.location_of(table)
        stamped = replace(schema, time_millis=schema.time_millis or time.time_ns() // 1_000_000)
        try:
            with self.catalog.transaction() as tx:
                if tx.tables.lock_location(location):
                    self.file_io.delete_tree(location)
                    tx.tables.directory_removed(location)
                if tx.tables.find(table) is not None:
                    raise TableAlreadyExist(str(table))
                tx.databases.get(table.database)
                table_id = uuid4()
                in_use = tx.tables.location_in_use(location)
                if in_use and path is None and not self.file_io.atomic_rename:  # by a table that was renamed and could not move
                    location, in_use = f"{location}-{table_id.hex[:8]}", False
                self._refuse_foreign(in_use, location, table)
                tx.tables.create(
                    table,
                    table_id,
                    location=location,
                    schema_id=stamped.id,
                    schema=stamped.to_json(),
                    external=path is not None,
                    by=self.caller.principal,
                )
                if tx.views.find(table.database, table.table) is not None:
                    raise TableAlreadyExist(str(table))
                owned = self._own(tx, table_resource(table), table_id=table_id)
        except TableAlreadyExist:
            if not if_not_exists:
                raise
            return False
        self._owns(owned)
        self._hook("table decided")
        opened = self._open(table)
        if other_kind(schema.options) == "object-table":  # its makers put files there at once
            self.file_io.mkdirs(opened.location)
        return True

    def _refuse_foreign(self, in_use: bool, location: str, table: Identifier) -> None:
        if in_use or self.file_io.exists(TableFiles(self.file_io, location).layout.schema_dir()):
            raise InvalidName(
                f"Table {table} cannot be created: {location} already holds a table's files the catalog does not know by this name. "
                "Move them away or choose another name."
            )

    @needs(Access.ALTER)
    def alter_table(self, table: Identifier, changes: Sequence[SchemaChange], *, check: Decided | None = None) -> Schema:
        """Apply changes as one new schema version; an ALTER that comes second is applied on the first's outcome."""
        while True:
            opened = self._open(table)
            snapshot = opened.latest()
            now = time.time_ns() // 1_000_000
            new = apply_changes(opened.schema, changes, table=str(table), has_snapshot=snapshot is not None, time_millis=now)
            if check is not None:
                check(new)
            if replace(new, id=opened.schema.id, time_millis=opened.schema.time_millis) == opened.schema:
                return opened.schema
            with contextlib.suppress(CommitConflict):
                with self.catalog.transaction() as tx:
                    tx.tables.advance_schema(
                        opened.table_id, table.branch, base=opened.schema.id, to=new.id, schema=new.to_json(), by=self.caller.principal
                    )
                self._hook("schema decided")
                return self._open(table).schema

    @needs(Access.ALTER)
    def rename_table(self, source: Identifier, target: Identifier) -> None:
        """Give a table another name; its directory moves along where the file system can."""
        check_name(target.table, "table")
        self.caller.require(Access.CREATETABLE, database_resource(target.database))
        self._open(source)
        to = self.location_of(target)
        with self.catalog.transaction() as tx:
            row = tx.tables.lock(source)
            if tx.views.find(target.database, target.table) is not None:
                raise TableAlreadyExist(str(target))
            if row.external or not self.file_io.atomic_rename:
                tx.tables.rename(row.table_id, target, location=row.location, moving_from=None)
                self.access.forget()
                return
            if tx.tables.lock_location(to):
                self.file_io.delete_tree(to)
                tx.tables.directory_removed(to)
            if tx.tables.find(target) is not None:
                raise TableAlreadyExist(str(target))
            self._refuse_foreign(tx.tables.location_in_use(to), to, target)
            tx.tables.rename(row.table_id, target, location=to, moving_from=row.location)
        self.access.forget()
        self._hook("rename decided")
        self._open(target)

    @needs(Access.DROP)
    def drop_table(self, table: Identifier, *, if_exists: bool = False) -> None:
        """Remove a table; its directory is garbage from the decision on, and removed right after."""
        try:
            with self.catalog.transaction() as tx:
                row = tx.tables.lock(table)
                garbage = own_directory(row)
                tx.tables.drop(row.table_id, garbage)
        except TableNotExist:
            if not if_exists:
                raise
            return
        self.access.forget()
        self._hook("drop decided")
        if garbage is not None:
            self._remove_directory(garbage)

    # Commits

    @needs(Access.UPDATE)
    def commit(self, table: LakeTable, request: CommitRequest, *, claim: Claim | None = None, answer: AnswerOf | None = None) -> Snapshot:
        """Commit to one table; see `Committer.commit`."""
        claimed = Claimed(claim=claim, answer=answer or _bare_answer) if claim else None
        return self._committer.commit(table, request, claimed)

    @asks_itself
    def commit_all(
        self,
        commits: Sequence[tuple[LakeTable, CommitRequest]],
        *,
        claim: Claim | None = None,
        answer: AnswerOf | None = None,
    ) -> list[Snapshot]:
        """Commit to several tables in one transaction, all of them or none; appends to the same table share a snapshot."""
        for table, _ in commits:
            self.caller.require(Access.UPDATE, table_resource(table.identifier))
        claimed = [Claimed(claim=claim, answer=answer or _bare_answer)] if claim else []
        tables = {(table.table_id, table.identifier.branch): table for table, _ in commits}
        requests: dict[tuple[UUID, str], list[CommitRequest]] = {key: [] for key in tables}
        for table, request in commits:
            requests[(table.table_id, table.identifier.branch)].append(request)
        return self._committer.commit_all(list(tables.values()), list(requests.values()), claimed)

    @asks_itself
    def claim(self, key: str, *, scope: str, body_hash: str) -> IdempotencyClaim | Replay:
        """Take an idempotency key; see `Idempotency.claim`."""
        return self.idempotency.claim(key, scope=scope, body_hash=body_hash)

    # Snapshots

    @asks_itself
    def scan(self, table: LakeTable, options: Mapping[str, str], *, zone: str = "UTC") -> BatchScan:
        """What a batch read with these options sees; see `table.travel.resolve`. Reading it takes `read_rules`."""
        return resolve(CatalogVersions(self.catalog, self.tags, table), options, table.schema, zone=zone)

    @asks_itself
    def resolve(self, table: LakeTable, options: Mapping[str, str], *, zone: str = "UTC") -> Snapshot | None:
        """The one snapshot the options mean; raises what `scan` raises, and `InvalidOption` where they mean a part of one."""
        found = self.scan(table, options, zone=zone)
        if not found.whole:
            raise InvalidOption("The scan options name a part of the table's past; one whole snapshot is wanted here.")
        return found.snapshot

    @asks_itself
    def partitions(self, table: LakeTable, snapshot: Snapshot | None) -> list[Partition]:
        """The partitions of a snapshot, by name; they show values, so only to who may read all of the table."""
        if self.read_rules(table).restricted:
            raise Forbidden(f"{self.caller.principal} sees only a part of table {table.identifier}, and so not its partitions.")
        return partitions(table, snapshot)

    @needs(Access.UPDATE)
    def client_commit(self, table: Identifier, commit: ClientCommit) -> bool:
        """Take a commit a client built; see `ClientCommitter.commit`."""
        return self._client_committer.commit(table, commit)

    @needs(Access.UPDATE)
    def drop_partitions(
        self, table: LakeTable, specs: Sequence[dict[str, str]], *, ignore_missing: bool = True
    ) -> tuple[list[Spec], list[Spec]]:
        """Remove partitions with their rows, in one commit; returns which were there and which were not. Raises `PartitionNotExist`."""
        there = {row.name: row for row in self.partitions_named(table, specs)}
        keys = table.schema.partition_keys
        dropped = [spec for spec in specs if partition_name(spec, keys) in there]
        missing: list[Spec] = [spec for spec in specs if partition_name(spec, keys) not in there]
        if missing and not ignore_missing:
            raise PartitionNotExist(partition_name(missing[0], keys), str(table.identifier))
        if any(row.file_count for row in there.values()) and other_kind(table.schema.options) is None:
            filled = CommitRequest(kind=CommitKind.OVERWRITE, overwrite=partition_filter(table, dropped), commit_user=str(uuid4()))
            self._committer.commit(table, filled)
        with self.catalog.transaction() as tx:
            for name in there:
                tx.partitions.drop(table.table_id, table.identifier.branch, name)
        return list(dropped), missing

    @needs(Access.ALTER)
    def replace_table(self, table: Identifier, schema: Schema, *, path: str | None = None) -> None:
        """Empty a table and give it another schema, in one decision; see `lake.replace.replace_schema`."""
        self.caller.require(Access.UPDATE, table_resource(table))
        if path is not None and local_path(path).rstrip("/") != self._open(table).location:
            raise InvalidName(f"Table {table} cannot be replaced by one at {path}: where a table lies does not change.")
        replace_schema(self.catalog, self._publisher, lambda: self._open(table), schema, by=self.caller.principal)

    # After a crash, or after somebody else's commit

    @needs(Access.ALTER)
    def repair_table(self, table: Identifier, *, dry_run: bool = False) -> Repair:
        """Adopt or set aside snapshot files the catalog did not decide, so that commits go on; see `lake.repair.repair`."""
        return repair(self.catalog, self._publisher, self._open(table), dry_run=dry_run)

    @asks_itself
    def recover(self) -> None:
        """Finish what a crash left half done: directories to remove or move, schemas and snapshots to publish."""
        self.caller.administers()
        with self.catalog.reading() as tx:
            garbage = tx.tables.dropped_directories()
            rows = tx.tables.all()
            behind = tx.snapshots.tables_with_unpublished()
        for location in garbage:
            self._remove_directory(location)
        by_id = {row.table_id: row for row in rows}
        for row in rows:
            if row.moving_from or row.stale or row.published_schema_id < row.schema_id:
                self._ready(row)
        for table_id, branch in behind:
            if (found := by_id.get(table_id)) is not None:
                opened = self._open(Identifier(found.database, found.name, branch))
                self._publisher.catch_up(table_id, opened.files, branch)


def _bare_answer(snapshot: Snapshot) -> Mapping[str, Any]:
    return {"snapshotId": snapshot.id}
