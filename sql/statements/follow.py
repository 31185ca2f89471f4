"""SELECT in streaming mode: a tail read in this process, or a query that Spark keeps running."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sql.execution.results import ResultSet
from sql.local import NotLocal, check_alignment, check_ends, limit_of, plan_tail
from sql.statements.base import ExecutionContext, Statement


def plan_stream(tree: exp.Expr, context: ExecutionContext) -> Statement:
    """The statement; what only filters and picks columns needs no Spark. Raises `InvalidOption` for options that would have no effect."""
    check_alignment(context, tree)
    try:
        return plan_tail(tree, context)
    except NotLocal:
        check_ends(context, tree)
        return _followed(tree)


def _followed(tree: exp.Expr) -> Followed:
    """A LIMIT around it all is counted here: Spark would keep the query running behind it."""
    try:
        limit = limit_of(tree) if isinstance(tree, exp.Select) and not tree.args.get("offset") else None
    except NotLocal:
        limit = None
    if limit is not None:
        tree = tree.copy()
        tree.set("limit", None)
    return Followed(tree=tree, limit=limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """Any query in streaming mode."""

    tree: exp.Expr
    limit: int | None
    needs_spark = True

    def run(self, context: ExecutionContext) -> ResultSet:
        """Start it, which may be refused; its rows come as the result is read."""
        from sql.spark.streaming.streaming_query import follow

        return follow(context, self.tree, self.limit)
