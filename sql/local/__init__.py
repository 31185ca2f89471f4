"""Statements answered in this process, without Spark: literal inserts and rows, plain scans, counts from metadata."""

from __future__ import annotations

from sqlglot import exp

from sql.local.constants import plan_constants
from sql.local.delete import plan_delete
from sql.local.explain import LocalExplain
from sql.local.insert import LiteralInsert as LiteralInsert
from sql.local.insert import plan_insert, values_of
from sql.local.literals import NotLocal as NotLocal
from sql.local.scan import plan_select
from sql.local.scope import limit_of as limit_of
from sql.local.stream_checks import all_end_now as all_end_now
from sql.local.stream_checks import check_alignment as check_alignment
from sql.local.stream_checks import check_drain as check_drain
from sql.local.stream_checks import check_ends as check_ends
from sql.local.stream_checks import ends_now as ends_now
from sql.local.stream_checks import holds_back as holds_back
from sql.local.stream_checks import is_bounded as is_bounded
from sql.local.system import plan_system
from sql.local.tail import is_stream as is_stream
from sql.local.tail import plan_tail as plan_tail
from sql.local.update import plan_update
from sql.local.values import ValuesInsert as ValuesInsert
from sql.local.values import read_values as read_values
from sql.parsing import trees
from sql.statements.base import ExecutionContext, Statement


def plan_values(insert: ValuesInsert, context: ExecutionContext) -> Statement | None:
    """An INSERT that was read straight from its text, or None where the full parser must look at it."""
    try:
        return plan_insert(insert, context)
    except NotLocal:
        return None


def plan_locally(tree: exp.Expr, context: ExecutionContext) -> Statement | None:
    """The statement where this package can answer it with Spark's own meaning, or None: then it goes the usual way."""
    try:
        match tree:
            case exp.Insert():
                return plan_insert(values_of(tree), context)
            case trees.Explain(this=exp.Select() as inner) if tree.args.get("json"):
                return LocalExplain(planned=_plan_query(inner, context))
            case exp.Select():
                return _plan_query(tree, context)
            case trees.DeleteRows():
                return plan_delete(tree, context)
            case trees.UpdateRows():
                return plan_update(tree, context)
    except NotLocal:
        return None
    return None


def _plan_query(tree: exp.Select, context: ExecutionContext) -> Statement:
    if tree.args.get("from_") is None:
        return plan_constants(tree)
    return plan_system(tree, context) or plan_select(tree, context)
