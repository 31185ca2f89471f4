"""SHOW and DESCRIBE."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lake import LakeTable
from model.errors import InvalidSchema, TableNotExist
from model.identifier import Identifier
from model.options.masking import masked_all
from model.options.table import told_apart
from model.schema.schema import Schema, with_stored_default
from model.schema.types import BooleanType, VarCharType
from model.text.like import Like
from model.text.sql_text import literal, quote
from model.view import View
from sql.analysis.functions import FUNCTIONS
from sql.analysis.views import DIALECTS, is_view
from sql.connectors import ConnectorTable
from sql.connectors.stored import find_connector
from sql.execution.results import ResultColumn, ResultSet, strings
from sql.execution.session import CATALOG
from sql.parsing import trees
from sql.statements.base import ExecutionContext, LocalStatement, LookingStatement, handles
from sql.statements.databases import database_name
from sql.statements.procedures.calls import PROCEDURES
from table.format.layout import escape, respelled

TEXT = VarCharType()


@handles(trees.Show)
@dataclass(frozen=True)
class Show(LookingStatement):
    """``SHOW …``."""

    tree: trees.Show

    def columns(self, context: ExecutionContext) -> Sequence[ResultColumn]:
        """The one column."""
        return strings(_SHOWN[self.tree.args["what"]][0])

    def rows(self, context: ExecutionContext) -> Iterable[tuple[object, ...]]:
        """List what is asked for."""
        _, names = _SHOWN[self.tree.args["what"]]
        return [(name,) for name in self._matching(names(context, self.tree.args.get("name")))]

    def _matching(self, names: Iterable[str]) -> list[str]:
        like = self.tree.args.get("like")
        if like is None:
            return list(names)
        fits, negated = Like(like).matches, bool(self.tree.args.get("negated"))
        return [name for name in names if fits(name) is not negated]


Names = tuple[str, ...] | None


def _tables(context: ExecutionContext, name: Names) -> Iterable[str]:
    database = database_name(name) if name else context.session.current_database
    stored = context.lake.list_tables(database)
    own = context.session.temporary_tables if name is None else {}
    views = context.lake.views.names(database)
    return sorted({*stored, *own, *views})


def _views(context: ExecutionContext, name: Names) -> Iterable[str]:
    database = database_name(name) if name else context.session.current_database
    return context.lake.views.names(database)


def _create_view(context: ExecutionContext, name: Names) -> Iterable[str]:
    assert name is not None
    row = context.lake.views.get(context.session.identifier(name))
    view = View.from_json(row.body)
    columns = ", ".join(quote(f.name) + (f" COMMENT {literal(f.description)}" if f.description else "") for f in view.fields)
    comment = f"\nCOMMENT {literal(view.comment)}" if view.comment is not None else ""
    query = next((view.dialects[dialect] for dialect in DIALECTS if dialect in view.dialects), view.query)
    return [f"CREATE VIEW {quote(CATALOG)}.{quote(row.database)}.{quote(row.name)} ({columns}){comment}\nAS {query}"]


def _partitions(context: ExecutionContext, name: Names) -> Iterable[str]:
    table = context.lake.open(context.session.identifier(name or ()))
    if not table.schema.partition_keys:
        raise InvalidSchema(f"Table {table.identifier} is not partitioned.")
    keys, rows = table.schema.partition_keys, context.lake.partition_page(table)  # as REST lists them: also those without files
    types = {field.name: field.type for field in table.schema.partition_fields}
    return sorted("/".join(f"{escape(key)}={escape(respelled(types[key], row.spec[key], legacy=False))}" for key in keys) for row in rows)


def _columns(context: ExecutionContext, name: Names) -> Iterable[str]:
    assert name is not None
    own = find_connector(context.lake, context.session, name)
    if own is not None:
        return [field.name for field in own.columns]
    return context.lake.open_any(context.session.identifier(name)).schema.field_names


def _create_table(context: ExecutionContext, name: Names) -> Iterable[str]:
    assert name is not None
    own = find_connector(context.lake, context.session, name)
    if own is not None:
        temporary = name[-1] in context.session.temporary_tables and len(name) == 1
        return [create_connector_text(own, None if temporary else context.session.identifier(name))]
    return [create_table_text(context.lake.open(context.session.identifier(name)))]


_SHOWN: dict[str, tuple[str, Callable[[ExecutionContext, Names], Iterable[str]]]] = {
    "CATALOGS": ("catalog name", lambda context, name: [CATALOG]),
    "CURRENT CATALOG": ("current catalog name", lambda context, name: [CATALOG]),
    "CURRENT DATABASE": ("current database name", lambda context, name: [context.session.current_database]),
    "DATABASES": ("database name", lambda context, name: context.lake.list_databases()),
    "TABLES": ("table name", _tables),
    "VIEWS": ("view name", _views),
    "CREATE VIEW": ("create view", _create_view),
    "USER FUNCTIONS": ("function name", lambda context, name: ()),
    "PROCEDURES": ("procedure name", lambda context, name: sorted(PROCEDURES)),
    "FUNCTIONS": ("function name", lambda context, name: sorted(FUNCTIONS)),
    "PARTITIONS": ("partition name", _partitions),
    "COLUMNS": ("column name", _columns),
    "CREATE TABLE": ("create table", _create_table),
}
"""What can be shown: its one column, under the name Flink's clients know, and what finds it."""


def create_table_text(table: LakeTable) -> str:
    """A CREATE TABLE that makes the same table."""
    schema, name = table.schema, table.identifier
    lines = [_column_text(field.name, str(field.type), field.description, field.default_value) for field in schema.fields]
    if rowtime := schema.options.get("schema.watermark.0.rowtime"):
        lines.append(f"WATERMARK FOR {quote(rowtime)} AS {schema.options['schema.watermark.0.strategy.expr']}")
    parts = [f"CREATE TABLE {quote(CATALOG)}.{quote(name.database)}.{quote(name.table)} (\n  " + ",\n  ".join(lines) + "\n)"]
    if schema.comment is not None:
        parts.append(f"COMMENT {literal(schema.comment)}")
    if schema.partition_keys:
        parts.append("PARTITIONED BY (" + ", ".join(quote(key) for key in schema.partition_keys) + ")")
    options, others = told_apart(schema.options)
    parts.append(_options_text(with_stored_default(options)))
    if others:  # as a comment, so that the text can be run
        parts.append(f"/* Options of other clients: {_options_text(others).replace('*/', '* /')} */")
    return "\n".join(parts)


def _column_text(name: str, type_: str, comment: str | None, default: str | None = None) -> str:
    text = f"{quote(name)} {type_}"
    if default is not None:
        said = _said_default(default)
        text += f" DEFAULT {said}" if said is not None else f" /* DEFAULT {default.replace('*/', '* /')} */"  # so that the text can be run
    return text + (f" COMMENT {literal(comment)}" if comment else "")


def _said_default(default: str) -> str | None:
    """A stored default as SQL says it, as clients store texts without quotes, too; None where SQL has no word for it."""
    if _BARE_DEFAULT.fullmatch(default):
        return default
    text = default[1:-1] if len(default) > 1 and default.startswith("'") and default.endswith("'") else default
    return None if "'" in text or "\\" in text else literal(text)


def _options_text(options: dict[str, str]) -> str:
    masked = masked_all(options)
    return "WITH (\n  " + ",\n  ".join(f"{literal(key)} = {literal(masked[key])}" for key in sorted(masked)) + "\n)"


def create_connector_text(table: ConnectorTable, stored: Identifier | None) -> str:
    """The CREATE TABLE, or CREATE TEMPORARY TABLE, that made it."""
    lines = [_column_text(f.name, str(f.type) + _from(table, f.name), f.description) for f in table.columns]
    if table.watermark is not None:
        lines.append(f"WATERMARK FOR {quote(table.watermark.column)} AS {table.watermark.expression}")
    columns = ",\n  ".join(lines)
    body = f" (\n  {columns}\n)" if columns else ""
    head = f"CREATE TEMPORARY TABLE {quote(table.name)}" if stored is None else f"CREATE TABLE {quote(CATALOG)}.{stored.quoted()}"
    return f"{head}{body}\n{_options_text(dict(table.options))}"


_BARE_DEFAULT = re.compile(r"-?[0-9]+(\.[0-9]+)?|(?i:true|false)")
_DESCRIBED = (
    ResultColumn("name", TEXT),
    ResultColumn("type", TEXT),
    ResultColumn("null", BooleanType()),
    ResultColumn("key", TEXT),
    ResultColumn("extras", TEXT),
    ResultColumn("watermark", TEXT),
)


@handles(trees.DescribeTable)
@dataclass(frozen=True)
class DescribeTable(LocalStatement):
    """``DESCRIBE table``."""

    tree: trees.DescribeTable

    def run(self, context: ExecutionContext) -> ResultSet:
        """The columns as Flink's clients expect them; a comment column where there are comments or EXTENDED is said."""
        name: tuple[str, ...] = self.tree.args["name"]
        own = find_connector(context.lake, context.session, name)
        rows: list[tuple[object, ...]]
        if own is not None:
            rows = [(f.name, f.type.sql(), f.type.nullable, None, _extras(own, f.name), None, f.description) for f in own.columns]
        else:
            rows = _described_name(context, name)
        columns = [*_DESCRIBED, ResultColumn("comment", TEXT)]
        if not self.tree.args["extended"] and all(row[-1] is None for row in rows):
            columns, rows = columns[:-1], [tuple(row[:-1]) for row in rows]
        return ResultSet.of_rows(columns, rows)


def _extras(table: ConnectorTable, column: str) -> str | None:
    """Flink's word for where a METADATA column comes from."""
    return _from(table, column).strip() or None


def _from(table: ConnectorTable, column: str) -> str:
    """What stands behind the type of a METADATA column."""
    key = table.metadata.get(column)
    return f" METADATA FROM {literal(key)}{' VIRTUAL' if column in table.virtual else ''}" if key else ""


def _described_name(context: ExecutionContext, name: tuple[str, ...]) -> list[tuple[object, ...]]:
    identifier = context.session.identifier(name)
    try:
        return _described(context.lake.open_any(identifier).schema)
    except TableNotExist:
        if not is_view(context, name):
            raise
        fields = View.from_json(context.lake.views.get(identifier).body).fields
        return [(f.name, f.type.sql(), f.type.nullable, None, None, None, f.description) for f in fields]


def _described(schema: Schema) -> list[tuple[object, ...]]:
    rowtime = schema.options.get("schema.watermark.0.rowtime")
    rows: list[tuple[object, ...]] = []
    for field in schema.fields:
        extras = [
            word for word, keys in (("PARTITION KEY", schema.partition_keys), ("BUCKET KEY", schema.bucket_keys)) if field.name in keys
        ]
        if field.default_value is not None:
            extras.append(f"DEFAULT {_said_default(field.default_value) or field.default_value}")
        watermark = schema.options["schema.watermark.0.strategy.expr"] if field.name == rowtime else None
        rows.append((field.name, field.type.sql(), field.type.nullable, None, ", ".join(extras) or None, watermark, field.description))
    return rows


@handles(trees.DescribeDatabase)
@dataclass(frozen=True)
class DescribeDatabase(LookingStatement):
    """``DESCRIBE DATABASE name``."""

    tree: trees.DescribeDatabase

    def columns(self, context: ExecutionContext) -> Sequence[ResultColumn]:
        """Names and values."""
        return strings("info name", "info value")

    def rows(self, context: ExecutionContext) -> Iterable[tuple[object, ...]]:
        """Name, comment and options."""
        database = context.lake.database(database_name(self.tree.args["name"]))
        return [("name", database.name), ("comment", database.comment), *sorted(masked_all(database.options).items())]
