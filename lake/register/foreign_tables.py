"""What a Paimon table's directory holds that no catalog here knows yet, branch by branch, and whether it can be taken over."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from catalog import CatalogTransaction
from model.errors import InvalidSchema, LakeError, TableDamaged
from model.identifier import MAIN_BRANCH
from model.location import Location
from model.names import check_name
from model.options.table import TABLE_OPTIONS
from model.schema.lengths import check_comment_lengths
from model.schema.schema import Schema, check_schema, other_kind
from model.snapshot import Snapshot
from table.format.hive import column_names
from table.format.io.file_io import FileIO
from table.format.io.storage_errors import told_by_the_store
from table.format.json_document import parse_to_keep
from table.format.layout import TableLayout
from table.format.schema_file import schema_told
from table.format.store import TableFiles
from table.scan.planning.entry_scan import plan_scan

_BRANCH = "branch-"
_PLACES = "data-file.external-paths"
"""Files there are judged one by one, by the import directories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBranch:
    """One branch of a table, as its files tell it."""

    branch: str
    files: TableFiles
    schemas: Sequence[Schema]
    """Oldest first, at least one."""
    snapshots: Sequence[Snapshot]

    @property
    def schema(self) -> Schema:
        """The newest."""
        return self.schemas[-1]

    def put(self, tx: CatalogTransaction, table_id: UUID) -> None:
        """Make its schemas and snapshots the catalog's; those of main beside the newest schema, which came with the table."""
        for schema in self.schemas[:-1] if self.branch == MAIN_BRANCH else self.schemas:
            tx.tables.add_schema(table_id, self.branch, schema.id, schema.to_json())
        tx.tables.schema_published(table_id, self.schema.id, self.branch)
        base: str | None = None
        for snapshot in self.snapshots:
            body = snapshot.to_json()
            tx.snapshots.advance(table_id, self.branch, base=base, snapshot_id=snapshot.id, uuid=snapshot.key, body=body, found=True)
            base = snapshot.key


def stored_branches(io: FileIO, location: str, allowed: Sequence[str]) -> list[StoredBranch]:
    """Main and the branches besides it; raises `InvalidSchema` where one of them cannot be taken over."""
    names = [MAIN_BRANCH, *names_of_branches(io, location)]
    for name in names[1:]:
        check_name(name, "branch")
    return [stored_branch(TableFiles(io, location, name, allowed=allowed)) for name in names]


def names_of_branches(io: FileIO, location: str) -> list[str]:
    """The branches besides main that have a directory, whatever is in it."""
    names = (status.path.rstrip("/").rsplit("/", 1)[-1] for status in io.list(TableLayout(location).branches_dir()))
    return sorted(name.removeprefix(_BRANCH) for name in names if name.startswith(_BRANCH))


def stored_branch(files: TableFiles) -> StoredBranch:
    """One branch; raises `InvalidSchema` where it cannot be taken over."""
    stored = StoredBranch(branch=files.layout.branch, files=files, schemas=_schemas(files), snapshots=_snapshots(files))
    _check_registrable(files, stored.schemas, stored.snapshots)
    return stored


def external_places(tables: Sequence[StoredBranch], roots: Sequence[str]) -> list[str]:
    """The directories outside a table's own that hold files of it: one in each of the roots, the deepest that holds all."""
    own = Location.parse(tables[0].files.location)
    paths = [
        Location.parse(entry.file.external_path)
        for stored in tables
        for snapshot in stored.snapshots[-1:]
        for meta in stored.files.manifests_of(snapshot)
        for entry in stored.files.manifest(meta)
        if entry.file.external_path is not None
    ]
    places: dict[Location, Location] = {}
    for path in paths:
        root = next((root for root in map(Location.parse, roots) if root.contains(path)), None)
        if root is not None and not own.contains(path):
            places[root] = path.parent if root not in places else places[root].common(path.parent)
    return [str(place) for place in places.values()]


def _schemas(files: TableFiles) -> list[Schema]:
    schemas = []
    for schema_id in files.schema_ids():
        path = files.layout.schema_file(schema_id)
        try:
            schema = schema_told(parse_to_keep(files.io.read(path)), path)
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise InvalidSchema(f"{path} is no schema of a Paimon table: {problem}") from None
        if schema.id != schema_id:
            raise InvalidSchema(f"{path} holds version {schema.id}.")
        schemas.append(schema)
    if not schemas:
        raise InvalidSchema(f"There is no Paimon table at {files.layout.branch_dir}: it has no schema files.")
    return schemas


def _snapshots(files: TableFiles) -> list[Snapshot]:
    snapshots = []
    for snapshot_id in files.snapshot_ids():
        path = files.layout.snapshot_file(snapshot_id)
        try:
            snapshot = files.read_snapshot(snapshot_id)
        except TableDamaged as damage:
            raise InvalidSchema(f"{path} is no snapshot of a Paimon table: {damage.__cause__}") from None
        if snapshot is not None:
            if snapshot.id != snapshot_id:
                raise InvalidSchema(f"{path} holds snapshot {snapshot.id}.")
            snapshots.append(snapshot)
    return snapshots


def _check_partition_columns(files: TableFiles, schema: Schema, snapshot: Snapshot) -> None:
    """Raise for files that leave their partition to the names of directories, as Paimon's own migration from Hive makes them."""
    for planned in plan_scan(files, schema, snapshot).files if schema.partition_keys else ():
        names = column_names(files.io, planned.path)
        if names is not None and (missing := [key for key in schema.partition_keys if key not in names]):
            raise InvalidSchema(
                f"{planned.path} does not hold the partition column {missing[0]}, which some readers would take for NULL; "
                "CALL sys.migrate_table takes such files over."
            )


def _check_harmless(schema: Schema, path: str, known: Mapping[str, str] | None) -> None:
    """Raise for options that REST clients could not set, as each reader would run or reach what they name; not for those of ``known``."""
    for key, value in schema.options.items():
        if key.startswith(_PLACES) if known is None else known.get(key) == value:
            continue
        if reason := TABLE_OPTIONS.danger(key):
            raise InvalidSchema(
                f"Option '{key}' in {path}: {reason} The table can be registered once the option is taken out of that file."
            )


def check_schemas(files: TableFiles, schemas: Sequence[Schema], *, known: Mapping[str, str] | None = None) -> None:
    """Raise `InvalidSchema` for schemas of no append table, or with options that nobody could set here.

    ``known`` are the options of a table whose later schemas these are.
    """
    newest, where = schemas[-1], files.layout.branch_dir
    if newest.primary_keys:
        raise InvalidSchema(f"The table at {where} has a primary key ({', '.join(newest.primary_keys)}); append tables have none.")
    if kind := other_kind(newest.options):
        raise InvalidSchema(f"The table at {where} is a {kind}; append tables can be registered.")
    check_schema(newest, stored=newest.options)
    for schema in schemas:
        path = files.layout.schema_file(schema.id)
        _check_harmless(schema, path, known)
        check_comment_lengths(schema, what=path)


def _check_line(snapshots: Sequence[Snapshot], where: str) -> None:
    """Raise for snapshots of which one is missing, or there twice."""
    for before, after in itertools.pairwise(snapshots):
        if after.id != before.id + 1:
            raise InvalidSchema(f"Snapshot {before.id + 1} of the table at {where} is missing between {before.id} and {after.id}.")
    ids: dict[str, int] = {}
    for snapshot in snapshots:
        if (first := ids.setdefault(snapshot.key, snapshot.id)) != snapshot.id:
            raise InvalidSchema(f"Snapshots {first} and {snapshot.id} of the table at {where} tell the same commit, {snapshot.key}.")


def _check_registrable(files: TableFiles, schemas: Sequence[Schema], snapshots: Sequence[Snapshot]) -> None:
    """Raise for tables that are no append tables, or that need what is not kept here."""
    newest, where = schemas[-1], files.layout.branch_dir
    check_schemas(files, schemas)
    files.partition_types = [field.type for field in newest.partition_fields]
    known = {schema.id for schema in schemas}
    _check_line(snapshots, where)
    for snapshot in snapshots[-1:]:
        if snapshot.schema_id not in known:
            raise InvalidSchema(f"Snapshot {snapshot.id} of the table at {where} needs schema {snapshot.schema_id}, which is gone.")
        try:
            _check_partition_columns(files, newest, snapshot)
            for _ in files.live_entries(snapshot):
                pass
        except InvalidSchema:
            raise
        except (LakeError, FileNotFoundError, ValueError, KeyError, EOFError) as problem:
            if told_by_the_store(problem):
                raise
            raise InvalidSchema(f"Snapshot {snapshot.id} of the table at {where} cannot be read: {problem}") from problem
