"""Rows of a data file held against the partition that its manifest tells, which counts: Spark's readers show what the file has."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from model.schema.schema import Schema
from table.write.bucket import as_column

_COMPARED = frozenset({"BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "DECIMAL", "VARCHAR", "BINARY", "VARBINARY"})
"""Types whose values every writer and a manifest spell alike; of others NULLs are counted."""


class PartitionRows:
    """The partition of a file, and whether its rows are of another; ``schema`` is the one it was written with."""

    def __init__(self, schema: Schema, partition: Sequence[object]) -> None:
        self.other: str | None = None
        """The first column that has other values in rows that were looked at."""
        known = len(partition) == len(schema.partition_keys)  # else of a table that was replaced
        self._wanted = [
            (field.name, as_column(field.type, [value]) if value is not None and field.type.root in _COMPARED else None, value is None)
            for field, value in zip(schema.partition_fields if known else (), partition if known else (), strict=True)
        ]

    def look(self, batch: pa.RecordBatch) -> None:
        """Look at some rows; a column that they have not is left to the manifest."""
        for name, wanted, is_null in self._wanted:
            if self.other is None and name in batch.schema.names and _differs(batch.column(name), wanted, is_null=is_null):
                self.other = name

    def fault(self) -> str | None:
        """What is wrong with the rows that were looked at."""
        if self.other is None:
            return None
        return (
            f"has rows of another partition in column {self.other} than its manifest tells, which counts here and for Paimon's readers; "
            "who reads the file by itself sees its own"
        )


def _differs(column: pa.Array, wanted: pa.Array | None, *, is_null: bool) -> bool:
    if column.null_count != (len(column) if is_null else 0):
        return True
    if wanted is None or not len(column):
        return False
    try:
        values = column.cast(wanted.type)
    except pa.ArrowNotImplementedError:  # of a type that says nothing of this one
        return False
    except pa.ArrowInvalid:  # beyond its bounds
        return True
    return not pc.all(pc.equal(values, wanted[0])).as_py()
