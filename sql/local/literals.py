"""Literals of a statement as values, with Spark's meaning; what is not surely the same here is left to Spark."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from sqlglot import exp

from sql.analysis.rewrites.cut_casts import cut_text, text_length
from sql.parameters.placeholders import PARAMETER


class NotLocal(Exception):
    """No error: something this package does not answer itself, so that the statement goes to Spark."""


class Kind(StrEnum):
    """What a literal is, before it meets a column; the values name it in messages."""

    NULL = "NULL"
    INTEGER = "an integer"
    DECIMAL = "a decimal number"
    DOUBLE = "a floating-point number"
    STRING = "a string"
    BOOLEAN = "a boolean"
    BINARY = "a binary value"
    DATE = "a date"
    TIME = "a time"
    TIMESTAMP = "a timestamp"
    TIMESTAMP_LTZ = "a timestamp with local time zone"
    """Its value is the clock face in the session's zone."""
    ARRAY = "an array"
    MAP = "a map"
    ROW = "a row"


class Origin(Protocol):
    """Where in the statement something stands; asked only for messages."""

    def place(self) -> tuple[int | None, int | None]:
        """Line and column, from 1."""
        ...

    def shown(self) -> str:
        """Its text."""
        ...


@dataclass(frozen=True, slots=True)
class NodeOrigin:
    """The place of a tree's node."""

    node: exp.Expr

    def place(self) -> tuple[int | None, int | None]:
        for part in self.node.walk():
            meta = part.meta
            if "line" in meta:
                return meta["line"], meta["col"] - (meta["end"] - meta["start"])
        return None, None

    def shown(self) -> str:
        return _short(self.node.sql(dialect="spark"))


@dataclass(frozen=True, slots=True)
class SpanOrigin:
    """A place in the text itself."""

    text: str
    start: int
    end: int

    def place(self) -> tuple[int | None, int | None]:
        return self.text.count("\n", 0, self.start) + 1, self.start - self.text.rfind("\n", 0, self.start)

    def shown(self) -> str:
        return _short(self.text[self.start : self.end])


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


@dataclass(frozen=True, slots=True)
class LiteralValue:
    """A literal's kind and value, and where it stands."""

    kind: Kind
    value: Any
    origin: Origin


T = TypeVar("T")
# Spark knows the digits of ASCII alone.
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_TIME = re.compile(r"(\d{1,2}):(\d{2}):(\d{2})(?:\.(\d{1,6}))?", re.ASCII)
_DIGITS = re.compile(r"\d+", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?", re.ASCII)
_MAX_DIGITS = 38
"""The longest number Spark reads."""
_LONGEST_TEXT = 10_000
"""Characters of a CHAR(n) that is filled up here; what longer ones may take is Spark's to bound."""
_INTEGER_TYPES = {
    exp.DataType.Type.TINYINT: 8,
    exp.DataType.Type.SMALLINT: 16,
    exp.DataType.Type.INT: 32,
    exp.DataType.Type.BIGINT: 64,
}


def evaluate(node: exp.Expression) -> LiteralValue:
    """The value of a literal expression; raises `NotLocal` for everything else."""
    evaluator = _EVALUATORS.get(type(node))
    if evaluator is None:
        raise NotLocal
    kind, value = evaluator(node)
    return LiteralValue(kind, value, NodeOrigin(node))


def _literal(node: exp.Expression) -> tuple[Kind, Any]:
    return (Kind.STRING, node.name) if node.args.get("is_string") else number_of(node.name)


def number_of(text: str) -> tuple[Kind, Any]:
    """Kind and value of an unsigned number, or `NotLocal`."""
    if len(text) > _MAX_DIGITS:
        raise NotLocal
    if _DIGITS.fullmatch(text):
        return Kind.INTEGER, int(text)
    if _DECIMAL.fullmatch(text):
        return Kind.DECIMAL, Decimal(text)
    if _NUMBER.fullmatch(text) and math.isfinite(value := float(text)):  # Spark refuses what no DOUBLE holds
        return Kind.DOUBLE, value
    raise NotLocal


def _negative(node: exp.Expression) -> tuple[Kind, Any]:
    inner = evaluate(node.this)
    if inner.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE):
        return inner.kind, negated(inner.value)
    raise NotLocal


def negated(value: int | float | Decimal) -> int | float | Decimal:
    """Minus the number; Python's own minus would round a long DECIMAL."""
    return _unsigned_zero(value.copy_negate()) if isinstance(value, Decimal) else -value


def _unsigned_zero(value: Decimal) -> Decimal:
    """The number, where zero has no sign, as in Java: as a DOUBLE it would become -0.0."""
    return value or value.copy_abs()


def _cast(node: exp.Expression) -> tuple[Kind, Any]:
    """``CAST(literal AS type)``, which is also what ``DATE '…'`` and its like parse to."""
    inner = evaluate(node.this)
    to = node.args["to"]
    if inner.kind is Kind.NULL and node.meta.get(PARAMETER):
        return Kind.NULL, None
    if not isinstance(to, exp.DataType) or node.args.get("format") or inner.kind is Kind.NULL:
        raise NotLocal
    if isinstance(node, exp.TryCast) and node.args.get("safe"):
        raise NotLocal
    if bits := _INTEGER_TYPES.get(to.this):
        return Kind.INTEGER, _to_integer(inner, bits)
    convert = _CASTS.get(to.this)
    if convert is None or (to.expressions and to.this not in _WITH_NUMBERS):
        raise NotLocal
    return convert(inner, to)


def _to_integer(inner: LiteralValue, bits: int) -> int:
    if inner.kind is Kind.STRING and len(inner.value) <= _MAX_DIGITS and _INTEGER.fullmatch(inner.value.strip(" ")):
        value = int(inner.value)
    elif inner.kind is Kind.INTEGER:
        value = inner.value
    else:
        raise NotLocal
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise NotLocal  # Spark words the overflow
    return int(value)


def _to_decimal(inner: LiteralValue, to: exp.DataType) -> tuple[Kind, Any]:
    precision, scale = (10, 0) if not to.expressions else _parameters(to)
    text = inner.value.strip(" ") if inner.kind is Kind.STRING else None
    if text is not None and not _DECIMAL.fullmatch(text):
        raise NotLocal
    if inner.kind not in (Kind.STRING, Kind.INTEGER, Kind.DECIMAL):
        raise NotLocal
    value = Decimal(text if text is not None else inner.value)
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or -exponent > scale or len(digits) + exponent > precision - scale:
        raise NotLocal  # rounding and overflow are Spark's to decide
    return Kind.DECIMAL, _unsigned_zero(value)


def _parameters(to: exp.DataType) -> tuple[int, int]:
    numbers = [int(part.name) for part in to.expressions]
    return numbers[0], numbers[1] if len(numbers) > 1 else 0


def _to_double(inner: LiteralValue, _: exp.DataType) -> tuple[Kind, Any]:
    if inner.kind is Kind.STRING and _NUMBER.fullmatch(inner.value.strip(" ")):
        return Kind.DOUBLE, float(inner.value)
    if inner.kind in (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE):
        return Kind.DOUBLE, float(inner.value)
    raise NotLocal


def _to_string(inner: LiteralValue, to: exp.DataType) -> tuple[Kind, Any]:
    if inner.kind not in (Kind.STRING, Kind.INTEGER) or (text_length(to) or 0) > _LONGEST_TEXT:
        raise NotLocal
    return Kind.STRING, cut_text(str(inner.value), to)


def _to_date(inner: LiteralValue, _: exp.DataType) -> tuple[Kind, Any]:
    return Kind.DATE, date_of(_text(inner))


def _to_time(inner: LiteralValue, to: exp.DataType) -> tuple[Kind, Any]:
    value = time_of(_text(inner))
    _keep_digits(value.microsecond, to)
    return Kind.TIME, value


def _to_timestamp(inner: LiteralValue, to: exp.DataType) -> tuple[Kind, Any]:
    value = timestamp_of(_text(inner))
    _keep_digits(value.microsecond, to)
    return Kind.TIMESTAMP, value


def _to_instant(inner: LiteralValue, to: exp.DataType) -> tuple[Kind, Any]:
    """Also with a Z, as instants sent as parameters have it: only sessions in UTC, where it changes nothing, take the kind as it is."""
    plain = LiteralValue(inner.kind, inner.value.removesuffix("Z"), inner.origin) if isinstance(inner.value, str) else inner
    return Kind.TIMESTAMP_LTZ, _to_timestamp(plain, to)[1]


def _text(inner: LiteralValue) -> str:
    if inner.kind is not Kind.STRING:
        raise NotLocal
    text: str = inner.value
    return text


def _keep_digits(microsecond: int, to: exp.DataType) -> None:
    """A precision that would cut digits off is Spark's to apply."""
    if to.expressions and microsecond % 10 ** max(0, 6 - _parameters(to)[0]):
        raise NotLocal


def date_of(text: str) -> dt.date:
    """The date a text spells; `NotLocal` where it is none, so that Spark words the error."""
    match = _DATE.fullmatch(text)
    if match is None:
        raise NotLocal
    return _calendar(lambda: dt.date(*map(int, match.groups())))


def time_of(text: str) -> dt.time:
    """The time of day a text spells, or `NotLocal`."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise NotLocal
    hour, minute, second, fraction = match.groups()
    return _calendar(lambda: dt.time(int(hour), int(minute), int(second), int((fraction or "").ljust(6, "0"))))


def timestamp_of(text: str) -> dt.datetime:
    """The timestamp a text spells, without zone, or `NotLocal`."""
    day, _, clock = text.replace("T", " ").partition(" ")
    return dt.datetime.combine(date_of(day), time_of(clock) if clock else dt.time())


def _calendar(make: Callable[[], T]) -> T:
    try:
        return make()
    except ValueError:  # no such day: Spark words it
        raise NotLocal from None


def _to_boolean(inner: LiteralValue, _: exp.DataType) -> tuple[Kind, Any]:
    if inner.kind is not Kind.BOOLEAN:
        raise NotLocal
    return Kind.BOOLEAN, inner.value


def _hex(node: exp.Expression) -> tuple[Kind, Any]:
    text = node.name
    if len(text) % 2:
        raise NotLocal
    return Kind.BINARY, bytes.fromhex(text)


def _elements(node: exp.Expression) -> list[LiteralValue]:
    return [evaluate(part) for part in node.expressions]


def _map(node: exp.Expression) -> tuple[Kind, Any]:
    keys, values = node.args.get("keys"), node.args.get("values")
    if not isinstance(keys, exp.Array) or not isinstance(values, exp.Array):
        raise NotLocal
    return Kind.MAP, (_elements(keys), _elements(values))


def _bracket(node: exp.Expression) -> tuple[Kind, Any]:
    """``MAP[key, value, …]``, which the parser takes for an element of a column called MAP."""
    if not isinstance(node.this, exp.Column) or node.this.table or node.this.name.upper() != "MAP" or node.this.this.args.get("quoted"):
        raise NotLocal
    parts = _elements(node)
    return Kind.MAP, (parts[0::2], parts[1::2])


def _called(node: exp.Expression) -> tuple[Kind, Any]:
    if node.name.upper() == "ROW":
        return Kind.ROW, _elements(node)
    raise NotLocal


_Type = exp.DataType.Type
_WITH_NUMBERS = frozenset(
    {_Type.CHAR, _Type.VARCHAR, _Type.DECIMAL, _Type.TIME, _Type.TIMESTAMP, _Type.TIMESTAMPNTZ, _Type.TIMESTAMPTZ, _Type.TIMESTAMPLTZ}
)
_CASTS: dict[Any, Callable[[LiteralValue, exp.DataType], tuple[Kind, Any]]] = {
    _Type.DECIMAL: _to_decimal,
    _Type.DOUBLE: _to_double,
    **dict.fromkeys((_Type.TEXT, _Type.CHAR, _Type.VARCHAR), _to_string),
    _Type.DATE: _to_date,
    _Type.TIME: _to_time,
    _Type.TIMESTAMP: _to_timestamp,
    _Type.TIMESTAMPNTZ: _to_timestamp,
    _Type.TIMESTAMPTZ: _to_timestamp,  # what sqlglot's Spark makes of TIMESTAMP, which here is without zone
    _Type.TIMESTAMPLTZ: _to_instant,
    _Type.BOOLEAN: _to_boolean,
}
_EVALUATORS: dict[type[exp.Expression], Callable[[Any], tuple[Kind, Any]]] = {
    exp.Literal: _literal,
    exp.Neg: _negative,
    exp.Null: lambda _: (Kind.NULL, None),
    exp.Boolean: lambda node: (Kind.BOOLEAN, bool(node.this)),
    exp.Paren: lambda node: (lambda inner: (inner.kind, inner.value))(evaluate(node.this)),
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.HexString: _hex,
    exp.Array: lambda node: (Kind.ARRAY, _elements(node)),
    exp.Map: _map,
    exp.VarMap: _map,
    exp.Bracket: _bracket,
    exp.Anonymous: _called,
    exp.Struct: lambda node: (Kind.ROW, _elements(node)),
    exp.Tuple: lambda node: (Kind.ROW, _elements(node)),
}
