"""UPDATE to literals whose condition Arrow decides as Spark would, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from lake import LakeTable
from lake.rewrite.change_rows import Changes
from model.predicate import Predicate
from model.snapshot import Snapshot
from sql.analysis.predicates import pushed
from sql.execution.results import ResultSet
from sql.local.assign import Assignment as Literals
from sql.local.conditions import Conditions
from sql.local.insert import array_of
from sql.local.literals import NotLocal, evaluate
from sql.local.scope import Scope
from sql.parsing import trees
from sql.statements.base import ExecutionContext, LocalStatement
from sql.statements.rows.assignments import Assignment
from sql.statements.rows.changing import change, reference_of, update_target
from table.format.rows.cast import fit
from table.scan.planning.entry_scan import PlannedFile, plan_scan
from table.write.copy_on_write import FileChange, Positions, matching_rows

_BATCH_ROWS = 4_096
_BATCH_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalUpdate(LocalStatement):
    """``UPDATE t SET a = literal, … [WHERE …]``."""

    tree: trees.UpdateRows
    table: LakeTable
    predicate: Predicate | None
    """What lets files be skipped."""
    condition: pc.Expression | None
    columns: frozenset[str]
    """Those the condition reads."""
    row: pa.RecordBatch
    """What the assigned columns hold then: one row."""

    def run(self, context: ExecutionContext) -> ResultSet:
        return change(context, self.tree, self.table, partial(self.find, context))

    def find(self, context: ExecutionContext, table: LakeTable, snapshot: Snapshot | None) -> Changes:
        """The rows of a snapshot for which the condition is true, and what they hold then."""
        plan = plan_scan(table.files, table.schema, snapshot, self.predicate)
        matching = ((file, self._matching(context, table, file)) for file in plan.files)
        changes = [(file, FileChange(updated=rows, values=partial(self._values, len(rows)))) for file, rows in matching if len(rows)]
        moves = not table.schema.place_columns.isdisjoint(self.row.schema.names)
        return Changes(files=changes, moves=moves, predicate=self.predicate, whole=False)

    def _matching(self, context: ExecutionContext, table: LakeTable, file: PlannedFile) -> Positions:
        if self.condition is None:
            return np.arange(file.file.row_count)
        return matching_rows(table.files, table.schema, file, self.condition, self.columns, context.cancellation.check)

    def _values(self, count: int) -> Iterator[pa.RecordBatch]:
        """The row, so many times."""
        most = max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(1, self.row.nbytes)))
        for first in range(0, count, most):
            yield self.row.take(pa.array(np.zeros(min(most, count - first), np.int64)))


def plan_update(tree: trees.UpdateRows, context: ExecutionContext) -> LocalUpdate:
    """The statement; raises `NotLocal` where Spark must decide which rows change, or to what."""
    table, assignments = update_target(context, tree)
    alias = tree.this.args["from_"].this.args.get("alias")
    renamed, rules = alias is not None and alias.args.get("columns"), context.lake.read_rules(table)
    if renamed or rules.restricted or len(list(tree.find_all(exp.Query))) > 1:
        raise NotLocal  # what is kept from a caller is cut off in one place, before Spark sees it
    reference = reference_of(tree.this)
    where = tree.this.args.get("where")
    conditions = Conditions(Scope(reference, table.schema).column)
    condition = None if where is None else conditions.translate(where.this)
    return LocalUpdate(
        tree=tree,
        table=table,
        predicate=pushed(reference, table.schema, rules),
        condition=condition,
        columns=frozenset(conditions.columns),
        row=_row(table, assignments, tree.this.expressions, Literals(utc=context.zone == "UTC")),
    )


def _row(table: LakeTable, assignments: Sequence[Assignment], values: Sequence[Any], literals: Literals) -> pa.RecordBatch:
    """One row of the assigned columns, as an INSERT of the literals stores it; what is not among them has its default."""
    if any(assignment.nested for assignment in assignments):
        raise NotLocal
    arrays = {a.field.name: array_of(a.field, literals, [evaluate(values[a.value].unnest())]) for a in assignments if a.value is not None}
    if not arrays:
        raise NotLocal  # a batch without columns has no rows
    batch = pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))
    assigned = replace(table.schema, fields=tuple(assignment.field for assignment in assignments), partition_keys=(), options={})
    return fit(batch, assigned, table=str(table.identifier))
