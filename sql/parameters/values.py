"""Values of parameters: from JSON by their type, and as literals of a tree."""

from __future__ import annotations

import base64
import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from sqlglot import exp

from model.errors import UnsupportedType
from model.schema.decimals import held
from model.schema.types import (
    INTEGER_BITS,
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    DecimalType,
    LocalZonedTimestampType,
    MapType,
    NullType,
    RowType,
    TimestampType,
    TimeType,
    VarBinaryType,
    VarCharType,
)
from model.text.sql_text import quote
from model.text.whole_number import signed_number
from sql.dialect import parse_one
from sql.parameters.texts import Misfit, text
from workers.ndjson import without_marks

MOST_DIGITS = 38
_TOO_FINE = re.compile(r"\.\d{7}")
"""Digits that would be lost: seconds have six behind the point."""


def read_json(type_: DataType, value: Any) -> Any:
    """A JSON value as the Python value of its type, spelled as results are; raises `Misfit`."""
    if value is None:
        return None
    match type_:
        case ArrayType(element=element):
            return [read_json(element, part) for part in _list(value, type_)]
        case MapType(key=key, value=item):
            pairs = list(value.items()) if isinstance(value, dict) else _list(value, type_)
            if any(not isinstance(pair, list | tuple) or len(pair) != 2 or pair[0] is None for pair in pairs):
                raise Misfit("an object, or a list of [key, value] pairs, without NULL keys")
            return [(read_json(key, k), read_json(item, v)) for k, v in pairs]
        case RowType(fields=fields):
            return _row(type_, value, [field.name for field in fields])
    reader = _READERS.get(type_.root)
    if reader is None:
        raise UnsupportedType(f"there are no literals of {type_}.")
    return reader(type_, value)


def _row(type_: RowType, value: Any, names: list[str]) -> tuple[Any, ...]:
    if isinstance(value, dict):
        if strange := [name for name in value if name not in names]:
            raise Misfit(f"an object with the fields {', '.join(names)}, and {strange[0]} is none of them")
        value = [value.get(name) for name in names]
    if not isinstance(value, list) or len(value) != len(names):
        raise Misfit(f"an object or a list of the fields {', '.join(names)}")
    return tuple(read_json(field.type, part) for field, part in zip(type_.fields, value, strict=True))


def _list(value: Any, type_: DataType) -> list[Any]:
    if not isinstance(value, list):
        raise Misfit("a list")
    return value


def _boolean(_: DataType, value: Any) -> bool:
    if not isinstance(value, bool):
        raise Misfit("true or false")
    return value


def _integer(type_: DataType, value: Any) -> int:
    bits = INTEGER_BITS[type_.root]
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    if isinstance(value, str):
        value = signed_number(value.strip())
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Misfit(f"a whole number from {low} to {high}")
    return value


def _float(_: DataType, value: Any) -> float:
    try:
        if not isinstance(value, bool) and isinstance(value, int | float | str):
            return float(without_marks(value) if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        pass
    raise Misfit('a number, or "NaN", "Infinity" or "-Infinity"')


def _decimal(type_: DataType, value: Any) -> Decimal:
    assert isinstance(type_, DecimalType)
    wanted = f"a number of at most {type_.precision} digits, {type_.scale} of them behind the point, as text to be exact"
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
            raise Misfit(wanted)
        number = value if isinstance(value, Decimal) else Decimal(without_marks(str(value)).strip())
    except (InvalidOperation, ValueError):
        raise Misfit(wanted) from None
    exact = held(type_, number)
    if exact is None:
        raise Misfit(wanted)
    return exact


def _string(type_: DataType, value: Any) -> str:
    assert isinstance(type_, CharType | VarCharType)
    if not isinstance(value, str) or len(value) > type_.length:
        raise Misfit(
            "a string" if isinstance(type_, VarCharType) and type_.sql() == "STRING" else f"a string of at most {type_.length} characters"
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Misfit("a string of whole characters; this one has half of a surrogate pair") from None
    return value


def _binary(type_: DataType, value: Any) -> bytes:
    assert isinstance(type_, BinaryType | VarBinaryType)
    try:
        decoded = base64.b64decode(value, validate=True) if isinstance(value, str) else None
    except ValueError:
        decoded = None
    if decoded is None or len(decoded) > type_.length:
        raise Misfit("base64" + ("" if type_.sql() == "BYTES" else f" of at most {type_.length} bytes"))
    return decoded


def _moment(read: Callable[[str], Any], like: str, *, zoned: bool = False) -> Callable[[DataType, Any], Any]:
    def reader(_: DataType, value: Any) -> Any:
        try:
            moment = read(value) if isinstance(value, str) and not _TOO_FINE.search(value) else None
            if isinstance(moment, dt.datetime) and zoned and moment.tzinfo is not None:
                moment = moment.astimezone(dt.UTC)
        except (ValueError, OverflowError):
            moment = None
        if moment is None or (isinstance(moment, dt.datetime | dt.time) and (moment.tzinfo is not None) != zoned):
            raise Misfit(f'a text like "{like}"')
        return moment

    return reader


_timestamp = _moment(dt.datetime.fromisoformat, "2024-02-29T12:00:00.5")
_instant = _moment(dt.datetime.fromisoformat, "2024-02-29T12:00:00.5Z", zoned=True)

_READERS: Mapping[str, Callable[[DataType, Any], Any]] = {
    "BOOLEAN": _boolean,
    **dict.fromkeys(INTEGER_BITS, _integer),
    **dict.fromkeys(("FLOAT", "DOUBLE"), _float),
    "DECIMAL": _decimal,
    **dict.fromkeys(("CHAR", "VARCHAR"), _string),
    **dict.fromkeys(("BINARY", "VARBINARY"), _binary),
    "DATE": _moment(dt.date.fromisoformat, "2024-02-29"),
    "TIME": _moment(dt.time.fromisoformat, "12:34:56.007"),
    "TIMESTAMP": lambda type_, value: (_instant if isinstance(type_, LocalZonedTimestampType) else _timestamp)(type_, value),
}


def literal(type_: DataType, value: Any) -> exp.Expr:
    """A value as the tree of a literal that has its type."""
    if value is None:
        return exp.Null() if isinstance(type_, NullType) else _cast(exp.Null(), type_)
    match type_:
        case ArrayType(element=element):
            return _cast(exp.Array(expressions=[literal(element, part) for part in value]), type_)
        case MapType(key=key, value=item):
            keys, values = [literal(key, k) for k, _ in value], [literal(item, v) for _, v in value]
            return _cast(exp.Map(keys=exp.Array(expressions=keys), values=exp.Array(expressions=values)), type_)
        case RowType(fields=fields):
            parts = [literal(field.type, part) for field, part in zip(fields, value, strict=True)]
            return _cast(exp.Anonymous(this="ROW", expressions=parts), type_)
        case CharType() | VarCharType():
            return exp.Literal.string(value)
        case BinaryType() | VarBinaryType():
            return exp.HexString(this=value.hex().upper())
    return _atomic(type_, value)


def _atomic(type_: DataType, value: Any) -> exp.Expr:
    match type_.root:
        case "BOOLEAN":
            return exp.Boolean(this=value)
        case "INT":
            return _number(str(value))
        case "DOUBLE" if math.isfinite(value):
            return _number(_exponential(value))
        case "TINYINT" | "SMALLINT" | "BIGINT":
            return _cast(_number(str(value)), type_)
    return _cast(exp.Literal.string(text(_cut(type_, value))), type_)


def _cut(type_: DataType, value: Any) -> Any:
    """The value without the digits of a second that its type has not: the cast around it need not look for them."""
    if isinstance(type_, TimestampType | LocalZonedTimestampType | TimeType) and isinstance(value, dt.datetime | dt.time):
        return value.replace(microsecond=value.microsecond - value.microsecond % 10 ** max(0, 6 - type_.precision))
    return value


def _number(spelled: str) -> exp.Expr:
    made = exp.Literal.number(spelled.removeprefix("-"))
    return exp.Neg(this=made) if spelled.startswith("-") else made


def _exponential(value: float) -> str:
    """The shortest spelling that is a DOUBLE in SQL; without an exponent it would be a DECIMAL."""
    spelled = repr(value).replace("e+", "E").replace("e", "E")
    return spelled if "E" in spelled else f"{spelled}E0"


def _cast(value: exp.Expr, type_: DataType) -> exp.Expr:
    made = _template(_spelled(type_)).copy()
    made.set("this", value)
    return made


@lru_cache(maxsize=1024)
def _template(spelled: str) -> exp.Expr:
    """A cast to the type as the parser makes it."""
    return parse_one(f"SELECT CAST(NULL AS {spelled})").expressions[0]  # type: ignore[no-any-return]


def _spelled(type_: DataType) -> str:
    """The type as a cast takes it, without what only a table's column has."""
    match type_:
        case ArrayType(element=element):
            return f"ARRAY<{_spelled(element)}>"
        case MapType(key=key, value=value):
            return f"MAP<{_spelled(key)}, {_spelled(value)}>"
        case RowType(fields=fields):
            return f"STRUCT<{', '.join(f'{quote(field.name)}: {_spelled(field.type)}' for field in fields)}>"
        case CharType() | VarCharType():
            return "STRING"
        case BinaryType() | VarBinaryType():
            return "BINARY"
        case LocalZonedTimestampType():
            return "TIMESTAMP_LTZ"
        case TimestampType():
            return "TIMESTAMP"
        case TimeType(precision=precision):
            return f"TIME({min(precision, 6)})"
        case DecimalType(precision=precision, scale=scale):
            return f"DECIMAL({precision}, {scale})"
    return type_.sql()
