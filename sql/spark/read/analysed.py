"""A query analysed for a client that asked what it gives, and run as it is while all it rests on is the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from lake import LakeTable
from model.errors import LakeError
from model.identifier import Identifier
from model.options.scan_mode import TRAVEL_OPTIONS
from sql.analysis.references import table_references
from sql.execution.results import ResultColumn, ResultSet
from sql.spark.read.prepared import Prepared, prepared
from sql.spark.read.results import result_of
from sql.spark.session.errors import translating
from sql.statements.base import AnalysedStatement, ExecutionContext

_MOST_FILES = 1000
"""The plan of a query over more of them is not worth its place in the JVM while nobody runs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysedQuery(AnalysedStatement):
    """To be run once: Spark settles what time it is when a plan is first run."""

    query: Prepared
    tables: tuple[Identifier, ...]
    state: tuple[object, ...]

    @property
    def needs_spark(self) -> bool:
        """As any query Spark answers."""
        return True

    def holds(self, context: ExecutionContext) -> bool:
        """Whether analysing it anew would find the same: the session, the tables, their rows, what the caller may see, and Spark."""
        try:
            return context.spark.made(self.query.frame.sparkSession) and _state(context, self.tables) == self.state
        except LakeError:  # of which analysing it anew tells the place
            return False

    def run(self, context: ExecutionContext) -> ResultSet:
        """Run it; few rows are kept in memory, many go through the spool."""
        query, lost = self.query, context.spark.lost
        with context.spark.marked(context.statement_id), translating(context.source, query.views, lost, query.reading):
            return result_of(context, self.query)


def analysed(context: ExecutionContext, tree: exp.Expr) -> tuple[list[ResultColumn], AnalysedQuery | None]:
    """The columns a query gives, and what is to be run for it, where that can be kept."""
    with prepared(context, tree) as query:
        columns = query.columns()
    tables = _plain_tables(context, tree, query)
    if context.has_parameters or tables is None or sum(len(planned.plan.files) for planned in query.tables) > _MOST_FILES:
        return columns, None
    state = _state(context, tables)
    seen = [planned.plan.snapshot_id for planned in query.tables]
    if state is None or seen != [latest.id if (latest := planned.table.latest()) else None for planned in query.tables]:
        return columns, None
    return columns, AnalysedQuery(query=replace(query, columns=lambda: columns), tables=tables, state=state)


def _plain_tables(context: ExecutionContext, tree: exp.Expr, query: Prepared) -> tuple[Identifier, ...] | None:
    """The tables a query reads, each as it stands; None where it reads views, system tables, connectors or other times."""
    references = table_references(tree)
    if any(reference.options or reference.as_of is not None for reference in references):
        return None
    named = tuple(context.session.identifier(reference.parts) for reference in references)
    return named if named == tuple(planned.table.identifier for planned in query.tables) else None


def _state(context: ExecutionContext, tables: Sequence[Identifier]) -> tuple[object, ...] | None:
    """What a query over these tables rests on; None where part of them is kept from the caller, or they tell the time to read."""
    session = context.session
    state: list[object] = [session.current_database, dict(context.settings), session.temporary_tables]
    for identifier in dict.fromkeys(tables):
        table: LakeTable = context.lake.open(identifier)
        if context.lake.read_rules(table).restricted or TRAVEL_OPTIONS & table.schema.options.keys():
            return None
        state.append((table.table_id, table.schema, table.latest()))
    return tuple(state)
