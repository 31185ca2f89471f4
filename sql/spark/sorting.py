"""Sort compaction: some files' rows written anew in the order of some columns, or of a curve through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from lake import LakeTable
from sql.spark.reads import dataframe, named
from sql.spark.writes import write
from table.curve import hilbert_keys, zorder_keys
from table.formats import FileFormat
from table.manifest import FileSource, ManifestEntry, NewFile
from table.rewrite import planned
from table.scan import ScanPlan

_KEY = "__sluice_sort_key"
_MOST_TASKS = 1000


def sort_files(
    session: SparkSession, table: LakeTable, entries: Sequence[ManifestEntry], *, strategy: str, columns: Sequence[str], text_bytes: int
) -> list[NewFile]:
    """Write the rows of the files anew, sorted within each partition; returns the new files, not yet committed."""
    size = sum(entry.file.file_size for entry in entries)
    files = planned(table.files, table.schema, entries)
    plan = ScanPlan(snapshot_id=None, files=tuple(files), total_files=len(files), count_bytes=lambda: size)
    tasks = max(1, min(_MOST_TASKS, round(size / FileFormat.of(table.schema).target_bytes)))

    def arrange(frame: DataFrame, keys: list[Column]) -> DataFrame:
        if strategy == "order":
            order = [*keys, *(named(name) for name in columns)]
            return frame.repartitionByRange(tasks, *order).sortWithinPartitions(*order)
        frame = frame.withColumn(_KEY, _curve(strategy, columns, text_bytes))
        return frame.repartitionByRange(tasks, *keys, _KEY).sortWithinPartitions(*keys, _KEY)

    written = write(session, dataframe(session, table, plan), table, arrange=arrange)
    return [replace(new, file=replace(new.file, file_source=FileSource.COMPACT)) for new in written]


def _curve(strategy: str, columns: Sequence[str], text_bytes: int) -> Column:
    def several(*arrays: pa.Array) -> pa.Array:
        return zorder_keys(arrays, text_bytes=text_bytes) if strategy == "zorder" else hilbert_keys(arrays)

    def one(array: pa.Array) -> pa.Array:
        return several(array)

    def two(a: pa.Array, b: pa.Array) -> pa.Array:
        return several(a, b)

    fixed: dict[int, Callable[..., pa.Array]] = {1: one, 2: two}
    function: Any = arrow_udf(fixed.get(len(columns), several), "binary")  # type: ignore[call-overload]
    made: Column = function(*[named(name) for name in columns])
    return made
