"""Rows as Flink's clients read them: JSON for the JDBC driver, PLAIN_TEXT for the SQL client (`gateway.md` 1.3).

Pages are small (some thousand rows), so values go through one function per type, chosen once per column.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import orjson
import pyarrow as pa

from model.errors import InvalidOption
from model.schema.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntervalDayTimeType,
    IntervalYearMonthType,
    LocalZonedTimestampType,
    MapType,
    MultisetType,
    RowType,
    TimestampType,
    TimeType,
    VarBinaryType,
    VarCharType,
    VectorType,
)
from server.formats.text_turns import text_turn
from server.formats.texts import plain
from sql.execution.results import ResultColumn

Convert = Callable[[Any], str]
_WIDE = Context(prec=100)


class RowFormat(StrEnum):
    """How values are written."""

    JSON = "JSON"
    PLAIN_TEXT = "PLAIN_TEXT"


def row_objects(batch: pa.RecordBatch, columns: Sequence[ResultColumn], format_: RowFormat, zone: str | None) -> bytes:
    """The rows as the page's `data` members, parted by commas."""
    local = _zone(zone)
    texts = []
    with text_turn(batch):
        for array, column in zip(batch.columns, columns, strict=True):
            convert = json_value(column.type, local) if format_ is RowFormat.JSON else _string_of(plain_value(column.type, local))
            texts.append(_texts(array, column.type, convert))
        rows = zip(*texts, strict=True) if texts else iter([()] * batch.num_rows)
        return ",".join([f'{{"kind":"INSERT","fields":[{",".join(row)}]}}' for row in rows]).encode()


def _texts(array: pa.Array, type_: DataType, convert: Convert) -> list[str]:
    """Values as they stand in a page; one beyond Python's years 1 to 9999, here or in the session's zone, as its UTC text, and no other."""
    try:
        return ["null" if value is None else convert(value) for value in array.to_pylist()]
    except (OverflowError, ValueError):
        if len(array) > 1:
            half = len(array) // 2
            return _texts(array[:half], type_, convert) + _texts(array[half:], type_, convert)
        return [_quoted(text) for text in plain(array, type_).to_pylist()]


def json_value(type_: DataType, zone: ZoneInfo | None) -> Convert:  # noqa: C901 - a case for each type
    """The function that writes a value of a type as JSON."""
    match type_:
        case FloatType() | DoubleType():
            text = plain_value(type_, zone)
            return lambda v: text(v) if math.isfinite(v) else f'"{text(v)}"'
        case DecimalType():
            return _stripped
        case BooleanType():
            return lambda v: "true" if v else "false"
        case BinaryType() | VarBinaryType():
            return lambda v: f'"{b64encode(v).decode()}"'
        case CharType(length=length):
            return lambda v: _quoted(v.ljust(length))
        case TimestampType():
            return lambda v: f'"{_iso(v)}"'
        case LocalZonedTimestampType():
            return lambda v: f'"{_iso(_local(v, zone))}Z"'
        case IntervalDayTimeType():
            return lambda v: str(_millis(v))
        case ArrayType(element=element) | MultisetType(element=element) | VectorType(element=element):
            inner = _nullable(json_value(element, zone), "null")
            return lambda v: f"[{','.join(map(inner, v))}]"
        case MapType():
            return _json_map(type_, zone)
        case RowType(fields=fields):
            parts = [(f.name, _quoted(f.name), _nullable(json_value(f.type, zone), "null")) for f in fields]
            return lambda v: "{" + ",".join(f"{quoted}:{convert(v[name])}" for name, quoted, convert in parts) + "}"
        case VarCharType() | DateType() | TimeType():
            return _string_of(plain_value(type_, zone))
    return str


def plain_value(type_: DataType, zone: ZoneInfo | None) -> Convert:  # noqa: C901 - a case for each type
    """The function that writes a value of a type as Flink's CAST to STRING does."""
    match type_:
        case FloatType():
            return lambda v: java_number(v, single=True)
        case DoubleType():
            return java_number
        case DecimalType():
            return lambda v: format(v, "f")
        case BooleanType():
            return lambda v: "TRUE" if v else "FALSE"
        case BinaryType() | VarBinaryType():
            return lambda v: f"x'{v.hex()}'"
        case CharType(length=length):
            return lambda v: str(v).ljust(length)
        case DateType():
            return date.isoformat
        case TimeType(precision=precision):
            return lambda v: _clock(v, precision)
        case TimestampType(precision=precision):
            return lambda v: _padded(v, precision)
        case LocalZonedTimestampType(precision=precision):
            return lambda v: _padded(_local(v, zone), precision)
        case IntervalDayTimeType():
            return _day_time
        case IntervalYearMonthType():
            return lambda v: f"{'-' if v < 0 else '+'}{abs(v) // 12}-{abs(v) % 12:02d}"
        case ArrayType(element=element) | MultisetType(element=element) | VectorType(element=element):
            inner = _nullable(plain_value(element, zone), "NULL")
            return lambda v: f"[{', '.join(map(inner, v))}]"
        case MapType(key=key, value=value):
            left, right = _nullable(plain_value(key, zone), "NULL"), _nullable(plain_value(value, zone), "NULL")
            return lambda v: "{" + ", ".join(f"{left(k)}={right(x)}" for k, x in v) + "}"
        case RowType(fields=fields):
            parts = [(f.name, _nullable(plain_value(f.type, zone), "NULL")) for f in fields]
            return lambda v: "(" + ", ".join(convert(v[name]) for name, convert in parts) + ")"
    return str


def java_number(value: float, *, single: bool = False) -> str:
    """A FLOAT or DOUBLE as Java prints it: `1.5`, `1.0E300`, `1.0E-4`, `NaN`, `Infinity`."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    shortest = str(np.float32(value)) if single else repr(value)
    digits = Decimal(shortest).as_tuple()
    number = "".join(map(str, digits.digits)).rstrip("0") or "0"
    exponent = Decimal(shortest).adjusted()
    if -3 <= exponent < 7:
        whole = number[: exponent + 1].ljust(exponent + 1, "0") if exponent >= 0 else "0"
        fraction = number[exponent + 1 :] if exponent >= 0 else "0" * (-exponent - 1) + number
        return f"{sign}{whole}.{fraction or '0'}"
    return f"{sign}{number[0]}.{number[1:] or '0'}E{exponent}"


def _stripped(value: Decimal) -> str:
    """A bare number without trailing zeros, so that 100 is `1E+2`, as Jackson writes it."""
    return str(value.normalize(_WIDE)) if value else "0"


def has_string_keys(type_: MapType) -> bool:
    """Whether a map's keys can be the names of a JSON object as they are; others stand there as PLAIN_TEXT spells them."""
    return isinstance(type_.key, CharType | VarCharType)


def _json_map(type_: MapType, zone: ZoneInfo | None) -> Convert:
    name = _quoted if has_string_keys(type_) else _string_of(plain_value(type_.key, zone))
    convert = _nullable(json_value(type_.value, zone), "null")
    return lambda v: "{" + ",".join(f"{name(k)}:{convert(x)}" for k, x in v) + "}"


def _iso(value: datetime) -> str:
    return (
        value.replace(tzinfo=None).isoformat()
        if value.microsecond % 1000
        else value.replace(tzinfo=None).isoformat(timespec="milliseconds" if value.microsecond else "seconds")
    )


def _padded(value: datetime, precision: int) -> str:
    text = value.replace(tzinfo=None).isoformat(" ", timespec="microseconds")
    return text[:-7] if precision == 0 else text[: -7 + 1 + min(precision, 6)] if precision < 6 else text


def _clock(value: time, precision: int) -> str:
    text = value.isoformat(timespec="milliseconds")
    return text[:8] if precision == 0 or not value.microsecond else text[: 9 + min(precision, 3)]


def _local(value: datetime, zone: ZoneInfo | None) -> datetime:
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return aware.astimezone(zone or UTC)


def _day_time(value: timedelta | int) -> str:
    millis = _millis(value)
    sign, rest = ("-" if millis < 0 else "+"), abs(millis)
    seconds, fraction = divmod(rest, 1000)
    return f"{sign}{seconds // 86400} {seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:03d}"


def _millis(value: timedelta | int) -> int:
    return value if isinstance(value, int) else value // timedelta(milliseconds=1)


def _nullable(convert: Convert, null: str) -> Convert:
    return lambda v: null if v is None else convert(v)


def _string_of(convert: Convert) -> Convert:
    return lambda v: _quoted(convert(v))


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()


def _zone(name: str | None) -> ZoneInfo | None:
    if name is None or name.lower() == "default":
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as problem:
        raise InvalidOption(f"There is no time zone {name!r}.") from problem
