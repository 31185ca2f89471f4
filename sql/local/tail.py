"""Streaming SELECTs that only filter and pick columns: a tail of a table, read in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from lake import LakeTable, StreamStep, TableStream
from model.errors import StreamChanged, TableNotExist, UnsupportedStatement, UnsupportedType
from model.predicate import Predicate
from model.schema import Schema
from model.table_options import stream_options
from model.types import Field
from sql import trees
from sql.analysis.predicates import pushed
from sql.analysis.references import TableReference, table_references
from sql.connectors import Bound, ConnectorTable, connector_named
from sql.local.conditions import Conditions
from sql.local.literals import NotLocal
from sql.local.scope import Scope, limit_of
from sql.results import ResultColumn, ResultSet, result_schema
from sql.sql_options import RUNTIME_MODE
from sql.statements.base import ExecutionContext, LocalStatement
from sql.views import is_view
from table.arrow import arrow_type
from table.read import Selection, read_batches

STREAM_BATCH_ROWS = 8192
"""Rows handed on at once: what a slow client holds in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail(LocalStatement):
    """``SELECT columns FROM t [WHERE …] [LIMIT n]`` in streaming mode."""

    reference: TableReference
    table: LakeTable
    columns: Sequence[tuple[str, Field]]
    """The result's columns: their names, and the table's columns they show."""
    predicate: Predicate | None
    condition: pc.Expression | None
    condition_columns: frozenset[str]
    limit: int | None

    def run(self, context: ExecutionContext) -> ResultSet:
        """Find the start, which may be refused; rows are read as the result is."""
        options = stream_options(self.table.schema.options, self.reference.options)
        stream = context.lake.follow(self.table, options, predicate=self.predicate, zone=context.zone)
        columns = [ResultColumn(name, field.type) for name, field in self.columns]
        result = ResultSet.streaming(columns, lambda: self._batches(stream), close=stream.close)
        result.unbounded = True
        return result

    def _batches(self, stream: TableStream) -> Iterator[pa.RecordBatch]:
        """The rows of each snapshot; an empty batch where none came for a moment."""
        schema = result_schema([ResultColumn(name, field.type) for name, field in self.columns])
        nothing = pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)
        left = self.limit
        yield nothing  # who reads learns the columns at once
        if left == 0:
            return
        for step in stream.steps():
            if step is None:
                yield nothing
                continue
            for batch in self._rows(step, schema):
                for start in range(0, batch.num_rows, STREAM_BATCH_ROWS):
                    piece = batch.slice(start, STREAM_BATCH_ROWS)
                    if left is not None:
                        piece = piece.slice(0, left)
                        left -= piece.num_rows
                    yield piece
                    if left == 0:
                        return

    def _rows(self, step: StreamStep, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        self._check_types(step.table.schema)
        names = list(dict.fromkeys(field.name for _, field in self.columns))
        positions = [names.index(field.name) for _, field in self.columns]
        selection = Selection(columns=names, filter=self.condition, filter_columns=self.condition_columns)
        # Under the schema the stream began with: columns are found by their ids, whatever they are called by now.
        for batch in read_batches(step.table.files, self.table.schema, step.planned, selection):
            yield pa.RecordBatch.from_arrays([batch.column(at) for at in positions], schema=schema)

    def _check_types(self, now: Schema) -> None:
        """Raise `StreamChanged` where a column the stream shows has got a type whose values its own cannot hold."""
        if now.id == self.table.schema.id:
            return
        used = {field.name for _, field in self.columns} | self.condition_columns
        present = {field.id: field for field in now.fields}
        for field in self.table.schema.fields:
            changed = present.get(field.id)
            if field.name in used and changed is not None and arrow_type(changed.type) != arrow_type(field.type):
                raise StreamChanged(str(self.table.identifier), column=field.name, was=str(field.type), now=str(changed.type))


def is_stream(tree: exp.Expr | None, context: ExecutionContext) -> bool:
    """Whether the statement is a query to be run as a stream: in streaming mode, over a table that can grow."""
    if RUNTIME_MODE.read(context.settings) != "streaming" or tree is None:
        return False
    if isinstance(tree, trees.Explain):
        raise UnsupportedStatement("EXPLAIN in streaming mode is not available yet; SET 'execution.runtime-mode' = 'batch' to see a plan.")
    if not isinstance(tree, exp.Query):
        return False
    temporary = context.session.temporary_tables
    return any(len(one.parts) > 1 or _grows(temporary.get(one.parts[0])) for one in table_references(tree))


def _grows(table: ConnectorTable | None) -> bool:
    """Whether rows may come to a table; files that are there end by themselves."""
    return table is None or connector_named(table.connector).bound(table) is Bound.NEVER


def plan_tail(tree: exp.Expr, context: ExecutionContext) -> Tail:
    """The statement; raises `UnsupportedStatement` naming what a stream cannot do here yet."""
    if refused := _beyond_a_tail(tree):
        raise _refusal(refused)
    assert isinstance(tree, exp.Select)
    (reference,) = table_references(tree)
    if "$" in reference.parts[-1].replace("$branch_", "", 1):
        raise _refusal(f"system table {reference.name}")
    try:
        table = context.lake.open(context.session.identifier(reference.parts))
    except TableNotExist:
        if is_view(context, reference.parts):
            raise _refusal(f"a view ({reference.name})") from None
        raise
    scope = Scope(reference, table.schema)
    columns = [column for part in tree.expressions for column in _column(scope, part)]
    conditions = Conditions(scope.column)
    where = tree.args.get("where")
    try:
        condition = conditions.translate(where.this) if where is not None else None
    except NotLocal:
        raise _refusal(f"the condition {where.this.sql('spark') if where is not None else ''}") from None
    return Tail(
        reference=reference,
        table=table,
        columns=columns,
        predicate=pushed(reference, table.schema),
        condition=condition,
        condition_columns=frozenset(conditions.columns),
        limit=_limit(tree),
    )


def _column(scope: Scope, part: exp.Expr) -> list[tuple[str, Field]]:
    try:
        found = scope.projected(part)
        for _, field in found:
            arrow_type(field.type)
        return found
    except (NotLocal, UnsupportedType):
        raise _refusal(f"the expression {part.sql('spark')}; only columns are shown") from None


def _limit(tree: exp.Select) -> int | None:
    try:
        return limit_of(tree)
    except NotLocal:
        raise _refusal("this LIMIT; a whole number is possible") from None


def _refusal(what: str) -> UnsupportedStatement:
    return UnsupportedStatement(
        f"Not available in streaming mode yet: {what}. A stream filters and picks the columns of one table; "
        "SET 'execution.runtime-mode' = 'batch' (or leave out mode=streaming) runs the query over what is there now."
    )


_CLAUSES = {
    "with_": "WITH", "joins": "a join", "laterals": "LATERAL", "group": "an aggregate (GROUP BY)", "having": "HAVING",
    "qualify": "QUALIFY", "windows": "a window", "distinct": "DISTINCT", "order": "ORDER BY", "sort": "SORT BY",
    "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY", "offset": "OFFSET", "pivots": "PIVOT", "match": "MATCH_RECOGNIZE",
}  # fmt: skip
_PARTS = frozenset({"expressions", "from_", "where", "limit", "hint"})
_TABLE_PARTS = frozenset({"this", "db", "catalog", "alias"})


def _beyond_a_tail(tree: exp.Expr) -> str | None:
    """What of a query a tail cannot do, in words; None where it may be one."""
    if isinstance(tree, exp.SetOperation):
        return f"{tree.key.upper()} of two queries"
    if not isinstance(tree, exp.Select):
        return f"a {tree.key.upper()} query"
    for key, value in tree.args.items():
        if value and key not in _PARTS:
            return _CLAUSES.get(key, key.strip("_").upper())
    for part in tree.expressions:
        if part.find(exp.Window):
            return f"a window ({part.sql('spark')})"
        if part.find(exp.AggFunc):
            return f"an aggregate ({part.sql('spark')})"
    from_ = tree.args.get("from_")
    node = from_.this if from_ is not None else None
    if not isinstance(node, exp.Table) or len(table_references(tree)) != 1 or not isinstance(node.this, exp.Identifier):
        return f"reading from {node.sql('spark')}" if node is not None and not isinstance(node, exp.Subquery) else "a subquery"
    for key, value in node.args.items():
        if value and key not in _TABLE_PARTS:
            return "FOR SYSTEM_TIME AS OF" if key == "version" else _CLAUSES.get(key, key.strip("_").upper())
    alias = node.args.get("alias")
    return "an alias with column names" if alias is not None and alias.args.get("columns") else None
