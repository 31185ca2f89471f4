"""Rewriting whole tables and partitions from the catalog's side: CREATE OR REPLACE, DROP PARTITION."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from uuid import uuid4

from catalog import CatalogTransaction
from catalog.commits.reservations import Place
from lake.access.rules import require_columns_kept
from lake.commit.built import BuiltCommit, decide_built
from lake.commit.core import CommitCore
from lake.commit.decided import follow, require_writable
from lake.tables.handle import LakeTable
from model.errors import CommitConflict, InvalidSchemaChange, TableNotExist
from model.schema.schema import Schema, other_kind
from model.snapshot import CommitKind, Snapshot
from table.format.layout import partition_spec
from table.format.rows import binary_row
from table.write.snapshot_builder import CommitRequest, build_snapshot, everything, metadata_written


def partition_filter(table: LakeTable, specs: Sequence[dict[str, str]]) -> Callable[[bytes], bool]:
    """Whether a partition's row bytes are one of the specs."""
    types = [field.type for field in table.schema.partition_fields]
    return lambda partition: partition_spec(table.schema, binary_row.decode(types, partition)) in specs


def replace_schema(core: CommitCore, open_table: Callable[[], LakeTable], schema: Schema, *, by: str) -> None:
    """Empty a table and give it another schema, in one decision; its id and its past stay.

    Raises `InvalidSchemaChange` for other partition keys or another kind of table, and where policies or column grants name columns that
    it would not have any more; `TableDiverged`.
    """
    table = open_table()
    require_writable(table.files.io, table.files.layout.manifest_dir())
    while not _decided(core, open_table, (table.table_id, table.identifier.branch), schema, by):
        pass
    follow(open_table, f"The new schema of {table.identifier} could not be published")


def _decided(core: CommitCore, open_table: Callable[[], LakeTable], place: Place, schema: Schema, by: str) -> bool:
    """One decision; False where the table had no snapshot and has one now, or another's schema."""
    empty: list[LakeTable] = []

    def build(key: str) -> BuiltCommit | None:
        table = open_table()
        _require_replaceable(table, schema)
        latest, now = table.latest(), time.time_ns() // 1_000_000
        if latest is None:
            empty.append(table)
            return None
        new = _version(core, table, schema, latest, now)
        request = CommitRequest(kind=CommitKind.OVERWRITE, overwrite=everything, commit_user=str(uuid4()), operation="REPLACE TABLE")
        made = replace(build_snapshot(table.files, table.schema, latest, [request], uuid=key, time_millis=now), schema_id=new.id)
        return BuiltCommit(
            table=table,
            base=latest,
            snapshot=made,
            sync=metadata_written(table.files, table.schema, latest, made),
            others_first=True,
            with_it=lambda tx: _advance_schema(tx, table, new, by),
        )

    if decide_built(core, place, build) is not None:
        return True
    (table,) = empty
    new = _version(core, table, schema, None, time.time_ns() // 1_000_000)
    with contextlib.suppress(CommitConflict), core.catalog.transaction() as tx:
        row = tx.tables.find_for_commit(table.identifier)
        if row is None or row.table_id != table.table_id or row.location != table.location:
            raise TableNotExist(str(table.identifier))
        _advance_schema(tx, table, new, by)
        if tx.snapshots.latest(table.table_id, table.identifier.branch) is not None:
            raise CommitConflict(str(table.identifier), expected=None)
        return True
    return False


def _require_replaceable(table: LakeTable, schema: Schema) -> None:
    if other_kind(schema.options) != other_kind(table.schema.options) or other_kind(schema.options) is not None:
        raise InvalidSchemaChange(f"Table {table.identifier} can be replaced by an append table only, and only where it is one.")
    if schema.partition_keys != table.schema.partition_keys:
        raise InvalidSchemaChange(f"Table {table.identifier} cannot be replaced with other partition keys; drop it and make it anew.")


def _version(core: CommitCore, table: LakeTable, schema: Schema, latest: Snapshot | None, now: int) -> Schema:
    """The schema as the table's next version; raises `TableDiverged` where the number of that may be one of a newer catalog's."""
    core.publisher.require_free_schema(table.table_id, table.files, table.identifier, latest)
    with core.catalog.transaction() as tx:
        next_id = tx.tables.next_schema_id(table.table_id)
    highest = max(schema.highest_field_id, table.schema.highest_field_id)
    return replace(schema, id=next_id, highest_field_id=highest, time_millis=now)


def _advance_schema(tx: CatalogTransaction, table: LakeTable, new: Schema, by: str) -> None:
    if tx.tables.next_schema_id(table.table_id) != new.id:
        raise CommitConflict(str(table.identifier), expected=None)
    tx.tables.hold(table.table_id)  # as who makes a policy does
    require_columns_kept(tx, table.identifier, table.table_id, table.schema, new)
    tx.tables.advance_schema(table.table_id, table.identifier.branch, base=table.schema.id, to=new.id, schema=new.to_json(), by=by)
