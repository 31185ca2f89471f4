"""Where Spark is given text: only here, and only what was generated from a tree that was checked."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st
from sqlglot import exp

from model.errors import SqlError
from sql.analysis.allow_list import checked_expression, checked_sql
from sql.parsing.positions import place


def frame_of(session: SparkSession, tree: exp.Expr, views: Collection[str] = (), *, source: str = "") -> DataFrame:
    """A query over these views as a frame; what is refused is placed in the user's own text, the ``source``."""
    try:
        text = checked_sql(tree, views, partial(_fixed_columns, session, views))
    except SqlError as refused:
        refused.line, refused.column = place(source, refused.fragment)
        raise
    # Spark removes the files of shuffles at the end of a frame's statement, but not of one that `sql` itself returned.
    return session.sql(text).select("*")


def _fixed_columns(session: SparkSession, views: Collection[str]) -> frozenset[str]:
    """Columns of these views that are numbers, times or the like in each that has them, by their names in lower case."""
    kinds = [(field.name.lower(), field.dataType) for view in views for field in session.table(view).schema.fields]
    fixed = {name for name, kind in kinds if isinstance(kind, _FIXED)}
    return frozenset(fixed - {name for name, kind in kinds if not isinstance(kind, _FIXED)})


_FIXED = (st.NumericType, st.BooleanType, st.DatetimeType)


def column_of(tree: exp.Expr) -> Column:
    """An expression over a frame's columns."""
    return F.expr(checked_expression(tree))
