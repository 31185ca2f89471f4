"""What the arguments of a call spell out."""

from __future__ import annotations

from sqlglot import exp

from model.errors import UnsupportedStatement
from sql.analysis.limits.guards import runs_once

SECONDS = {"WEEK": 604800, "DAY": 86400, "HOUR": 3600, "MINUTE": 60, "SECOND": 1, "MILLISECOND": 1e-3, "MICROSECOND": 1e-6}
"""In a unit of an interval."""


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
