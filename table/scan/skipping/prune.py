"""Whether a file may hold a row that matches: "no" must be certain, "yes" need not be."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from model.predicate import And, Compare, In, IsNull, Op, Or, Predicate
from table.format.rows.stats import ColumnStats


def may_match(predicate: Predicate | None, stats: Mapping[str, ColumnStats], rows: int) -> bool:
    """Whether some of ``rows`` rows with these statistics may satisfy the predicate; unknown columns may hold anything."""
    match predicate:
        case None:
            return True
        case And(parts=parts):
            return all(may_match(part, stats, rows) for part in parts)
        case Or(parts=parts):
            return any(may_match(part, stats, rows) for part in parts)
        case IsNull(column=column, negated=negated):
            known = stats.get(column)
            if known is None or known.null_count is None:
                return True
            return known.null_count < rows if negated else known.null_count > 0
        case In(column=column, values=values):
            return any(may_match(Compare(column, Op.EQ, value), stats, rows) for value in values)
        case Compare(column=column, op=op, value=value):
            return _compare(stats.get(column), op, value, rows)


def _compare(known: ColumnStats | None, op: Op, value: Any, rows: int) -> bool:  # noqa: C901 - a case for each operator
    if known is None:
        return True
    if known.null_count is not None and known.null_count >= rows:
        return False
    low: Any = known.min
    high: Any = known.max
    if low is None or high is None or not _comparable(low, value):
        return True
    if low != low or high != high or value != value:  # Java and pypaimon bound by NaN what holds numbers, too
        return True
    if isinstance(low, float) or isinstance(value, float):
        # Where one side is a DOUBLE both are compared as such: 0.1 stored is then the 0.1 asked for.
        try:
            low, high, value = float(low), float(high), float(value)
        except OverflowError:
            return True
    match op:
        case Op.EQ:
            return bool(low <= value <= high)
        case Op.LT:
            return bool(low < value)
        case Op.LE:
            return bool(low <= value)
        case Op.GT:
            return bool(high > value) or _nan_above(high)
        case Op.GE:
            return bool(high >= value) or _nan_above(high)
        case Op.NE:
            # Bounds may be shortened; only a number's are exact.
            return not (low == high == value and not isinstance(low, str | bytes | float))
        case Op.STARTS_WITH:
            return bool(low[: len(value)] <= value <= high[: len(value)])
    return True


def _nan_above(high: object) -> bool:
    """Spark orders NaN above everything and footers leave it out, so a float column may always hold one."""
    return isinstance(high, float)


def _comparable(bound: object, value: object) -> bool:
    if isinstance(bound, dt.datetime) or isinstance(value, dt.datetime):
        return isinstance(bound, dt.datetime) and isinstance(value, dt.datetime) and (bound.tzinfo is None) == (value.tzinfo is None)
    numbers = (int, float, Decimal)
    if isinstance(bound, bool) or isinstance(value, bool):
        return type(bound) is type(value)
    if isinstance(bound, numbers) and isinstance(value, numbers):
        return True
    return type(bound) is type(value)
