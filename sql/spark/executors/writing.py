"""A task that writes its rows as data files of a table, each at its final place."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator

import pyarrow as pa

from model.schema.schema import Schema
from table.format.rows.arrow import arrow_schema
from table.format.store import TableFiles
from table.scan.evolution import evolved
from table.write.writer import write_batches

_FILES = pa.schema([("file", pa.binary())])
"""A row for each file that was written, pickled as a `NewFile`."""


def writing(files: TableFiles, schema: Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The task; its rows have the table's columns, in the form they have in Parquet files."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = write_batches(files, schema, (_typed(batch, schema) for batch in batches), rewrites=True)
        yield pa.RecordBatch.from_pydict({"file": [pickle.dumps(new) for new in written]}, schema=_FILES)

    return task


def _typed(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """The rows under the table's own types: what may be stored was asked before, and rows that lie in files already are not asked again."""
    columns = [evolved(array, field.type, field.type, field.name) for array, field in zip(batch.columns, schema.fields, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(schema.fields))
