"""Rows of Python values on their way into a table's columns, stored as the server stores the same values in a statement."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Any

from sluice.values import plain

if TYPE_CHECKING:
    import pyarrow as pa

_WIDE = Context(prec=100, rounding=ROUND_HALF_UP)
"""Python's default context would round what has more than 28 digits."""
_EXACT_INT, _EXACT_DIGITS = 1 << 53, 15
"""What a double always holds exactly; more could be rounded twice on the way to a FLOAT."""
_MICROS = {"s": 1_000_000, "ms": 1000}

Convert = Callable[[Any], Any]


class _ServerMustJudge(Exception):
    """A value of another kind than its column: whether it is taken, and as what, the server decides."""


def column(values: Sequence[Any], type_: pa.DataType, zone: str) -> pa.Array | None:
    """Values as a column of a table; None where one is of another kind, or does not fit, so that the server must judge.

    Arrow alone would take an epoch for a DATE, text for bytes, and every time without a zone for one of UTC. ``zone`` names the
    session's: in it times without a zone become a TIMESTAMP_LTZ, and instants a TIMESTAMP.
    """
    import pyarrow as pa

    try:
        convert = _or_null(_converter(type_, zone))
        return pa.array([convert(value) for value in values], type_)
    except (_ServerMustJudge, pa.ArrowException, TypeError, ValueError, ArithmeticError):
        return None


def _or_null(convert: Convert) -> Convert:
    def converted(value: Any) -> Any:
        value = plain(value)
        return None if value is None else convert(value)

    return converted


def _converter(type_: pa.DataType, zone: str) -> Convert:  # noqa: C901 - a case for each type of Arrow
    import pyarrow as pa

    types = pa.types
    if types.is_boolean(type_):
        return _only(bool)
    if types.is_integer(type_):
        return _integer
    if types.is_float64(type_):
        return _double
    if types.is_float32(type_):
        return _float
    if types.is_decimal(type_):
        return _decimal(type_.scale)
    if types.is_string(type_):
        return _text
    if types.is_binary(type_) or types.is_fixed_size_binary(type_):
        return _bytes
    if types.is_date(type_):
        return _date
    if types.is_time(type_):
        return _time(_MICROS.get(type_.unit, 1))
    if types.is_timestamp(type_):
        return _moment(_MICROS.get(type_.unit, 1), zone, zoned=type_.tz is not None)
    if types.is_list(type_):
        return _list(_or_null(_converter(type_.value_type, zone)))
    if types.is_map(type_):
        return _map(_or_null(_converter(type_.key_type, zone)), _or_null(_converter(type_.item_type, zone)))
    if types.is_struct(type_):
        return _struct({field.name: _or_null(_converter(field.type, zone)) for field in type_})
    raise _ServerMustJudge


def _only(kind: type) -> Convert:
    def converted(value: Any) -> Any:
        if type(value) is not kind:
            raise _ServerMustJudge
        return value

    return converted


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _ServerMustJudge
    return int(value)  # a fraction is cut off, as Spark cuts it


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _ServerMustJudge
    return float(value)


def _float(value: Any) -> float:
    if (isinstance(value, int) and abs(value) >= _EXACT_INT) or (
        isinstance(value, Decimal) and len(value.as_tuple().digits) > _EXACT_DIGITS
    ):
        raise _ServerMustJudge
    return _double(value)


def _decimal(scale: int) -> Convert:
    unit = Decimal(1).scaleb(-scale)

    def converted(value: Any) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise _ServerMustJudge
        return _WIDE.quantize(Decimal(repr(value)) if isinstance(value, float) else Decimal(value), unit)

    return converted


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _ServerMustJudge
    return str(value)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _ServerMustJudge
    return bytes(value)


def _date(value: Any) -> dt.date:
    if isinstance(value, dt.datetime) or not isinstance(value, dt.date):
        raise _ServerMustJudge
    return value


def _time(unit: int) -> Convert:
    def converted(value: Any) -> dt.time:
        if not isinstance(value, dt.time) or value.tzinfo is not None:
            raise _ServerMustJudge
        return value.replace(microsecond=value.microsecond - value.microsecond % unit)

    return converted


def _moment(unit: int, zone: str, *, zoned: bool) -> Convert:
    """Times cut to the column's digits, downwards also before 1970; ``unit`` is its last one in microseconds."""
    session = _zone(zone)

    def converted(value: Any) -> dt.datetime:
        if not isinstance(value, dt.datetime):
            raise _ServerMustJudge
        cut: dt.datetime = value.replace(microsecond=value.microsecond - value.microsecond % unit)
        if (cut.tzinfo is not None) == zoned:
            return cut
        if session is None:
            raise _ServerMustJudge
        # Of two equal hours the first is meant, and one that clocks leave out is counted on, as in Java: both are Python's fold of 0.
        return cut.replace(tzinfo=session, fold=0) if zoned else cut.astimezone(session).replace(tzinfo=None)

    return converted


def _zone(name: str) -> dt.tzinfo | None:
    """A zone by its name, None for one that this machine does not know, or that is spelled as only Java spells it."""
    from zoneinfo import ZoneInfo

    if name.lower() in ("utc", "default"):
        return dt.UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return None


def _list(convert: Convert) -> Convert:
    def converted(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise _ServerMustJudge
        return [convert(part) for part in value]

    return converted


def _map(key: Convert, item: Convert) -> Convert:
    def converted(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, dict | list | tuple):
            raise _ServerMustJudge
        return [(key(k), item(v)) for k, v in (value.items() if isinstance(value, dict) else value)]

    return converted


def _struct(fields: dict[str, Convert]) -> Convert:
    def converted(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or not value.keys() <= fields.keys():
            raise _ServerMustJudge
        return {name: fields[name](part) for name, part in value.items()}

    return converted
