"""A task that writes its rows as data files of a table, each at its final place."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator

import pyarrow as pa

from model.schema.schema import Schema
from table.format.rows.arrow import arrow_type
from table.format.rows.cast import fit
from table.format.store import TableFiles
from table.write.writer import write_batches

_FILES = pa.schema([("file", pa.binary())])
"""A row for each file that was written, pickled as a `NewFile`."""


def writing(files: TableFiles, schema: Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The task; its rows have the table's columns, and maybe others."""
    names = [f.name for f in schema.fields]

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fitted = (fit(_storable(batch.select(names), schema), schema) for batch in batches)
        written = write_batches(files, schema, fitted)
        yield pa.RecordBatch.from_pydict({"file": [pickle.dumps(new) for new in written]}, schema=_FILES)

    return task


def _storable(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Spark's microseconds as the table's precision; what lies beyond is cut off, as everywhere."""
    arrays = []
    for array, field in zip(batch.columns, schema.fields, strict=True):
        wanted = arrow_type(field.type)
        if pa.types.is_timestamp(wanted) or pa.types.is_time(wanted):
            array = array.cast(wanted, safe=False)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
