"""SELECTs over system tables, answered in this process: pick, filter, order, limit and count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from model.access import WHOLE
from model.options.table import check_hint
from model.predicate import Predicate
from model.schema.schema import Schema
from model.schema.types import BigIntType, Field
from sql.analysis.predicates import pushed
from sql.analysis.references import TableReference, table_references
from sql.execution.held_results import gathered
from sql.execution.results import ResultColumn, ResultSet, result_schema
from sql.local.conditions import Conditions
from sql.local.literals import NotLocal
from sql.local.scope import Scope, limit_of, only_parts, only_table
from sql.local.sorting import in_order
from sql.statements.base import ExecutionContext, LocalStatement
from sql.system import SystemScan, SystemTable, find_system_table
from sql.system.names import is_system

_PARTS = frozenset({"expressions", "from_", "where", "limit", "order"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemSelect(LocalStatement):
    """``SELECT columns FROM t$files [WHERE …] [ORDER BY …] [LIMIT n]``."""

    name: str
    """The table as the statement names it."""
    system: SystemTable
    scan: SystemScan
    columns: Sequence[tuple[str, Field]]
    """None of them where the rows are only counted."""
    counted: str | None
    condition: pc.Expression | None
    read: Sequence[str]
    """All columns that are looked at."""
    order: Sequence[tuple[str, bool]]
    """Columns, and whether each falls."""
    limit: int | None

    def run(self, context: ExecutionContext) -> ResultSet:
        if self.counted is not None and self.condition is None and self.system.count is not None:
            count = self.system.count(self.scan)
            if count is not None:
                return self._count(self.counted, count)
        if self.counted is not None:
            return self._count(self.counted, sum(matching.num_rows for matching in self._matching(context)))
        columns = [ResultColumn(name, field.type) for name, field in self.columns]
        rows = (self._shaped(batch, columns) for batch in self._batches(context))
        return gathered(context.spool, columns, rows, context.lake.caller, context.cancellation)

    def _count(self, name: str, rows: int) -> ResultSet:
        return ResultSet.of_rows([ResultColumn(name, BigIntType(nullable=False))], [(rows,)], is_query=True)

    def _matching(self, context: ExecutionContext) -> Iterator[pa.Table]:
        for batch in self.system.read(self.scan, self.read):
            context.cancellation.check()
            matching = pa.Table.from_batches([batch])
            yield matching if self.condition is None else matching.filter(self.condition)

    def _batches(self, context: ExecutionContext) -> Iterator[pa.RecordBatch]:
        """What is read of the rows that are wanted, in their order."""
        if self.order:
            wanted_columns = (matching.select(list(self.read)) for matching in self._matching(context))
            yield from in_order(wanted_columns, self.order, self.limit, name=self.name)
            return
        left = self.limit
        for matching in self._matching(context) if left != 0 else ():
            wanted = matching if left is None else matching.slice(0, left)
            yield from wanted.select(list(self.read)).combine_chunks().to_batches()
            if left is not None and (left := left - wanted.num_rows) == 0:
                return

    def _shaped(self, batch: pa.RecordBatch, columns: Sequence[ResultColumn]) -> pa.RecordBatch:
        positions = [list(self.read).index(field.name) for _, field in self.columns]
        return pa.RecordBatch.from_arrays([batch.column(at) for at in positions], schema=result_schema(columns))


def plan_system(tree: exp.Select, context: ExecutionContext) -> SystemSelect | None:
    """The statement; None where the query reads no system table. Raises `NotLocal` where Spark must run it."""
    references = table_references(tree)
    if len(references) != 1 or not is_system(references[0].parts):
        return None
    reference = only_table(tree)
    if reference.as_of is not None or not only_parts(tree, _PARTS):
        raise NotLocal
    check_hint(reference.options)
    system_table = find_system_table(context.lake, context.session, reference.parts, options=reference.options, zone=context.zone)
    assert system_table is not None
    system, scan = system_table
    schema = system.schema()
    scope = Scope(reference, schema)
    conditions = Conditions(scope.column)
    where = tree.args.get("where")
    condition = conditions.translate(where.this) if where is not None else None
    counted = _counted(tree)
    columns = [] if counted else [column for part in tree.expressions for column in scope.projected(part)]
    order = _order(tree, scope, columns)
    read = dict.fromkeys([field.name for _, field in columns] + [name for name, _ in order] + sorted(conditions.columns))
    return SystemSelect(
        name=reference.name,
        system=system,
        scan=_narrowed(scan, reference, schema) if system.holds_values else scan,
        columns=columns,
        counted=counted,
        condition=condition,
        read=list(read),
        order=order,
        limit=limit_of(tree),
    )


def _narrowed(scan: SystemScan, reference: TableReference, schema: Schema) -> SystemScan:
    predicate: Predicate | None = pushed(reference, schema, WHOLE)
    return SystemScan(lake=scan.lake, table=scan.table, predicate=predicate, options=scan.options, zone=scan.zone)


def _counted(tree: exp.Select) -> str | None:
    """The result's column name of ``SELECT COUNT(*)``; None for anything else."""
    if not any(part.find(exp.AggFunc) for part in tree.expressions):
        return None
    (node,) = tree.expressions if len(tree.expressions) == 1 else (None,)
    call = node.this if isinstance(node, exp.Alias) else node
    if not isinstance(call, exp.Count) or not isinstance(call.this, exp.Star) or tree.args.get("order") or tree.args.get("limit"):
        raise NotLocal
    return node.alias if isinstance(node, exp.Alias) else "count(1)"


def _order(tree: exp.Select, scope: Scope, columns: Sequence[tuple[str, Field]]) -> list[tuple[str, bool]]:
    order = tree.args.get("order")
    if order is None:
        return []
    keys = []
    for part in order.expressions:
        if not isinstance(part, exp.Ordered) or not isinstance(part.this, exp.Column) or part.args.get("with_fill"):
            raise NotLocal
        falling = bool(part.args.get("desc"))
        if part.args.get("nulls_first") not in (None, not falling):
            raise NotLocal
        named = [field for name, field in columns if name == part.this.name and not part.this.table]
        field = named[0] if len(named) == 1 else scope.column(part.this)
        if field.type.root == "ARRAY":
            raise NotLocal
        keys.append((field.name, falling))
    return keys
