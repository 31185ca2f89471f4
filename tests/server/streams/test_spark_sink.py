"""The Spark source without Spark, written to and read as a batch: its writers as Spark calls them, on a real server over HTTP."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from lake import Lake
from model.errors import ColumnNotExist, InvalidOption
from pyspark_sluice.source import DefaultSource
from table.scan.planning.entry_scan import plan_scan
from table.scan.read import read_batches
from tests.server.streams.test_spark_source import T, append
from tests.server.streams.test_spark_source import lake as lake
from tests.server.streams.test_spark_source import queue as queue


def source_to(url: str, **options: str) -> tuple[DefaultSource, StructType]:
    """The sink as Spark makes it, and the rows' shape."""
    return DefaultSource({"uri": url, "path": "default.t"} | options), StructType(
        [StructField("n", IntegerType()), StructField("id", LongType())]
    )


def three(number: int) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_arrays([pa.array([number] * 3, pa.int32()), pa.array([0, 1, 2], pa.int64())], names=["n", "id"])


def held(lake: Lake) -> list[tuple[int, int]]:
    table = lake.open(T)
    planned = plan_scan(table.files, table.schema, table.latest()).files
    return [
        row
        for batch in read_batches(table.files, table.schema, planned)
        for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)
    ]


def test_a_write_is_one_commit_in_the_order_of_its_tasks(url: str, queue: Lake) -> None:
    source, shape = source_to(url)
    writer = pickle.loads(pickle.dumps(source.writer(shape, overwrite=True)))
    messages = [pickle.loads(pickle.dumps(writer.write(three(number)))) for number in (7, 8)]
    append(queue, 9)  # somebody else is faster
    writer.commit(messages)
    assert held(queue) == [(0, 7), (1, 7), (2, 7), (0, 8), (1, 8), (2, 8)]
    source.writer(shape, overwrite=False).commit([source.writer(shape, overwrite=False).write(three(9))])
    assert held(queue)[6:] == [(0, 9), (1, 9), (2, 9)]
    left = files_of(queue)
    failed = source.writer(shape, overwrite=False)
    failed.abort([failed.write(three(1)), None])
    assert files_of(queue) == left
    with pytest.raises(ColumnNotExist, match="nn"):
        source.writer(StructType([StructField("nn", LongType())]), overwrite=False)
    read = reader_batch(url)
    assert len(read) == 9


def reader_batch(url: str) -> list[tuple[int, int]]:
    """The table as a batch read of Spark's has it."""
    source = DefaultSource({"uri": url, "path": "default.t"})
    reader = source.reader(source.schema())
    return [
        row
        for split in reader.partitions()
        for batch in reader.read(split)
        for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)
    ]


def files_of(lake: Lake) -> set[str]:
    table = lake.open(T)
    return {status.path for status in table.files.io.list(f"{table.location}/bucket-0")}


def test_a_repeated_micro_batch_lands_once_and_a_new_checkpoint_counts_anew(url: str, queue: Lake, tmp_path: Path) -> None:
    for checkpoint in ("first", "second"):
        (tmp_path / checkpoint).mkdir()
        (tmp_path / checkpoint / "metadata").write_text(json.dumps({"id": checkpoint}))
    for checkpoint, batch, rows_then in (("first", 0, 12), ("first", 0, 12), ("first", 1, 15), ("second", 0, 18)):
        source, shape = source_to(url, checkpointLocation=str(tmp_path / checkpoint))
        writer = source.streamWriter(shape, overwrite=False)
        before = files_of(queue)
        writer.commit([writer.write(three(batch))], batch)
        assert len(held(queue)) == rows_then
        assert (len(files_of(queue)) > len(before)) == (rows_then > 3 * len(before)), "a repeat leaves no files"
    latest = queue.open(T).latest()
    assert latest is not None
    assert (latest.commit_user, latest.commit_identifier) == ("sluice-spark-second", 0)
    source, shape = source_to(url)
    with pytest.raises(InvalidOption, match="checkpointLocation"):
        source.streamWriter(shape, overwrite=False).commit([source.streamWriter(shape, overwrite=False).write(three(1))], 0)
