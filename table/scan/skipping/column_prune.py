"""Which files may match, all at once: what `table.scan.skipping.prune` says of each
(`tests/table/scan/test_column_plan.py` compares them)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from model.predicate import And, Compare, In, IsNull, Op, Or, Predicate
from model.schema.types import DataType, DecimalType, LocalZonedTimestampType
from table.format.manifests.columns import Mask, Numbers
from table.format.rows import binary_row
from table.format.rows.row_columns import RowColumn

_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "TIME"})
_FLOATS = frozenset({"FLOAT", "DOUBLE"})
_TEXTS = frozenset({"CHAR", "VARCHAR"})
_BYTES = frozenset({"BINARY", "VARBINARY"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What is known of one column in each of many files."""

    type: DataType
    low: RowColumn
    high: RowColumn
    nulls: Numbers | None
    """NULL counts, −1 where unknown; None where unknown everywhere."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.low.nbytes + self.high.nbytes + (0 if self.nulls is None else int(self.nulls.nbytes))


class Special(Enum):
    """Columns without bounds."""

    ABSENT = "absent"
    """Not in the files' schema: NULL in every row."""
    UNKNOWN = "unknown"
    """Nothing is known of it."""
    UNREAD = "unread"
    """What is known of it is better read file by file."""


class Pruning:
    """Evaluates a predicate over files whose bounds ``of`` gives."""

    def __init__(self, rows: Numbers, of: Callable[[str], Bounds | Special]) -> None:
        self._rows = rows
        self._of = of
        self.exact = True
        """Whether `table.scan.skipping.prune.may_match` would say the same; else it may say no to more."""

    def may_match(self, predicate: Predicate) -> Mask:
        """For each file whether it may hold a matching row."""
        match predicate:
            case And(parts=parts):
                return _all([self._every(), *(self.may_match(part) for part in parts)])
            case Or(parts=parts):
                return _any([~self._every(), *(self.may_match(part) for part in parts)])
            case In(column=column, values=values):
                return _any([~self._every(), *(self.may_match(Compare(column, Op.EQ, value)) for value in values)])
            case IsNull(column=column, negated=negated):
                return self._is_null(column, negated=negated)
            case Compare(column=column, op=op, value=value):
                return self._compare(column, op, value)

    def _every(self) -> Mask:
        return np.ones(len(self._rows), dtype=bool)

    def _unsure(self) -> Mask:
        self.exact = False
        return self._every()

    def _is_null(self, column: str, *, negated: bool) -> Mask:
        known = self._of(column)
        if isinstance(known, Special):
            return self._special(known, absent=~self._every() if negated else self._rows > 0)
        if known.nulls is None:
            return self._every()
        return (known.nulls < self._rows) if negated else (known.nulls != 0)

    def _compare(self, column: str, op: Op, value: Any) -> Mask:
        known = self._of(column)
        if isinstance(known, Special):
            return self._special(known, absent=~self._every())
        some = self._every() if known.nulls is None else (known.nulls < 0) | (known.nulls < self._rows)
        compared = self._every() if value != value else _compared(known, op, value)
        if compared is None:
            return self._unsure() & some
        mask: Mask = some & (known.low.nulls | known.high.nulls | _unordered(known) | compared)
        return mask

    def _special(self, known: Special, *, absent: Mask) -> Mask:
        match known:
            case Special.ABSENT:
                return absent
            case Special.UNKNOWN:
                return self._every()
            case Special.UNREAD:
                return self._unsure()


def _unordered(known: Bounds) -> Mask | bool:
    """Where a bound is NaN, with which nothing compares: such files may hold numbers, too."""
    if known.type.root not in _FLOATS:
        return False
    unordered: Mask = np.isnan(known.low.values) | np.isnan(known.high.values)
    return unordered


def _all(masks: Sequence[Mask]) -> Mask:
    mask: Mask = np.logical_and.reduce(masks)
    return mask


def _any(masks: Sequence[Mask]) -> Mask:
    mask: Mask = np.logical_or.reduce(masks)
    return mask


def _compared(known: Bounds, op: Op, value: Any) -> Mask | None:
    """The bounds against a literal; None for pairs of types that are better compared one by one."""
    root = known.type.root
    if root in _TEXTS or root in _BYTES:
        return _compared_bytes(known, op, value)
    low, high = known.low.values, known.high.values
    number = _number(known.type, value)
    if number is None or op is Op.STARTS_WITH:
        return None
    if isinstance(number, float) and low.dtype.kind == "i":
        low, high = low.astype(np.float64), high.astype(np.float64)
    # Python's rule compares as doubles where either side is one, and leaves a place for NaN above the upper bound.
    above = root in _FLOATS or isinstance(number, float)
    match op:
        case Op.EQ:
            return (low <= number) & (number <= high)
        case Op.LT:
            return low < number
        case Op.LE:
            return low <= number
        case Op.GT:
            return np.full(len(high), fill_value=True) if above else high > number
        case Op.GE:
            return np.full(len(high), fill_value=True) if above else high >= number
        case Op.NE:
            return np.full(len(low), fill_value=True) if above else ~((low == high) & (low == number))
    return None


def _number(type_: DataType, value: Any) -> int | float | None:
    """A literal on the scale of the column's numbers; None where it has no place there."""
    root = type_.root
    if root == "BOOLEAN":
        return int(value) if isinstance(value, bool) else None
    if isinstance(value, bool):
        return None
    if root in _INTEGERS:
        return value if isinstance(value, float) else _whole(value, 0)
    if root in _FLOATS:
        return _as_float(value) if isinstance(value, int | float | Decimal) else None
    if root == "DATE":
        return value.toordinal() - binary_row.EPOCH_DAY if type(value) is dt.date else None
    if root == "TIMESTAMP":
        return _moment(type_, value)
    return _whole(value, type_.scale) if isinstance(type_, DecimalType) else None


def _moment(type_: DataType, value: Any) -> int | None:
    if not isinstance(value, dt.datetime) or (value.tzinfo is not None) != isinstance(type_, LocalZonedTimestampType):
        return None
    return binary_row.epoch_micros(value)


def _whole(value: Any, scale: int) -> int | None:
    """An exact number in units of the scale, where that is a whole one of 64 bits."""
    if not isinstance(value, int | Decimal):
        return None
    scaled = binary_row.WIDE.scaleb(Decimal(value), scale)
    if not scaled.is_finite() or scaled != int(scaled):
        return None
    return int(scaled) if -(1 << 63) <= scaled < 1 << 63 else None


def _as_float(value: Any) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _compared_bytes(known: Bounds, op: Op, value: Any) -> Mask | None:
    """Texts in UTF-8 are in the order of their code points."""
    if not isinstance(value, str if known.type.root in _TEXTS else bytes):
        return None
    try:
        data = value.encode() if isinstance(value, str) else value
    except UnicodeEncodeError:
        return None
    literal = pa.scalar(data, pa.large_binary())
    low, high = known.low.values, known.high.values
    if op is Op.STARTS_WITH:
        low, high = pc.binary_slice(low, 0, len(data)), pc.binary_slice(high, 0, len(data))
    match op:
        case Op.EQ | Op.STARTS_WITH:
            return _mask(pc.less_equal(low, literal)) & _mask(pc.greater_equal(high, literal))
        case Op.LT:
            return _mask(pc.less(low, literal))
        case Op.LE:
            return _mask(pc.less_equal(low, literal))
        case Op.GT:
            return _mask(pc.greater(high, literal))
        case Op.GE:
            return _mask(pc.greater_equal(high, literal))
        case Op.NE:
            return np.ones(len(low), dtype=bool)


def _mask(array: pa.Array) -> Mask:
    mask: Mask = array.to_numpy(zero_copy_only=False)
    return mask
