"""Rewriting whole tables and partitions from the catalog's side: CREATE OR REPLACE, DROP PARTITION."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from catalog import CatalogTransaction
from catalog.commits.reservations import Place
from catalog.records import PartitionRow
from lake.access.rules import require_columns_kept, take_masks_along
from lake.commit.built import BuiltCommit, decide_built
from lake.commit.claims import claimed_in
from lake.commit.core import CommitCore
from lake.commit.decided import follow, require_table_writable
from lake.commit.write_context import paths_of
from lake.tables.handle import LakeTable
from model.catalog_errors import TableChanged
from model.errors import CommitConflict, InvalidSchemaChange, TableNotExist
from model.identifier import MAIN_BRANCH
from model.partition import partition_name
from model.schema.findable import findable
from model.schema.loadable import check_taken
from model.schema.replaced import REPLACE_TABLE, partitions_otherwise, replacing_fields, replacing_options
from model.schema.schema import Schema, other_kind
from model.snapshot import CommitKind, Snapshot
from table.format.layout import default_partition_name, partition_texts
from table.format.rows import binary_row
from table.write.snapshot_builder import CommitRequest, build_snapshot, everything, metadata_written


def partition_filter(table: LakeTable, specs: Sequence[Mapping[str, str]]) -> Callable[[bytes], bool]:
    """Whether a partition's row bytes are one of the specs, as Paimon's clients read these to drop partitions.

    The default name is NULL there, and every other text the value itself: blanks, which lie in NULL's directory, are other partitions.
    """
    wanted = {_texts_of(table.schema, spec) for spec in specs}
    return lambda partition: _read_texts(table.schema, partition) in wanted


def _texts_of(schema: Schema, spec: Mapping[str, str]) -> tuple[str | None, ...]:
    """A spec as Paimon's clients read it: None for NULL, whose name is no other value's."""
    default = default_partition_name(schema)
    return tuple(None if spec[key] == default else spec[key] for key in schema.partition_keys)


def _read_texts(schema: Schema, partition: bytes) -> tuple[str | None, ...]:
    return partition_texts(schema, binary_row.decode([field.type for field in schema.partition_fields], partition))


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPartitions:
    """What of partitions that are named is there."""

    there: list[Mapping[str, str]]
    missing: list[Mapping[str, str]]
    filled: bool
    """Whether some of those that are there may have rows."""
    shared: bool
    """Whether the directory of some of those is of other values, too, which may have rows."""


def named_partitions(table: LakeTable, specs: Sequence[Mapping[str, str]], rows: Sequence[PartitionRow]) -> NamedPartitions:
    """Look for partitions by the rows that the catalog has of their names; where a directory is of several values, in the manifests."""
    listed, keys = {row.name: row for row in rows}, table.schema.partition_keys
    ours = other_kind(table.schema.options) is None
    sharing = [ours and _shares_directory(table.schema, spec) for spec in specs]
    partitions = {sums.partition for sums in table.files.bucket_sums(table.latest())} if any(sharing) else set[bytes]()
    with_rows = {_read_texts(table.schema, partition) for partition in partitions}
    there, missing = list[Mapping[str, str]](), list[Mapping[str, str]]()
    filled = shared = False
    for spec, shares in zip(specs, sharing, strict=True):
        row = listed.get(partition_name(spec, keys))
        has_rows = _texts_of(table.schema, spec) in with_rows if shares else bool(row and row.file_count)
        if not has_rows and (row is None or (shares and row.file_count)):
            missing.append(spec)
        else:
            there.append(spec)
            filled = filled or (ours and has_rows)
            shared = shared or shares
    return NamedPartitions(there=there, missing=missing, filled=filled, shared=shared)


def _shares_directory(schema: Schema, spec: Mapping[str, str]) -> bool:
    """Whether a partition may lie in a directory of several: that of NULL and blanks, or of bytes that are no text."""
    default = default_partition_name(schema)
    return any(not text.strip() or text == default or "\N{REPLACEMENT CHARACTER}" in text for text in spec.values())


def replaced(core: CommitCore, open_table: Callable[[], LakeTable], schema: Schema) -> LakeTable:
    """The table as it will be once it is replaced; what is written to it as such can be given to `replace_schema`. Nothing is decided.

    Raises what that raises.
    """
    table = open_table()
    _require_replaceable(table, schema)
    return replace(table, schema=_version(core, table, schema, table.latest(), time.time_ns() // 1_000_000))


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a replaced table holds from the first: files that were written to it before anything is decided."""

    table: LakeTable
    """As `replaced` told it."""
    request: CommitRequest
    """An overwrite of everything that adds them."""
    on_decided: Callable[[], None]
    """Called once they are committed."""


def replace_schema(
    core: CommitCore,
    open_table: Callable[[], LakeTable],
    schema: Schema,
    *,
    publish: Callable[[], object],
    by: str,
    contents: Contents | None = None,
) -> Snapshot | None:
    """Empty a table, or leave it with ``contents``, and give it another schema, in one decision; its id and its past stay.

    ``publish`` puts the schema's file there. Returns its snapshot; None where it was never written, and nothing is.

    Raises `InvalidSchemaChange` for other partition keys or types of them, another kind of table or other places of its files, and where
    policies or column grants name columns that it would not have any more; `InvalidOption` and `InvalidSchema` for a version that Java's
    clients would not load; `TableChanged` where it is not any more what the contents were written for; `TableDiverged`.
    """
    table = open_table()
    _require_replaceable(table, schema)
    require_table_writable(table.files)
    if contents is not None:  # here, and not in the turn, where others wait
        at = contents.table
        core.sync(
            [(at.identifier, at.table_id, at.files)], [path for new in contents.request.adds for path in paths_of(at.files, at.schema, new)]
        )
    replacement = _Replacement(core=core, open_table=open_table, schema=schema, by=by, contents=contents)
    while not replacement.decided((table.table_id, table.identifier.branch)):
        pass
    follow(publish, f"The new schema of {table.identifier} could not be published")
    return replacement.snapshot


@dataclass(slots=True, kw_only=True)
class _Replacement:
    """One replacement, however often it is tried."""

    core: CommitCore
    open_table: Callable[[], LakeTable]
    schema: Schema
    by: str
    contents: Contents | None
    snapshot: Snapshot | None = None
    """What was decided."""

    def decided(self, place: Place) -> bool:
        """One decision; False where the table had no snapshot and has one now, or another's schema."""
        empty: list[LakeTable] = []

        def build(key: str) -> BuiltCommit | None:
            table = self.open_table()
            _require_replaceable(table, self.schema)
            latest, now = table.latest(), time.time_ns() // 1_000_000
            if latest is None and (self.contents is None or not self.contents.request.adds):
                empty.append(table)
                return None
            return self._built(table, latest, key, now)

        progress = None if self.contents is None else self.contents.request.progress
        if (built := decide_built(self.core, place, build, progress=progress)) is not None:
            self.snapshot = built.snapshot
            return True
        (table,) = empty
        new = self._version(table, None, time.time_ns() // 1_000_000)
        with contextlib.suppress(CommitConflict), self.core.catalog.transaction() as tx, claimed_in(tx, None):
            # Without a pointer there is nothing to race for: a first commit that is being decided is waited for, and then seen.
            row = tx.tables.lock(table.identifier)
            if row.table_id != table.table_id or row.location != table.location:
                raise TableNotExist(str(table.identifier))
            advance_schema(tx, table, new, self.by)
            if tx.snapshots.latest(table.table_id, table.identifier.branch) is not None:
                raise CommitConflict(str(table.identifier), expected=None)
            return True
        return False

    def _built(self, table: LakeTable, latest: Snapshot | None, key: str, now: int) -> BuiltCommit:
        new = self._version(table, latest, now)
        request = CommitRequest(kind=CommitKind.OVERWRITE, overwrite=everything, commit_user=str(uuid4()), operation=REPLACE_TABLE)
        if self.contents is not None:
            request = self.contents.request
        made = build_snapshot(table.files, new, latest, [request], uuid=key, time_millis=now)
        return BuiltCommit(
            table=table,
            base=latest,
            snapshot=made,
            sync=metadata_written(table.files, new, latest, made),
            others_first=True,
            with_it=lambda tx: advance_schema(tx, table, new, self.by),
            on_decided=(lambda: None) if self.contents is None else self.contents.on_decided,
        )

    def _version(self, table: LakeTable, latest: Snapshot | None, now: int) -> Schema:
        """The schema as the table's next version; raises `TableChanged` where the contents were written by another."""
        new = _version(self.core, table, self.schema, latest, now)
        if self.contents is None:
            return new
        at = self.contents.table
        if (table.table_id, table.location) != (at.table_id, at.location) or not _same(new, at.schema):
            raise TableChanged(table.identifier)
        return at.schema


def _same(one: Schema, other: Schema) -> bool:
    """Whether files of one version are files of the other, made at another time."""
    return replace(one, time_millis=other.time_millis) == other


def _require_replaceable(table: LakeTable, schema: Schema) -> None:
    if other_kind(schema.options) != other_kind(table.schema.options) or other_kind(schema.options) is not None:
        raise InvalidSchemaChange(f"Table {table.identifier} can be replaced by an append table only, and only where it is one.")
    if partitions_otherwise(table.schema, schema):
        keys = "other partition keys" if schema.partition_keys != table.schema.partition_keys else "partition keys of other types"
        raise InvalidSchemaChange(f"Table {table.identifier} cannot be replaced with {keys}; drop it and make it anew.")


def _version(core: CommitCore, table: LakeTable, schema: Schema, latest: Snapshot | None, now: int) -> Schema:
    """The schema as the table's next version, looked through with the options that stay.

    Raises what `check_taken` raises, and `TableDiverged` where the version's number may be one of a newer catalog's.
    """
    fields, highest = replacing_fields(table.schema, schema.fields)
    if latest is not None or table.identifier.branch != MAIN_BRANCH:  # a branch may become main, whose files lie by main's options
        schema = replace(schema, options=replacing_options(table.schema, schema.options, table=str(table.identifier)))
    else:
        schema = findable(schema)
    schema = replace(schema, fields=fields, highest_field_id=highest, time_millis=now)
    check_taken(schema, before=table.schema)
    with core.catalog.reading() as tx:
        numbering = tx.tables.numbering(table.table_id)
    core.publisher.require_free_schema(table.table_id, table.files, table.identifier, latest, numbering)
    with core.catalog.transaction() as tx:
        return replace(schema, id=tx.tables.next_schema_id(table.table_id))


def advance_schema(tx: CatalogTransaction, table: LakeTable, new: Schema, by: str, *, masks_go_along: bool = False) -> None:
    """Make a schema with the next version's number the table's, or the branch's; nothing of what is raised for is to be committed.

    ``masks_go_along``: those of main's columns that are dropped (`take_masks_along`).

    Raises `CommitConflict` where another ALTER was first, or has that number, and `InvalidSchemaChange` for a column that a policy or a
    column grant names.
    """
    tx.tables.hold(table.table_id)  # as who makes a policy does, and who numbers a version
    numbering = tx.tables.numbered_ahead(table.table_id)
    named = tx.policies.names_columns_ahead(table.table_id)
    tx.tables.advance_schema(table.table_id, table.identifier.branch, base=table.schema.id, to=new.id, schema=new.to_json(), by=by)
    if numbering()[0] + 1 != new.id:
        raise CommitConflict(str(table.identifier), expected=None)
    has_rules = named()
    if has_rules and masks_go_along and table.identifier.branch == MAIN_BRANCH:
        take_masks_along(tx, table.table_id, table.schema, new)
    require_columns_kept(tx, table.identifier, table.table_id, table.schema, new, named=lambda: has_rules)
