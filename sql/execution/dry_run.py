"""What a dry run does instead of a statement: looks as far as it can without anything taking effect."""

from __future__ import annotations

from sqlglot import exp

from sql.dialect import is_query
from sql.execution.results import ResultSet
from sql.parsing import trees
from sql.statements.base import LookingStatement, maker


def only_looks(tree: exp.Expr) -> bool:
    """Whether a statement changes nothing, however often it is sent."""
    made_by = maker(tree)
    looking = isinstance(made_by, type) and issubclass(made_by, LookingStatement)
    return looking or is_query(tree) or isinstance(tree, trees.Explain | trees.DescribeTable)


def looked_at(tree: exp.Expr) -> exp.Expr | None:
    """The statement to run in a statement's stead, or None where all there is to see is that it can be read.

    Queries and INSERTs are explained, which resolves their tables, columns and types; procedures, DELETE, UPDATE and MERGE have a dry run
    of their own; what only looks is run as it is.
    """
    if is_query(tree) or isinstance(tree, exp.Insert):
        return trees.Explain(this=tree)
    if isinstance(tree, trees.Call | trees.DeleteRows | trees.UpdateRows | trees.MergeRows):
        return type(tree)(**{**tree.args, "dry_run": True})
    return tree if only_looks(tree) else None


def can_be_read(text: str) -> ResultSet:
    """The answer for a statement of which no more is known."""
    return ResultSet.of_strings(("result",), [(f"The {text.split(maxsplit=1)[0].upper()} statement can be read; nothing was run.",)])
