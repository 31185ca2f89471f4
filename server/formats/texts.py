"""Arrow columns as texts, whole columns at a time: the values of CSV and JSON (`architecture.md`, the wire of our own endpoints)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from model.schema.types import (
    ArrayType,
    BigIntType,
    BinaryType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntervalDayTimeType,
    LocalZonedTimestampType,
    MapType,
    MultisetType,
    NullType,
    RowType,
    TimestampType,
    TimeType,
    VarBinaryType,
    VarCharType,
    VectorType,
)

EXACT_INTEGER = 2**53
"""Up to here every whole number is a double of its own."""
EXACT_DIGITS = 15
"""Any decimal of so many digits comes back from a double unchanged."""
_MAY_BE_EMPTY = CharType | VarCharType | BinaryType | VarBinaryType
_SPECIAL = r'["\\\x00-\x1f]'
_CONTROL = r"[\x00-\x1f]"
_FRACTION = r"\.\d+"


def join(*parts: pa.Array | str) -> pa.Array:
    """Concatenate row by row; NULL where one part is."""
    return pc.binary_join_element_wise(*parts, "")


def plain(array: pa.Array, type_: DataType) -> pa.Array:
    """The text of every value without quotes; NULL stays NULL. Nested values are their JSON."""
    match type_:
        case CharType() | VarCharType():
            return array.cast(pa.string())
        case FloatType() | DoubleType():
            return _float_texts(array)
        case DecimalType():
            return _decimal_texts(array)
        case TimestampType(precision=precision) | TimeType(precision=precision):
            return _temporal_texts(array, precision)
        case LocalZonedTimestampType(precision=precision):
            return _temporal_texts(array.cast(pa.timestamp(array.type.unit, "UTC")), precision)
        case BinaryType() | VarBinaryType():
            return pa.array([None if v is None else b64encode(v).decode() for v in array.to_pylist()], pa.string())
        case IntervalDayTimeType():
            return array.cast(pa.int64()).cast(pa.string())
        case NullType():
            return pa.nulls(len(array), pa.string())
        case ArrayType() | MultisetType() | VectorType() | MapType() | RowType():
            return _nested(array, type_)
    return array.cast(pa.string())


def python_rows(batch: pa.RecordBatch, types: Iterable[DataType]) -> Iterator[tuple[Any, ...]]:
    """The rows as Python has them; the texts of a column in which a day or a moment lies beyond Python's years 1 to 9999."""
    columns = [_python_values(array, type_) for array, type_ in zip(batch.columns, types, strict=True)]
    return zip(*columns, strict=True) if columns else iter([()] * batch.num_rows)


def _python_values(array: pa.Array, type_: DataType) -> list[Any]:
    try:
        return array.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, ValueError):
        return plain(array, type_).to_pylist()  # type: ignore[no-any-return]


def json_texts(array: pa.Array, type_: DataType) -> pa.Array:
    """Every value as JSON; nothing is NULL any more."""
    return pc.fill_null(_json(array, type_), "null")


def csv_texts(array: pa.Array, type_: DataType) -> pa.Array:
    """Every value as a CSV field; NULL is an empty field, an empty string, or no bytes, a quoted one."""
    texts = plain(array, type_)
    if isinstance(type_, _MAY_BE_EMPTY | ArrayType | MultisetType | VectorType | MapType | RowType):
        texts = csv_quoted(texts)
    return pc.fill_null(texts, "")


def csv_quoted(texts: pa.Array) -> pa.Array:
    """Quote what CSV would misread: delimiters, quotes, line ends, and the empty string (which would be NULL)."""
    needed = pc.or_(pc.match_substring_regex(texts, '[",\r\n]'), pc.equal(texts, ""))
    if not pc.any(needed).as_py():
        return texts
    quoted = join('"', pc.replace_substring(texts, '"', '""'), '"')
    return pc.if_else(needed, quoted, texts)


def json_quoted(texts: pa.Array) -> pa.Array:
    """Texts as JSON strings."""
    if pc.any(pc.match_substring_regex(texts, _SPECIAL)).as_py():
        if pc.any(pc.match_substring_regex(texts, _CONTROL)).as_py():
            return pa.array([None if v is None else orjson.dumps(v).decode() for v in texts.to_pylist()], pa.string())
        texts = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    return join('"', texts, '"')


def _json(array: pa.Array, type_: DataType) -> pa.Array:
    texts = plain(array, type_)
    match type_:
        case CharType() | VarCharType():
            return json_quoted(texts)
        case DateType() | TimeType() | TimestampType() | LocalZonedTimestampType() | BinaryType() | VarBinaryType():
            return join('"', texts, '"')
        case BigIntType():
            exact = pc.and_(pc.less_equal(array, EXACT_INTEGER), pc.greater_equal(array, -EXACT_INTEGER))
            return _quote_where_not(exact, texts)
        case DecimalType(precision=precision, scale=scale) if precision > EXACT_DIGITS:
            return _quote_where_not(_few_digits(array, scale), texts)
        case FloatType() | DoubleType():
            return _quote_where_not(pc.is_finite(array), texts)
    return texts


def _quote_where_not(exact: pa.Array, texts: pa.Array) -> pa.Array:
    if pc.all(exact).as_py():
        return texts
    return pc.if_else(exact, texts, join('"', texts, '"'))


def _few_digits(array: pa.Array, scale: int) -> pa.Array:
    """Whether a decimal's digits, leading zeros aside, are few enough."""
    bound = pa.scalar(Decimal(1).scaleb(EXACT_DIGITS - scale), pa.decimal128(38, scale))
    return pc.less(pc.abs(array), bound)


def _float_texts(array: pa.Array) -> pa.Array:
    """Shortest texts that read back the same; whole numbers keep a `.0`, and the odd ones have Java's names."""
    texts = array.cast(pa.string())
    finite = pc.is_finite(array)
    if not pc.all(finite).as_py():
        named = pc.replace_substring(pc.replace_substring(texts, "nan", "NaN"), "inf", "Infinity")
        named = pc.replace_substring(named, "-NaN", "NaN")
        return pc.if_else(finite, _with_point(texts), named)
    return _with_point(texts)


def _with_point(texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(texts, "[.e]"), texts, join(texts, ".0"))


def _decimal_texts(array: pa.Array) -> pa.Array:
    texts = array.cast(pa.string())
    if pc.any(pc.match_substring(texts, "E")).as_py():  # Arrow writes small ones with an exponent
        return pa.array([None if v is None else format(v, "f") for v in array.to_pylist()], pa.string())
    return texts


def _temporal_texts(array: pa.Array, precision: int) -> pa.Array:
    texts = pc.replace_substring(array.cast(pa.string()), " ", "T", max_replacements=1)
    return pc.replace_substring_regex(texts, _FRACTION, "") if precision == 0 else texts


def _nested(array: pa.Array, type_: DataType) -> pa.Array:
    match type_:
        case ArrayType(element=element) | MultisetType(element=element) | VectorType(element=element):
            start, length = _span(array)
            return _listed(array, json_texts(array.values.slice(start, length), element))
        case MapType(key=key, value=value):
            start, length = _span(array)
            keys = json_texts(array.keys.slice(start, length), key)
            values = json_texts(array.items.slice(start, length), value)
            return _listed(array, join("[", keys, ",", values, "]"))
        case RowType(fields=fields):
            parts: list[pa.Array | str] = []
            for number, (field, child) in enumerate(zip(fields, array.flatten(), strict=True)):
                name = orjson.dumps(field.name).decode()
                parts += [f"{'{' if number == 0 else ','}{name}:", json_texts(child, field.type)]
            texts = join(*parts, "}") if parts else pa.array(["{}"] * len(array), pa.string())
            return _null_where(array, texts)
    raise AssertionError(f"{type_} is not nested")


def _span(array: pa.Array) -> tuple[int, int]:
    """Where a list array's elements lie in its values; a slice uses only some of them."""
    offsets = array.offsets
    if len(array) == 0:
        return 0, 0
    return offsets[0].as_py(), offsets[-1].as_py() - offsets[0].as_py()


def _listed(array: pa.Array, texts: pa.Array) -> pa.Array:
    """Put the elements' texts back into one text per list."""
    if len(array) == 0:
        return pa.array([], pa.string())
    offsets = pc.subtract(array.offsets, array.offsets[0]).cast(pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, texts), ",")
    return _null_where(array, join("[", joined, "]"))


def _null_where(array: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(array.is_valid(), texts, pa.scalar(None, pa.string())) if array.null_count else texts
