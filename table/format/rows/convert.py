"""Values written under another type of their column, under the one it has now: Paimon's casts, as Java's readers make them."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from model.errors import InvalidData
from model.schema.casting import kind
from model.schema.types import (
    BinaryType,
    CharType,
    DataType,
    DecimalType,
    LocalZonedTimestampType,
    TimestampType,
    TimeType,
    VarBinaryType,
    VarCharType,
)
from table.format.rows.arrow import arrow_type

_DAY_MICROS = 86_400_000_000
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_TRUE, _FALSE = frozenset({"t", "true", "y", "yes", "1"}), frozenset({"f", "false", "n", "no", "0"})
_INTEGER = re.compile(r"([+-]?)([0-9]*)(?:\.[0-9]*)?")
_REAL = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_EXACT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DIGITS = re.compile(r"[0-9]+")
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?: ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{0,9}))?|T([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]{0,9}))?)?)?"
)
_TIME = re.compile(r" *([0-9]+) *(?:: *([0-9]+) *(?:: *([0-9]+) *(?:\.([^+-]*))?)?)?(?:([+-]) *([0-9]+) *(?:: *([0-9]+) *)?)?")

Numbers = np.ndarray[Any, Any]


def converted(array: pa.Array, source: DataType, target: DataType, name: str) -> pa.Array:
    """The values of column ``name``, which have the old type's Arrow form, in the new one's.

    Raises `InvalidData` where a value has no form in the new type; what is too large for a DECIMAL is NULL, and numbers wrap, as in Java.
    """
    try:
        return _BY_TARGET[kind(target)](array, source, target)
    except (ValueError, ArithmeticError, pa.ArrowInvalid) as problem:
        raise InvalidData(
            f"Column {name} was {source.sql()} when some rows were written, and one of their values is no {target.sql()}. "
            f"Give the column its old type again (ALTER TABLE … MODIFY) to read them."
        ) from problem


def _each(array: pa.Array, convert: Callable[[Any], Any], type_: pa.DataType) -> pa.Array:
    """Each distinct value once."""
    coded = array.dictionary_encode()
    made = pa.array([convert(value) for value in coded.dictionary.to_pylist()], type_)
    return made.take(coded.indices)


def _numbers(array: pa.Array) -> Numbers:
    """Values with something in the place of NULLs."""
    filled: Numbers = array.fill_null(0).to_numpy(zero_copy_only=False)
    return filled


def _with_nulls(values: Numbers, like: pa.Array, type_: pa.DataType) -> pa.Array:
    return pa.array(values, type_, mask=like.is_null().to_numpy(zero_copy_only=False))


# Numbers


def _wrapped(number: int, bits: int) -> int:
    low = number & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low


def _to_integer(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    to, bits, root = arrow_type(target), _BITS[target.root], kind(source)
    if root == "BOOLEAN" or root in _BITS:
        return pc.cast(array.cast(pa.int8()) if root == "BOOLEAN" else array, to, safe=False)
    if root in ("FLOAT", "DOUBLE"):
        # Java fills the range of INT, or of BIGINT, before it takes the lower bits.
        top = 2.0 ** (max(bits, 32) - 1)
        values = np.nan_to_num(np.trunc(_numbers(array).astype(np.float64)), nan=0.0, posinf=top, neginf=-top)
        whole = np.where(np.abs(values) < top, values, 0.0).astype(np.int64)
        whole[values >= top], whole[values <= -top] = int(top) - 1, -int(top)
        return pc.cast(_with_nulls(whole, array, pa.int64()), to, safe=False)
    if root == "DECIMAL":
        return _each(array, lambda value: _wrapped(int(value), bits) if bits == 64 else _wrapped(_wrapped(int(value), 64), bits), to)
    if root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        millis = np.floor_divide(_micros(array), 1000)
        seconds = np.sign(millis) * (np.abs(millis) // 1000)
        return pc.cast(_with_nulls(seconds, array, pa.int64()), to, safe=False)
    return _each(array, lambda text: _parsed_integer(text, bits), to)


def _parsed_integer(text: str, bits: int) -> int:
    match = _INTEGER.fullmatch(text)
    if match is None or text in ("", "+", "-"):
        raise ValueError(text)
    number = int(match[1] + (match[2] or "0"))
    if _wrapped(number, bits) != number:
        raise ValueError(text)
    return number


def _to_real(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    to, root = arrow_type(target), kind(source)
    if root in ("CHAR", "VARCHAR"):
        return pc.cast(_each(array, _parsed_real, pa.float64()), to, safe=False)
    if isinstance(source, DecimalType):
        power = 10.0**source.scale if source.precision <= 18 else None
        scale = source.scale
        convert = float if power is None else (lambda value: float(int(value.scaleb(scale))) / power)
        return pc.cast(_each(array, convert, pa.float64()), to, safe=False)
    return pc.cast(array.cast(pa.int8()) if root == "BOOLEAN" else array, to, safe=False)


def _parsed_real(text: str) -> float:
    text = text.strip("".join(map(chr, range(33))))
    if _REAL.fullmatch(text) is None:
        raise ValueError(text)
    return float(text if text.endswith(("NaN", "Infinity")) else text.rstrip("fFdD"))


def _to_decimal(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    assert isinstance(target, DecimalType)
    precision, scale, root = target.precision, target.scale, kind(source)
    step = Decimal(1).scaleb(-scale)

    def fitted(value: Any) -> Decimal | None:
        if root in ("CHAR", "VARCHAR") and _EXACT.fullmatch(value) is None:
            raise ValueError(value)
        exact = Decimal(repr(value) if isinstance(value, float) else int(value) if isinstance(value, bool) else value)
        if not exact.is_finite():
            raise ValueError(value)
        if exact.adjusted() > precision:
            return None if exact else Decimal(0)
        with localcontext() as context:
            context.prec = 200
            rounded = exact.quantize(step, ROUND_HALF_UP)
        return rounded if len(rounded.as_tuple().digits) <= precision else None

    return _each(array.cast(pa.float64()) if root == "FLOAT" else array, fitted, arrow_type(target))


def _to_boolean(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    if source.root in _BITS:
        return pc.not_equal(array, pa.scalar(0, array.type))
    return _each(array, _parsed_boolean, pa.bool_())


def _parsed_boolean(text: str) -> bool:
    if (lower := text.lower()) in _TRUE or lower in _FALSE:
        return lower in _TRUE
    raise ValueError(text)


# Texts and bytes


def _to_text(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    assert isinstance(target, CharType | VarCharType)
    root = kind(source)
    if root in ("BINARY", "VARBINARY"):
        return _each(array, lambda value: value.decode(errors="replace"), pa.string())
    if isinstance(source, TimestampType | LocalZonedTimestampType):
        return _moments_as_text(array, source.precision)
    if isinstance(source, TimeType):
        precision = source.precision
        return _each(array.cast(pa.int32()), lambda millis: _time_as_text(millis, precision), pa.string())
    if root == "DATE":
        days = np.datetime_as_string(_numbers(array.cast(pa.int32())).astype("datetime64[D]"))
        return _with_nulls(days.astype(object), array, pa.string())
    if root == "DECIMAL":
        texts = _each(array, lambda value: format(value, "f"), pa.string())
    elif root in ("FLOAT", "DOUBLE"):
        real = np.float32 if root == "FLOAT" else np.float64
        texts = _each(array, lambda value: _real_as_text(str(real(value))), pa.string())
    elif root == "BOOLEAN":
        texts = pc.if_else(array, "true", "false")
    else:
        texts = array.cast(pa.string())
    if target.length < VarCharType().length:
        texts = pc.utf8_slice_codeunits(texts, 0, target.length)
    return pc.utf8_rpad(texts, target.length) if isinstance(target, CharType) else texts


def _real_as_text(shortest: str) -> str:
    """A number as Java spells it: plain from a thousandth up to ten million, with an exponent elsewhere."""
    if shortest in ("nan", "inf", "-inf"):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[shortest]
    number = Decimal(shortest)
    sign = "-" if number.is_signed() else ""
    if not number:
        return f"{sign}0.0"
    number = abs(number)
    if Decimal("0.001") <= number < 10_000_000:
        plain = format(number.normalize(), "f")
        return sign + (plain if "." in plain else f"{plain}.0")
    digits = "".join(map(str, number.normalize().as_tuple().digits))
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{number.adjusted()}"


def _moments_as_text(array: pa.Array, precision: int) -> pa.Array:
    texts = np.datetime_as_string(_micros(array).astype("datetime64[us]"), unit="us")
    made = []
    for text in texts.tolist():
        fraction = text[20:].ljust(9, "0")
        while len(fraction) > precision and fraction.endswith("0"):
            fraction = fraction[:-1]
        made.append(f"{text[:10]} {text[11:19]}" + (f".{fraction}" if fraction else ""))
    return _with_nulls(np.array(made, dtype=object), array, pa.string())


def _time_as_text(millis: int, precision: int) -> str:
    """Digits of the second's fraction end where only zeros follow, but for the first."""
    seconds, rest = divmod(millis, 1000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    digits = f"{rest:03}"[:precision]
    return text if not digits else f"{text}.{digits[0]}{digits[1:].rstrip('0')}"


def _to_bytes(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    assert isinstance(target, BinaryType | VarBinaryType)
    values = array.cast(pa.binary())
    if target.length < VarBinaryType().length:
        values = pc.binary_slice(values, 0, target.length)
    if isinstance(target, BinaryType):
        length = target.length
        return _each(values, lambda value: value.ljust(length, b"\0"), pa.binary())
    return values


# Days and times


def _micros(array: pa.Array) -> Numbers:
    return _numbers(array.cast(pa.timestamp("us", tz=array.type.tz)).cast(pa.int64()))


def _to_date(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    if source.root == "TIMESTAMP":
        return _with_nulls(np.floor_divide(_micros(array), _DAY_MICROS), array, pa.int32()).cast(pa.date32())
    return _each(array, _parsed_date, pa.int32()).cast(pa.date32())


def _parsed_date(text: str) -> int:
    if _DIGITS.fullmatch(text):
        return _parsed_integer(text, 32)
    if (end := text.find(" ")) > 0:
        text = text[:end]
    parts = [part.strip() for part in text.split("-", 2)]
    if not all(_DIGITS.fullmatch(part) for part in parts):
        raise ValueError(text)
    year, month, day = (int(part) for part in (*parts, "1", "1")[:3])
    return _epoch_day(year, month, day)


def _epoch_day(year: int, month: int, day: int) -> int:
    if not (0 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= _days_of(year, month)):
        raise ValueError(f"{year}-{month}-{day}")
    return int(np.datetime64(f"{year:04}-{month:02}-{day:02}", "D").astype(np.int64))


def _days_of(year: int, month: int) -> int:
    return monthrange(year or 400, month)[1]


def _to_time(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    if source.root == "TIMESTAMP":
        millis = np.floor_divide(_micros(array), 1000) % 86_400_000
        return _with_nulls(millis, array, pa.int32()).cast(pa.time32("ms"))
    return _each(array, _parsed_time, pa.int32()).cast(pa.time32("ms"))


def _parsed_time(text: str) -> int:
    if _DIGITS.fullmatch(text):
        millis = _parsed_integer(text, 32)
    else:
        match = _TIME.fullmatch(text)
        if match is None:
            raise ValueError(text)
        hour, minute, second = (int(part or 0) for part in match.group(1, 2, 3))
        sign = -1 if match[5] == "-" else 1
        hour, minute = hour + sign * int(match[6] or 0), minute + sign * int(match[7] or 0)
        millis = hour * 3_600_000 + minute * 60_000 + second * 1000 + _fraction((match[4] or "").strip())
    if not 0 <= millis < 86_400_000:
        raise ValueError(text)
    return millis


def _fraction(digits: str) -> int:
    """Milliseconds; the fourth digit rounds."""
    numbers = [int(c) if "0" <= c <= "9" else 0 for c in digits.ljust(3, "0")[:3]]
    return numbers[0] * 100 + numbers[1] * 10 + numbers[2] + (1 if digits[3:4] >= "5" else 0)


def _to_moment(array: pa.Array, source: DataType, target: DataType) -> pa.Array:
    assert isinstance(target, TimestampType | LocalZonedTimestampType)
    precision, to, root = target.precision, arrow_type(target), kind(source)
    if root in ("CHAR", "VARCHAR"):
        zoned = isinstance(target, LocalZonedTimestampType)
        return _each(array, lambda text: _parsed_moment(text, precision, zoned=zoned), pa.int64()).cast(pa.timestamp("us")).cast(
            pa.timestamp(to.unit), safe=False
        ).cast(pa.int64()).cast(to)  # fmt: skip
    if root == "DATE":
        micros = _numbers(array.cast(pa.int32())).astype(np.int64) * _DAY_MICROS
    elif root == "TIME":
        micros = _numbers(array.cast(pa.int32())).astype(np.int64) * 1000
    elif root in _BITS:
        return array.cast(pa.int64()).cast(pa.timestamp("s")).cast(pa.timestamp(to.unit)).cast(pa.int64()).cast(to)
    else:
        assert isinstance(source, TimestampType | LocalZonedTimestampType)
        micros = _micros(array)
        micros = _shortened(micros, precision) if source.precision > precision else micros
    values = np.floor_divide(micros, 1000) if to.unit == "ms" else micros
    return _with_nulls(values, array, pa.int64()).cast(to)


def _shortened(micros: Numbers, precision: int) -> Numbers:
    """Digits beyond the precision taken away: towards 1970 from milliseconds up, downwards below, as Java does it."""
    millis = np.floor_divide(micros, 1000)
    if precision > 3:
        step = 10 ** max(0, 6 - precision)
        shortened: Numbers = millis * 1000 + (micros - millis * 1000) // step * step
        return shortened
    step = 10 ** (3 - precision)
    cut: Numbers = np.where(micros % (step * 1000) == 0, micros, np.sign(millis) * (np.abs(millis) // step * step) * 1000)
    return cut


def _parsed_moment(text: str, precision: int, *, zoned: bool) -> int:
    """Microseconds since 1970; a bare number is one of the column's own units."""
    if not zoned and _DIGITS.fullmatch(text):
        if precision not in (0, 3, 6, 9):
            raise ValueError(text)
        number = _parsed_integer(text, 64)
        return number // 1000 if precision == 9 else number * 10 ** (6 - precision)
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    hour, minute, second = (int(match[at] or match[at + 4] or 0) for at in (4, 5, 6))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(text)
    year, month, day = (int(part) for part in match.group(1, 2, 3))
    if not (year and 1 <= month <= 12 and day <= 31):
        raise ValueError(text)
    fraction = (match[7] or match[11] or "").ljust(9, "0")[:precision].ljust(9, "0")
    days = _epoch_day(year, month, min(day, _days_of(year, month)))
    return days * _DAY_MICROS + ((hour * 60 + minute) * 60 + second) * 1_000_000 + int(fraction) // 1000


_BY_TARGET: dict[str, Callable[[pa.Array, DataType, DataType], pa.Array]] = {
    **dict.fromkeys(_BITS, _to_integer),
    **dict.fromkeys(("FLOAT", "DOUBLE"), _to_real),
    "DECIMAL": _to_decimal,
    "BOOLEAN": _to_boolean,
    **dict.fromkeys(("CHAR", "VARCHAR"), _to_text),
    **dict.fromkeys(("BINARY", "VARBINARY"), _to_bytes),
    "DATE": _to_date,
    "TIME": _to_time,
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_LTZ"), _to_moment),
}
