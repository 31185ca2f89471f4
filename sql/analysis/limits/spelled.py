"""What the arguments of a call spell out."""

from __future__ import annotations

import contextlib
import datetime as dt

from sqlglot import exp

from model.errors import UnsupportedStatement
from sql.analysis.limits.guards import runs_once

SECONDS = {"WEEK": 604800, "DAY": 86400, "HOUR": 3600, "MINUTE": 60, "SECOND": 1, "MILLISECOND": 1e-3, "MICROSECOND": 1e-6}
"""In a unit of an interval."""
_MOMENTS = frozenset({"date", "timestamp", "to_date", "to_timestamp", "to_timestamp_ltz", "to_timestamp_ntz"})
_DEEPEST = 100
"""Operators inside each other whose number is computed."""


def literal_number(node: exp.Expr) -> float | None:
    """The number a node spells, or None where it depends on something."""
    if isinstance(node, exp.Paren):
        return literal_number(node.this)
    if isinstance(node, exp.Neg):
        inner = literal_number(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Literal):
        try:
            return float(node.name)
        except ValueError:
            return None
    return None


def literal_size(node: exp.Expr) -> int | None:
    """The bytes of what a node spells, or None where it depends on something."""
    if isinstance(node, exp.Null | exp.Boolean):
        return 8
    if isinstance(node, exp.Neg):
        return literal_size(node.this)
    return len(node.name.encode()) if isinstance(node, exp.Literal) else None


def arguments_of(node: exp.Anonymous, at_least: int) -> list[exp.Expr] | None:
    """The arguments by their places; None where there are too few, which Spark tells."""
    if any(isinstance(argument, exp.Kwarg) for argument in node.expressions):
        raise UnsupportedStatement(f"{node.name} takes its arguments by their places, not by names.", fragment=node.name)
    return node.expressions if len(node.expressions) >= at_least else None


def in_lambda(node: exp.Expr) -> bool:
    """Whether it is evaluated for each element of an array, which may have many."""
    lambda_ = node.find_ancestor(exp.Lambda)
    while lambda_ is not None and runs_once(lambda_):
        lambda_ = lambda_.find_ancestor(exp.Lambda)
    return lambda_ is not None


def number_of(node: exp.Expr, deepest: int = _DEEPEST) -> float | None:
    """The number that literals come to, or the days of a date or time that is spelled out; None for another value."""
    if deepest == 0:
        return None
    if isinstance(node, exp.Add | exp.Sub | exp.Mul):
        left, right = number_of(node.this, deepest - 1), number_of(node.expression, deepest - 1)
        if left is None or right is None:
            return None
        return left * right if isinstance(node, exp.Mul) else left + right if isinstance(node, exp.Add) else left - right
    if isinstance(node, exp.Paren):
        return number_of(node.this, deepest - 1)
    text = _moment_in(node)
    if text is not None:
        with contextlib.suppress(ValueError):
            moment = dt.datetime.fromisoformat(text).replace(tzinfo=None)
            return (moment - dt.datetime.min) / dt.timedelta(days=1)
        return None
    if isinstance(node, exp.Cast) and node.to.this in exp.DataType.NUMERIC_TYPES:
        return number_of(node.this, deepest - 1)
    return literal_number(node)


def _moment_in(node: exp.Expr) -> str | None:
    """The text of a date or time that is spelled out."""
    if isinstance(node, exp.Cast) and node.to.this in exp.DataType.TEMPORAL_TYPES:
        literal: exp.Expr | None = node.this
    else:
        is_moment = isinstance(node, exp.Anonymous) and node.name.lower() in _MOMENTS and len(node.expressions) == 1
        literal = node.expressions[0] if is_moment else None
    return literal.name if isinstance(literal, exp.Literal) and literal.is_string else None
