"""What a dry run does instead of a statement: looks as far as it can without anything taking effect."""

from __future__ import annotations

from sqlglot import exp

from sql.dialect import is_query
from sql.execution.results import ResultSet
from sql.parsing import trees

_LOOKS = (
    trees.Explain,
    trees.Show,
    trees.ShowGrants,
    trees.ShowRoles,
    trees.ShowPolicies,
    trees.ShowJobs,
    trees.ShowDropped,
    trees.DescribeTable,
    trees.DescribeDatabase,
    trees.DescribeJob,
)
"""Statements that change nothing, and are run as they are."""


def looked_at(tree: exp.Expr) -> exp.Expr | None:
    """The statement to run in a statement's stead, or None where all there is to see is that it can be read.

    Queries and INSERTs are explained, which resolves their tables, columns and types; procedures, DELETE, UPDATE and MERGE have a dry run
    of their own.
    """
    if is_query(tree) or isinstance(tree, exp.Insert):
        return trees.Explain(this=tree)
    if isinstance(tree, trees.Call | trees.DeleteRows | trees.UpdateRows | trees.MergeRows):
        return type(tree)(**{**tree.args, "dry_run": True})
    return tree if isinstance(tree, _LOOKS) else None


def can_be_read(text: str) -> ResultSet:
    """The answer for a statement of which no more is known."""
    return ResultSet.of_strings(("result",), [(f"The {text.split(maxsplit=1)[0].upper()} statement can be read; nothing was run.",)])
