"""What rows take in memory, with what Arrow needs for each array beside its values, and what their columns take."""

from __future__ import annotations

import pyarrow as pa

ARRAY_BYTES, BATCH_BYTES = 800, 600
"""What an array takes beside its values, and a batch beside its arrays: of one row of 10,000 numbers these are 240 times the values."""
_COLUMN_BYTES = 200
"""What a column's name and type take."""


def memory_of(rows: pa.RecordBatch | pa.Table) -> int:
    """Bytes that a batch takes, or all those of a table; one of NULLs has no values."""
    batches = max((column.num_chunks for column in rows.columns), default=1) if isinstance(rows, pa.Table) else 1
    return int(rows.nbytes) + batches * (BATCH_BYTES + ARRAY_BYTES * _arrays(rows.schema))


def memory_of_columns(count: int) -> int:
    """Bytes that the names and types of so many columns take."""
    return _COLUMN_BYTES * count


def _arrays(schema: pa.Schema) -> int:
    """How many a batch has, with those inside others."""
    count, types = 0, list(schema.types)
    while types:
        type_ = types.pop()
        count += 1
        if isinstance(type_, pa.DictionaryType):
            types.append(type_.value_type)
        types += [type_.field(place).type for place in range(type_.num_fields)]
    return count
