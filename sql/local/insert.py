"""``INSERT INTO … VALUES`` of literals, written in this process: milliseconds instead of a Spark job."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from lake import LakeTable
from model.catalog_errors import IdempotencyKeyTaken, TableChanged
from model.errors import AnalysisError, ExecutionError, LakeError, OutcomeUnknown
from model.schema.types import Field
from sql.dialect import OPTIONS_HINT
from sql.execution.results import ResultSet
from sql.execution.writing import append_batches
from sql.local.assign import Assignment
from sql.local.literals import LiteralValue, NodeOrigin, NotLocal, Origin, evaluate
from sql.local.scope import connectors_not_local
from sql.local.values import ValuesInsert
from sql.statements.base import ExecutionContext, LocalStatement
from table.format.rows.arrow import arrow_field
from table.format.rows.cast import fit


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteralInsert(LocalStatement):
    """Rows of literals on their way into a table, already in its types."""

    insert: ValuesInsert
    table: LakeTable
    rows: pa.RecordBatch

    def run(self, context: ExecutionContext) -> ResultSet:
        try:
            return self._written(context)
        except (OutcomeUnknown, IdempotencyKeyTaken):
            raise
        except LakeError:
            if not self.table.remembered:
                raise
        try:  # nothing was decided, perhaps because the table is another by now
            return _planned(self.insert, context, _opened(self.insert, context))._written(context)
        except NotLocal:
            raise TableChanged(self.table.identifier) from None

    def _written(self, context: ExecutionContext) -> ResultSet:
        rows, snapshot = append_batches(context.lake, self.table, [self.rows], claim=context.idempotency, cancellation=context.cancellation)
        return ResultSet.written(rows, snapshot.id if snapshot else None)


def values_of(tree: exp.Insert) -> ValuesInsert:
    """The statement's parts; raises `NotLocal` where it is more than plain literals for a plainly named table."""
    values, target, names = tree.expression, tree.this, None
    if isinstance(target, exp.Schema):
        target, names = target.this, target.expressions
    if not isinstance(values, exp.Values) or not (_has_only(tree, "this", "expression") and _has_only(values, "expressions")):
        raise NotLocal
    if not isinstance(target, exp.Table) or not _has_only(target, "this", "db", "catalog") or OPTIONS_HINT in target.meta:
        raise NotLocal
    if any(not isinstance(name, exp.Identifier) for name in names or ()):
        raise NotLocal
    return ValuesInsert(
        target=tuple(part.name for part in target.parts),
        columns=None if names is None else [(name.name, NodeOrigin(name)) for name in names],
        rows=[[evaluate(part) for part in (row.expressions if isinstance(row, exp.Tuple) else [row])] for row in values.expressions],
        row_origins=[NodeOrigin(row) for row in values.expressions],
    )


def plan_insert(insert: ValuesInsert, context: ExecutionContext) -> LiteralInsert:
    """The statement with its values in the table's types; raises what does not fit, or `NotLocal` where Spark must decide."""
    if len(insert.target) == 1 and insert.target[0] in context.session.temporary_tables:
        raise NotLocal
    if context.remembered:
        with contextlib.suppress(LakeError, NotLocal):  # whether they hold tells the table as it is
            if (table := context.lake.remembered_to_write(context.session.identifier(insert.target))) is not None:
                return _planned(insert, context, table)
    return _planned(insert, context, _opened(insert, context))


def _opened(insert: ValuesInsert, context: ExecutionContext) -> LakeTable:
    with connectors_not_local():
        return context.lake.open_to_write(context.session.identifier(insert.target))


def _planned(insert: ValuesInsert, context: ExecutionContext, table: LakeTable) -> LiteralInsert:
    context.lake.reserve.require()
    fields = _columns(table, insert.columns)
    _check_arity(insert, fields, str(table.identifier))
    _check_missing(table, fields)
    assignment = Assignment(utc=context.zone == "UTC")
    arrays = [array_of(field, assignment, [row[at] for row in insert.rows]) for at, field in enumerate(fields)]
    batch = pa.RecordBatch.from_arrays(arrays, names=[field.name for field in fields])
    return LiteralInsert(insert=insert, table=table, rows=fit(batch, table.schema, table=str(table.identifier)))


def _has_only(node: exp.Expr, *known: str) -> bool:
    """Whether nothing is said in a node but these parts: a clause this package does not know must not be overlooked."""
    return all(key in known for key, value in node.args.items() if value)


def _columns(table: LakeTable, names: Sequence[tuple[str, Origin]] | None) -> list[Field]:
    """The columns the values go to, in their order; raises for one that is unknown or named twice."""
    if names is None:
        return list(table.schema.fields)
    fields: list[Field] = []
    for name, origin in names:
        try:
            field = table.schema.field(name, table=str(table.identifier))
        except LakeError as unknown:
            raise _at(origin, unknown.message) from unknown
        if field in fields:
            raise _at(origin, f"Column {field.name} is named twice in the list of columns.")
        fields.append(field)
    return fields


def _check_arity(insert: ValuesInsert, fields: Sequence[Field], table: str) -> None:
    for number, (row, origin) in enumerate(zip(insert.rows, insert.row_origins, strict=True), 1):
        if len(row) != len(fields):
            names = ", ".join(field.name for field in fields)
            raise _at(origin, f"Row {number} has {len(row)} values for the {len(fields)} columns of {table} ({names}).")


def _check_missing(table: LakeTable, fields: Sequence[Field]) -> None:
    for field in table.schema.fields:
        if field not in fields and not field.type.nullable and field.default_value is None:
            raise ExecutionError(
                f"Column {field.name} of {table.identifier} is NOT NULL, and the INSERT gives it no value; name it in the list of columns."
            )


def array_of(field: Field, assignment: Assignment, literals: Sequence[LiteralValue]) -> pa.Array:
    """A column's literals as values of its type; raises what does not fit, or `NotLocal` where Spark must decide."""
    values: list[Any] = assignment.column(field, literals)
    return pa.array(values, arrow_field(field).type)


def _at(origin: Origin, message: str) -> AnalysisError:
    line, column = origin.place()
    return AnalysisError(message, line=line, column=column, fragment=origin.shown())
