"""Rewriting whole tables and partitions from the catalog's side: CREATE OR REPLACE, DROP PARTITION."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from uuid import uuid4

from lake.access.rules import require_columns_kept
from lake.commit.core import CommitCore, Prepared
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
    it would not have any more.
    """
    while True:
        table = open_table()
        if other_kind(schema.options) != other_kind(table.schema.options) or other_kind(schema.options) is not None:
            raise InvalidSchemaChange(f"Table {table.identifier} can be replaced by an append table only, and only where it is one.")
        if schema.partition_keys != table.schema.partition_keys:
            raise InvalidSchemaChange(f"Table {table.identifier} cannot be replaced with other partition keys; drop it and make it anew.")
        require_writable(table.files.io, table.files.layout.manifest_dir())
        try:
            replaced = _replace(core, table, schema, by)
        except CommitConflict:
            continue
        if replaced:
            break
    follow(open_table, f"The new schema of {table.identifier} could not be published")


def _replace(core: CommitCore, table: LakeTable, schema: Schema, by: str) -> bool:
    latest = table.latest()
    now = time.time_ns() // 1_000_000
    with core.catalog.transaction() as tx:
        next_id = tx.tables.next_schema_id(table.table_id)
    new = replace(
        schema,
        id=next_id,
        highest_field_id=max(schema.highest_field_id, table.schema.highest_field_id),
        time_millis=now,
    )
    branch = table.identifier.branch

    def decide(emptied: Snapshot | None) -> bool:
        with core.catalog.transaction() as tx:
            row = tx.tables.find_for_commit(table.identifier)
            if row is None or row.table_id != table.table_id or row.location != table.location:
                raise TableNotExist(str(table.identifier))
            if tx.tables.next_schema_id(table.table_id) != new.id:
                raise CommitConflict(str(table.identifier), expected=None)
            require_columns_kept(tx, table.identifier, table.table_id, table.schema, new)
            tx.tables.advance_schema(table.table_id, branch, base=table.schema.id, to=new.id, schema=new.to_json(), by=by)
            if emptied is not None and latest is not None:
                tx.snapshots.advance(
                    table.table_id, branch, base=latest.key, snapshot_id=emptied.id, uuid=emptied.key, body=emptied.to_json()
                )
            elif tx.snapshots.latest(table.table_id, branch) is not None:
                raise CommitConflict(str(table.identifier), expected=None)
        return True

    if latest is None:
        return decide(None)
    request = CommitRequest(kind=CommitKind.OVERWRITE, overwrite=everything, commit_user=str(uuid4()), operation="REPLACE TABLE")
    built = build_snapshot(table.files, table.schema, latest, [request], uuid=str(uuid4()), time_millis=now)
    built = replace(built, schema_id=new.id)
    core.publisher.check_free(table.table_id, table.files, table.identifier, built.id)
    with core.places([table.files]) as (place,):
        prepared = Prepared(identifier=table.identifier, table_id=table.table_id, files=table.files, snapshot=built, place=place)
        sync = metadata_written(table.files, latest, built)
        return core.commit([prepared], lambda: decide(built), progress=[request.progress], sync=sync)
