"""SELECTs that only scan, filter, pick columns and limit, read by Arrow; and counts and bounds that metadata knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from lake import LakeTable
from model.options.scan_mode import TRAVEL_OPTIONS
from model.predicate import Predicate
from model.schema.types import BigIntType, DataType, Field
from model.snapshot import Snapshot
from sql.analysis.predicates import pushed
from sql.analysis.references import TableReference
from sql.execution.reading_memory import reading_bytes
from sql.execution.results import ResultColumn, ResultSet, batch_of_rows, result_schema
from sql.local.conditions import Conditions
from sql.local.literals import NotLocal
from sql.local.scope import Scope, is_star, limit_of, only_parts, only_stored_table, opened
from sql.statements.base import ExecutionContext, LocalStatement
from table.format.rows.domain import value_fault
from table.scan.aggregates import Aggregate, Function, exact_aggregates
from table.scan.planning.entry_scan import check_alone, plan_scan
from table.scan.read import Selection, read_batches

_SCAN_PARTS = frozenset({"expressions", "from_", "where", "limit"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalScan(LocalStatement):
    """``SELECT columns FROM t [WHERE …] [LIMIT n]``."""

    table: LakeTable
    columns: Sequence[tuple[str, Field]]
    """The result's columns: their names, and the table's columns they show."""
    predicate: Predicate | None
    """What lets files be skipped."""
    condition: pc.Expression | None
    condition_columns: frozenset[str]
    limit: int | None

    def run(self, context: ExecutionContext) -> ResultSet:
        table = self.table
        plan = plan_scan(table.files, table.schema, table.latest(), self.predicate)
        names = list(dict.fromkeys(field.name for _, field in self.columns))
        selection = Selection(
            columns=names,
            filter=self.condition,
            filter_columns=self.condition_columns,
            limit=self.limit,
            principal=context.lake.caller.principal,
        )
        columns = [ResultColumn(name, field.type) for name, field in self.columns]
        schema = result_schema(columns)
        positions = [names.index(field.name) for _, field in self.columns]

        def check() -> None:
            context.cancellation.check()
            result.check_open()

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in read_batches(table.files, table.schema, plan.files, selection, check):
                yield pa.RecordBatch.from_arrays([batch.column(at) for at in positions], schema=schema)

        result = ResultSet.streaming(columns, batches)
        result.made_while_read = True
        result.reading_bytes = reading_bytes(planned.file.file_size for planned in plan.files)
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataAnswer(LocalStatement):
    """``SELECT COUNT(*), MIN(c), … FROM t``, answered without reading data."""

    columns: Sequence[ResultColumn]
    row: Sequence[object]

    def run(self, context: ExecutionContext) -> ResultSet:
        return ResultSet.of_rows(self.columns, [self.row], is_query=True)


def plan_select(tree: exp.Select, context: ExecutionContext) -> LocalScan | MetadataAnswer:
    """The statement; raises `NotLocal` where Spark must run it."""
    if not only_parts(tree, _SCAN_PARTS):
        raise NotLocal
    reference = _only_table(tree, context)
    table = opened(reference, context)
    check_alone(table.files, table.schema)
    if TRAVEL_OPTIONS & table.schema.options.keys():
        raise NotLocal
    rules = context.lake.read_rules(table)
    if rules.restricted:
        raise NotLocal  # what is kept from a caller is cut off in one place, before Spark sees it
    if any(part.find(exp.AggFunc) for part in tree.expressions):
        return _metadata_answer(tree, reference, table)
    scope = Scope(reference, table.schema)
    columns = [column for part in tree.expressions for column in scope.projected(part)]
    conditions = Conditions(scope.column)
    where = tree.args.get("where")
    return LocalScan(
        table=table,
        columns=columns,
        predicate=pushed(reference, table.schema, rules),
        condition=conditions.translate(where.this) if where is not None else None,
        condition_columns=frozenset(conditions.columns),
        limit=limit_of(tree),
    )


def _only_table(tree: exp.Select, context: ExecutionContext) -> TableReference:
    """The one plain table the query reads."""
    reference = only_stored_table(tree, context)
    if reference.options or reference.as_of is not None:
        raise NotLocal
    return reference


def _metadata_answer(tree: exp.Select, reference: TableReference, table: LakeTable) -> MetadataAnswer:
    if tree.args.get("where") or tree.args.get("limit"):
        raise NotLocal
    scope = Scope(reference, table.schema)
    wanted = [_aggregate(part, scope) for part in tree.expressions]
    latest: Snapshot | None = table.latest()
    plan = plan_scan(table.files, table.schema, latest)
    answers = exact_aggregates(table.files, table.schema, plan, [aggregate for _, aggregate in wanted])
    if answers is None:
        raise NotLocal
    columns = [ResultColumn(name, _type(aggregate, table)) for name, aggregate in wanted]
    if not _are_values(columns, answers):
        raise NotLocal
    return MetadataAnswer(columns=columns, row=answers)


def _are_values(columns: Sequence[ResultColumn], row: Sequence[object]) -> bool:
    """Whether what manifests tell, which other clients write as well, are values of their columns' types."""
    try:
        batch = batch_of_rows(columns, [row])
    except (pa.ArrowException, OverflowError, ValueError):
        return False
    return not any(value_fault(array) for array in batch.columns)


def _aggregate(node: exp.Expr, scope: Scope) -> tuple[str, Aggregate]:
    """The result's column name (Spark's, where the query gives none) and what to ask the metadata."""
    alias = node.alias if isinstance(node, exp.Alias) else None
    call = node.this if isinstance(node, exp.Alias) else node
    function = _FUNCTIONS.get(type(call))
    if function is None or any(value for key, value in call.args.items() if key not in ("this", "big_int")):
        raise NotLocal
    argument = call.this
    if function is Function.COUNT and (is_star(argument) or _is_one(argument)):
        return alias or "count(1)", Aggregate(Function.COUNT)
    if not isinstance(argument, exp.Column):
        raise NotLocal
    field = scope.column(argument)
    return alias or f"{function.value.lower()}({field.name})", Aggregate(function, field.name)


_FUNCTIONS: dict[type[exp.Expr], Function] = {exp.Count: Function.COUNT, exp.Min: Function.MIN, exp.Max: Function.MAX}


def _is_one(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.name == "1"


def _type(aggregate: Aggregate, table: LakeTable) -> DataType:
    if aggregate.function is Function.COUNT or aggregate.column is None:
        return BigIntType(nullable=False)
    return table.schema.field(aggregate.column).type.with_nullable(True)
