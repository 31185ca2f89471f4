"""Databases and tables: the catalog decides, the files follow, and both are called from SQL and REST."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from catalog import CatalogStore
from catalog.records import DatabaseRow, TableRow
from lake.commit import AnswerOf, Claimed, Committer
from lake.idempotency import Idempotency, IdempotencyClaim, Replay
from lake.names import check_name
from lake.partitions import Partition, partitions
from lake.publish import Hook, Publisher, no_hook
from lake.repair import Repair, repair
from lake.table import LakeTable
from lake.travel import resolve
from model.errors import (
    CommitConflict,
    DatabaseAlreadyExist,
    DatabaseNotExist,
    InvalidName,
    SnapshotNotExist,
    TableAlreadyExist,
    TableNotExist,
    TagNotExist,
)
from model.identifier import DEFAULT_DATABASE, Identifier
from model.schema import Schema
from model.schema_change import SchemaChange, apply_changes
from model.snapshot import Snapshot
from table.commit import CommitRequest
from table.file_io import FileIO, file_io_for, local_path
from table.store import TableFiles

Decided = Callable[[Schema], None]


class Lake:
    """All tables of one catalog and warehouse."""

    def __init__(self, catalog: CatalogStore, warehouse: str, *, file_io: FileIO | None = None, hook: Hook = no_hook) -> None:
        self.catalog = catalog
        # One spelling of a place, so that tables made under /x are the same under file:///x.
        self.warehouse = local_path(warehouse).rstrip("/")
        self.file_io = file_io or file_io_for(warehouse)
        self._hook = hook
        self._publisher = Publisher(catalog, hook)
        self._committer = Committer(catalog, self._publisher, hook)
        self.idempotency = Idempotency(catalog)

    def close(self) -> None:
        """Stop background work; the catalog store is its owner's to close."""
        self.idempotency.close()

    # Databases

    def list_databases(self) -> list[str]:
        """All names, in code-point order."""
        with self.catalog.reading() as tx:
            return tx.databases.names()

    def database(self, name: str) -> DatabaseRow:
        """One database; raises `DatabaseNotExist`."""
        with self.catalog.reading() as tx:
            return tx.databases.get(name)

    def create_database(
        self, name: str, *, options: Mapping[str, str] | None = None, comment: str | None = None, if_not_exists: bool = False
    ) -> bool:
        """Add a database; False when it exists and that is fine."""
        check_name(name, "database")
        try:
            with self.catalog.transaction() as tx:
                tx.databases.create(name, comment=comment, options=options or {})
        except DatabaseAlreadyExist:
            if not if_not_exists:
                raise
            return False
        return True

    def alter_database(self, name: str, *, set_options: Mapping[str, str], remove: Iterable[str] = ()) -> None:
        """Change a database's options."""
        with self.catalog.transaction() as tx:
            options = dict(tx.databases.get(name).options) | dict(set_options)
            for key in remove:
                options.pop(key, None)
            tx.databases.set_options(name, options)

    def drop_database(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Remove a database; one with tables only with ``cascade``, which drops them all in one decision."""
        if name == DEFAULT_DATABASE:
            raise InvalidName("The database default cannot be dropped: statements without a database name mean it.")
        dropped: list[str] = []
        try:
            with self.catalog.transaction() as tx:
                for table in tx.tables.names(name) if cascade else ():
                    row = tx.tables.lock(Identifier(name, table))
                    tx.tables.drop(row.table_id, row.location)
                    dropped.append(row.location)
                tx.databases.drop(name)
        except DatabaseNotExist:
            if not if_exists:
                raise
        for location in dropped:
            self._remove_directory(location)

    # Tables

    def list_tables(self, database: str) -> list[str]:
        """The names of a database's tables, in code-point order; raises `DatabaseNotExist`."""
        with self.catalog.reading() as tx:
            names = tx.tables.names(database)
            if not names:
                tx.databases.get(database)
            return names

    def location_of(self, table: Identifier) -> str:
        """Where a table of that name lies."""
        return f"{self.warehouse}/{table.database}.db/{table.table}"

    def open(self, table: Identifier) -> LakeTable:
        """The table as the catalog has it now; raises `TableNotExist` or `DatabaseNotExist`."""
        with self.catalog.reading() as tx:
            row = tx.tables.find(table)
            if row is None:
                tx.databases.get(table.database)
                raise TableNotExist(f"{table.database}.{table.table}")
        if row.moving_from:
            self._finish_move(row)
        return self._table(row, table.branch)

    def _table(self, row: TableRow, branch: str) -> LakeTable:
        files = TableFiles(self.file_io, row.location)
        schema = Schema.from_json(row.schema)
        if row.published_schema_id < schema.id:
            self._publisher.schemas(row.table_id, files, published=row.published_schema_id, newest=schema)
        return LakeTable(
            identifier=Identifier(row.database, row.name, branch),
            table_id=row.table_id,
            schema=schema,
            location=row.location,
            files=files,
            read_latest=self._publisher.latest,
        )

    def create_table(self, table: Identifier, schema: Schema, *, if_not_exists: bool = False) -> bool:
        """Add a table; False when one of that name exists and that is fine.

        The row is decided first, under a lock on the directory, then the schema file is written; `open` writes it
        where a crash came between. Raises `TableAlreadyExist`, `DatabaseNotExist`, `InvalidName`.
        """
        check_name(table.table, "table")
        location = self.location_of(table)
        stamped = replace(schema, time_millis=schema.time_millis or time.time_ns() // 1_000_000)
        try:
            with self.catalog.transaction() as tx:
                if tx.tables.lock_location(location):
                    self.file_io.delete_tree(location)
                    tx.tables.directory_removed(location)
                if tx.tables.find(table) is not None:
                    raise TableAlreadyExist(str(table))
                tx.databases.get(table.database)
                self._refuse_foreign(tx.tables.location_in_use(location), location, table)
                tx.tables.create(table, uuid4(), location=location, schema_id=stamped.id, schema=stamped.to_json())
        except TableAlreadyExist:
            if not if_not_exists:
                raise
            return False
        self._hook("table decided")
        self.open(table)
        return True

    def _refuse_foreign(self, in_use: bool, location: str, table: Identifier) -> None:
        if in_use or self.file_io.exists(TableFiles(self.file_io, location).layout.schema_dir()):
            raise InvalidName(
                f"Table {table} cannot be created: {location} already holds a table's files the catalog does not know by this name. "
                "Move them away or choose another name."
            )

    def alter_table(self, table: Identifier, changes: Sequence[SchemaChange], *, check: Decided | None = None) -> Schema:
        """Apply changes as one new schema version; an ALTER that comes second is applied on the first's outcome."""
        while True:
            opened = self.open(table)
            snapshot = opened.latest()
            now = time.time_ns() // 1_000_000
            new = apply_changes(opened.schema, changes, table=str(table), has_snapshot=snapshot is not None, time_millis=now)
            if check is not None:
                check(new)
            if replace(new, id=opened.schema.id, time_millis=opened.schema.time_millis) == opened.schema:
                return opened.schema
            with contextlib.suppress(CommitConflict):
                with self.catalog.transaction() as tx:
                    tx.tables.advance_schema(opened.table_id, base=opened.schema.id, to=new.id, schema=new.to_json())
                self._hook("schema decided")
                return self.open(table).schema

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        """Give a table another name; its directory moves along where the file system can."""
        check_name(target.table, "table")
        self.open(source)
        to = self.location_of(target)
        with self.catalog.transaction() as tx:
            row = tx.tables.lock(source)
            if not self.file_io.atomic_rename:
                tx.tables.rename(row.table_id, target, location=row.location, moving_from=None)
                return
            if tx.tables.lock_location(to):
                self.file_io.delete_tree(to)
                tx.tables.directory_removed(to)
            if tx.tables.find(target) is not None:
                raise TableAlreadyExist(str(target))
            self._refuse_foreign(tx.tables.location_in_use(to), to, target)
            tx.tables.rename(row.table_id, target, location=to, moving_from=row.location)
        self._hook("rename decided")
        self.open(target)

    def _finish_move(self, row: TableRow) -> None:
        """Move the directory of a renamed table; several may try, the lock lets one."""
        assert row.moving_from is not None
        with self.catalog.transaction() as tx:
            tx.tables.lock_location(row.location)
            if self.file_io.exists(row.moving_from) and not self.file_io.exists(row.location):
                self.file_io.rename(row.moving_from, row.location)
            tx.tables.moved(row.table_id)

    def drop_table(self, table: Identifier, *, if_exists: bool = False) -> None:
        """Remove a table; its directory is garbage from the decision on, and removed right after."""
        try:
            with self.catalog.transaction() as tx:
                row = tx.tables.lock(table)
                tx.tables.drop(row.table_id, row.moving_from or row.location)
        except TableNotExist:
            if not if_exists:
                raise
            return
        self._hook("drop decided")
        self._remove_directory(row.moving_from or row.location)

    def _remove_directory(self, location: str) -> None:
        with self.catalog.transaction() as tx:
            if tx.tables.lock_location(location):
                self.file_io.delete_tree(location)
                tx.tables.directory_removed(location)

    # Commits

    def commit(
        self, table: LakeTable, request: CommitRequest, *, claim: IdempotencyClaim | None = None, answer: AnswerOf | None = None
    ) -> Snapshot:
        """Commit to one table; see `Committer.commit`."""
        claimed = Claimed(claim=claim, answer=answer or _bare_answer) if claim else None
        return self._committer.commit(table, request, claimed)

    def commit_all(
        self,
        commits: Sequence[tuple[LakeTable, CommitRequest]],
        *,
        claim: IdempotencyClaim | None = None,
        answer: AnswerOf | None = None,
    ) -> list[Snapshot]:
        """Commit to several tables in one transaction, all of them or none; appends to the same table share a snapshot."""
        claimed = [Claimed(claim=claim, answer=answer or _bare_answer)] if claim else []
        tables = {(table.table_id, table.identifier.branch): table for table, _ in commits}
        requests: dict[tuple[UUID, str], list[CommitRequest]] = {key: [] for key in tables}
        for table, request in commits:
            requests[(table.table_id, table.identifier.branch)].append(request)
        return self._committer.commit_all(list(tables.values()), list(requests.values()), claimed)

    def claim(self, key: str, *, scope: str, body_hash: str) -> IdempotencyClaim | Replay:
        """Take an idempotency key; see `Idempotency.claim`."""
        return self.idempotency.claim(key, scope=scope, body_hash=body_hash)

    # Snapshots

    def resolve(self, table: LakeTable, options: Mapping[str, str], *, zone: str = "UTC") -> Snapshot | None:
        """The snapshot a batch read with these options sees; see `lake.travel.resolve`."""
        return resolve(self.catalog, table, options, zone=zone)

    def partitions(self, table: LakeTable, snapshot: Snapshot | None) -> list[Partition]:
        """The partitions of a snapshot, by name."""
        return partitions(table, snapshot)

    def create_tag(self, table: LakeTable, name: str, *, snapshot_id: int | None = None) -> None:
        """Keep a snapshot under a name; raises `SnapshotNotExist` or `InvalidName`."""
        check_name(name, "tag")
        latest = table.latest()
        with self.catalog.transaction() as tx:
            wanted = snapshot_id if snapshot_id is not None else latest.id if latest else 0
            row = tx.snapshots.get(table.table_id, table.identifier.branch, wanted)
            if row is None:
                raise SnapshotNotExist(f"Table {table.identifier} has no snapshot {wanted or ''} to tag.", resource_name=str(wanted))
            if not tx.tags.put(table.table_id, name, row.body):
                raise InvalidName(f"Tag {name} already exists on table {table.identifier}.")
        self._write_tag(table, name, row.body)

    def _write_tag(self, table: LakeTable, name: str, body: Mapping[str, Any]) -> None:
        self.file_io.write(table.files.layout.tag_file(name), json.dumps(dict(body), indent=2).encode())

    def delete_tag(self, table: LakeTable, name: str) -> None:
        """Remove a tag; raises `TagNotExist`."""
        with self.catalog.transaction() as tx:
            if not tx.tags.drop(table.table_id, name):
                raise TagNotExist(name, str(table.identifier))
        self.file_io.delete(table.files.layout.tag_file(name))

    def list_tags(self, table: LakeTable) -> list[str]:
        """A table's tags, by name."""
        with self.catalog.reading() as tx:
            return tx.tags.names(table.table_id)

    # After a crash, or after somebody else's commit

    def repair_table(self, table: Identifier, *, dry_run: bool = False) -> Repair:
        """Adopt or set aside snapshot files the catalog did not decide, so that commits go on; see `lake.repair.repair`."""
        return repair(self.catalog, self._publisher, self.open(table), dry_run=dry_run)

    def recover(self) -> None:
        """Finish what a crash left half done: directories to remove or move, schemas and snapshots to publish."""
        with self.catalog.reading() as tx:
            garbage = tx.tables.dropped_directories()
            rows = tx.tables.all()
            behind = set(tx.snapshots.tables_with_unpublished())
        for location in garbage:
            self._remove_directory(location)
        for row in rows:
            if row.moving_from or row.published_schema_id < row.schema_id or row.table_id in behind:
                opened = self.open(Identifier(row.database, row.name))
                self._publisher.catch_up(opened.table_id, opened.files, opened.identifier.branch)


def _bare_answer(snapshot: Snapshot) -> Mapping[str, Any]:
    return {"snapshotId": snapshot.id}
