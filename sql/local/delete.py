"""DELETE whose condition Arrow decides as Spark would, without Spark."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

import pyarrow.compute as pc
from sqlglot import exp

from lake import LakeTable
from lake.rewrite.change_rows import Changes, deletion_of
from model.predicate import Predicate
from model.snapshot import Snapshot
from sql.analysis.predicates import pushed
from sql.execution.results import ResultSet
from sql.local.conditions import Conditions
from sql.local.literals import NotLocal
from sql.local.scope import Scope
from sql.parsing import trees
from sql.statements.base import ExecutionContext, LocalStatement
from sql.statements.rows.changing import change, reference_of, target_of
from table.scan.planning.entry_scan import plan_every_file, plan_scan
from table.write.copy_on_write import matching_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDelete(LocalStatement):
    """``DELETE FROM t WHERE …``."""

    tree: trees.DeleteRows
    table: LakeTable
    predicate: Predicate | None
    """What lets files be skipped."""
    condition: pc.Expression
    columns: frozenset[str]
    """Those the condition reads."""

    def run(self, context: ExecutionContext) -> ResultSet:
        return change(context, self.tree, self.table, partial(self.find, context))

    def find(
        self, context: ExecutionContext, table: LakeTable, snapshot: Snapshot | None, *, clean: Collection[str] | None = None
    ) -> Changes:
        """The rows of a snapshot for which the condition is true."""
        files, schema = table.files, table.schema
        surely = clean is not None
        if clean is None:
            plan = plan_scan(files, schema, snapshot, self.predicate)
        else:
            plan = plan_every_file(files, schema, snapshot, self.predicate, but=clean)
        check = context.cancellation.check
        matching = ((one, matching_rows(files, schema, one, self.condition, self.columns, check, counted=surely)) for one in plan.files)
        return deletion_of(list(matching), self.predicate, whole=False)


def plan_delete(tree: trees.DeleteRows, context: ExecutionContext) -> LocalDelete:
    """The statement; raises `NotLocal` where Spark must decide which rows go."""
    table, rules = target_of(context, tree)
    alias = tree.this.args["from_"].this.args.get("alias")
    if rules.restricted or (alias is not None and alias.args.get("columns")) or tree.find(exp.Subquery):
        raise NotLocal  # what is kept from a caller is cut off in one place, before Spark sees it
    reference = reference_of(tree.this)
    conditions = Conditions(Scope(reference, table.schema).column)
    condition = conditions.translate(tree.this.args["where"].this)
    return LocalDelete(
        tree=tree,
        table=table,
        predicate=pushed(reference, table.schema, rules),
        condition=condition,
        columns=frozenset(conditions.columns),
    )
