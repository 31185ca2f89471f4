"""Windows of a Spark query whose source has ended: they come out though it was stopped between its last row and them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake import Lake
from model.options.watermark import Watermark
from model.schema.schema import column, new_schema
from model.snapshot import CommitKind
from sql.spark.streaming.event_time import with_watermark
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches
from tests.server.streams.test_spark_source import T
from tests.server.streams.test_spark_source import lake as lake

pytestmark = [pytest.mark.spark, pytest.mark.slow]
MINUTES = 3


@pytest.fixture
def timed(lake: Lake) -> Lake:
    """A row in each of some minutes, and one that lies beyond the bound."""
    lake.create_table(T, new_schema([column("id", "INT"), column("ts", "TIMESTAMP(3)")], options={"bucket": "-1"}))
    for minute in range(MINUTES + 1):
        table = lake.open(T)
        times = pa.array([dt.datetime(2026, 1, 1, 0, minute)], pa.timestamp("ms"))
        adds = tuple(write_batches(table.files, table.schema, [pa.record_batch({"id": pa.array([minute], pa.int32()), "ts": times})]))
        lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=adds, commit_user="u", watermark=minute))
    return lake


def windows_of(spark: SparkSession, url: str, checkpoint: Path) -> list[tuple[int, int]]:
    """Minute and rows of each window that comes out, the query run to the end of what there is."""
    found: list[tuple[int, int]] = []

    def take(frame: DataFrame, _: int) -> None:
        found.extend((row["at"].minute, row["n"]) for row in frame.collect())

    options: dict[str, Any] = {"scan.mode": "from-snapshot", "scan.snapshot-id": "1", "scan.bounded.watermark": str(MINUTES - 1)}
    frame = spark.readStream.format("sluice").options(uri=url, endOfTime="ts", **options).load(str(T))
    frame = with_watermark(frame, Watermark(column="ts", expression="ts"), ends=True)
    counts = frame.groupBy(F.window("ts", "1 minute")).agg(F.count("id").alias("n")).select(F.col("window.start").alias("at"), "n")
    writer = counts.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()
    return sorted(found)


def test_windows_come_out_though_the_query_was_stopped_behind_its_last_row(
    spark: SparkSession, url: str, timed: Lake, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    every = [(minute, 1) for minute in range(MINUTES)]
    assert windows_of(spark, url, checkpoint) == every
    last = max(int(file.name) for file in (checkpoint / "offsets").iterdir() if file.name.isdecimal())
    for log in ("offsets", "commits"):  # the batch without rows, in which the last window came out
        (checkpoint / log / str(last)).unlink()
        (checkpoint / log / f".{last}.crc").unlink(missing_ok=True)
    assert windows_of(spark, url, checkpoint) == every[-1:], "the others came out before the last row"
    assert windows_of(spark, url, checkpoint) == []
