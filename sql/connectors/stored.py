"""Tables with a connector that are kept in the catalog: described there like tables of other engines, found by every session."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from lake import Lake, LakeTable
from model.access import Access, table_resource
from model.catalog_errors import MetadataOnlyTable
from model.errors import InvalidOption, TableNotExist
from model.identifier import Identifier
from model.options.watermark import PREFIX, watermark_of, watermark_options
from model.schema.schema import CONNECTOR_KIND, Schema, new_schema, other_kind
from sql.connectors.base import ConnectorScope, ConnectorTable
from sql.connectors.registry import check_table
from sql.execution.session import Session
from sql.system.names import is_system

KIND = CONNECTOR_KIND
"""The value of the option ``type`` such a table has."""
EXTRA = "sluice.connector-table"
"""Key of the option that says what a schema has no place for."""


def stored_schema(table: ConnectorTable) -> Schema:
    """The schema that keeps a table."""
    extra = json.dumps({"metadata": dict(table.metadata), "virtual": sorted(table.virtual)}, sort_keys=True)
    schema = new_schema(table.columns, options={**table.options, "type": KIND, EXTRA: extra}, comment=table.comment)
    if table.watermark is None:
        return schema
    return new_schema(table.columns, options={**schema.options, **watermark_options(schema, table.watermark)}, comment=table.comment)


def is_connector_table(schema: Schema) -> bool:
    """Whether a schema keeps one."""
    return other_kind(schema.options) == KIND


def table_of(name: str, schema: Schema) -> ConnectorTable:
    """The table a schema keeps; raises `InvalidOption` for one whose options tell of none."""
    if "connector" not in schema.options or (extra := _extra(schema.options.get(EXTRA))) is None:
        raise InvalidOption(
            f"{name} is kept as a table with a connector, and its options 'connector' and '{EXTRA}' do not say which any more; "
            "DROP TABLE it and make it anew."
        )
    options = {key: value for key, value in schema.options.items() if key not in ("type", EXTRA) and not key.startswith(PREFIX)}
    return ConnectorTable(
        name=name,
        columns=schema.fields,
        options=options,
        metadata=extra["metadata"],
        virtual=frozenset(extra["virtual"]),
        watermark=watermark_of(schema.options),
        comment=schema.comment,
        kept=True,
    )


def _extra(text: str | None) -> dict[str, Any] | None:
    """What a schema has no place for; None where it is not as it was kept."""
    try:
        extra = json.loads(text or "")
        columns, virtual = dict(extra["metadata"]), list(extra["virtual"])
    except (KeyError, TypeError, ValueError):
        return None
    return {"metadata": columns, "virtual": virtual} if all(isinstance(name, str) for name in (*columns.values(), *virtual)) else None


def check_kept(name: Identifier, schema: Schema, scope: ConnectorScope) -> None:
    """Raise for the schema of a table with a connector that cannot be, or may not: see `check_table`."""
    if is_connector_table(schema):
        check_table(table_of(str(name), schema), scope)


def find_connector(lake: Lake, session: Session, parts: tuple[str, ...], access: Access = Access.SELECT) -> ConnectorTable | None:
    """The table with a connector a name means: the session's own, or one of the catalog; None for every other name.

    Raises `Forbidden` where the caller has not this access to one of the catalog.
    """
    own = session.temporary_tables.get(parts[0]) if len(parts) == 1 else None
    if own is not None or "$" in parts[-1] or is_system(parts):
        return own
    identifier = session.identifier(parts)
    try:
        stored = lake.open_any(identifier)
    except TableNotExist:
        return None
    return opened_connector(lake, stored, access)


def opened_connector(lake: Lake, table: LakeTable, access: Access) -> ConnectorTable | None:
    """What `find_connector` gives for a table that has been opened."""
    if not is_connector_table(table.schema):
        return None
    resource = table_resource(table.identifier)
    lake.caller.require(access, resource)
    return replace(table_of(str(table.identifier), table.schema), owned=lake.caller.may(Access.ALL, resource))


def means_connector(problem: MetadataOnlyTable) -> bool:
    """Whether a table could not be opened because it has a connector."""
    return problem.kind == KIND
