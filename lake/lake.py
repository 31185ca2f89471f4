"""Databases and tables: the catalog decides, the files follow, and both are called from SQL and REST."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from catalog import CatalogStore
from catalog.listing import EVERYTHING, Slice
from catalog.records import CountsRow, DatabaseRow, PartitionRow, TableRow
from lake.branches import Branches
from lake.client_commit import ClientCommitter
from lake.commit import AnswerOf, Claimed, Committer
from lake.counts import partition_page, totals
from lake.history import History
from lake.idempotency import Idempotency, IdempotencyClaim, Replay
from lake.names import check_name
from lake.partitions import Partition, partitions
from lake.publish import Hook, Publisher, no_hook
from lake.repair import Repair, repair
from lake.table import LakeTable
from lake.tags import Tags
from lake.travel import resolve
from lake.views import Functions, Views
from model.catalog_errors import MetadataOnlyTable
from model.errors import (
    CommitConflict,
    DatabaseAlreadyExist,
    DatabaseNotExist,
    InvalidName,
    TableAlreadyExist,
    TableNotExist,
)
from model.identifier import DEFAULT_DATABASE, Identifier
from model.schema import Schema, other_kind
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
        self.client_commits = ClientCommitter(catalog, self.file_io, self._publisher, hook)
        self.tags = Tags(catalog)
        self.branches = Branches(catalog, self._publisher, self.tags)
        self.history = History(catalog, self._publisher, self.tags)
        self.views = Views(catalog)
        self.functions = Functions(catalog)

    def close(self) -> None:
        """Stop background work; the catalog store is its owner's to close."""
        self.idempotency.close()

    # Databases

    def list_databases(self, wanted: Slice = EVERYTHING) -> list[str]:
        """The names wanted, in code-point order."""
        with self.catalog.reading() as tx:
            return tx.databases.names(wanted)

    def database(self, name: str) -> DatabaseRow:
        """One database; raises `DatabaseNotExist`."""
        with self.catalog.reading() as tx:
            return tx.databases.get(name)

    def create_database(
        self,
        name: str,
        *,
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
        if_not_exists: bool = False,
        by: str | None = None,
    ) -> bool:
        """Add a database; False when it exists and that is fine."""
        check_name(name, "database")
        try:
            with self.catalog.transaction() as tx:
                tx.databases.create(name, comment=comment, options=options or {}, by=by)
        except DatabaseAlreadyExist:
            if not if_not_exists:
                raise
            return False
        return True

    def alter_database(
        self, name: str, *, set_options: Mapping[str, str], remove: Iterable[str] = (), by: str | None = None
    ) -> tuple[list[str], list[str]]:
        """Change a database's options; returns which of those to remove were there and which were not."""
        with self.catalog.transaction() as tx:
            options = dict(tx.databases.lock(name).options)
            removed = [key for key in remove if options.pop(key, None) is not None]
            tx.databases.set_options(name, options | dict(set_options), by=by)
        return removed, [key for key in remove if key not in removed]

    def drop_database(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Remove a database; one with tables only with ``cascade``, which drops them all in one decision."""
        if name == DEFAULT_DATABASE:
            raise InvalidName("The database default cannot be dropped: statements without a database name mean it.")
        dropped: list[str] = []
        try:
            with self.catalog.transaction() as tx:
                if cascade:
                    tx.databases.lock(name)
                    tx.views.drop_all(name)
                    tx.functions.drop_all(name)
                for table in tx.tables.names(name) if cascade else ():
                    row = tx.tables.lock(Identifier(name, table))
                    dropped += filter(None, [garbage := _own_directory(row)])
                    tx.tables.drop(row.table_id, garbage)
                tx.databases.drop(name)
        except DatabaseNotExist:
            if not if_exists:
                raise
        for location in dropped:
            self._remove_directory(location)

    # Tables

    def list_tables(self, database: str, wanted: Slice = EVERYTHING, *, type_: str | None = None) -> list[str]:
        """The names of a database's tables, in code-point order; raises `DatabaseNotExist`."""
        with self.catalog.reading() as tx:
            names = tx.tables.names(database, wanted, type_=type_)
            if not names:
                tx.databases.get(database)
            return names

    def tables_everywhere(
        self, *, databases: str | None, tables: str | None, after: tuple[str, str] | None, limit: int
    ) -> list[tuple[str, str]]:
        """Database and name of tables in all databases; see `TableRepository.everywhere`."""
        with self.catalog.reading() as tx:
            return tx.tables.everywhere(databases=databases, tables=tables, after=after, limit=limit)

    def describe_all(self, database: str, wanted: Slice, *, type_: str | None = None) -> list[TableRow]:
        """A database's tables as the catalog has them, their files in place; raises `DatabaseNotExist`."""
        with self.catalog.reading() as tx:
            rows = tx.tables.rows(database, wanted, type_=type_)
            if not rows:
                tx.databases.get(database)
        for row in rows:
            self._ready(row)
        return rows

    def location_of(self, table: Identifier) -> str:
        """Where a table of that name lies."""
        return f"{self.warehouse}/{table.database}.db/{table.table}"

    def open(self, table: Identifier) -> LakeTable:
        """The table as the catalog has it now; raises `TableNotExist`, `DatabaseNotExist`, or `MetadataOnlyTable` for what other engines run."""
        opened = self.open_any(table)
        if (kind := other_kind(opened.schema.options)) is not None:
            raise MetadataOnlyTable(str(table), kind)
        return opened

    def open_any(self, table: Identifier) -> LakeTable:
        """The table, of whatever kind."""
        return self._ready(self._row(table))

    def describe(self, table: Identifier) -> TableRow:
        """What the catalog says of a table of whatever kind, its schema's file in place."""
        row = self._row(table)
        self._ready(row)
        return row

    def describe_id(self, table_id: UUID) -> TableRow:
        """The same of a table known by its id."""
        with self.catalog.reading() as tx:
            row = tx.tables.by_id(table_id)
        if row is None:
            raise TableNotExist(str(table_id))
        self._ready(row)
        return row

    def _row(self, table: Identifier) -> TableRow:
        with self.catalog.reading() as tx:
            row = tx.tables.find(table)
            if row is None:
                tx.databases.get(table.database)
                raise TableNotExist(str(table))
        return row

    def _ready(self, row: TableRow) -> LakeTable:
        """The open table, once what a crash or another server left half done is finished."""
        if row.moving_from:
            self._finish_move(row)
        files = TableFiles(self.file_io, row.location, row.branch)
        schema = Schema.from_json(row.schema)
        if row.stale:
            self._publisher.remove_stale(row.table_id, files)
        if row.published_schema_id < schema.id:
            self._publisher.schemas(row.table_id, files, row.branch, published=row.published_schema_id, newest=schema)
        return LakeTable(
            identifier=Identifier(row.database, row.name, row.branch),
            table_id=row.table_id,
            schema=schema,
            location=row.location,
            files=files,
            read_latest=self._publisher.latest,
        )

    def create_table(
        self, table: Identifier, schema: Schema, *, if_not_exists: bool = False, path: str | None = None, by: str | None = None
    ) -> bool:
        """Add a table; False when one of that name exists and that is fine.

        The row is decided first, under a lock on the directory, then the schema file is written; `open` writes it
        where a crash came between. With a ``path`` the files lie there and stay when the table is dropped.
        Raises `TableAlreadyExist`, `DatabaseNotExist`, `InvalidName`.
        """
        check_name(table.table, "table")
        location = self._external(path) if path is not None else self.location_of(table)
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
                tx.tables.create(
                    table, uuid4(), location=location, schema_id=stamped.id, schema=stamped.to_json(), external=path is not None, by=by
                )
                if tx.views.find(table.database, table.table) is not None:
                    raise TableAlreadyExist(str(table))
        except TableAlreadyExist:
            if not if_not_exists:
                raise
            return False
        self._hook("table decided")
        opened = self.open_any(table)
        if other_kind(schema.options) == "object-table":  # its makers put files there at once
            self.file_io.mkdirs(opened.location)
        return True

    def _external(self, path: str) -> str:
        """Where an external table lies: inside the warehouse, since no other place is this server's to write to."""
        location = path.removeprefix("file://").rstrip("/") if path.startswith("file:///") else path.removeprefix("file:").rstrip("/")
        parts = location.split("/")
        if not location.startswith(f"{self.warehouse}/") or ".." in parts or parts[-1].endswith(".db"):
            raise InvalidName(f"A table cannot lie at {path}: external tables lie inside the warehouse, {self.warehouse}, each in its own place.")
        return location

    def _refuse_foreign(self, in_use: bool, location: str, table: Identifier) -> None:
        if in_use or self.file_io.exists(TableFiles(self.file_io, location).layout.schema_dir()):
            raise InvalidName(
                f"Table {table} cannot be created: {location} already holds a table's files the catalog does not know by this name. "
                "Move them away or choose another name."
            )

    def alter_table(
        self, table: Identifier, changes: Sequence[SchemaChange], *, check: Decided | None = None, by: str | None = None
    ) -> Schema:
        """Apply changes as one new schema version; an ALTER that comes second is applied on the first's outcome."""
        while True:
            opened = self.open_any(table)
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
                        opened.table_id, table.branch, base=opened.schema.id, to=new.id, schema=new.to_json(), by=by
                    )
                self._hook("schema decided")
                return self.open_any(table).schema

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        """Give a table another name; its directory moves along where the file system can."""
        check_name(target.table, "table")
        self.open_any(source)
        to = self.location_of(target)
        with self.catalog.transaction() as tx:
            row = tx.tables.lock(source)
            if tx.views.find(target.database, target.table) is not None:
                raise TableAlreadyExist(str(target))
            if row.external or not self.file_io.atomic_rename:
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
        self.open_any(target)

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
                garbage = _own_directory(row)
                tx.tables.drop(row.table_id, garbage)
        except TableNotExist:
            if not if_exists:
                raise
            return
        self._hook("drop decided")
        if garbage is not None:
            self._remove_directory(garbage)

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
        """Commit to several tables in one transaction: all of them or none."""
        claimed = [Claimed(claim=claim, answer=answer or _bare_answer)] if claim else []
        return self._committer.commit_all([table for table, _ in commits], [[request] for _, request in commits], claimed)

    def claim(self, key: str, *, scope: str, body_hash: str) -> IdempotencyClaim | Replay:
        """Take an idempotency key; see `Idempotency.claim`."""
        return self.idempotency.claim(key, scope=scope, body_hash=body_hash)

    # Snapshots

    def resolve(self, table: LakeTable, options: Mapping[str, str], *, zone: str = "UTC") -> Snapshot | None:
        """The snapshot a batch read with these options sees; see `lake.travel.resolve`."""
        return resolve(self.catalog, self.tags, table, options, zone=zone)

    def partitions(self, table: LakeTable, snapshot: Snapshot | None) -> list[Partition]:
        """The partitions of a snapshot, by name."""
        return partitions(table, snapshot)

    def totals(self, table: LakeTable) -> tuple[Snapshot, CountsRow] | None:
        """The latest snapshot with what it holds; see `lake.counts.totals`."""
        return totals(self.catalog, table)

    def partition_page(self, table: LakeTable, wanted: Slice = EVERYTHING) -> list[PartitionRow]:
        """Partitions with what is known of them, by name."""
        return partition_page(self.catalog, table, wanted)

    # After a crash, or after somebody else's commit

    def repair_table(self, table: Identifier, *, dry_run: bool = False) -> Repair:
        """Adopt or set aside snapshot files the catalog did not decide, so that commits go on; see `lake.repair.repair`."""
        return repair(self.catalog, self._publisher, self.open(table), dry_run=dry_run)

    def recover(self) -> None:
        """Finish what a crash left half done: directories to remove or move, schemas and snapshots to publish."""
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
                opened = self.open_any(Identifier(found.database, found.name, branch))
                self._publisher.catch_up(table_id, opened.files, branch)


def _own_directory(row: TableRow) -> str | None:
    """The directory that goes with the table; None for an external one, whose files are its maker's."""
    return None if row.external else row.moving_from or row.location


def _bare_answer(snapshot: Snapshot) -> Mapping[str, Any]:
    return {"snapshotId": snapshot.id}
