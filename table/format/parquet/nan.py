"""NaN in Parquet: most writers leave it out of a footer's bounds, and readers who go by these bounds leave out the rows with NaN.

A NaN is greater than every number for Spark and Paimon: ``x > 5``, ``x <> 1`` and ``NOT (x < 3)`` keep it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

_PARQUET_MR = re.compile(r"parquet-mr version 1\.(\d+)")


def nan_shows(metadata: pq.FileMetaData) -> bool:
    """Whether a NaN among the values shows in the bounds: parquet-mr's bound is NaN then, and its readers take none of the two."""
    try:
        version = _PARQUET_MR.match(metadata.created_by or "")
    except UnicodeDecodeError:  # changed bits, or a writer that nobody knows
        return False
    return version is not None and int(version[1]) >= 10


def hides_nan(metadata: pq.FileMetaData) -> bool:
    """Whether some bounds of the file may leave a NaN out."""
    if nan_shows(metadata):
        return False
    columns = [at for at in range(metadata.num_columns) if metadata.schema.column(at).physical_type in ("FLOAT", "DOUBLE")]
    for group in range(metadata.num_row_groups if columns else 0):
        row_group = metadata.row_group(group)
        for at in columns:
            statistics = row_group.column(at).statistics
            if statistics is not None and statistics.has_min_max:
                return True
    return False


def columns_without_floats(schema: pa.Schema) -> list[str]:
    """The columns whose bounds Arrow's writer may note, as Parquet names them: all but those that can hold a NaN."""
    floats, others = set(), []
    for field in schema:
        for path, type_ in _leaves(field.name, field.type):
            if pa.types.is_floating(type_):
                floats.add(path)
            else:
                others.append(path)
    return [path for path in others if path not in floats]  # `a.b` may be a column's name and a ROW's part


def _leaves(path: str, type_: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if pa.types.is_struct(type_):
        for field in type_:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(type_):
        yield from _leaves(f"{path}.key_value.key", type_.key_type)
        yield from _leaves(f"{path}.key_value.value", type_.item_type)
    elif pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        yield from _leaves(f"{path}.list.element", type_.value_type)
    else:
        yield path, type_
