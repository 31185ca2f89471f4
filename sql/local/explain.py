"""EXPLAIN JSON_EXECUTION_PLAN of what this process answers itself: told without Spark."""

from __future__ import annotations

from dataclasses import dataclass

from lake import LakeTable
from sql.execution.results import ResultSet
from sql.local.constants import ConstantRow
from sql.local.scan import LocalScan
from sql.statements.base import ExecutionContext, LocalStatement, Statement
from sql.statements.plan_json import PlanPicture, table_picture
from table.scan.planning.entry_scan import plan_scan


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalExplain(LocalStatement):
    """The picture of a statement that needs no Spark."""

    planned: Statement

    def run(self, context: ExecutionContext) -> ResultSet:
        planned = self.planned
        if not isinstance(planned, LocalScan):
            where = "gateway" if isinstance(planned, ConstantRow) else "metadata"
            return PlanPicture(answered_in=where, tables=(), plan=None).result()
        table: LakeTable = planned.table
        plan = plan_scan(table.files, table.schema, table.latest(), planned.predicate)
        picture = table_picture(context, str(table.identifier), table, plan)
        return PlanPicture(answered_in="gateway", tables=(picture,), plan=None).result()
