"""Tables with options that are refused by now, stored as an earlier version stored them: in Postgres and as a schema's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lake import Lake, LakeTable
from model.identifier import Identifier


def store_options(lake: Lake, name: Identifier, options: Mapping[str, str]) -> LakeTable:
    """Give a table options that nothing checks."""
    table = lake.open(name)
    schema = replace(table.schema, id=table.schema.id + 1, options={**table.schema.options, **options})
    with lake.catalog.transaction() as tx:
        tx.tables.advance_schema(table.table_id, base=table.schema.id, to=schema.id, schema=schema.to_json())
    table.files.write_schema(schema)
    lake.remembered.forget(name)
    return lake.open(name)
