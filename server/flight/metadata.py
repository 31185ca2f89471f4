"""Catalogs, databases, tables, keys and types as Flight SQL's clients ask for them: what a person sees as a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from catalog.listing import EVERYTHING
from lake import Caller, Lake
from model.schema.schema import Schema
from model.text.like import Like
from model.view import View
from server.flight.sql_info import sql_info, type_info
from server.flight.wire import schemas
from sql.execution.results import ResultColumn
from sql.execution.session import CATALOG

TABLE = "TABLE"
VIEW = "VIEW"
TYPES = (TABLE, VIEW)


def _given(command: Any, name: str) -> str | None:
    return getattr(command, name) if command.HasField(name) else None


def _databases(lake: Lake, command: Any) -> list[str]:
    """The databases a command's catalog and schema pattern mean; without a catalog (the empty name) there are none."""
    if _given(command, "catalog") not in (None, CATALOG):
        return []
    pattern = _given(command, "db_schema_filter_pattern")
    fits = Like(pattern).matches if pattern is not None else None
    return [name for name in lake.list_databases() if fits is None or fits(name)]


def _table(schema: pa.Schema, rows: list[tuple[Any, ...]]) -> pa.Table:
    arrays = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _catalogs(lake: Lake, command: Any) -> pa.Table:
    return _table(schemas.CATALOGS, [(CATALOG,)])


def _db_schemas(lake: Lake, command: Any) -> pa.Table:
    return _table(schemas.DB_SCHEMAS, [(CATALOG, name) for name in _databases(lake, command)])


def _tables(lake: Lake, command: Any) -> pa.Table:
    pattern = _given(command, "table_name_filter_pattern")
    fits = Like(pattern).matches if pattern is not None else lambda name: True
    types = set(command.table_types) or set(TYPES)
    rows: list[tuple[Any, ...]] = []
    for database in _databases(lake, command):
        matching = [listed for listed in _of_database(lake, database, types, with_schema=command.include_schema) if fits(listed[0])]
        for name, type_, columns in sorted(matching, key=lambda one: one[0]):
            row: tuple[Any, ...] = (CATALOG, database, name, type_)
            if columns is not None:
                schema = schemas.table_schema(columns, catalog=CATALOG, database=database, table=name)
                row = (*row, schema.serialize().to_pybytes())
            rows.append(row)
    return _table(schemas.TABLES_WITH_SCHEMA if command.include_schema else schemas.TABLES, rows)


Listed = tuple[str, str, tuple[ResultColumn, ...] | None]


def _of_database(lake: Lake, database: str, types: set[str], *, with_schema: bool) -> Iterator[Listed]:
    if TABLE in types and with_schema:
        for row in lake.describe_all(database, EVERYTHING):
            fields = Schema.from_json(row.schema).fields
            yield row.name, TABLE, tuple(ResultColumn(f.name, f.type, f.description) for f in fields)
    elif TABLE in types:
        for name in lake.list_tables(database):
            yield name, TABLE, None
    if VIEW in types and with_schema:
        for view in lake.views.describe_all(database):
            yield view.name, VIEW, tuple(ResultColumn(f.name, f.type, f.description) for f in View.from_json(view.body).fields)
    elif VIEW in types:
        for name in lake.views.names(database):
            yield name, VIEW, None


def _none(schema: pa.Schema) -> Callable[[Lake, Any], pa.Table]:
    """Append tables have no keys."""
    return lambda lake, command: schema.empty_table()


def _type_info(lake: Lake, command: Any) -> pa.Table:
    return type_info(command.data_type if command.HasField("data_type") else None)


_ANSWERS: dict[str, tuple[pa.Schema, Callable[[Lake, Any], pa.Table]]] = {
    "CommandGetCatalogs": (schemas.CATALOGS, _catalogs),
    "CommandGetDbSchemas": (schemas.DB_SCHEMAS, _db_schemas),
    "CommandGetTables": (schemas.TABLES, _tables),
    "CommandGetTableTypes": (schemas.TABLE_TYPES, lambda lake, command: _table(schemas.TABLE_TYPES, [(one,) for one in TYPES])),
    "CommandGetPrimaryKeys": (schemas.PRIMARY_KEYS, _none(schemas.PRIMARY_KEYS)),
    "CommandGetExportedKeys": (schemas.FOREIGN_KEYS, _none(schemas.FOREIGN_KEYS)),
    "CommandGetImportedKeys": (schemas.FOREIGN_KEYS, _none(schemas.FOREIGN_KEYS)),
    "CommandGetCrossReference": (schemas.FOREIGN_KEYS, _none(schemas.FOREIGN_KEYS)),
    "CommandGetSqlInfo": (schemas.SQL_INFO, lambda lake, command: sql_info(list(command.info))),
    "CommandGetXdbcTypeInfo": (schemas.TYPE_INFO, _type_info),
}


def is_metadata(name: str) -> bool:
    """Whether a command asks what there is."""
    return name in _ANSWERS


def metadata_schema(name: str, command: Any) -> pa.Schema:
    """The schema of a metadata command's answer."""
    if name == "CommandGetTables" and command.include_schema:
        return schemas.TABLES_WITH_SCHEMA
    return _ANSWERS[name][0]


def metadata(lake: Lake, caller: Caller, name: str, command: Any) -> pa.Table:
    """The answer of a metadata command, as far as the caller may see."""
    return _ANSWERS[name][1](lake.for_caller(caller), command)
