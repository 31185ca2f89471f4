"""Values of ARRAY, MAP and ROW columns taken apart and put together again, so that each part can be given another form by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class Rows:
    """Which row of a body each value stands in: in order, or given one by one for values inside others."""

    first: int
    of: pa.Array | None = None

    def number(self, position: int) -> int:
        """The row of the value at a position, counted from 1."""
        return self.first + 1 + (position if self.of is None else int(self.of[position].as_py()))

    def through(self, positions: pa.Array) -> Rows:
        """The rows of values that stand in those at these positions."""
        return Rows(self.first, positions if self.of is None else self.of.take(positions))

    def inside(self, bounds: pa.Array) -> Rows:
        """The rows of what stands inside lists or maps, by where the values of each begin and end."""
        return self.through(pa.array(rows_inside(bounds)))


def is_list(type_: pa.DataType) -> bool:
    """Whether values are lists of any of Arrow's layouts; maps are none."""
    types = pa.types
    fixed = types.is_fixed_size_list(type_)
    views = types.is_list_view(type_) or types.is_large_list_view(type_)
    return bool(types.is_list(type_) or types.is_large_list(type_) or fixed or views)


def inside(array: pa.Array) -> tuple[pa.Array, list[pa.Array]]:
    """Where the values of each row begin and end, from 0 on, and the values: a list's elements, or a map's keys and its items.

    What may lie below rows that are NULL is left out. Raises `pa.ArrowInvalid` for more values than a list of this type can hold.
    """
    if is_list(array.type):
        lengths = np.asarray(pc.list_value_length(array).fill_null(0)).astype(np.int64)
        return _bounds(lengths), [array.flatten()]
    ends: npt.NDArray[np.int64] = np.asarray(array.offsets).astype(np.int64) if len(array) else np.zeros(1, np.int64)
    lengths = np.diff(ends).astype(np.int64)
    if array.null_count and lengths[np.asarray(array.is_null())].any():
        return inside(array.take(pa.array(np.arange(len(array)))))
    first, count = int(ends[0]), int(ends[-1] - ends[0])
    return _bounds(lengths), [array.keys.slice(first, count), array.items.slice(first, count)]


def _bounds(lengths: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]), pa.int32())


def rows_inside(bounds: pa.Array) -> npt.NDArray[np.int32]:
    """The row that each value stands in, by where the values of each row begin and end."""
    lengths = np.diff(np.asarray(bounds))
    return np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)


def list_of(rows: pa.Array, bounds: pa.Array, elements: pa.Array, *, nullable: bool) -> pa.Array:
    """Lists of such elements, NULL where ``rows`` are."""
    made = pa.list_(pa.field("element", elements.type, nullable=nullable))
    return pa.ListArray.from_arrays(bounds, elements, type=made, mask=_nulls(rows))


def map_of(rows: pa.Array, bounds: pa.Array, keys: pa.Array, items: pa.Array, *, nullable: bool) -> pa.Array:
    """Maps of such keys and items, NULL where ``rows`` are."""
    made = pa.map_(keys.type, pa.field("value", items.type, nullable=nullable))
    return pa.MapArray.from_arrays(bounds, keys, items, type=made, mask=_nulls(rows))


def row_of(rows: pa.Array, parts: Sequence[pa.Array], fields: Sequence[pa.Field]) -> pa.Array:
    """ROWs of such parts, NULL where ``rows`` are; ``fields`` give each part its name and say whether it may be NULL.

    A part that may not be NULL and is, in a ROW that is there, stays: what is read from files may hold it.
    """
    fields = [field.with_type(part.type) for field, part in zip(fields, parts, strict=True)]
    if rows.null_count == len(rows):
        return pa.array([None] * len(rows), pa.struct(fields))
    if rows.null_count:
        parts = [part if field.nullable else _filled(part, rows) for field, part in zip(fields, parts, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=rows.is_null())


def _filled(part: pa.Array, rows: pa.Array) -> pa.Array:
    """A NOT NULL part without NULL below ROWs that are NULL, as ORC has it there: writers refuse it.

    It gets the least value of its type, which nobody sees and which takes no memory; a row's own may be long.
    """
    if not part.null_count:
        return part
    below = rows.is_null().to_numpy(zero_copy_only=False)
    least = pa.array([None], pa.struct([pa.field("part", part.type, nullable=False)])).field(0)
    return pa.concat_arrays([part, least]).take(pa.array(np.where(below, len(part), np.arange(len(part)))))


def _nulls(rows: pa.Array) -> pa.Array | None:
    return rows.is_null() if rows.null_count else None
