"""What a text's tree becomes: the statement that is run."""

from __future__ import annotations

from sqlglot import exp

from sql.analysis.references import check_hints
from sql.dialect import parse_one
from sql.local import ValuesInsert, is_stream, plan_locally, plan_values
from sql.statements.base import ExecutionContext, Statement, build
from sql.statements.follow import plan_stream
from sql.statements.jobs import StartJob, is_job


def prepared(insert: ValuesInsert | None, tree: exp.Expr | None, context: ExecutionContext, most: int | None) -> Statement:
    """The statement: answered in this process where that is surely the same, or made from its tree."""
    if insert is not None and (planned := plan_values(insert, context)):
        return planned
    if tree is None:
        tree = parse_one(context.source)
    check_hints(tree, context.settings)
    if is_job(tree, context):
        return StartJob(tree)
    if is_stream(tree, context):
        return plan_stream(tree, context)
    if most is not None:
        tree = _capped(tree, most)
    return plan_locally(tree, context) or build(tree)


def _capped(tree: exp.Expr, most: int) -> exp.Expr:
    """A query that makes no more rows than are read, and one that tells whether there were more."""
    if not isinstance(tree, exp.Select | exp.SetOperation) or tree.args.get("limit") or tree.args.get("offset"):
        return tree
    capped = tree.copy()
    capped.set("limit", exp.Limit(expression=exp.Literal.number(most + 1)))
    return capped
