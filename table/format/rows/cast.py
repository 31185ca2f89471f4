"""Fit rows from outside into a table's columns: by name, by safe casts, or an error that names column and row."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from model.errors import ColumnNotExist, InvalidData, nearest
from model.schema.decimals import held
from model.schema.schema import Schema
from model.schema.types import (
    ArrayType,
    BinaryType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    Field,
    LocalZonedTimestampType,
    MapType,
    RowType,
    TimestampType,
    TimeType,
    VarBinaryType,
    VarCharType,
)
from table.format.rows.arrow import arrow_schema, arrow_type
from table.format.rows.map_keys import first_repeated
from table.format.rows.nested import Rows, inside, is_list, list_of, map_of, row_of
from table.format.rows.nested_text import nested_value
from table.format.rows.plain_texts import first_unlike

FIRST_SECOND, END_SECOND = -62_135_596_800, 253_402_300_800
"""Where the year 1 begins and the year 9999 has ended, since 1970."""


_DECIMAL = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,18})?$"
_FAR = r"[eE]|\.[0-9]{38}"
_NONE = "beyond the type"
"""A text that is no number."""
_MOST_SHOWN = 100
"""Characters of a value that a message quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """How strict a cast is, and how errors count rows."""

    from_text: bool = False
    """Parse text into numbers and times, for bodies that have no types of their own."""
    plainly: bool = False
    """Refuse texts that Arrow reads and others do not, as 0x10: for CSV, and not for what is stored as a DEFAULT."""
    cuts_times: bool = False
    """Cut the digits of a time beyond its column's precision, as SQL does, in place of refusing them."""
    zone_may_be_left_out: bool = False
    """Take the text of an instant that names no zone for UTC, in place of refusing it: nobody knows which zone its writer means."""
    first_row: int = 0
    """Number of the batch's first row in its body, counted from 0."""


_OF_DEFAULTS = Fitting(from_text=True, cuts_times=True, zone_may_be_left_out=True)


def fit(batch: pa.RecordBatch | pa.Table, schema: Schema, how: Fitting | None = None, *, table: str | None = None) -> pa.RecordBatch:
    """The rows as the table's columns, in its order; columns the batch lacks, and NULLs, have their column's default.

    Raises `ColumnNotExist` for columns the table lacks, `InvalidData` for values that do not fit.
    """
    how = how or Fitting()
    names = batch.schema.names
    for name in names:
        if schema.find(name) is None:
            raise ColumnNotExist(name, table, nearest=nearest(name, schema.field_names))
    if len(set(names)) != len(names):
        raise InvalidData(f"A column stands twice in the body: {', '.join(sorted({n for n in names if names.count(n) > 1}))}.")
    columns = [_or_default(_column(batch, field, how), field) for field in schema.fields]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema.fields))


def _column(batch: pa.RecordBatch | pa.Table, field: Field, how: Fitting) -> pa.Array:
    position = batch.schema.get_field_index(field.name)
    if position < 0:
        default = default_of(field)
        array = pa.nulls(batch.num_rows, arrow_type(field.type)) if default is None else pa.repeat(default, batch.num_rows)
    else:
        values = batch.column(position)
        array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return fit_column(array, field, how)


def default_of(field: Field) -> pa.Scalar | None:
    """The value a writer puts where a row has none (Paimon's ``DefaultValueUtils``); None without a default.

    Raises `InvalidData` for a default that is no value of the column's type.
    """
    text = field.default_value
    if text is None:
        return None
    if len(text) > 1 and text.startswith("'") and text.endswith("'"):
        text = text[1:-1]
    try:
        if isinstance(field.type, ArrayType | MapType | RowType):
            value = nested_value(text, field.type, _leaf)
            # What may not be NULL is asked of the rows, which get this only where they leave the column out.
            return None if value is None else fit_column(pa.array([value], arrow_type(field.type)), field)[0]
        return fit_column(pa.array([text]), field, _OF_DEFAULTS)[0]
    except (InvalidData, ValueError, TypeError, pa.ArrowException) as problem:
        raise InvalidData(f"The default {field.default_value} of column {field.name} is no value of {field.type.sql()}.") from problem


def _leaf(text: str, type_: DataType) -> object:
    """A text inside an ARRAY, a MAP or a ROW as a value of its simple type."""
    return fit_column(pa.array([text]), Field(id=-1, name="default", type=type_), _OF_DEFAULTS)[0].as_py()


def _or_default(array: pa.Array, field: Field) -> pa.Array:
    """Whatever is NULL gets the column's default, as in all writers of Paimon's; what may not be NULL was refused before."""
    if field.default_value is None or not array.null_count:
        return array
    default = default_of(field)
    return array if default is None else pc.if_else(array.is_valid(), array, default)


def fit_column(array: pa.Array, field: Field, how: Fitting | None = None) -> pa.Array:
    """One column's values as the field's type; raises `InvalidData` naming the column and the first row that does not fit."""
    how = how or Fitting()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    cast = _cast(array, field.name, field.type, how)
    if how.cuts_times and (unit := _excess_unit(field.type)) > 1:
        cast = pc.floor_temporal(cast, unit, "millisecond" if cast.type.unit == "ms" else "microsecond")
    _check(cast, field.name, field.type, Rows(how.first_row))
    return cast


def _cast(array: pa.Array, name: str, type_: DataType, how: Fitting) -> pa.Array:
    target = arrow_type(type_)
    if array.type == target:
        return array
    _check_parts(array.type, target, name)
    if not _castable(array.type, target, how.from_text):
        raise InvalidData(f"Column {name}: {array.type} is not converted to {type_.sql()}; send values of the column's own type.")
    try:
        cast = _converted(array, target)
    except pa.ArrowInvalid as problem:
        row = _first_failure(array, target)
        where = f", row {how.first_row + row + 1}: {_shown(array[row])}" if row is not None else ""
        raise InvalidData(f"Column {name}{where} does not fit {type_.sql()}.") from problem
    except pa.ArrowNotImplementedError as problem:
        raise InvalidData(f"Column {name}: {array.type} is not converted to {type_.sql()}.") from problem
    if how.plainly and _is_text(array.type) and (at := first_unlike(array, cast)) is not None:
        raise InvalidData(f"Column {name}, row {how.first_row + at + 1}: {_shown(array[at])} does not fit {type_.sql()}.")
    if _is_text(array.type) and isinstance(type_, LocalZonedTimestampType) and not how.zone_may_be_left_out:
        _check_zones(array, name, how)
    return cast


def _check_zones(array: pa.Array, name: str, how: Fitting) -> None:
    """Raise `InvalidData` for the text of an instant that names no zone."""
    position = pc.index(_names_zone(array), False).as_py()
    if position >= 0:
        where, text = f"Column {name}, row {how.first_row + position + 1}", _shown(array[position])
        raise InvalidData(f"{where}: {text} names no zone; an instant ends with Z or an offset, as +02:00.")


def _check_parts(source: pa.DataType, target: pa.DataType, name: str) -> None:
    """Raise `InvalidData` for a part of a ROW, however deep, that the column lacks, or that stands twice: nobody would see its values."""
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        names, known = source.names, target.names
        for at, part in enumerate(names):
            if part not in known:
                raise InvalidData(f"Column {name}: the ROW has no part {part}; it has {', '.join(known)}.")
            if part in names[:at]:
                raise InvalidData(f"Column {name}: the part {part} stands twice in the body.")
            _check_parts(source.field(at).type, target.field(known.index(part)).type, f"{name}.{part}")
    else:
        for what, inner, wanted in _inside_types(source, target):
            _check_parts(inner, wanted, f"{name}.{what}")


def _inside_types(source: pa.DataType, target: pa.DataType) -> list[tuple[str, pa.DataType, pa.DataType]]:
    """What stands inside lists or maps that may become such: its name in messages, and its type in both."""
    if pa.types.is_dictionary(source):
        return _inside_types(source.value_type, target)
    if pa.types.is_map(source) and pa.types.is_map(target):
        return [("key", source.key_type, target.key_type), ("value", source.item_type, target.item_type)]
    if is_list(source) and is_list(target):
        return [("element", source.value_type, target.value_type)]
    return []


def _shown(value: pa.Scalar) -> str:
    """A value for a message: its beginning, and its type alone where Python has no such value."""
    try:
        text = repr(value.as_py())
    except (ArithmeticError, ValueError):
        return f"a value of {value.type}"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def _converted(array: pa.Array, target: pa.DataType) -> pa.Array:
    """A safe cast; raises `pa.ArrowInvalid` for values that do not fit."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type == target:
        return array
    return _nested(array, target) if pa.types.is_nested(array.type) else _simple(array, target)


def _simple(array: pa.Array, target: pa.DataType) -> pa.Array:
    """The cast of simple values, by detours where Arrow's own refuses values that fit."""
    types = pa.types
    source = array.type
    if types.is_time(target) and types.is_integer(source):
        return array.cast(pa.int32()).cast(target)
    if types.is_decimal(target) and types.is_integer(source):
        # Arrow judges by the type: an INT would need ten digits whatever its values are.
        return pc.cast(pc.cast(array, pa.decimal128(20, 0)), target, safe=True)
    if types.is_floating(target) and (types.is_floating(source) or _is_text(source)):
        cast = pc.cast(array, target)
        number = pc.match_substring_regex(array, "[0-9]") if _is_text(source) else pc.is_finite(array)  # not NaN, and not infinite
        if pc.any(pc.and_(number, pc.invert(pc.is_finite(cast)))).as_py():
            raise pa.ArrowInvalid("beyond the range of the type")
        return cast
    if _is_text(source) and types.is_timestamp(target):
        return _timestamps_of_text(array, target)
    if _is_text(source) and types.is_decimal(target):
        return pc.cast(_near_decimals(array.cast(pa.string()), target), target, safe=True)
    if _is_text(source) and types.is_time(target):
        on_a_day = pc.binary_join_element_wise("1970-01-01T", array.cast(pa.string()), "")
        return pc.cast(pc.cast(on_a_day, pa.timestamp("ms")).cast(pa.int64()).cast(pa.int32()), target)
    return pc.cast(array, target, safe=True)


def _nested(array: pa.Array, target: pa.DataType) -> pa.Array:
    """A list, map or struct with each part converted by itself, as a column of the part's type is."""
    if pa.types.is_struct(target):
        arrays = dict(zip(array.type.names, array.flatten(), strict=True))
        parts = [
            _converted(arrays[field.name], field.type) if field.name in arrays else pa.nulls(len(array), field.type) for field in target
        ]
        return row_of(array, parts, list(target))
    bounds, values = inside(array)
    if pa.types.is_map(target):
        keys, items = values
        of_items = target.item_field
        return map_of(array, bounds, _converted(keys, target.key_type), _converted(items, of_items.type), nullable=of_items.nullable)
    of_elements = target.value_field
    return list_of(array, bounds, _converted(values[0], of_elements.type), nullable=of_elements.nullable)


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _timestamps_of_text(array: pa.Array, target: pa.TimestampType) -> pa.Array:
    """Times of a zoned column may name their zone; without one they are UTC, the zone sessions have."""
    array = array.cast(pa.string())
    if target.tz is None:
        return pc.cast(array, target, safe=True)
    with_zone = pc.if_else(_names_zone(array), array, pc.binary_join_element_wise(array, "Z", ""))
    return pc.cast(with_zone, target, safe=True)


def _names_zone(array: pa.Array) -> pa.Array:
    """For each text of a time whether it ends with Z or an offset; a day alone has none, though ``-05`` may be its end."""
    return pc.and_(pc.match_substring_regex(array, r"(?:[Zz]|[+-]\d{2}(?::?\d{2})?)$"), pc.match_substring_regex(array, r"\d:\d"))


def _near_decimals(array: pa.Array, target: pa.Decimal128Type) -> pa.Array:
    """Numbers with an exponent or many digits behind the point, written out: Arrow ends the process where a power of ten is far off."""
    far = pc.and_(pc.match_substring_regex(array, _FAR), pc.match_substring_regex(array, _DECIMAL))
    if not pc.any(far).as_py():
        return array
    type_ = DecimalType(precision=target.precision, scale=target.scale)
    numbers = (held(type_, Decimal(text)) for text in array.filter(far).to_pylist())
    return pc.replace_with_mask(array, far.fill_null(False), pa.array([_NONE if n is None else f"{n:f}" for n in numbers], pa.string()))


def _castable(source: pa.DataType, target: pa.DataType, from_text: bool) -> bool:
    """Which kinds of values may become which: a number never comes from text unless the body is text."""
    types = pa.types
    if types.is_dictionary(source):
        return _castable(source.value_type, target, from_text)
    if types.is_null(source):
        return True
    if _is_text(source):
        return bool(types.is_string(target) or from_text)
    if types.is_boolean(source) or types.is_boolean(target):
        return bool(types.is_boolean(source) and types.is_boolean(target))
    if types.is_integer(source) or types.is_floating(source) or types.is_decimal(source):
        to_number = types.is_integer(target) or types.is_floating(target) or types.is_decimal(target)
        return bool(to_number and (types.is_floating(target) or not types.is_floating(source)))
    if types.is_binary(source) or types.is_large_binary(source) or types.is_fixed_size_binary(source) or types.is_binary_view(source):
        return bool(types.is_binary(target))
    if types.is_timestamp(source):
        same_kind: bool = types.is_timestamp(target) and (source.tz is None) == (target.tz is None)
        return same_kind
    if types.is_date(source):
        return bool(types.is_date(target))
    if types.is_time(source):
        return bool(types.is_time(target))
    return _parts_castable(source, target, from_text)


def _parts_castable(source: pa.DataType, target: pa.DataType, from_text: bool) -> bool:
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return all(_castable(field.type, target.field(field.name).type, from_text) for field in source)
    inner = _inside_types(source, target)
    return bool(inner) and all(_castable(part, wanted, from_text) for _, part, wanted in inner)


def _first_failure(array: pa.Array, target: pa.DataType) -> int | None:
    """The first value that does not convert, by halving."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _converted(array.slice(low, middle - low), target)
            low = middle
        except pa.ArrowInvalid:
            high = middle
    return low if len(array) else None


def _check(array: pa.Array, name: str, type_: DataType, rows: Rows) -> None:
    if not type_.nullable and array.null_count:
        row = rows.number(pc.index(array.is_null(), True).as_py())
        raise InvalidData(f"Column {name}, row {row}: NULL, but the column is NOT NULL.")
    match type_:
        case CharType(length=limit) | VarCharType(length=limit) if limit < 2_147_483_647:
            _check_length(pc.utf8_length(array), limit, name, type_, rows)
        case BinaryType(length=limit) | VarBinaryType(length=limit) if limit < 2_147_483_647:
            _check_length(pc.binary_length(array), limit, name, type_, rows)
        case DateType() | TimestampType() | LocalZonedTimestampType():
            _check_years(array, name, type_, rows)
            _check_digits(array, name, type_, rows)
        case TimeType():
            _check_digits(array, name, type_, rows)
        case ArrayType(element=element):
            bounds, (elements,) = inside(array)
            _check(elements, f"{name}.element", element, rows.inside(bounds))
        case MapType():
            _check_map(array, name, type_, rows)
        case RowType(fields=fields):
            there = pc.indices_nonzero(array.is_valid())
            valid = array.take(there) if array.null_count else array
            inner = rows.through(there)
            for part, values in zip(fields, valid.flatten(), strict=True):
                _check(values, f"{name}.{part.name}", part.type, inner)


def _check_map(array: pa.Array, name: str, type_: MapType, rows: Rows) -> None:
    bounds, (keys, items) = inside(array)
    of_entries = rows.inside(bounds)
    _check(keys, f"{name}.key", type_.key, of_entries)
    _check(items, f"{name}.value", type_.value, of_entries)
    if (at := first_repeated(bounds, keys)) is not None:
        raise InvalidData(f"Column {name}, row {of_entries.number(at)}: the MAP has the key {_shown(keys[at])} twice.")


def _check_years(array: pa.Array, name: str, type_: DataType, rows: Rows) -> None:
    """Arrow's days and microseconds reach years that no SQL has a text for."""
    first, end = (pa.scalar(day, pa.timestamp("s")).cast(_without_zone(array.type)) for day in (FIRST_SECOND, END_SECOND))
    plain = array.cast(first.type) if array.type != first.type else array
    bounds = pc.min_max(plain)
    if not bounds["min"].is_valid or (_number(bounds["min"]) >= _number(first) and _number(bounds["max"]) < _number(end)):
        return
    outside = pc.or_(pc.less(plain, first), pc.greater_equal(plain, end))
    row = rows.number(pc.index(outside, True).as_py())
    raise InvalidData(f"Column {name}, row {row}: a value before the year 1 or after 9999 does not fit {type_.sql()}.")


def _check_digits(array: pa.Array, name: str, type_: DataType, rows: Rows) -> None:
    """Arrow's unit may hold more digits of a second than the type does."""
    unit = _excess_unit(type_)
    if unit == 1:
        return
    numbers = array.cast(pa.int32() if pa.types.is_time32(array.type) else pa.int64())
    position = pc.index(pc.not_equal(pc.multiply(pc.divide(numbers, unit), unit), numbers), True).as_py()
    if position >= 0:
        raise InvalidData(f"Column {name}, row {rows.number(position)}: {_shown(array[position])} does not fit {type_.sql()}.")


def _excess_unit(type_: DataType) -> int:
    """How many of Arrow's units the last digit of a TIME or TIMESTAMP is; 1 for all other types."""
    if isinstance(type_, TimeType):
        return int(10 ** (3 - type_.digits))
    if not isinstance(type_, TimestampType | LocalZonedTimestampType):
        return 1
    return int(10 ** ((3 if type_.precision <= 3 else 6) - type_.precision))


def _number(moment: pa.Scalar) -> int:
    return int(moment.value)


def _without_zone(type_: pa.DataType) -> pa.DataType:
    return pa.timestamp(type_.unit) if pa.types.is_timestamp(type_) else type_


def _check_length(lengths: pa.Array, limit: int, name: str, type_: DataType, rows: Rows) -> None:
    longest = pc.max(lengths).as_py()
    if longest is not None and longest > limit:
        position = pc.index(pc.greater(lengths, limit), True).as_py()
        length = lengths[position].as_py()
        raise InvalidData(f"Column {name}, row {rows.number(position)}: a value of length {length} does not fit {type_.sql()}.")
