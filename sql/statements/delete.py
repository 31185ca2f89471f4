"""DELETE whose condition Spark decides."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from lake import LakeTable
from lake.erase import Matches
from model.snapshot import Snapshot
from sql import trees
from sql.deleting import delete, target_of
from sql.results import ResultSet
from sql.statements.base import ExecutionContext, handles


@handles(trees.DeleteRows)
@dataclass(frozen=True)
class Delete:
    """``DELETE FROM t WHERE …``."""

    tree: trees.DeleteRows
    needs_spark = True

    def run(self, context: ExecutionContext) -> ResultSet:
        """Let Spark find the rows, and write their files anew without them."""
        table, _ = target_of(context, self.tree)
        return delete(context, self.tree, table, partial(self.find, context))

    def find(self, context: ExecutionContext, table: LakeTable, snapshot: Snapshot | None) -> Matches:
        """The rows of a snapshot for which the condition is true."""
        from sql.spark.rows import rows_where

        return rows_where(context, self.tree.this, table, snapshot, context.lake.read_rules(table))
