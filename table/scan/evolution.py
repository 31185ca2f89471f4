"""A column as a file holds it under the type the table has now: parts of ROWs are matched by id, however deep (`paimon-append.md` §2.4)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from model.errors import UnsupportedType
from model.schema.casting import is_cast, parts_cast
from model.schema.types import ArrayType, DataType, MapType, RowType
from table.format.rows.arrow import arrow_type
from table.format.rows.convert import converted


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
        # Whether the file says UTC or not, the instant on the clock face is the same number.
        return (
            array.cast(pa.timestamp(array.type.unit)).cast(pa.timestamp(wanted.unit)).cast(wanted)
            if wanted.tz is None
            else _zoned(array, wanted)
        )
    if pa.types.is_time(wanted) and pa.types.is_integer(array.type):
        return array.cast(pa.int32()).cast(wanted)
    if pa.types.is_decimal(wanted) and pa.types.is_integer(array.type):
        return array.cast(pa.decimal128(38, 0)).cast(wanted)
    return array.cast(wanted)


def _zoned(array: pa.Array, wanted: pa.TimestampType) -> pa.Array:
    return array.cast(pa.timestamp(array.type.unit)).cast(pa.timestamp(wanted.unit)).cast(pa.int64()).cast(wanted)


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
    if array.null_count == len(array):
        return pa.array([None] * len(array), arrow_type(target))
    if array.null_count:
        parts = [part if field.type.nullable else _filled(part, array) for field, part in zip(target.fields, parts, strict=True)]
    # NULL may still stand where a part is NOT NULL by now, in older rows: it is read, and not cast, which Arrow refuses.
    fields = [pa.field(field.name, part.type, nullable=field.type.nullable) for field, part in zip(target.fields, parts, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null())


def _filled(part: pa.Array, rows: pa.Array) -> pa.Array:
    """A NOT NULL part without NULL below ROWs that are NULL, as ORC has it there: writers refuse it.

    It gets the least value of its type, which nobody sees and which takes no memory; a row's own may be long.
    """
    if not part.null_count:
        return part
    below = rows.is_null().to_numpy(zero_copy_only=False)
    least = pa.array([None], pa.struct([pa.field("part", part.type, nullable=False)])).field(0)
    return pa.concat_arrays([part, least]).take(pa.array(np.where(below, len(part), np.arange(len(part)))))


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
    if pa.types.is_large_list(array.type) or pa.types.is_fixed_size_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    if not pa.types.is_list(array.type):
        array = array.cast(arrow_type(source))
    offsets, first, last = _offsets(array)
    values = evolved(array.values.slice(first, last - first), source.element, target.element, name)
    made = pa.list_(pa.field("element", values.type, nullable=target.element.nullable))
    return pa.ListArray.from_arrays(offsets, values, type=made, mask=_nulls(array))


def _evolved_map(array: pa.Array, source: MapType, target: MapType, name: str) -> pa.Array:
    if not pa.types.is_map(array.type):
        array = array.cast(arrow_type(source))
    offsets, first, last = _offsets(array)
    keys = evolved(array.keys.slice(first, last - first), source.key, target.key, name)
    values = evolved(array.items.slice(first, last - first), source.value, target.value, name)
    made = pa.map_(keys.type, pa.field("value", values.type, nullable=target.value.nullable))
    return pa.MapArray.from_arrays(offsets, keys, values, type=made, mask=_nulls(array))


def _offsets(array: pa.Array) -> tuple[pa.Array, int, int]:
    """Where each row's elements begin, from 0 on, and where the first row's begin and the last one's end in the array's values."""
    offsets = array.offsets.to_numpy()
    if not len(array):
        return pa.array([0], pa.int32()), 0, 0
    first, last = int(offsets[0]), int(offsets[-1])
    return pa.array(offsets - first), first, last


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None
