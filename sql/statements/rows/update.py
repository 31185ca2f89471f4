"""UPDATE whose rows and values Spark finds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from lake import LakeTable
from lake.rewrite.change_rows import Changes
from model.snapshot import Snapshot
from sql.execution.results import ResultSet
from sql.parsing import trees
from sql.statements.base import ExecutionContext, handles
from sql.statements.rows.assignments import Clause, Kind, assignments_of
from sql.statements.rows.changing import change, reference_of, update_target


@handles(trees.UpdateRows)
@dataclass(frozen=True)
class Update:
    """``UPDATE t SET a = …, … WHERE …``."""

    tree: trees.UpdateRows
    needs_spark = True

    def run(self, context: ExecutionContext) -> ResultSet:
        """Let Spark find the rows and their values, and write their files anew with them."""
        table, _ = update_target(context, self.tree)
        return change(context, self.tree, table, partial(self.find, context))

    def find(self, context: ExecutionContext, table: LakeTable, snapshot: Snapshot | None) -> Changes:
        """The rows of a snapshot for which the condition is true, and what they hold then."""
        from sql.spark.write.changes import changes_of

        query = self.tree.this.copy()
        values = query.expressions if any(at is not None for _, at in self.tree.args["targets"]) else []
        clause = Clause(kind=Kind.UPDATE, assignments=assignments_of(table, reference_of(query), self.tree.args["targets"]))
        return changes_of(context, query, values, table, snapshot, context.lake.read_rules(table), [clause])
