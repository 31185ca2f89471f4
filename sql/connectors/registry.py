"""Which connectors there are, and making a table with one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from model.errors import Forbidden, InvalidOption, InvalidSchema, nearest
from model.options.watermark import checked_rowtime
from model.schema.type_parts import unreadable_in_sql
from model.schema.types import DataType, LocalZonedTimestampType, MapType, TimestampType
from sql.analysis.references import TableReference
from sql.connectors.base import Connector, ConnectorScope, ConnectorTable
from sql.connectors.blackhole import Blackhole
from sql.connectors.datagen import Datagen
from sql.connectors.filesystem import Filesystem
from sql.connectors.kafka import Kafka
from sql.connectors.paimon import Paimon
from sql.connectors.print import Print
from sql.parsing.ddl import TableDefinition

CONNECTORS: Mapping[str, Connector] = {one.name: one for one in (Filesystem(), Kafka(), Datagen(), Paimon(), Print(), Blackhole())}


def connector_named(name: str) -> Connector:
    """The connector of that name; raises `InvalidOption`."""
    connector = CONNECTORS.get(name.lower())
    if connector is None:
        near = nearest(name, CONNECTORS)
        hint = f" Did you mean '{near}'?" if near else ""
        raise InvalidOption(f"There is no connector '{name}'; there are {', '.join(CONNECTORS)}.{hint}")
    return connector


def connector_table(name: str, definition: TableDefinition, scope: ConnectorScope) -> ConnectorTable:
    """The table a CREATE TABLE with a connector means; raises for what it cannot be."""
    if "connector" not in definition.options:
        raise InvalidOption(f"A temporary table needs WITH ('connector' = …); there are {', '.join(CONNECTORS)}.")
    connector = connector_named(definition.options["connector"])
    connector.options.check(definition.options)
    if definition.partition_keys:
        raise InvalidSchema("PARTITIONED BY is not available for tables with a connector.")
    if len(definition.watermarks) > 1:
        raise InvalidSchema("A table has one watermark at most.")
    table = ConnectorTable(
        name=name,
        columns=definition.columns,
        options=dict(definition.options),
        metadata=dict(definition.metadata),
        virtual=definition.virtual,
        watermark=definition.watermarks[0] if definition.watermarks else None,
        comment=definition.comment,
    )
    check_table(table, scope)
    if table.watermark is not None:  # not at each use: another engine may have stored one that only its streams follow
        rowtime = next(column for column in table.columns if column.name == table.watermark.column)
        checked_rowtime(rowtime, table.watermark)
    return table


def check_table(table: ConnectorTable, scope: ConnectorScope) -> None:
    """Raise for a table that cannot be, or may not: the one word on what its options and columns are.

    Asked where a table is made or changed, and at each use: it may have come another way, and what is allowed may have changed since.
    """
    connector = connector_named(table.connector)
    connector.options.check(table.options)
    _check_columns(connector, table)
    connector.check(table, scope)


def hinted(table: ConnectorTable, reference: TableReference, scope: ConnectorScope) -> ConnectorTable:
    """The table as a query mentions it: its options and over them the hint's; raises as `checked_options` does."""
    if reference.as_of is not None:
        raise InvalidOption(f"{reference.name} has connector {table.connector}; it has no snapshots to choose.")
    if not reference.options:
        return table
    changed = replace(table, options={**table.options, **checked_options(table, reference.options, of_view=reference.of_view)})
    connector_named(table.connector).check(changed, scope)
    return changed


def _may_show(type_: DataType, metadata: DataType) -> bool:
    """Whether a column may have this type: the metadata's own, or a TIMESTAMP for an instant."""
    if isinstance(type_, TimestampType) and isinstance(metadata, LocalZonedTimestampType):
        return type_.precision == metadata.precision
    if isinstance(type_, MapType) and isinstance(metadata, MapType):
        return _may_show(type_.key, metadata.key) and _may_show(type_.value, metadata.value)
    return type_.with_nullable(True) == metadata.with_nullable(True)


def checked_options(table: ConnectorTable, hint: Mapping[str, str], *, of_view: bool = False) -> Mapping[str, str]:
    """The options of a hint; raises `InvalidOption` for what the table's connector does not know.

    Raises `Forbidden` for what says where the rows of a table of the catalog lie, and as what they are read: with its maker's secrets
    would be had what only the table is granted for. Who holds ALL on it may give any, but not by a view's text (``of_view``), which
    somebody else may have written.
    """
    group = connector_named(table.connector).options
    group.check(hint)
    if "connector" in hint:
        raise InvalidOption("Option 'connector' cannot be given in a hint.")
    for key in hint if table.kept and (of_view or not table.owned) else ():
        if not group.known(key).per_query:
            allowed = ", ".join(option.key for option in (*group, *group.families()) if option.per_query) or "none"
            raise Forbidden(
                f"Option '{key}' cannot be given in a hint: {table.name} stands for the rows that its options mean. Hints give {allowed}. "
                "CREATE TEMPORARY TABLE makes a table with options of your own, and who holds ALL on the table gives any outside of views."
            )
    return hint


def _check_columns(connector: Connector, table: ConnectorTable) -> None:
    names = [column.name for column in table.columns]
    for name in names:
        if names.count(name) > 1:
            raise InvalidSchema(f"Column {name} stands twice.")
    if table.watermark is not None and table.watermark.column not in names:
        raise InvalidSchema(f"WATERMARK FOR {table.watermark.column}: there is no such column.")
    for column in table.columns:
        if unreadable := unreadable_in_sql(column.type):
            raise InvalidSchema(f"Column {column.name}: the type {unreadable} cannot be read by connector {connector.name}.")
        key = table.metadata.get(column.name)
        if key is None:
            continue
        if key not in connector.metadata:
            has = ", ".join(connector.metadata) or "none"
            raise InvalidSchema(f"Column {column.name}: connector {connector.name} has no metadata '{key}'; it has {has}.")
        if not _may_show(column.type, connector.metadata[key]):
            raise InvalidSchema(f"Column {column.name}: '{key}' is {connector.metadata[key].sql()}, not {column.type.sql()}.")
    if table.columns and len(table.metadata) == len(table.columns):
        raise InvalidSchema("A table needs a column of its own beside its METADATA columns.")
