"""Literals into columns, by Spark's ANSI store assignment: what would lose anything is an error that says where."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from itertools import islice
from typing import Any, NoReturn

import numpy as np

from model.errors import AnalysisError, ExecutionError
from model.schema.types import (
    INTEGER_BITS,
    ArrayType,
    DataType,
    DecimalType,
    Field,
    LocalZonedTimestampType,
    MapType,
    RowType,
    TimestampType,
    TimeType,
)
from sql.local.literals import Kind, LiteralValue, NotLocal

_NUMBERS = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE})
_WIDE = Context(prec=100, rounding=ROUND_HALF_UP)
"""Python's default context would round what has more than 28 digits."""
_EXACT_DIGITS = 15
"""Decimal digits that every DECIMAL and DOUBLE keeps, whatever other literals a column's have their type in common with."""
_BITS, _SMALLEST = 24, 149
"""Bits of a FLOAT's mantissa, and the power of 1/2 that is the smallest FLOAT."""


@dataclass(frozen=True, slots=True)
class _Cells:
    """The literals of one column that are not NULL."""

    name: str
    present: Sequence[LiteralValue]
    kinds: frozenset[Kind]

    def check(self, type_: DataType, allowed: frozenset[Kind]) -> None:
        """Refuse what no store assignment takes, where all literals are of that one kind; mixtures are Spark's to judge."""
        wrong = self.kinds - allowed
        if len(self.kinds) == 1 and wrong and wrong <= _FIRM:
            first = self.present[0]
            _fail(
                AnalysisError,
                first,
                f"Column {self.name} is {type_.sql()}, and {first.origin.shown()} is {first.kind}; write a value of its type or a CAST",
            )
        if wrong:
            raise NotLocal


class Assignment:
    """Turns a column's literals into values of its type."""

    def __init__(self, *, utc: bool) -> None:
        self._utc = utc
        """Whether the session's zone is UTC, so that a timestamp's clock face is its instant."""

    def column(self, field: Field, literals: Sequence[LiteralValue]) -> list[Any]:
        """The values; raises where one does not fit, and `NotLocal` where Spark must decide."""
        if not field.type.nullable:
            for literal in literals:
                if literal.kind is Kind.NULL:
                    _fail(ExecutionError, literal, f"Column {field.name} is NOT NULL, and row {_row(literals, literal)} gives it NULL")
        return self._values(field.name, field.type, literals)

    def _values(self, name: str, type_: DataType, literals: Sequence[LiteralValue]) -> list[Any]:
        present = [literal for literal in literals if literal.kind is not Kind.NULL]
        kinds = frozenset(literal.kind for literal in present)
        match type_:
            case ArrayType(element=element):
                values = iter(self._arrays(name, element, _all(present, kinds, Kind.ARRAY)))
            case MapType(key=key, value=value):
                values = iter(self._maps(name, key, value, _all(present, kinds, Kind.MAP)))
            case RowType(fields=fields):
                values = iter(self._rows(name, fields, _all(present, kinds, Kind.ROW)))
            case _:
                convert = self._converter(type_, _Cells(name, present, kinds))
                values = iter([convert(literal) for literal in present])
        return [None if literal.kind is Kind.NULL else next(values) for literal in literals]

    def _arrays(self, name: str, element: DataType, arrays: Sequence[LiteralValue]) -> list[Any]:
        flat = iter(self._values(f"{name}.element", element, [part for array in arrays for part in array.value]))
        return [list(islice(flat, len(array.value))) for array in arrays]

    def _maps(self, name: str, key: DataType, value: DataType, maps: Sequence[LiteralValue]) -> list[Any]:
        keys = self._arrays(name, key, [LiteralValue(Kind.ARRAY, each.value[0], each.origin) for each in maps])
        values = self._arrays(name, value, [LiteralValue(Kind.ARRAY, each.value[1], each.origin) for each in maps])
        if any(None in ks or len(ks) != len(vs) for ks, vs in zip(keys, values, strict=True)):
            raise NotLocal  # what is wrong with such a map is Spark's to say; one with a key twice is refused as in a body
        return [list(zip(ks, vs, strict=True)) for ks, vs in zip(keys, values, strict=True)]

    def _rows(self, name: str, fields: Sequence[Field], rows: Sequence[LiteralValue]) -> list[Any]:
        if any(len(row.value) != len(fields) for row in rows):
            raise NotLocal
        columns = [
            self._values(f"{name}.{field.name}", field.type, [row.value[position] for row in rows]) for position, field in enumerate(fields)
        ]
        return [{field.name: column[at] for field, column in zip(fields, columns, strict=True)} for at in range(len(rows))]

    def _converter(self, type_: DataType, cells: _Cells) -> Callable[[LiteralValue], Any]:
        """How one column's literals become its type; they all pass through the type they have in common, as in Spark."""
        if bits := INTEGER_BITS.get(type_.root):
            return self._integers(type_, cells, bits)
        if type_.root in ("FLOAT", "DOUBLE"):
            return self._floats(type_, cells)
        if isinstance(type_, DecimalType):
            return self._decimals(type_, cells)
        if type_.root in ("CHAR", "VARCHAR"):
            if cells.kinds <= {Kind.STRING}:
                return _value
            if cells.kinds <= {Kind.INTEGER}:
                return lambda literal: str(literal.value)
            raise NotLocal
        if isinstance(type_, TimestampType | LocalZonedTimestampType):
            return self._timestamps(type_, cells)
        if isinstance(type_, TimeType):
            return self._times(type_, cells)
        return self._same(type_, cells)

    def _integers(self, type_: DataType, cells: _Cells, bits: int) -> Callable[[LiteralValue], Any]:
        cells.check(type_, _NUMBERS)
        if cells.kinds - {Kind.INTEGER}:
            raise NotLocal  # how a fraction is cut is Spark's to decide
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1

        def convert(literal: LiteralValue) -> int:
            value: int = literal.value
            if not low <= value <= high:
                _fail(ExecutionError, literal, f"{value} is out of range for column {cells.name} of type {type_.sql()} ({low} to {high})")
            return value

        return convert

    def _floats(self, type_: DataType, cells: _Cells) -> Callable[[LiteralValue], Any]:
        cells.check(type_, _NUMBERS)
        if type_.root == "DOUBLE":
            return lambda literal: float(literal.value)

        def convert(literal: LiteralValue) -> float:
            value = literal.value
            inexact = (
                len(value.as_tuple().digits) > _EXACT_DIGITS
                if isinstance(value, Decimal)
                else isinstance(value, int) and abs(value) >= 1 << 53
            )
            if inexact or (not isinstance(value, float) and _is_rounded_twice(value)):
                raise NotLocal
            with np.errstate(over="ignore"):  # beyond FLOAT is infinity, as in Java
                return float(np.float32(float(value)))

        return convert

    def _decimals(self, type_: DecimalType, cells: _Cells) -> Callable[[LiteralValue], Any]:
        cells.check(type_, _NUMBERS)
        if Kind.DOUBLE in cells.kinds:
            raise NotLocal
        unit = Decimal(1).scaleb(-type_.scale)
        limit = Decimal(10) ** (type_.precision - type_.scale)

        def convert(literal: LiteralValue) -> Decimal:
            value = _WIDE.quantize(Decimal(literal.value), unit)
            if value.copy_abs() >= limit:
                _fail(ExecutionError, literal, f"{literal.value} is out of range for column {cells.name} of type {type_.sql()}")
            return value

        return convert

    def _timestamps(self, type_: TimestampType | LocalZonedTimestampType, cells: _Cells) -> Callable[[LiteralValue], Any]:
        zoned = isinstance(type_, LocalZonedTimestampType)
        own = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ} if zoned and self._utc else {Kind.TIMESTAMP})
        if not cells.kinds <= own or (zoned and not self._utc):
            cells.check(type_, frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ, Kind.DATE}))
            raise NotLocal

        def convert(literal: LiteralValue) -> dt.datetime:
            value: dt.datetime = literal.value
            _keep_digits(value, type_.precision)
            return value.replace(tzinfo=dt.UTC) if zoned else value

        return convert

    def _times(self, type_: TimeType, cells: _Cells) -> Callable[[LiteralValue], Any]:
        cells.check(type_, frozenset({Kind.TIME}))

        def convert(literal: LiteralValue) -> dt.time:
            value: dt.time = literal.value
            _keep_digits(value, type_.digits)
            return value

        return convert

    def _same(self, type_: DataType, cells: _Cells) -> Callable[[LiteralValue], Any]:
        own = _OWN_KIND.get(type_.root)
        if own is None:
            raise NotLocal
        cells.check(type_, frozenset({own}) | ({Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ} if own is Kind.DATE else frozenset()))
        if cells.kinds - {own}:
            raise NotLocal
        return _value


_OWN_KIND = {
    "BOOLEAN": Kind.BOOLEAN,
    "DATE": Kind.DATE,
    "BINARY": Kind.BINARY,
    "VARBINARY": Kind.BINARY,
}


def _value(literal: LiteralValue) -> Any:
    return literal.value


def _is_rounded_twice(value: int | Decimal) -> bool:
    """Whether a number of many digits might become another FLOAT by way of a DOUBLE: one that lies in the middle between two FLOATs."""
    double = float(value)
    if Decimal(double) == value:
        return False
    mantissa, exponent = math.frexp(double)
    halves = math.ldexp(mantissa, min(_BITS, exponent + _SMALLEST) + 1)
    return halves % 2 == 1


def _keep_digits(value: dt.datetime | dt.time, precision: int) -> None:
    """How digits are cut is Spark's to decide."""
    if value.microsecond % 10 ** max(0, 6 - precision):
        raise NotLocal


def _all(literals: Sequence[LiteralValue], kinds: frozenset[Kind], wanted: Kind) -> Sequence[LiteralValue]:
    if kinds - {wanted}:
        raise NotLocal
    return literals


_FIRM = frozenset({Kind.STRING, Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE})
"""Kinds of which it is certain what they may be stored as."""


def _fail(error: type[AnalysisError | ExecutionError], literal: LiteralValue, message: str) -> NoReturn:
    line, column = literal.origin.place()
    raise error(f"{message}.", line=line, column=column, fragment=literal.origin.shown())


def _row(literals: Sequence[LiteralValue], wanted: LiteralValue) -> int:
    return next(at for at, literal in enumerate(literals, 1) if literal is wanted)
