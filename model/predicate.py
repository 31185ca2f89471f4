"""Filters pushed from SQL down to files.

A predicate here decides only what may be *skipped*; the query still filters every row it reads. Dropping a
conjunct is therefore always right, inventing one never is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Literal = object
"""A Python value of the column's type: int, float, Decimal, str, bytes, bool, date, time (as ms int), datetime."""


class Op(StrEnum):
    """Comparisons between a column and a literal."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    STARTS_WITH = "STARTS WITH"


@dataclass(frozen=True, slots=True)
class Compare:
    """``column op value``; a NULL column makes it unknown, so such rows do not match."""

    column: str
    op: Op
    value: Literal


@dataclass(frozen=True, slots=True)
class In:
    """``column IN (values)``; values hold no NULL."""

    column: str
    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """``column IS NULL``, or IS NOT NULL when negated."""

    column: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class And:
    """All of them."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of them."""

    parts: tuple[Predicate, ...]


Predicate = Compare | In | IsNull | And | Or


def all_of(*parts: Predicate | None) -> Predicate | None:
    """The conjunction of what is there; None means no restriction."""
    conjuncts: list[Predicate] = []
    for part in parts:
        if isinstance(part, And):
            conjuncts.extend(part.parts)
        elif part is not None:
            conjuncts.append(part)
    if not conjuncts:
        return None
    return conjuncts[0] if len(conjuncts) == 1 else And(tuple(conjuncts))


def columns_of(predicate: Predicate | None) -> frozenset[str]:
    """The names of the columns a predicate looks at."""
    if predicate is None:
        return frozenset()
    if isinstance(predicate, And | Or):
        return frozenset().union(*(columns_of(part) for part in predicate.parts))
    return frozenset({predicate.column})
