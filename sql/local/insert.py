"""``INSERT INTO … VALUES`` of literals, written in this process: milliseconds instead of a Spark job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot import exp

from lake import LakeTable
from model.errors import AnalysisError, ExecutionError, LakeError, SqlError
from model.types import Field
from sql.dialect import OPTIONS_HINT
from sql.local.assign import Assignment
from sql.local.literals import LiteralValue, NotLocal, evaluate
from sql.results import ResultSet
from sql.statements.base import ExecutionContext, LocalStatement
from sql.writing import append_batches
from table.arrow import arrow_field
from table.cast import fit


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteralInsert(LocalStatement):
    """Rows of literals on their way into a table, already in its types."""

    table: LakeTable
    rows: pa.RecordBatch

    def run(self, context: ExecutionContext) -> ResultSet:
        rows, snapshot = append_batches(context.lake, self.table, [self.rows], claim=context.idempotency, cancellation=context.cancellation)
        return ResultSet.written(rows, snapshot.id if snapshot else None, job_id=context.statement_id.replace("-", ""))


def plan_insert(tree: exp.Insert, context: ExecutionContext) -> LiteralInsert:
    """The statement with its values evaluated; raises `NotLocal` where it is more than plain literals for a plain table."""
    values = tree.expression
    if not isinstance(values, exp.Values) or not (_has_only(tree, "this", "expression") and _has_only(values, "expressions")):
        raise NotLocal
    target, names = _target(tree)
    if len(target.parts) == 1 and target.name in context.session.temporary_tables:
        raise NotLocal
    evaluated = [_row(row) for row in values.expressions]
    table = context.lake.open(context.session.identifier(tuple(part.name for part in target.parts)))
    fields = _columns(table, names)
    _check_arity(evaluated, values.expressions, fields, str(table.identifier))
    _check_missing(table, fields)
    assignment = Assignment(utc=context.zone == "UTC")
    arrays = [_array(field, assignment, [row[at] for row in evaluated]) for at, field in enumerate(fields)]
    batch = pa.RecordBatch.from_arrays(arrays, names=[field.name for field in fields])
    return LiteralInsert(table=table, rows=fit(batch, table.schema, table=str(table.identifier)))


def _has_only(node: exp.Expression, *known: str) -> bool:
    """Whether nothing is said in a node but these parts: a clause this room does not know must not be overlooked."""
    return all(key in known for key, value in node.args.items() if value)


def _target(tree: exp.Insert) -> tuple[exp.Table, Sequence[exp.Expression] | None]:
    target, names = tree.this, None
    if isinstance(target, exp.Schema):
        target, names = target.this, target.expressions
    if not isinstance(target, exp.Table) or not _has_only(target, "this", "db", "catalog") or OPTIONS_HINT in target.meta:
        raise NotLocal
    if any(not isinstance(name, exp.Identifier) for name in names or ()):
        raise NotLocal
    return target, names


def _row(row: exp.Expression) -> list[LiteralValue]:
    parts = row.expressions if isinstance(row, exp.Tuple) else [row]
    return [evaluate(part) for part in parts]


def _columns(table: LakeTable, names: Sequence[exp.Expression] | None) -> list[Field]:
    """The columns the values go to, in their order; raises for one that is unknown or named twice."""
    if names is None:
        return list(table.schema.fields)
    found: list[Field] = []
    for name in names:
        try:
            field = table.schema.field(name.name, table=str(table.identifier))
        except LakeError as unknown:
            raise _at(AnalysisError, name, unknown.message) from unknown
        if field in found:
            raise _at(AnalysisError, name, f"Column {field.name} is named twice in the list of columns.")
        found.append(field)
    return found


def _check_arity(rows: Sequence[Sequence[LiteralValue]], nodes: Sequence[exp.Expression], fields: Sequence[Field], table: str) -> None:
    for number, (row, node) in enumerate(zip(rows, nodes, strict=True), 1):
        if len(row) != len(fields):
            names = ", ".join(field.name for field in fields)
            message = f"Row {number} has {len(row)} values for the {len(fields)} columns of {table} ({names})."
            raise _at(AnalysisError, node, message)


def _check_missing(table: LakeTable, fields: Sequence[Field]) -> None:
    for field in table.schema.fields:
        if field in fields:
            continue
        if field.default_value is not None:
            raise NotLocal  # a default is an expression, and those are Spark's
        if not field.type.nullable:
            raise ExecutionError(
                f"Column {field.name} of {table.identifier} is NOT NULL, and the INSERT gives it no value; name it in the list of columns."
            )


def _array(field: Field, assignment: Assignment, literals: Sequence[LiteralValue]) -> pa.Array:
    values: list[Any] = assignment.column(field, literals)
    return pa.array(values, arrow_field(field).type)


def _at(error: type[SqlError], node: exp.Expression, message: str) -> SqlError:
    """The error with the place its node begins at."""
    for part in node.walk():
        meta = part.meta
        if "line" in meta:
            return error(
                message, line=meta["line"], column=meta["col"] - (meta["end"] - meta["start"]), fragment=node.sql(dialect="spark")[:80]
            )
    return error(message)
