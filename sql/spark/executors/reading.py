"""A task that reads data files by the code that reads files without Spark."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from model.schema.schema import Schema
from table.format.deletions import positions
from table.format.store import TableFiles
from table.scan.planning.plan import PlannedFile
from table.scan.read import Selection, read_batches
from workers.memory import limited
from workers.pool import WorkerLimits

Reader = Callable[[TableFiles, Schema, Sequence[PlannedFile], Sequence[str]], Iterator[pa.RecordBatch]]
"""Reads some columns of files; a function of a module that may be imported here."""


def rows_of(store: TableFiles, schema: Schema, files: Sequence[PlannedFile], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of files that are not deleted."""
    return read_batches(store, schema, files, Selection(columns=columns, counted=True))


def reading(
    store: TableFiles,
    schema: Schema,
    reader: Reader,
    columns: Sequence[str],
    wanted: pa.Schema,
    beside: tuple[str, str] | None,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The task; each of its rows has a pickled `PlannedFile` as ``file``, and its ``name``.

    It makes rows of ``wanted``, whose columns that are none of ``columns`` are NULL, but for the two of ``beside``: the file's name, and
    the row's number in it.
    """

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for pickled, name in zip(batch.column("file").to_pylist(), batch.column("name").to_pylist(), strict=True):
                planned_file = pickle.loads(pickled)
                left = None if beside is None else _left(store, planned_file)
                row = 0
                for rows in _bounded(reader(store, schema, [planned_file], columns)):
                    more = {} if beside is None else _numbered(beside, name, row, rows.num_rows, left)
                    arrays = [
                        more[field.name]
                        if field.name in more
                        else _fitted(rows.column(field.name), field.type)
                        if field.name in columns
                        else pa.nulls(rows.num_rows, field.type)
                        for field in wanted
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, schema=wanted)
                    row += rows.num_rows

    return work


def _bounded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches, decoded in as much memory as the server's own workers have."""
    with limited(WorkerLimits().memory_bytes):
        yield from batches


def _left(store: TableFiles, planned_file: PlannedFile) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """The numbers of a file's rows that are not deleted; None where none is."""
    if planned_file.vector is None:
        return None
    count = planned_file.file.row_count
    return np.delete(np.arange(count), positions(store, planned_file.vector, count))


def _numbered(
    beside: tuple[str, str], name: str, row: int, rows: int, left: np.ndarray[Any, np.dtype[np.int64]] | None
) -> dict[str, pa.Array]:
    numbers = np.arange(row, row + rows) if left is None else left[row : row + rows]
    return {beside[0]: pa.repeat(pa.scalar(name), rows), beside[1]: pa.array(numbers, pa.int64())}


def _fitted(array: pa.Array, wanted: Any) -> pa.Array:
    """Milliseconds as microseconds, and the like: never a loss."""
    return array if array.type == wanted else array.cast(wanted)
