"""DELETE whose condition Spark decides."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from lake import LakeTable
from lake.rewrite.change_rows import Changes
from model.snapshot import Snapshot
from sql.execution.results import ResultSet
from sql.parsing import trees
from sql.statements.base import ExecutionContext, handles
from sql.statements.rows.changing import change, target_of


@handles(trees.DeleteRows)
@dataclass(frozen=True)
class Delete:
    """``DELETE FROM t WHERE …``."""

    tree: trees.DeleteRows
    needs_spark = True

    def run(self, context: ExecutionContext) -> ResultSet:
        """Let Spark find the rows, and write their files anew without them."""
        table, _ = target_of(context, self.tree)
        return change(context, self.tree, table, partial(self.find, context))

    def find(
        self, context: ExecutionContext, table: LakeTable, snapshot: Snapshot | None, *, clean: Collection[str] | None = None
    ) -> Changes:
        """The rows of a snapshot for which the condition is true."""
        from sql.spark.read.rows import rows_where

        return rows_where(context, self.tree.this, table, snapshot, context.lake.read_rules(table), clean=clean)
