"""Statements answered in this process, without Spark: literal inserts, plain scans, counts from metadata."""

from __future__ import annotations

from sqlglot import exp

from sql.local.insert import plan_insert
from sql.local.literals import NotLocal
from sql.statements.base import ExecutionContext, Statement


def plan_locally(tree: exp.Expr, context: ExecutionContext) -> Statement | None:
    """The statement where this room can answer it with Spark's own meaning, or None: then it goes the usual way."""
    try:
        match tree:
            case exp.Insert():
                return plan_insert(tree, context)
    except NotLocal:
        return None
    return None
