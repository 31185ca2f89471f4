"""NDJSON rows as batches: JSON values become column values by the rules results are written with (`architecture.md`)."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
import math
import re
import struct
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import IO, Any, NoReturn

import orjson
import pyarrow as pa

from model.errors import ColumnNotExist, InvalidData, nearest
from model.schema.decimals import held
from model.schema.schema import Schema
from model.schema.type_parts import walk
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
)
from table.format.rows.arrow import arrow_schema
from table.format.rows.cast import Fitting, default_of, fit

_CHUNK_BYTES = 2 << 20
_LONGEST_LINE = 64 << 20
Convert = Callable[[Any], Any]


class NdjsonRows:
    """Reads JSON objects, one a line, into a table's columns."""

    def __init__(self, schema: Schema, table: str) -> None:
        self._schema = schema
        self._table = table
        self._converts = {field.name: converter(field.type) for field in schema.fields}
        self._loads = _loads(schema.fields)
        self._row = 0

    def batches(self, body: IO[bytes]) -> Iterator[pa.RecordBatch]:
        """Yield a batch for every few megabytes; raises `InvalidData` naming row and column."""
        rest = b""
        while chunk := body.read(_CHUNK_BYTES):
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            if len(rest) > _LONGEST_LINE:
                raise InvalidData(f"Row {self._row + 1} of the body is longer than {_LONGEST_LINE} bytes; NDJSON has one object a line.")
            yield from self._batch(lines)
        yield from self._batch([rest])

    def _batch(self, lines: list[bytes]) -> Iterator[pa.RecordBatch]:
        first = self._row
        rows = [self._object(line) for line in lines if line.strip()]
        if rows:
            columns = [self._column(field, rows, first) for field in self._schema.fields]
            batch = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(self._schema.fields))
            yield fit(batch, self._schema, Fitting(first_row=first), table=self._table)

    def _object(self, line: bytes) -> dict[str, Any]:
        self._row += 1
        if self._row == 1:
            line = line.removeprefix(BOM_UTF8)
        try:
            row = self._loads(line)
        except RecursionError:
            raise InvalidData(f"Row {self._row} of the body is nested too deeply to be read.") from None
        except ValueError as problem:
            raise InvalidData(f"Row {self._row} of the body is not JSON: {problem}") from problem
        if not isinstance(row, dict):
            raise InvalidData(f"Row {self._row} of the body is no JSON object; each line must be one, with the column names as keys.")
        if not row.keys() <= self._converts.keys():
            name = next(key for key in row if key not in self._converts)
            raise ColumnNotExist(name, self._table, nearest=nearest(name, self._converts))
        return row

    def _column(self, field: Field, rows: list[dict[str, Any]], first: int) -> pa.Array:
        convert, name = self._converts[field.name], field.name
        left_out = None
        if field.default_value is not None and not field.type.nullable and any(name not in row for row in rows):
            default = default_of(field)  # only a row that says NULL is refused
            left_out = None if default is None else default.as_py()
        at = 0
        try:
            values = []
            for at, row in enumerate(rows):  # noqa: B007 - told in the error
                value = row.get(name)
                values.append(convert(value) if value is not None else None if name in row else left_out)
            return pa.array(values, arrow_schema([field]).field(0).type)
        except _MISFITS as problem:
            value = rows[at].get(name)
            raise InvalidData(f"Column {name}, row {first + at + 1}: {_shown(value)} does not fit {field.type.sql()}.") from problem


def values_of_texts(texts: pa.Array, field: Field, *, first_row: int) -> pa.Array:
    """Values of a column that are written as JSON, one a text; raises `InvalidData` naming the row, counted from ``first_row``."""
    loads, convert = _loads([field]), converter(field.type)
    values: list[Any] = []
    text: str | None = None
    try:
        for text in texts.to_pylist():
            value = None if text is None else loads(text.encode())
            values.append(None if value is None else convert(value))
        return pa.array(values, arrow_schema([field]).field(0).type)
    except _MISFITS as problem:
        row = first_row + min(len(values), len(texts) - 1) + 1
        raise InvalidData(
            f"Column {field.name}, row {row}: {_cut(text or '')} does not fit {field.type.sql()}, which is written as JSON."
        ) from problem


_MISFITS = (ValueError, TypeError, ArithmeticError, RecursionError, binascii.Error, pa.ArrowException)
"""What is raised for a value that is none of its column's type."""


def _loads(fields: Sequence[Field]) -> Convert:
    """The reader of JSON for columns: a DECIMAL must not pass through a double, which only the standard library's can be told."""
    exact = any(isinstance(part, DecimalType) for field in fields for part in walk(field.type))
    return _exact_loads if exact else orjson.loads


def _exact_loads(line: bytes) -> Any:
    return json.loads(line.decode(), parse_float=Decimal, parse_constant=_no_constant)


def _no_constant(name: str) -> NoReturn:
    """Refuse what Python writes for numbers that JSON has not, as the other reader does."""
    raise ValueError(f"{name} is no number of JSON")


def _shown(value: object) -> str:
    try:
        text = json.dumps(value, default=str, ensure_ascii=False)
    except RecursionError:
        return "A value nested many times"
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


def converter(type_: DataType) -> Convert:
    """The function that turns a JSON value into a value of the type; it raises where the value does not fit."""
    if bits := INTEGER_BITS.get(type_.root):
        return _integer(bits)
    match type_:
        case DecimalType():
            return _decimal(type_)
        case LocalZonedTimestampType(precision=precision):
            return _timestamp(precision, zoned=True)
        case TimestampType(precision=precision):
            return _timestamp(precision, zoned=False)
        case ArrayType(element=element):
            return _array(converter(element))
        case MapType(key=key, value=value):
            return _map(converter(key), converter(value))
        case RowType(fields=fields):
            return _row({field.name: converter(field.type) for field in fields})
    return _SIMPLE[type_.root]


def without_marks(text: str) -> str:
    """The text of a number, which Python would also read with ``_`` between its digits; raises `ValueError`."""
    if "_" in text:
        raise ValueError
    return text


def _integer(bits: int) -> Convert:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def convert(value: Any) -> int:
        if isinstance(value, str):
            value = int(without_marks(value))  # BIGINT beyond a double's reach comes as text
        if type(value) is not int or not low <= value <= high:
            raise ValueError
        return value

    return convert


def _decimal(type_: DecimalType) -> Convert:
    def convert(value: Any) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
            raise ValueError
        try:
            number = Decimal(without_marks(value) if isinstance(value, str) else value)
        except InvalidOperation as problem:
            raise ValueError from problem
        exact = held(type_, number)
        if exact is None:
            raise ValueError
        return exact

    return convert


def _float(value: Any) -> float:
    if isinstance(value, str):
        if value not in ("NaN", "Infinity", "-Infinity"):
            raise ValueError
    elif isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError
    number = float(value)
    if math.isinf(number) and not isinstance(value, str):  # a number beyond the range, and no word for one
        raise ValueError
    return number


def _single(value: Any) -> float:
    number = _float(value)
    try:
        struct.pack("<f", number)
    except OverflowError:  # it would be stored as infinite
        raise ValueError from None
    return number


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _binary(value: Any) -> bytes:
    return base64.b64decode(_text(value), validate=True)


def _date(value: Any) -> dt.date:
    return dt.date.fromisoformat(_text(value))


_LOST = re.compile(r"[.,][0-9]{6}[0-9]*[1-9]")


def _exact(value: Any) -> str:
    """The text of a time without digits behind the sixth, which Python would leave out without a word."""
    text = _text(value)
    if _LOST.search(text):
        raise ValueError
    return text


def _time(value: Any) -> dt.time:
    time = dt.time.fromisoformat(_exact(value))
    if time.tzinfo is not None or time.microsecond % 1000:
        raise ValueError
    return time


def _timestamp(precision: int, *, zoned: bool) -> Convert:
    unit = 10 ** (6 - precision)

    def convert(value: Any) -> dt.datetime:
        time = dt.datetime.fromisoformat(_exact(value))
        if (time.tzinfo is not None) != zoned or time.microsecond % unit:
            raise ValueError
        return time

    return convert


def _array(element: Convert) -> Convert:
    return lambda value: [None if part is None else element(part) for part in _list(value)]


def _map(key: Convert, value: Convert) -> Convert:
    def convert(raw: Any) -> list[tuple[Any, Any]]:
        pairs = raw.items() if isinstance(raw, dict) else [_pair(pair) for pair in _list(raw)]
        return [(key(k), None if v is None else value(v)) for k, v in pairs]

    return convert


def _pair(value: Any) -> tuple[Any, Any]:
    key, mapped = _list(value)
    return key, mapped


def _row(parts: dict[str, Convert]) -> Convert:
    def convert(raw: Any) -> dict[str, Any]:
        if not isinstance(raw, dict) or not raw.keys() <= parts.keys():
            raise ValueError
        return {name: None if raw.get(name) is None else part(raw[name]) for name, part in parts.items()}

    return convert


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError
    return value


_SIMPLE: dict[str, Convert] = {
    "BOOLEAN": _boolean,
    "FLOAT": _single,
    "DOUBLE": _float,
    "CHAR": _text,
    "VARCHAR": _text,
    "BINARY": _binary,
    "VARBINARY": _binary,
    "DATE": _date,
    "TIME": _time,
}
