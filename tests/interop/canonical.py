"""One JSON spelling of a value for every reader; runs in pypaimon's environment too, so it needs nothing but pyarrow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa


def rows(table: pa.Table) -> list[list[Any]]:
    """The table's rows, each a list of spelled values."""
    columns = [column(table.column(i).combine_chunks(), table.schema.field(i).type) for i in range(table.num_columns)]
    return [list(row) for row in zip(*columns, strict=True)]


def column(values: Any, kind: pa.DataType) -> list[Any]:
    """All values of a column as spelled."""
    if isinstance(values, pa.ChunkedArray):  # combine_chunks of an empty column
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], kind)
    if pa.types.is_timestamp(kind):
        micros = pa.timestamp("us", tz=kind.tz)
        return list(values.cast(micros).cast(pa.int64()).to_pylist())
    if pa.types.is_time64(kind):  # milliseconds of the day in another unit
        return column(values.cast(pa.time32("ms")), pa.time32("ms"))
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return list(values.cast(pa.int32()).to_pylist())
    spell = _spelling(kind)
    return [None if value is None else spell(value) for value in values.to_pylist()]


def _spelling(kind: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_floating(kind):
        return _number
    if pa.types.is_decimal(kind):
        return lambda value: format(value, "f")
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return lambda value: "0x" + value.hex()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = _nullable(kind.value_type)
        return lambda value: [element(item) for item in value]
    if pa.types.is_map(kind):
        key, item = _nullable(kind.key_type), _nullable(kind.item_type)
        return lambda value: [[key(k), item(v)] for k, v in value]
    if pa.types.is_struct(kind):
        fields = [(kind.field(i).name, _nullable(kind.field(i).type)) for i in range(kind.num_fields)]
        return lambda value: [spell(value[name]) for name, spell in fields]
    return lambda value: value


def _nullable(kind: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_temporal(kind):
        return lambda value: None if value is None else column(pa.array([value], kind), kind)[0]
    spell = _spelling(kind)
    return lambda value: None if value is None else spell(value)


def _number(value: float) -> float | str:
    return "NaN" if math.isnan(value) else str(value) if math.isinf(value) else value
