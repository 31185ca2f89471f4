"""Files of which some rows are deleted (`paimon-append.md` §4.8), read on Spark."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_schema

from lake import LakeTable
from model.schema.schema import Schema
from sql.spark.executors.reading import Reader, reading, rows_of
from sql.spark.read.types import to_spark
from table.format.deletions import positions
from table.scan.planning.plan import PlannedFile

BY_ARROW = -1
_MOST_JOINED = 2_000_000
"""More deleted rows than these are not sent to every executor: their files are read by Arrow, where each file's own suffice."""
_MOST_TASKS = 1000
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


def read_by_arrow(  # noqa: PLR0913 - what is read of the files
    session: SparkSession,
    table: LakeTable,
    files: Sequence[PlannedFile],
    *,
    schema: Schema | None = None,
    reader: Reader = rows_of,
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
    tasks = max(1, min(len(files), _MOST_TASKS))
    tasks_table = pa.table(
        {
            "n": pa.array(np.arange(len(files)) % tasks, pa.int32()),
            "file": [pickle.dumps(planned_file) for planned_file in files],
            "name": pa.array(names or [""] * len(files), pa.string()),
        }
    )
    frame = session.createDataFrame(tasks_table).repartitionById(tasks, F.col("n"))
    return frame.mapInArrow(reading(store, schema, reader, read, wanted, beside), target)
