"""Take over what exists: a Paimon table's directory as it is, or a Hive-style directory of files, in place and at once."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from uuid import UUID, uuid4

from lake.access.allowed_locations import allowed_place, check_all_inside, place_to_register, refuse_guarded, refuse_overlap
from lake.access.guard import asks_itself, its_database, needs
from lake.base import LakeBase
from lake.commit.claims import Claim, claimed_in
from lake.commit.core import deciding
from lake.commit.decided import follow
from lake.commit.write_context import paths_of
from lake.register.foreign_tables import external_places, stored_branches
from lake.register.known_lines import known_lines
from lake.register.operations import rewrite_operations
from lake.tables.handle import LakeTable
from lake.tables.names import check_table_name
from model.access import EVERYTHING, Access, database_resource, table_resource
from model.commit_phase import CommitProgress
from model.errors import InvalidName, InvalidSchema, LakeError, TableAlreadyExist
from model.identifier import MAIN_BRANCH, Identifier
from model.location import Location
from model.options.rules import check_together
from model.options.table import TABLE_OPTIONS
from model.schema.schema import Schema, new_schema
from model.snapshot import MIGRATE, CommitKind, Snapshot
from table.format.hive import HiveDirectory, HiveFile, registered, survey
from table.format.io.file_io import FileIO
from table.format.io.links import RealPlaces, real
from table.format.store import TableFiles
from table.write.snapshot_builder import CommitRequest, build_snapshot, metadata_written

_log = logging.getLogger(__name__)
WITHOUT_RULES = (
    "Grants, row filters and masks are not in a table's files: none came along, and only its maker has rights on it. Make its policies "
    "before others get SELECT."
)
"""What is said to who registers a table, by each protocol and in the log."""

_TAKEN_OVER = "The files at {} cannot be taken over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """What a migration did, or would do."""

    schema: Schema
    place: str
    """The directory the files lie in."""
    source: HiveDirectory
    renamed: tuple[tuple[str, str], ...]
    """Files that need another name, as readers tell the format by it."""

    @property
    def rows(self) -> int:
        """Rows that are the table's now."""
        return sum(file.rows for file in self.source.files)


class LakeAdoption(LakeBase):
    """Tables made of what lies there already."""

    @needs(Access.CREATETABLE, its_database)
    def register_table(self, table: Identifier, path: str, *, dry_run: bool = False, claim: Claim | None = None) -> Snapshot | None:
        """Make the Paimon append table that lies at ``path`` a table of this catalog; its files stay there, also when it is dropped.

        Its branches and tags come along; returns main's latest snapshot. Raises `Forbidden` for other places than the import
        directories and the warehouse, `InvalidSchema` for a directory that holds no such table, `TableAlreadyExist`.
        """
        check_table_name(table)
        place = place_to_register(path, self.warehouse_location, self.import_dirs, self._may_create_in)
        location = str(place)
        main, *branches = branches_with_main = stored_branches(self.file_io, location, self.import_dirs)
        allowed = external_places(branches_with_main, self.import_dirs)
        newest = main.schema
        with self.catalog.transaction(keep=not dry_run) as tx, claimed_in(tx, claim):
            tx.directories.lock_location(location)
            if tx.tables.find(table) is not None or tx.views.find(table.database, table.table) is not None:
                raise TableAlreadyExist(str(table))
            for taken in (place, *map(Location.parse, allowed)):
                refuse_overlap(tx, taken, f"Table {table} cannot be registered")
            table_id = uuid4()
            tx.tables.create(
                table,
                table_id,
                location=location,
                schema_id=newest.id,
                schema=newest.to_json(),
                external=True,
                allowed=allowed,
                by=self.caller.principal,
            )
            main.put(tx, table_id)
            for branch in branches:
                tx.branches.create(table_id, branch.branch, schema_id=branch.schema.id, table=str(table))
                branch.put(tx, table_id)
            owned = self._own(tx, table_resource(table), table_id=table_id)
        if not dry_run:
            self._owns(owned)
            _log.warning("%s registered %s as table %s. %s", self.caller.principal, location, table, WITHOUT_RULES)
            for stored in (main, *branches):
                self._publisher.try_to_catch_up(table_id, stored.files, stored.branch)
                follow(
                    partial(rewrite_operations, stored.files, stored.snapshots), f"Operations that Paimon cannot parse are told by {table}"
                )
        return main.snapshots[-1] if main.snapshots else None

    def _may_create_in(self, database: str | None) -> bool:
        """Whether the caller may create tables in a database; None for all of them."""
        return self.caller.may(Access.CREATETABLE, EVERYTHING if database is None else database_resource(database))

    @needs(Access.CREATETABLE, its_database)
    def migrate_table(
        self,
        table: Identifier,
        source: str,
        *,
        options: Mapping[str, str] | None = None,
        threads: int = 8,
        dry_run: bool = False,
        claim: Claim | None = None,
    ) -> Migration:
        """Make a table of a directory of Parquet or ORC files without copying one, once under a claim: all in one decision, or nothing.

        The files stay where they are; from then on they are the table's. Raises where they disagree or cannot be held.
        """
        check_table_name(table)
        place, sources = self._survey(source, threads)
        table_options = dict(options or {})
        TABLE_OPTIONS.check(table_options)
        if table_options.get("bucket", "-1") != "-1":
            raise InvalidSchema("A migrated table has no buckets: its files were not written by any bucket's rows.")
        defaults = {"bucket": "-1", "file.format": sources.files[0].format}
        schema = new_schema(
            sources.columns,
            partition_keys=sources.keys,
            options={**defaults, **table_options},
            time_millis=time.time_ns() // 1_000_000,
        )
        check_together(schema.options, schema.partition_keys, table_options)
        plan = Migration(schema=schema, place=place, source=sources, renamed=_renamed(sources.files))
        if not dry_run:
            self.reserve.require()
            request = migration_commit(sources.files, schema)
            with renaming(self.file_io, plan.renamed, request.progress):
                self._decide_migration(table, plan, request, claim)
        return plan

    @asks_itself
    def directories_to_migrate(self, database: str, source: str) -> list[str]:
        """The directories in one of the import directories' that `migrate_table` could make tables of; hidden ones are none."""
        self.caller.require(Access.CREATETABLE, database_resource(database))
        location = allowed_place(source, self.import_dirs)
        with self.catalog.reading() as tx:
            refuse_guarded(tx, [real(location)], self.warehouse_location, self.import_dirs, around=False)
        directories = [status.path for status in self.file_io.list(str(location)) if status.is_dir]
        return sorted(path for path in directories if not path.rsplit("/", 1)[-1].startswith((".", "_")))

    def _decide_migration(self, table: Identifier, plan: Migration, request: CommitRequest, claim: Claim | None) -> None:
        with deciding([request.progress]), self.catalog.transaction() as tx, claimed_in(tx, claim):
            if tx.tables.find(table) is not None or tx.views.find(table.database, table.table) is not None:
                raise TableAlreadyExist(str(table))
            tx.databases.get(table.database)
            refuse_overlap(tx, Location.parse(plan.place), _TAKEN_OVER.format(plan.place))
            table_id = uuid4()
            location = self._place(tx, table, table_id, None)
            self._require_empty(table, location)
            files = TableFiles(self.file_io, location, name=table.written(), allowed=[plan.place])
            tx.tables.create(
                table,
                table_id,
                location=location,
                schema_id=0,
                schema=plan.schema.to_json(),
                allowed=[plan.place],
                by=self.caller.principal,
            )
            try:
                snapshot = build_snapshot(files, plan.schema, None, [request], uuid=str(uuid4()), time_millis=time.time_ns() // 1_000_000)
                named = [path for new in request.adds for path in paths_of(files, plan.schema, new)]
                self.file_io.sync([*named, *metadata_written(files, plan.schema, None, snapshot)])
            except LakeError:
                self.file_io.delete_tree(location)  # nobody else's: the location is locked, and no table lies there
                raise
            body = snapshot.to_json()
            tx.snapshots.advance(table_id, MAIN_BRANCH, base=None, snapshot_id=snapshot.id, uuid=snapshot.key, body=body)
            owned = self._own(tx, table_resource(table), table_id=table_id)
        self._owns(owned)
        self._hook("migration decided")
        self._publisher.try_to_catch_up(table_id, files, MAIN_BRANCH)

    def _survey(self, source: str, threads: int, *, into: UUID | None = None) -> tuple[str, HiveDirectory]:
        """Where a directory of files lies, and what is in it; the files of the table ``into`` may lie there already."""
        location = allowed_place(source, self.import_dirs)
        if not self.warehouse_location.same_store(location):
            raise InvalidName(f"{location} lies in another store than the warehouse, {self.warehouse}; a table's files lie in one.")
        with self.catalog.transaction(keep=False) as tx:
            refuse_overlap(tx, location, _TAKEN_OVER.format(location), files_of=into)
        sources = survey(
            self.file_io,
            str(location),
            threads=threads,
            allowed=lambda paths: check_all_inside(paths, [str(location)], outside=self.warehouse_location),
        )
        return str(location), sources

    @asks_itself
    def plan_migration(self, table: LakeTable, source: str, *, threads: int = 8) -> Migration:
        """What it takes to add a directory's files to a table, in place; raises where they are not of the table's columns.

        Those that the table had already, once or still, are left out.
        """
        self._require_to_add_files(table)
        place, sources = self._survey(source, threads, into=table.table_id)
        with self.catalog.consistent() as tx:
            known = [*chain.from_iterable(known_lines(tx, table.table_id))]
        sources = replace(sources, files=_new_to(table, sources.files, known))
        schema = table.schema
        if schema.bucket != -1:
            raise InvalidSchema(f"Files can be added to tables with 'bucket' = '-1' only; {table.identifier} has {schema.bucket}.")
        if sources.keys != schema.partition_keys:
            raise InvalidSchema(
                f"The directory is partitioned by ({', '.join(sources.keys)}) and {table.identifier} by "
                f"({', '.join(schema.partition_keys)})."
            )
        for file in sources.files:
            for name, type_ in file.columns.items():
                field = schema.field(name, table=str(table.identifier))
                if field.type.with_nullable(True) != type_.with_nullable(True):
                    raise InvalidSchema(f"Column {name} is {type_.sql()} in {file.path} and {field.type.sql()} in {table.identifier}.")
            for field in schema.fields:
                if not field.type.nullable and field.name not in schema.partition_keys:
                    column_type = file.columns.get(field.name)
                    if column_type is None or column_type.nullable:
                        raise InvalidSchema(f"Column {field.name} of {table.identifier} is NOT NULL; {file.path} may hold NULL there.")
        return Migration(schema=schema, place=place, source=sources, renamed=_renamed(sources.files))

    def _require_to_add_files(self, table: LakeTable) -> None:
        """Raise `Forbidden` for who may only add rows: files that are a table's are nobody else's, and go with its compactions."""
        self.caller.require(Access.UPDATE, table_resource(table.identifier))
        self.caller.require(Access.CREATETABLE, database_resource(table.identifier.database))

    @asks_itself
    def record_place(self, table: LakeTable, plan: Migration) -> None:
        """Make the directory of files that are about to be a table's one where files of it may lie, and of no other table."""
        self._require_to_add_files(table)
        with self.catalog.transaction() as tx:
            refuse_overlap(tx, Location.parse(plan.place), _TAKEN_OVER.format(plan.place), files_of=table.table_id)
            tx.tables.allow(table.table_id, plan.place)


def _new_to(table: LakeTable, files: Sequence[HiveFile], known: Sequence[Snapshot]) -> tuple[HiveFile, ...]:
    """The files that no snapshot of a table names: rows of one that was merged or deleted would come back."""
    places = RealPlaces()
    manifests = {meta.file_name: meta for snapshot in known for meta in table.files.manifests_of(snapshot)}
    paths = {entry.file.external_path for meta in manifests.values() for entry in table.files.manifest(meta)}
    named = {places.of(Location.parse(path)) for path in paths if path is not None}
    return tuple(file for file in files if places.of(Location.parse(file.name_needed)) not in named)


def migration_commit(files: Sequence[HiveFile], schema: Schema) -> CommitRequest:
    """The commit that makes the files a table's; those without rows are left out."""
    adds = tuple(registered(file, schema) for file in files if file.rows)
    return CommitRequest(kind=CommitKind.APPEND, adds=adds, registers=True, commit_user=str(uuid4()), operation=MIGRATE)


def _renamed(files: Sequence[HiveFile]) -> tuple[tuple[str, str], ...]:
    return tuple((file.path, file.name_needed) for file in files if file.rows and file.path != file.name_needed)


@contextlib.contextmanager
def renaming(io: FileIO, pairs: Sequence[tuple[str, str]], progress: CommitProgress) -> Iterator[None]:
    """Give files the names their readers need; where the commit that names them is not decided for certain they have the old ones again."""
    if pairs and not io.atomic_rename:
        raise InvalidSchema(f"{pairs[0][0]} needs the ending of its format, and this store cannot rename without copying.")
    done: list[tuple[str, str]] = []
    try:
        for source, target in pairs:
            io.rename(source, target)
            done.append((source, target))
        yield
    finally:
        for source, target in reversed(done) if progress.undecided else ():
            io.rename(target, source)
