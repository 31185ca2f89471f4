"""A column as a file holds it under the type the table has now: parts of ROWs are matched by id, however deep (`paimon-append.md` §2.4)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from model.errors import UnsupportedType
from model.schema.casting import is_cast, parts_cast
from model.schema.types import ArrayType, DataType, MapType, RowType
from table.format.rows.arrow import arrow_field, arrow_type
from table.format.rows.convert import converted
from table.format.rows.nested import inside, is_list, list_of, map_of, row_of

_FIELD_MAPPING = "__field_mapping"
"""The part of a MAP's ROW in a file that tells which column holds which key's values."""


def evolved(array: pa.Array, source: DataType, target: DataType, name: str) -> pa.Array:
    """Column ``name`` as a file holds it, under the type the table has now; ``source`` is its type in the file's schema.

    Raises `UnsupportedType` for what is not cast here, `InvalidData` for a value that has no form in the new type, and what Arrow raises
    for values that are none of the old type's.
    """
    if source == target and array.type == arrow_type(target):
        return array
    match source, target:
        case RowType(), RowType():
            return _evolved_row(array, source, target, name)
        case ArrayType(), ArrayType():
            check_parts(source, target, name)
            return _evolved_array(array, source, target, name)
        case MapType(), MapType():
            check_parts(source, target, name)
            return _evolved_map(array, source, target, name)
    if is_cast(source, target):
        return converted(in_form(array, source), source, target, name)
    return in_form(array, target)


def check_parts(source: DataType, target: DataType, name: str) -> None:
    """Raise `UnsupportedType` where elements of arrays or maps would have to be cast, which only other engines' ALTER asks for."""
    if parts_cast(source, target):
        raise UnsupportedType(
            f"Column {name} was {source.sql()} when some rows were written and is {target.sql()} now: values inside arrays and maps "
            "are not cast here. Give the column its old type again, or read it with a Paimon client."
        )


def in_form(array: pa.Array, target: DataType) -> pa.Array:
    """Values of a type, or of one it holds every value of, in the type's Arrow form."""
    wanted = arrow_type(target)
    if array.type == wanted:
        return array
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(array.type):
        return _timestamps(array, wanted)
    if pa.types.is_time(wanted):
        array = array.cast(pa.int32()) if pa.types.is_integer(array.type) else array
        return array.cast(options=pc.CastOptions(wanted, allow_time_truncate=True))
    if pa.types.is_decimal(wanted) and pa.types.is_integer(array.type):
        return array.cast(pa.decimal128(38, 0)).cast(wanted)
    return array.cast(wanted)


def _timestamps(array: pa.Array, wanted: pa.TimestampType) -> pa.Array:
    """Digits that the unit lacks are cut off. Whether the file says UTC or not, the instant on the clock face is the same number."""
    faces, unit = array.cast(pa.timestamp(array.type.unit)), pa.timestamp(wanted.unit)
    try:
        faces = faces.cast(unit)
    except pa.ArrowInvalid:  # or a moment that is beyond the unit's reach, which raises again
        faces = pc.floor_temporal(faces, unit=_UNITS[wanted.unit]).cast(unit)
    return faces if wanted.tz is None else faces.cast(pa.int64()).cast(wanted)


_UNITS = {"ms": "millisecond", "us": "microsecond"}


def _evolved_row(array: pa.Array, source: RowType, target: RowType, name: str) -> pa.Array:
    if not pa.types.is_struct(array.type):
        array = array.cast(arrow_type(source))
    by_id = {field.id: field for field in source.fields}
    parts = []
    for field in target.fields:
        old = by_id.get(field.id)
        position = -1 if old is None else _position(array.type, source, old.name, name)
        if old is None or position < 0:
            parts.append(pa.nulls(len(array), arrow_type(field.type)))
        else:
            parts.append(evolved(array.field(position), old.type, field.type, f"{name}.{field.name}"))
    # NULL may still stand where a part is NOT NULL by now, in older rows: it is read, and not cast, which Arrow refuses.
    return row_of(array, parts, [arrow_field(field) for field in target.fields])


def _position(held: pa.StructType, source: RowType, part: str, name: str) -> int:
    """Where a ROW's part lies in a file, which its schema names alone; -1 where the file lacks it, as those of Hive's tables may.

    Raises `pa.ArrowInvalid` where the file has a part of another name instead: a name that was changed would make its values NULL.
    """
    position: int = held.get_field_index(part)
    if position < 0:
        others = {held.field(at).name for at in range(held.num_fields)}.difference(field.name for field in source.fields)
        if others:
            raise pa.ArrowInvalid(f"{name} lacks {part} and has {min(others)}")
    return position


def _evolved_array(array: pa.Array, source: ArrayType, target: ArrayType, name: str) -> pa.Array:
    if not is_list(array.type):
        array = array.cast(arrow_type(source))
    bounds, (elements,) = inside(array)
    return list_of(array, bounds, evolved(elements, source.element, target.element, name), nullable=target.element.nullable)


def _evolved_map(array: pa.Array, source: MapType, target: MapType, name: str) -> pa.Array:
    if not pa.types.is_map(array.type):
        if (problem := layout_problem(array.type, name)) is not None:
            raise problem
        array = array.cast(arrow_type(source))
    bounds, (keys, items) = inside(array)
    keys = evolved(keys, source.key, target.key, name)
    return map_of(array, bounds, keys, evolved(items, source.value, target.value, name), nullable=target.value.nullable)


def layout_problem(held: pa.DataType, name: str) -> UnsupportedType | None:
    """The error of a MAP whose values of one key lie in a column, as Java writes them by `map.storage-layout`; None for any other."""
    if not pa.types.is_struct(held) or held.get_field_index(_FIELD_MAPPING) < 0:
        return None
    return UnsupportedType(
        f"Column {name} is stored with 'fields.{name}.map.storage-layout' = 'shared-shredding', which is not read here. Leave it out, "
        "or read it with a Paimon client."
    )
