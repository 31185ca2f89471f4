"""Where Spark is given text: only here, and only what was generated from a tree that was checked."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

from model.errors import SqlError
from sql.analysis.allow_list import checked_expression, checked_sql
from sql.parsing.positions import place


def frame_of(session: SparkSession, tree: exp.Expr, views: Collection[str] = (), *, source: str = "") -> DataFrame:
    """A query over these views as a frame; what is refused is placed in the user's own text, the ``source``."""
    try:
        text = checked_sql(tree, views)
    except SqlError as refused:
        refused.line, refused.column = place(source, refused.fragment)
        raise
    # Spark removes the files of shuffles at the end of a frame's statement, but not of one that `sql` itself returned.
    return session.sql(text).select("*")


def column_of(tree: exp.Expr) -> Column:
    """An expression over a frame's columns."""
    return F.expr(checked_expression(tree))
