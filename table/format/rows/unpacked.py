"""Batches whose values take more once they are plain: dictionaries and views name one value many times, in a few bytes each.

A file of 438 bytes, or a body as small, may hold 100 MB of text in this way; whoever makes it plain does so a bounded piece at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Sizes = npt.NDArray[np.int64]
_MOST_ROW_BYTES = 1 << 30
_OFFSET_BYTES = 4
_VIEW_BYTES = 16


def plain_pieces(batch: pa.RecordBatch, most_bytes: int, *, most_together: int | None = None) -> Iterator[pa.RecordBatch]:
    """The rows without dictionaries, in order, in slices that take at most ``most_bytes`` of memory; a larger row is a slice of its own.

    Texts that are views stay such, which take no more than they did; slices are bounded by what they show. Offsets lie inside their buffers
    (`validated`, or Arrow's reader of a file). Raises `pa.ArrowCapacityError` for a row of more than 1 GB, and for a batch of more than
    ``most_together`` bytes before any of it is made plain; `pa.ArrowIndexError` for an index that points outside its dictionary, which
    Arrow's reader of Parquet lets pass.
    """
    schema = pa.schema([field.with_type(plain_type(field.type)) for field in batch.schema], batch.schema.metadata)
    if not any(_may_grow(type_) for type_ in batch.schema.types):
        yield batch
        return
    for column in batch.columns:
        _check_indices(column)
    if sum(map(_most_size, batch.columns)) <= most_bytes:
        yield _plain(batch, schema)
        return
    ends = np.cumsum(reduce(np.add, map(plain_sizes, batch.columns)))
    if most_together is not None and len(ends) and ends[-1] > most_together:
        rows, size = batch.num_rows, int(ends[-1])
        raise pa.ArrowCapacityError(f"a batch of {rows:,} rows takes {size:,} bytes once unpacked, more than {most_together:,}")
    for start, end in _slices(ends, most_bytes):
        yield _plain(batch.slice(start, end - start), schema)


def pieces(batch: pa.RecordBatch, most_bytes: int, most_rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of a plain batch, in order and not copied, in slices of at most so many rows and bytes; a larger row is a slice of its own.

    Raises `pa.ArrowCapacityError` for a row of more than 1 GB.
    """
    if batch.nbytes <= most_bytes:
        for start in range(0, batch.num_rows, most_rows):
            yield batch.slice(start, most_rows)
        return
    ends = np.cumsum(reduce(np.add, map(plain_sizes, batch.columns)))
    for start, end in _slices(ends, most_bytes):
        for at in range(start, end, most_rows):
            yield batch.slice(at, min(most_rows, end - at))


def _slices(ends: Sizes, most_bytes: int) -> Iterator[tuple[int, int]]:
    """Where slices of so many bytes begin and end, by where each row ends."""
    start, before = 0, 0
    while start < len(ends):
        end = max(start + 1, int(np.searchsorted(ends, before + most_bytes, side="right")))
        if ends[end - 1] - before > max(most_bytes, _MOST_ROW_BYTES):
            raise pa.ArrowCapacityError(f"a row takes {int(ends[end - 1]) - before:,} bytes, of which at most {_MOST_ROW_BYTES:,} are read")
        yield start, end
        start, before = end, int(ends[end - 1])


def _plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [_plain_values(column, type_) for column, type_ in zip(batch.columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _plain_values(array: pa.Array, type_: pa.DataType) -> pa.Array:
    types = pa.types
    if array.type == type_:
        return array
    if types.is_dictionary(array.type):
        return _plain_values(array.dictionary.take(array.indices), type_)
    if not _has_list_views(array.type):
        return array.cast(type_)
    if types.is_struct(type_):
        parts = [_plain_values(array.field(number), type_.field(number).type) for number in range(type_.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(type_), mask=array.is_null())
    if types.is_fixed_size_list(type_):
        values = array.values.slice(array.offset * type_.list_size, len(array) * type_.list_size)
        return pa.FixedSizeListArray.from_arrays(_plain_values(values, type_.value_type), type=type_, mask=array.is_null())
    offsets, parts = _of_lists(array)
    bounds = pa.array(offsets, pa.int64() if types.is_large_list(type_) else pa.int32())
    if types.is_map(type_):
        keys, items = _plain_values(parts[0], type_.key_type), _plain_values(parts[1], type_.item_type)
        return pa.MapArray.from_arrays(bounds, keys, items, type=type_, mask=array.is_null())
    kind = pa.LargeListArray if types.is_large_list(type_) else pa.ListArray
    return kind.from_arrays(bounds, _plain_values(parts[0], type_.value_type), type=type_, mask=array.is_null())


def _of_lists(array: pa.Array) -> tuple[Sizes, list[pa.Array]]:
    """Where the lists begin and end, from 0 on, in the values that are the second part; maps have keys and items.

    Views are laid one after the other: Arrow's own cast takes wrong offsets for views that overlap, go back or are a slice.
    """
    if pa.types.is_list_view(array.type) or pa.types.is_large_list_view(array.type):
        lengths = _whole_numbers(array.sizes)
        lengths[np.asarray(array.is_null())] = 0
        return _ends(lengths), [array.flatten()]
    bounds = _whole_numbers(array.offsets)
    parts = [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]
    return bounds - bounds[0], [part.slice(int(bounds[0]), int(bounds[-1] - bounds[0])) for part in parts]


def _has_list_views(type_: pa.DataType) -> bool:
    if pa.types.is_list_view(type_) or pa.types.is_large_list_view(type_):
        return True
    if pa.types.is_dictionary(type_):
        return _has_list_views(type_.value_type)
    return pa.types.is_nested(type_) and any(_has_list_views(type_.field(number).type) for number in range(type_.num_fields))


def _check_indices(array: pa.Array) -> None:
    """Raise `pa.ArrowIndexError` where an index points outside its dictionary."""
    types, type_ = pa.types, array.type
    if types.is_dictionary(type_):
        bounds = pc.min_max(array.indices)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if low is not None and (low < 0 or high >= len(array.dictionary)):
            raise pa.ArrowIndexError(f"an index points outside its dictionary of {len(array.dictionary)} values")
        _check_indices(array.dictionary)
    elif types.is_struct(type_):
        for number in range(type_.num_fields):
            _check_indices(array.field(number))
    elif types.is_map(type_):
        _check_indices(array.keys)
        _check_indices(array.items)
    elif types.is_nested(type_) and _may_grow(type_):
        _check_indices(array.values)


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type without dictionaries, in nested types as well; a list is one whose values do not overlap."""
    types = pa.types
    if types.is_dictionary(type_):
        return plain_type(type_.value_type)
    if types.is_struct(type_):
        return pa.struct([_plain_field(type_.field(number)) for number in range(type_.num_fields)])
    if types.is_map(type_):
        return pa.map_(_plain_field(type_.key_field), _plain_field(type_.item_field), keys_sorted=type_.keys_sorted)
    if types.is_fixed_size_list(type_):
        return pa.list_(_plain_field(type_.value_field), type_.list_size)
    for is_kind, kind in _LISTS.items():
        if getattr(types, is_kind)(type_):
            return kind(_plain_field(type_.value_field))
    return type_


_LISTS = {
    "is_list": pa.list_,
    "is_large_list": pa.large_list,
    "is_list_view": pa.list_,
    "is_large_list_view": pa.large_list,
}


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(plain_type(field.type))


def _may_grow(type_: pa.DataType) -> bool:
    types = pa.types
    if types.is_dictionary(type_) or types.is_string_view(type_) or types.is_binary_view(type_):
        return True
    if types.is_list_view(type_) or types.is_large_list_view(type_):
        return True
    return types.is_nested(type_) and any(_may_grow(type_.field(number).type) for number in range(type_.num_fields))


def _most_size(array: pa.Array) -> int:
    """A quick bound of what an array takes once it is plain, far beyond the truth for nested ones."""
    if pa.types.is_dictionary(array.type) and _is_text(array.type.value_type):
        longest = int(pc.max(pc.binary_length(array.dictionary)).as_py() or 0)
        return (longest + _OFFSET_BYTES) * len(array)
    return int(plain_sizes(array).sum(dtype=np.int64)) if _may_grow(array.type) else int(array.nbytes)


def plain_sizes(array: pa.Array) -> Sizes:
    """Bytes that each value takes once it is plain, about; the array's offsets and indices point inside its buffers."""
    types, type_, rows = pa.types, array.type, len(array)
    if types.is_dictionary(type_):
        if not len(array.dictionary):
            return np.zeros(rows, np.int64)
        sizes: Sizes = plain_sizes(array.dictionary)[_whole_numbers(array.indices)]
        sizes[np.asarray(array.is_null())] = 0
        return sizes
    if types.is_string_view(type_) or types.is_binary_view(type_):
        return _view_sizes(array)
    if _is_text(type_):
        return _whole_numbers(pc.binary_length(array)) + _OFFSET_BYTES
    if types.is_struct(type_):
        return reduce(np.add, (plain_sizes(array.field(number)) for number in range(type_.num_fields)), np.zeros(rows, np.int64))
    if types.is_fixed_size_list(type_):
        inside = plain_sizes(array.values.slice(array.offset * type_.list_size, rows * type_.list_size))
        total: Sizes = inside.reshape(rows, type_.list_size).sum(axis=1, dtype=np.int64)
        return total
    if types.is_list_view(type_) or types.is_large_list_view(type_):
        starts, lengths = _whole_numbers(array.offsets), _whole_numbers(array.sizes)
        ends = _ends(plain_sizes(array.values))
        sizes = ends[starts + lengths] - ends[starts] + _OFFSET_BYTES
        sizes[np.asarray(array.is_null())] = 0
        return sizes
    if types.is_nested(type_):  # lists and maps
        return _list_sizes(array)
    return np.full(rows, 0 if types.is_null(type_) else -(-type_.bit_width // 8), np.int64)


def _list_sizes(array: pa.Array) -> Sizes:
    if not len(array):
        return np.zeros(0, np.int64)
    offsets, parts = _of_lists(array)
    return np.diff(_ends(reduce(np.add, map(plain_sizes, parts)))[offsets]) + _OFFSET_BYTES


def _view_sizes(array: pa.Array) -> Sizes:
    views = array.buffers()[1]
    if views is None:
        return np.zeros(len(array), np.int64)
    lengths = np.frombuffer(views, np.int32, count=views.size // _VIEW_BYTES * 4)[::4]
    sizes: Sizes = lengths[array.offset : array.offset + len(array)].astype(np.int64) + _VIEW_BYTES
    sizes[np.asarray(array.is_null())] = 0
    return sizes


def _ends(sizes: Sizes) -> Sizes:
    """Where each value ends, after a first zero."""
    ends: Sizes = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
    return ends


def _whole_numbers(array: pa.Array) -> Sizes:
    """The numbers of an integer array, 0 for NULL."""
    numbers = array.fill_null(0) if array.null_count else array
    whole: Sizes = np.asarray(numbers).astype(np.int64)
    return whole


def _is_text(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_string(type_) or types.is_large_string(type_) or types.is_binary(type_) or types.is_large_binary(type_))
