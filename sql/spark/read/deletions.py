"""Files of which some rows are deleted (`paimon-append.md` §4.8), read on Spark."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from lake import LakeTable
from model.schema.schema import Schema
from sql.spark.read.types import to_spark
from table.format.deletions import positions
from table.format.store import TableFiles
from table.scan.plan import PlannedFile
from table.scan.read import Selection, read_batches
from workers.memory import limited
from workers.pool import WorkerLimits

BY_ARROW = -1
_MOST_JOINED = 2_000_000
"""More deleted rows than these are not sent to every executor: their files are read by Arrow, where each file's own suffice."""
_MOST_TASKS = 1000
Reader = Callable[[TableFiles, Schema, Sequence[PlannedFile], Sequence[str]], Iterator[pa.RecordBatch]]
_FILE, _ROW = "__sluice_file", "__sluice_row"


class Marked:
    """Tells how a planned file is read: 0 as a whole, by Arrow, or in which group of files whose names differ."""

    def __init__(self, planned: Iterable[PlannedFile]) -> None:
        counts = [planned_file.vector.cardinality for planned_file in planned if planned_file.vector is not None]
        known = [count for count in counts if count is not None]
        self._join = len(known) == len(counts) and sum(known) <= _MOST_JOINED
        self._names: Counter[str] = Counter()

    def group(self, planned: PlannedFile, format_: str) -> int:
        """Spark numbers the rows of Parquet files alone."""
        if planned.vector is None:
            return 0
        if not self._join or format_ != "parquet":
            return BY_ARROW
        self._names[planned.file.file_name] += 1
        return self._names[planned.file.file_name]


def without_deleted(session: SparkSession, table: LakeTable, frame: DataFrame, files: Sequence[PlannedFile]) -> DataFrame:
    """The rows of Parquet files of different names that are not deleted."""
    names: list[pa.Array] = []
    rows: list[pa.Array] = []
    for planned_file in files:
        assert planned_file.vector is not None
        gone = positions(table.files, planned_file.vector, planned_file.file.row_count)
        names.append(pa.repeat(pa.scalar(planned_file.file.file_name), len(gone)))
        rows.append(pa.array(gone, pa.int64()))
    deleted = session.createDataFrame(pa.table({_FILE: pa.chunked_array(names, pa.string()), _ROW: pa.chunked_array(rows, pa.int64())}))
    hidden = frame.metadataColumn("_metadata")
    name = F.call_function("url_decode", F.replace(hidden.getField("file_name"), F.lit("+"), F.lit("%2B")))
    numbered = frame.select("*", name.alias(_FILE), hidden.getField("row_index").alias(_ROW))
    return numbered.join(F.broadcast(deleted), on=[_FILE, _ROW], how="left_anti").drop(_FILE, _ROW)


def _rows(store: TableFiles, schema: Schema, files: Sequence[PlannedFile], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    return read_batches(store, schema, files, Selection(columns=columns))


def read_by_arrow(  # noqa: PLR0913 - what is read of the files
    session: SparkSession,
    table: LakeTable,
    files: Sequence[PlannedFile],
    *,
    schema: Schema | None = None,
    reader: Reader = _rows,
    columns: Collection[str] | None = None,
    beside: tuple[str, str] | None = None,
    names: Sequence[str] = (),
) -> DataFrame:
    """The rows of the files, each read in a task of its own by the code that reads files without Spark.

    ``reader`` reads a file under ``schema``, where that is another than the table's. Columns that are none of ``columns`` are NULL.
    ``beside`` gives the names of two more columns: each file's own of ``names``, and the row's number in it.
    """
    schema, store = schema or table.schema, table.files
    target = st.StructType([st.StructField(f.name, to_spark(f.type), True) for f in schema.fields])
    if beside is not None:
        target = target.add(beside[0], st.StringType()).add(beside[1], st.LongType())
    wanted = to_arrow_schema(target, timezone="UTC")
    read = [f.name for f in schema.fields if columns is None or f.name in columns]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for pickled, name in zip(batch.column("file").to_pylist(), batch.column("name").to_pylist(), strict=True):
                planned_file = pickle.loads(pickled)
                left = None if beside is None else _left(store, planned_file)
                row = 0
                for rows in _bounded(reader(store, schema, [planned_file], read)):
                    more = {} if beside is None else _numbered(beside, name, row, rows.num_rows, left)
                    arrays = [
                        more[field.name]
                        if field.name in more
                        else _fitted(rows.column(field.name), field.type)
                        if field.name in read
                        else pa.nulls(rows.num_rows, field.type)
                        for field in wanted
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, schema=wanted)
                    row += rows.num_rows

    tasks = max(1, min(len(files), _MOST_TASKS))
    tasks_table = pa.table(
        {
            "n": pa.array(np.arange(len(files)) % tasks, pa.int32()),
            "file": [pickle.dumps(planned_file) for planned_file in files],
            "name": pa.array(names or [""] * len(files), pa.string()),
        }
    )
    frame = session.createDataFrame(tasks_table).repartitionById(tasks, F.col("n"))
    return frame.mapInArrow(work, target)


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
