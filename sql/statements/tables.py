"""CREATE, ALTER, DROP and TRUNCATE of tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from lake import LakeTable
from lake.rewrite.partition_expiry import drop_named
from lake.tables.partitions import by_row
from model.errors import (
    AnalysisError,
    IdempotencyInProgress,
    InvalidOption,
    InvalidSchema,
    OutcomeUnknown,
    TableAlreadyExist,
    TableNotExist,
    UnsupportedStatement,
    UnsupportedType,
)
from model.identifier import Identifier
from model.options.former import names_of, of_today
from model.options.masking import names_secret
from model.options.rules import check_together
from model.options.table import TABLE_OPTIONS, told_apart
from model.options.watermark import watermark_of, watermark_options
from model.schema.change import AddColumn, RemoveOption, SchemaChange, SetOption, UpdateColumnType, UpdateComment
from model.schema.schema import Schema, new_schema, with_queue_defaults, with_stored_default
from model.schema.type_parts import nullable_throughout, unreadable_in_sql
from model.schema.types import BinaryType, DataType, Field, VarBinaryType
from model.snapshot import CommitKind
from model.work.deciding import to_the_end
from sql.connectors import connector_table
from sql.connectors.stored import check_kept, stored_schema
from sql.execution.results import ResultSet
from sql.parsing import trees
from sql.parsing.ddl import LikeClause, TableDefinition
from sql.statements.base import ExecutionContext, LocalStatement, handles
from sql.statements.procedures.partition_choice import matching, without_rows
from table.format.layout import default_partition_name
from table.write.snapshot_builder import CommitRequest, everything


@handles(trees.CreateTable)
@dataclass(frozen=True)
class CreateTable:
    """``CREATE [TEMPORARY] TABLE``, also LIKE another and AS a query."""

    tree: trees.CreateTable

    @property
    def needs_spark(self) -> bool:
        """Only AS SELECT runs a query."""
        return self.tree.args.get("query") is not None

    def run(self, context: ExecutionContext) -> ResultSet:
        """Add the table; with a query, fill it, or leave nothing where the query fails."""
        args = self.tree.args
        definition: TableDefinition = args["definition"]
        if args["temporary"] or "connector" in definition.options:
            return self._connected(context, definition)
        table = context.session.identifier(args["name"])
        if args["if_not_exists"] and (there := self._there(context, table)) is not None and not self._begun(context, there):
            return ResultSet.ok()
        if self.needs_spark:
            return self._from_query(context, table, definition)
        schema = self._schema(context, definition)
        context.lake.create_table(table, schema, if_not_exists=args["if_not_exists"], claim=context.idempotency)
        return _told(ResultSet.ok(), definition.options)

    @staticmethod
    def _there(context: ExecutionContext, table: Identifier) -> LakeTable | None:
        try:
            return context.lake.open(table)
        except TableNotExist:
            return None

    def _begun(self, context: ExecutionContext, there: LakeTable) -> bool:
        """Whether a killed server made the table under this statement's key and did not fill it."""
        claim = context.idempotency
        return self.needs_spark and claim is not None and claim.work == there.table_id and there.latest() is None

    def _connected(self, context: ExecutionContext, definition: TableDefinition) -> ResultSet:
        """A table with a connector: the session's own, or one kept in the catalog."""
        args = self.tree.args
        name: tuple[str, ...] = args["name"]
        if self.needs_spark or definition.like:
            raise UnsupportedStatement("A table with a connector names its columns; AS SELECT and LIKE are not available for it.")
        if not args["temporary"]:
            identifier = context.session.identifier(name)
            made = connector_table(str(identifier), definition, context.connector_scope)
            schema = stored_schema(made)
            context.lake.create_table(identifier, schema, if_not_exists=args["if_not_exists"], claim=context.idempotency)
            return ResultSet.ok()
        _check_of_session(name)
        made = connector_table(name[0], definition, context.connector_scope)
        if not context.session.add_temporary(made) and not args["if_not_exists"]:
            raise TableAlreadyExist(made.name)
        return ResultSet.ok()

    def _schema(self, context: ExecutionContext, definition: TableDefinition) -> Schema:
        if definition.like is None:
            return schema_of(definition)
        merged, others = merged_like(context, definition, definition.like)
        schema = schema_of(merged)
        return replace(schema, options={**others, **schema.options})

    def _from_query(self, context: ExecutionContext, table: Identifier, definition: TableDefinition) -> ResultSet:
        from sql.statements.insert import insert_query, query_columns

        if definition.columns:
            raise InvalidSchema("CREATE TABLE … AS SELECT takes its columns from the query; leave the column list out.")
        query = self.tree.args["query"]
        # What Spark knows of the query's own rows, as of array(1, 2), is nothing that later rows must be like.
        columns = tuple(Field(id=-1, name=c.name, type=nullable_throughout(c.type)) for c in query_columns(context, query))
        schema = schema_of(replace(definition, columns=columns))
        begun_as = context.idempotency.work if context.idempotency else None
        with to_the_end():  # what the statement decides is the table's rows: without them it is taken back
            made = context.lake.create_table(table, schema, if_not_exists=self.tree.args["if_not_exists"], begun_as=begun_as)
        if made is None:
            return ResultSet.ok()
        try:
            return _told(insert_query(context, context.lake.open(table), query), definition.options)
        except (OutcomeUnknown, IdempotencyInProgress):
            raise  # the rows may be there, or another server fills it now
        except BaseException as problem:  # whatever stopped it, also a cancel: there is no table half made
            context.lake.take_back(table, made, problem)
            raise


def _told(result: ResultSet, options: Mapping[str, str]) -> ResultSet:
    """The result, with a warning for each option that has no effect here."""
    result.notices = (*result.notices, *TABLE_OPTIONS.idle(options))
    return result


def _under_todays_keys(change: SchemaChange) -> Iterator[SchemaChange]:
    """A change of options under their keys by now; what is reset is so under those of earlier versions of Paimon, too."""
    match change:
        case SetOption(key="comment", value=value):  # Flink's form of what others say by COMMENT
            yield UpdateComment(comment=value)
        case RemoveOption(key="comment"):
            yield UpdateComment(comment=None)
        case SetOption(key=key, value=value):
            yield from (SetOption(key=now, value=text) for now, text in of_today({key: value}).items())
        case RemoveOption(key=key):
            yield from (RemoveOption(key=name) for name in names_of(key))
        case _:
            yield change


def _check_of_session(name: tuple[str, ...]) -> None:
    """Raise `AnalysisError` for a name that no temporary table can have."""
    if len(name) != 1:
        raise AnalysisError("A temporary table belongs to the session, not to a database; give it a plain name.", fragment=".".join(name))


def schema_of(definition: TableDefinition) -> Schema:
    """The stored schema of a CREATE TABLE; raises for options, types and shapes these tables cannot have."""
    for column in definition.columns:
        check_type(column.name, column.type)
    definition = replace(definition, options=of_today(definition.options))
    TABLE_OPTIONS.check(definition.options)
    options = with_queue_defaults(definition.options, definition.columns, _partition_keys(definition))
    schema = new_schema(definition.columns, partition_keys=definition.partition_keys, options=options, comment=definition.comment)
    check_together(schema.options, schema.partition_keys, definition.options)
    if len(definition.watermarks) > 1:
        raise InvalidSchema("A table has one watermark at most.")
    stored = [watermark_options(schema, watermark) for watermark in definition.watermarks]
    return replace(schema, options={**schema.options, **(stored[0] if stored else {})})


def _partition_keys(definition: TableDefinition) -> tuple[str, ...]:
    text = definition.options.get("partition", "")
    return definition.partition_keys or tuple(part.strip() for part in text.split(",") if part.strip())


def check_type(name: str, type_: DataType) -> None:
    """Raise `UnsupportedType` for a column SQL could not read back faithfully."""
    if unreadable := unreadable_in_sql(type_):
        way_out = "; TIMESTAMP goes to precision 6." if unreadable.startswith("TIMESTAMP") else "."
        raise UnsupportedType(f"Column {name}: the type {unreadable} is not available in SQL{way_out}")


_LIKE_DEFAULTS = {"OPTIONS": "OVERWRITING", "PARTITIONS": "INCLUDING", "WATERMARKS": "INCLUDING"}


def merged_like(context: ExecutionContext, definition: TableDefinition, like: LikeClause) -> tuple[TableDefinition, Mapping[str, str]]:
    """What CREATE TABLE … LIKE says together with the other table, by Flink's merging rules, and the options only other clients know.

    Secrets are no part of it: who sees them as stars would have a table of its own that holds them.
    """
    source = context.lake.open(context.session.identifier(like.source)).schema
    behaviour = {feature: like.features.get(feature, like.features.get("ALL", default)) for feature, default in _LIKE_DEFAULTS.items()}
    copied = {} if behaviour["OPTIONS"] == "EXCLUDING" else {key: text for key, text in source.options.items() if not names_secret(key)}
    inherited, others = told_apart(copied)
    if behaviour["OPTIONS"] == "INCLUDING" and (clash := sorted(set(inherited) & set(definition.options))):
        raise InvalidOption(f"Option '{clash[0]}' is in both tables; say OVERWRITING OPTIONS to let the new value win.")
    if behaviour["OPTIONS"] != "EXCLUDING":
        inherited = with_stored_default(inherited)
    partitions = definition.partition_keys
    if not partitions and behaviour["PARTITIONS"] != "EXCLUDING":
        partitions = source.partition_keys
    watermarks = definition.watermarks
    if not watermarks and behaviour["WATERMARKS"] != "EXCLUDING":
        watermark = watermark_of(source.options)
        watermarks = (watermark,) if watermark is not None else ()
    merged = replace(
        definition,
        columns=(*source.fields, *definition.columns),
        options={**inherited, **definition.options},
        partition_keys=partitions,
        watermarks=watermarks,
        comment=definition.comment or source.comment,
        like=None,
    )
    return merged, others


@handles(trees.DropTable)
@dataclass(frozen=True)
class DropTable(LocalStatement):
    """``DROP [TEMPORARY] TABLE … [PURGE]``."""

    tree: trees.DropTable

    def run(self, context: ExecutionContext) -> ResultSet:
        """Remove the table, for good with PURGE; a temporary one hides a stored one of its name."""
        args = self.tree.args
        name: tuple[str, ...] = args["name"]
        if len(name) == 1 and context.session.drop_temporary(name[0]):
            return ResultSet.ok()
        if args["temporary"]:
            if not args["if_exists"]:
                _check_of_session(name)
                raise TableNotExist(name[0])
            return ResultSet.ok()
        context.lake.drop_table(
            context.session.identifier(name), if_exists=args["if_exists"], purge=args["purge"], claim=context.idempotency
        )
        return ResultSet.ok()


@handles(trees.AlterTable)
@dataclass(frozen=True)
class AlterTable(LocalStatement):
    """``ALTER TABLE``; all changes of one statement make one schema version."""

    tree: trees.AlterTable

    def run(self, context: ExecutionContext) -> ResultSet:
        """Change the table's schema or name."""
        args: dict[str, Any] = self.tree.args
        table = context.session.identifier(args["name"])
        try:
            if target := args.get("rename_to"):
                context.lake.rename_table(table, self._target(context, table, target), claim=context.idempotency)
            elif dropped := args.get("partitions"):
                self._drop_partitions(context, table, dropped, present_only=args["present_only"])
            else:
                changes = tuple(now for change in args["changes"] for now in _under_todays_keys(change))
                self._check(changes)
                keys = {change.key for change in changes if isinstance(change, SetOption | RemoveOption)}
                scope = context.connector_scope

                def check(new: Schema) -> None:
                    check_together(new.options, new.partition_keys, keys)
                    check_kept(table, new, scope)

                context.lake.alter_table(table, changes, check=check, claim=context.idempotency)
                return _told(ResultSet.ok(), {change.key: change.value for change in changes if isinstance(change, SetOption)})
        except TableNotExist:
            if not args.get("if_exists"):
                raise
        return ResultSet.ok()

    @staticmethod
    def _target(context: ExecutionContext, table: Identifier, parts: tuple[str, ...]) -> Identifier:
        """A bare new name stays in the table's database."""
        return Identifier(table.database, parts[0]) if len(parts) == 1 else context.session.identifier(parts)

    @staticmethod
    def _drop_partitions(
        context: ExecutionContext, name: Identifier, specs: Sequence[Mapping[str, str | bytes | None]], *, present_only: bool
    ) -> None:
        """Remove partitions with all their rows, as one commit; a spec that leaves out columns means all it fits."""
        table = context.lake.open_to_change(name)
        schema = table.schema
        present = by_row(schema, context.lake.partitions(table, table.latest()))
        default = default_partition_name(schema)
        gone: set[bytes] = set()
        made_by_name: dict[str, Mapping[str, str]] = {}
        for spec in specs:
            for key, value in spec.items():
                if key not in schema.partition_keys:
                    keys = ", ".join(schema.partition_keys) or "none"
                    raise AnalysisError(f"{key} is no partition column of {name}; there are {keys}.", fragment=key)
                if isinstance(value, bytes) and not isinstance(schema.field(key).type, BinaryType | VarBinaryType):
                    raise AnalysisError(f"Partition column {key} is {schema.field(key).type.sql()}, and x'…' is bytes.", fragment=key)
            matches = matching(schema, present, [spec])
            spelled = {key: default if value is None else _as_text(value) for key, value in spec.items()}
            empty = {} if matches else without_rows(context.lake, table, [spelled])
            made_by_name |= empty
            if not matches and not empty and not present_only:
                named = ", ".join(f"{key} = {'NULL' if value is None else _as_said(value)}" for key, value in spec.items())
                raise AnalysisError(f"Table {name} has no partition ({named}); DROP IF EXISTS PARTITION takes that for done.")
            gone |= matches
        dropped = [partition for row, partition in present.items() if row in gone]
        drop_named(context.lake, table, dropped, list(made_by_name.values()), claim=context.idempotency)

    @staticmethod
    def _check(changes: tuple[SchemaChange, ...]) -> None:
        for change in changes:
            match change:
                case SetOption(key=key, value=value):
                    TABLE_OPTIONS.check({key: value})
                case RemoveOption(key=key):
                    if key.startswith("schema."):
                        raise InvalidOption(f"Option '{key}' is not available: {TABLE_OPTIONS.refusal(key)}")
                case AddColumn(name=name, type=type_) | UpdateColumnType(name=name, type=type_):
                    check_type(name, type_)


def _as_text(value: str | bytes) -> str:
    """A value as a partition that was made by name has it."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _as_said(value: str | bytes) -> str:
    return f"x'{value.hex().upper()}'" if isinstance(value, bytes) else value


@handles(trees.TruncateTable)
@dataclass(frozen=True)
class TruncateTable(LocalStatement):
    """``TRUNCATE TABLE``: an overwrite with nothing, atomic."""

    tree: trees.TruncateTable

    def run(self, context: ExecutionContext) -> ResultSet:
        """Empty the table; earlier snapshots still hold the rows."""
        name: tuple[str, ...] = self.tree.args["name"]
        if len(name) == 1 and name[0] in context.session.temporary_tables:
            raise AnalysisError(f"{name[0]} is a temporary table; what it shows is not emptied by SQL.", fragment=name[0])
        table = context.lake.open(context.session.identifier(name))
        request = CommitRequest(kind=CommitKind.OVERWRITE, overwrite=everything, commit_user=str(uuid4()), operation="TRUNCATE")
        context.lake.commit(table, request, claim=context.idempotency, answer=lambda snapshot: {"ok": True})
        return ResultSet.ok()
