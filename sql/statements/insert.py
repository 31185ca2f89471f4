"""INSERT INTO, INSERT OVERWRITE and statement sets, run by Spark."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np
from sqlglot import exp

from lake import LakeTable
from lake.access.guard import require_options
from lake.commit.write_context import Write
from model.access import Access
from model.catalog_errors import TableChanged
from model.errors import AnalysisError, InvalidSchema, RewriteConflict
from model.options.table import TABLE_OPTIONS, check_hint
from model.schema.schema import Schema, new_schema
from model.snapshot import CommitKind
from sql.connectors import ConnectorTable, connector_named
from sql.connectors.registry import checked_options
from sql.connectors.stored import find_connector
from sql.dialect import OPTIONS_HINT
from sql.execution.answers import written_answer
from sql.execution.results import ResultColumn, ResultSet
from sql.execution.writing import before_commit
from sql.parsing import trees
from sql.statements.base import ExecutionContext, handles
from table.format.manifests.entries import NewFile
from table.format.rows import binary_row
from table.scan.skipping.partition_filter import among
from table.write.seen import Seen
from table.write.snapshot_builder import CommitRequest, everything

if TYPE_CHECKING:
    from sql.spark.read.prepared import PlannedTable

_log = logging.getLogger(__name__)
_PLAIN_NUMBER = re.compile(r"(0|[1-9]\d*)(\.\d+)?")
"""Spelled as Spark spells it as a text."""
_ATTEMPTS = 5
"""Runs of an overwrite by a query of its own table, as long as others write to what it replaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where an INSERT goes: the table, its column list, its PARTITION values, and whether it replaces."""

    table: LakeTable
    columns: tuple[str, ...] | None
    fixed: Mapping[str, exp.Expr]
    overwrite: bool
    dynamic: bool


@handles(exp.Insert)
@dataclass(frozen=True)
class Insert:
    """``INSERT INTO | OVERWRITE table [PARTITION (…)] [(columns)] query``."""

    tree: exp.Insert
    needs_spark = True

    def run(self, context: ExecutionContext) -> ResultSet:
        """Write the rows and commit them."""
        sink = connector_sink(context, self.tree)
        if sink is not None:
            return ResultSet.written(_pass_on(context, self.tree, sink), None)

        def once() -> ResultSet:
            target = target_of(context, self.tree)
            with target.table.write() as write:
                return commit(context, target, write, source_of(self.tree))

        return until_it_holds(once)


@handles(trees.StatementSet)
@dataclass(frozen=True)
class StatementSet:
    """``EXECUTE STATEMENT SET``: all its INSERTs in one transaction, or none."""

    tree: trees.StatementSet
    needs_spark = True

    def run(self, context: ExecutionContext) -> ResultSet:
        """Write every INSERT's rows, then commit all at once."""
        return until_it_holds(lambda: self._once(context))

    def _once(self, context: ExecutionContext) -> ResultSet:
        done: list[tuple[Target, Write, Seen | None]] = []
        with contextlib.ExitStack() as writes:
            for insert in self.tree.expressions:
                target = target_of(context, insert)
                same = [other for other, _, _ in done if _place(other) == _place(target)]
                if any(member.overwrite for member in (target, *same)) and same:
                    raise AnalysisError(
                        f"{target.table.identifier} stands twice in the statement set, and only INSERT INTO can be repeated there."
                    )
                write = writes.enter_context(target.table.write())
                done.append((target, write, write_query(context, target, write, source_of(insert))))
            return self._commit(context, done)

    @staticmethod
    def _commit(context: ExecutionContext, done: list[tuple[Target, Write, Seen | None]]) -> ResultSet:
        rows = sum(write.rows for _, write, _ in done)
        requests = [(target.table, request) for target, write, seen in done if (request := request_of(target, write, seen)) is not None]
        if not requests:
            return ResultSet.written(0, None)
        with _by_own_rows(*(request for _, request in requests)):
            snapshots = context.lake.commit_all(requests, claim=context.idempotency, answer=written_answer(rows))
        return ResultSet.written(rows, snapshots[0].id)


def _place(target: Target) -> tuple[UUID, str]:
    return target.table.table_id, target.table.identifier.branch


def source_of(insert: exp.Insert) -> exp.Expr:
    """The INSERT's query, with a WITH that stands before it."""
    query: exp.Expr = insert.args["expression"].copy()
    with_ = insert.args.get("with_")
    if with_ is not None and query.args.get("with_") is None:
        query.set("with_", with_.copy())
    return query


def target_of(context: ExecutionContext, insert: exp.Insert) -> Target:
    """Open the INSERT's table and read its clauses; raises for columns the table lacks and options that cannot be given."""
    into = insert.this
    columns: tuple[str, ...] | None = None
    if isinstance(into, exp.Schema):
        columns = tuple(node.name for node in into.expressions)
        into = into.this
    if not isinstance(into, exp.Table):
        raise AnalysisError("INSERT needs a table.", fragment=into.sql("spark"))
    parts = tuple(part.name for part in into.parts)
    overwrite = bool(insert.args.get("overwrite"))
    table = context.lake.open_to_write(context.session.identifier(parts), overwrite=overwrite)
    context.lake.reserve.require()
    options = into.meta.get(OPTIONS_HINT, {})
    check_hint(options, writing=True)
    if options:
        merged = {**table.schema.options, **options}
        require_options(context.lake.caller, table.identifier, table.schema.options, merged)
        table = replace(table, schema=replace(table.schema, options=merged))
    partition = into.args.get("partition") or insert.args.get("partition")
    fixed = _fixed(table, partition) if isinstance(partition, exp.Partition) else {}
    _check_columns(table, columns, fixed)
    dynamic: bool = TABLE_OPTIONS.read(table.schema.options, "dynamic-partition-overwrite")
    return Target(table=table, columns=columns, fixed=fixed, overwrite=overwrite, dynamic=dynamic)


def connector_sink(context: ExecutionContext, insert: exp.Insert) -> ConnectorTable | None:
    """The table with a connector an INSERT goes to, or None; raises for one that takes no rows."""
    into = insert.this.this if isinstance(insert.this, exp.Schema) else insert.this
    parts = tuple(part.name for part in into.parts) if isinstance(into, exp.Table) else ()
    table = find_connector(context.lake, context.session, parts, Access.UPDATE) if parts else None
    if table is None:
        return None
    if not connector_named(table.connector).sink:
        raise AnalysisError(f"{table.name} has connector {table.connector}, which is not written by SQL.", fragment=table.name)
    if insert.args.get("overwrite") or insert.args.get("partition"):
        raise AnalysisError(f"{table.name} has connector {table.connector}; OVERWRITE and PARTITION are not for it.", fragment=table.name)
    return replace(table, options={**table.options, **checked_options(table, into.meta.get(OPTIONS_HINT, {}))})


def sink_schema(table: ConnectorTable) -> Schema:
    """The columns an INSERT fills, as a table's; without comments, so that none made before they had a length stops it."""
    return new_schema([replace(column, description=None) for column in table.written_columns], partition_keys=(), options={}, comment=None)


def sink_columns(insert: exp.Insert) -> tuple[str, ...] | None:
    """The INSERT's column list."""
    return tuple(node.name for node in insert.this.expressions) if isinstance(insert.this, exp.Schema) else None


def _pass_on(context: ExecutionContext, insert: exp.Insert, sink: ConnectorTable) -> int:
    from sql.spark.connectors import spark_connector
    from sql.spark.read.prepared import prepared
    from sql.spark.write.assign import assigned

    scope = context.connector_scope
    with prepared(context, source_of(insert)) as query:
        frame = assigned(query.frame, sink_schema(sink), sink_columns(insert), {}, sink.name)
        return spark_connector(sink, scope).write(frame, sink, scope)


def _fixed(table: LakeTable, partition: exp.Partition) -> dict[str, exp.Expr]:
    fixed: dict[str, exp.Expr] = {}
    for part in partition.expressions:
        if isinstance(part, exp.Column | exp.Identifier):
            continue  # a dynamic partition column: its value comes from the query
        if not isinstance(part, exp.EQ):
            raise AnalysisError("PARTITION takes column = value.", fragment=part.sql("spark"))
        name = part.this.name
        if name not in table.schema.partition_keys:
            raise AnalysisError(f"{name} is not a partition column of {table.identifier}.", fragment=name)
        fixed[name] = part.expression
    return fixed


def _check_columns(table: LakeTable, columns: tuple[str, ...] | None, fixed: Mapping[str, exp.Expr]) -> None:
    if columns is None:
        return
    for name in columns:
        table.schema.field(name, table=str(table.identifier))
        if name in fixed:
            raise AnalysisError(f"Column {name} has its value in PARTITION and stands in the column list, too.", fragment=name)
    if len(set(columns)) != len(columns):
        raise InvalidSchema("A column stands twice in the column list.")
    assigned = {*columns, *fixed}
    missing = [f.name for f in table.schema.fields if not f.type.nullable and f.default_value is None and f.name not in assigned]
    if missing:
        raise AnalysisError(f"Column {missing[0]} of {table.identifier} is NOT NULL and gets no value.", fragment=missing[0])


def until_it_holds(once: Callable[[], ResultSet]) -> ResultSet:
    """Run an INSERT, and anew where what it replaces by a query of the same table was changed meanwhile, or its columns are others by now.

    The last time raises `RewriteConflict` or `TableChanged`.
    """
    for left in reversed(range(_ATTEMPTS)):
        try:
            return once()
        except TableChanged:
            if not left:
                raise
        except _OwnRowsChanged as changed:
            lost = changed.lost
            if not left:
                raise RewriteConflict(
                    f"INSERT OVERWRITE by a query of the table it replaces: others wrote to what it replaces during each of {_ATTEMPTS} "
                    f"runs. Nothing was changed; repeat it when they have done. The last time: {lost.message}",
                    resource_name=lost.resource_name,
                ) from lost
            _log.info("An INSERT OVERWRITE begins anew: %s", lost.message)
    raise AssertionError("the last attempt returns or raises")


@contextlib.contextmanager
def _by_own_rows(*requests: CommitRequest) -> Iterator[None]:
    """Around a commit that loses where rows of the table itself, by which it was made, are others by now."""
    try:
        yield
    except RewriteConflict as lost:
        if all(request.seen is None for request in requests):
            raise
        raise _OwnRowsChanged(lost) from lost


class _OwnRowsChanged(Exception):
    """An overwrite is to be run anew."""

    def __init__(self, lost: RewriteConflict) -> None:
        super().__init__(lost.message)
        self.lost = lost


def write_query(context: ExecutionContext, target: Target, write: Write, query: exp.Expr) -> Seen | None:
    """Run the query and write its rows as files of the table, not yet committed; what an overwrite has seen of its own table."""
    from sql.spark.read.prepared import prepared
    from sql.spark.write.assign import assigned, literals
    from sql.spark.write.sorting import Order
    from sql.spark.write.writes import write as written

    order = Order.of_writes(target.table.schema)
    with prepared(context, query) as rows:
        context.cancellation.check()
        frame = assigned(rows.frame, target.table.schema, target.columns, literals(target.fixed), str(target.table.identifier))
        files = written(frame.sparkSession, frame, target.table, arrange=order.arrange() if order else None)
        write.add(before_commit(target.table, files))
        return _seen(target, rows.tables) if target.overwrite else None


def _seen(target: Target, tables: Sequence[PlannedTable]) -> Seen | None:
    """What a query has read of the table whose rows it replaces; None where that is nothing, or rows it names by their time."""
    own = [one for one in tables if (one.table.table_id, one.table.identifier.branch) == _place(target) and not one.of_a_time]
    if not own:
        return None
    return Seen.of(own[0].present, own[0].plan.predicate if len(own) == 1 else None)


def request_of(target: Target, write: Write, seen: Seen | None = None) -> CommitRequest | None:
    """The commit an INSERT asks for; None where it changes nothing (`paimon-append.md` §6.3, 6.5)."""
    if not target.overwrite:
        return write.request(CommitKind.APPEND) if write.files else None
    replaced = _replaced(target, write.files)
    if replaced is None:
        return None
    own = None if seen is None else replace(seen, replaced=replaced)
    return write.request(CommitKind.OVERWRITE, overwrite=replaced, operation="OVERWRITE", seen=own)


def _replaced(target: Target, files: list[NewFile]) -> Callable[[bytes], bool] | None:
    """Which partitions an overwrite replaces: those of the rows, or else those PARTITION names or the whole table; None for nothing."""
    schema = target.table.schema
    if not schema.partition_keys or (not target.fixed and not target.dynamic):
        return everything
    types = [f.type for f in schema.partition_fields]
    written = {new.partition for new in files}
    if target.dynamic:  # without rows nothing goes, also where PARTITION names all of one (Paimon's `overwritePartition`)
        return among(types, written) if written else None
    positions = [schema.partition_keys.index(name) for name in target.fixed]
    wanted: list[Any] = [_partition_value(target, name) for name in target.fixed]

    def named(partition: bytes) -> bool:
        values = binary_row.decode(types, partition)
        return [values[at] for at in positions] == wanted

    for partition in written:
        if not named(partition):  # read as another value than it is written as, and what it names would stay beside the rows
            values = binary_row.decode(types, partition)
            name, value = next((n, values[at]) for n, at, want in zip(target.fixed, positions, wanted, strict=True) if values[at] != want)
            raise AnalysisError(
                f"PARTITION ({name} = {target.fixed[name].sql('spark')}) is {value!s} in the table: name that value.", fragment=name
            )
    return named


def _partition_value(target: Target, name: str) -> object:
    """A PARTITION literal as the value the table stores."""
    from sql.analysis.predicates import literal_value

    node = target.fixed[name]
    if isinstance(node, exp.Null):
        return None
    field = target.table.schema.field(name)
    value = literal_value(node, field.type)
    if value is None and isinstance(node, exp.Literal):
        if node.is_string:
            value = literal_value(exp.Literal.number(node.name), field.type)
        elif _PLAIN_NUMBER.fullmatch(node.name):  # of 007 and 1e2 Spark makes the texts 7 and 100.0
            value = literal_value(exp.Literal.string(node.name), field.type)
    if field.type.root == "FLOAT" and isinstance(value, float):
        value = float(np.float32(value))
    if value is None:
        raise AnalysisError(f"PARTITION ({name} = {node.sql('spark')}): a literal of type {field.type.sql()} is expected.")
    return value


def commit(context: ExecutionContext, target: Target, write: Write, query: exp.Expr) -> ResultSet:
    """Write the query's rows and commit them."""
    seen = write_query(context, target, write, query)
    request = request_of(target, write, seen)
    if request is None:
        return ResultSet.written(0, None)
    context.cancellation.check()
    with _by_own_rows(request):
        snapshot = context.lake.commit(target.table, request, claim=context.idempotency, answer=written_answer(write.rows))
    return ResultSet.written(write.rows, snapshot.id)


def insert_query(context: ExecutionContext, table: LakeTable, query: exp.Expr) -> ResultSet:
    """Fill a table from a query: what CREATE TABLE … AS SELECT does."""
    target = Target(table=table, columns=None, fixed={}, overwrite=False, dynamic=True)
    with table.write() as write:
        return commit(context, target, write, query)


def query_columns(context: ExecutionContext, query: exp.Expr) -> list[ResultColumn]:
    """The columns a query gives, without running it."""
    from sql.spark.read.prepared import prepared

    with prepared(context, query) as rows:
        return rows.columns()
