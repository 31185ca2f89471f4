"""When a streaming query of Spark is over, whose sources have ended, and what has come out by then."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable

from model.options.watermark import Watermark
from model.schema.types import BigIntType, Field, TimestampType
from sql.connectors import ConnectorScope, ConnectorTable
from sql.spark.connectors.datagen import SparkDatagen
from sql.spark.executors.row_numbers import RowNumbers
from sql.spark.streaming.event_time import with_watermark
from sql.spark.streaming.streaming_query import at_end
from tests.sql.spark.conftest import Run
from tests.waiting import eventually

WATERMARK = Watermark(column="ts", expression="ts - INTERVAL '1' SECOND")
MADE = ConnectorTable(
    name="made",
    columns=(Field(id=0, name="k", type=BigIntType()), Field(id=1, name="ts", type=TimestampType(precision=3))),
    options={"connector": "datagen", "fields.k.kind": "sequence", "fields.k.start": "1", "fields.k.end": "2"},
    watermark=WATERMARK,
)


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """One whose queries never say that they are idle."""
    made = spark.newSession()
    made.conf.set("spark.sql.streaming.noDataProgressEventInterval", "1d")
    return made


def _source(session: SparkSession, key: str) -> DataFrame:
    connector = SparkDatagen()
    frame = with_watermark(connector.follow(session, MADE, ConnectorScope()), WATERMARK, ends=connector.ends_event_time(MADE))
    return frame.withColumnRenamed("ts", f"ts_{key}")


@pytest.mark.spark
def test_a_join_that_keeps_all_rows_ends_with_its_sources(session: SparkSession) -> None:
    """No watermark lets go of them, so that no batch without rows follows the last one; it was over ten seconds later."""
    found: list[int] = []
    query = (
        _source(session, "l")
        .join(_source(session, "r"), "k")
        .writeStream.foreachBatch(lambda frame, _: found.extend(row["k"] for row in frame.collect()))
        .start()
    )
    try:
        assert eventually(lambda: at_end(query.lastProgress, query), 120), (query.lastProgress, query.status)
        assert sorted(found) == [1, 2]
    finally:
        query.stop()


@pytest.mark.spark
@pytest.mark.parametrize("type_", ["TIMESTAMP(3)", "TIMESTAMP_LTZ(3)"])
def test_made_up_rows_give_every_window_and_then_end(run: Run, type_: str) -> None:
    """The rows of the last windows stayed out for ever; a sequence as long as its type has no value for one row more."""
    setting = "SET 'table.local-time-zone' = 'America/New_York';" if type_ == "TIMESTAMP(3)" else ""
    table = f"""{setting} CREATE TEMPORARY TABLE made (k TINYINT, ts {type_}, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH (
        'connector' = 'datagen', 'fields.k.kind' = 'sequence', 'fields.k.start' = '-128', 'fields.k.end' = '127');
        SET 'execution.runtime-mode' = 'streaming';"""
    windows = run(f"""{table} SELECT window_start, count(*), min(k), max(k), max(ts) FROM
        TABLE(TUMBLE(TABLE made, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end""")
    assert sum(row[1] for row in windows) == 256
    assert (min(row[2] for row in windows), max(row[3] for row in windows)) == (-128, 127)
    assert max(row[4].year for row in windows) < 9999
    assert sorted(row[0] for row in run(f"{table} SELECT k FROM made WHERE k > 120 OR year(ts) = 9999")) == list(range(121, 128))


def _reader(count: int = 2) -> DataSourceStreamReader:
    """Of a process that has just started."""
    return RowNumbers({"speed": "1000000", "tasks": "2", "count": str(count), "lastNumber": "true"}).streamReader(None)


def _to_the_end(count: int, offset: dict[str, int]) -> list[list[int]]:
    """The numbers of each batch behind an offset, until a reader has no more."""
    reader = _reader(count)
    batches: list[list[int]] = []
    while not batches or "end" not in offset:
        before, offset = offset, reader.latestOffset(offset, ReadAllAvailable())
        batches.append(_numbers(before, offset, count))
    assert reader.latestOffset(offset, ReadAllAvailable()) == offset
    return batches


def _numbers(start: dict[str, int], end: dict[str, int], count: int) -> list[int]:
    reader = _reader(count)
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return [n for batch in batches if isinstance(batch, pa.RecordBatch) for n in batch.column("n").to_pylist()]


def test_the_number_that_ends_event_time_comes_alone() -> None:
    batches = _to_the_end(2, {"next": 0, "at": 5})
    assert ([n for batch in batches[:-1] for n in batch], batches[-1]) == ([0, 1], [2])
    assert _to_the_end(0, {"next": 0, "at": 5}) == [[0]]


def test_it_comes_again_where_the_query_starts_again() -> None:
    """Spark forgets the watermark of each of its sources when it stops; an earlier version told the same end and had no such number."""
    end = _reader().latestOffset({"next": 2, "at": 5}, ReadAllAvailable())
    for told in (end, {"next": 2, "at": 5, "end": True}):
        assert _reader().latestOffset(told, ReadAllAvailable()) != told, "else there is no batch"
        assert _to_the_end(2, told) == [[2]]
    assert _numbers({"next": 0, "at": 4}, {"next": 2, "at": 5, "end": True}, 2) == [0, 1]


def test_no_row_is_left_out_where_there_are_more_at_the_next_start() -> None:
    end = _reader().latestOffset({"next": 2, "at": 5}, ReadAllAvailable())
    reader, offset = _reader(4), end
    while offset["next"] < 4:
        offset = reader.latestOffset(offset, ReadAllAvailable())
    assert _numbers(end, offset, 4) == [2, 3]


def test_the_rows_of_each_second_come_at_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Flink makes them: a job's first batch had none, so that one with an interval, or that is drained, began with nothing."""
    now = [1_000.0]
    monkeypatch.setattr("sql.spark.executors.row_numbers.time.time", lambda: now[0])
    reader = RowNumbers({"speed": "10", "tasks": "2", "count": "25"}).streamReader(None)
    offset = reader.initialOffset()
    ends = []
    for at in (1_000.0, 1_000.9, 1_001.0, 1_001.5, 1_002.0, 1_009.0):
        now[0] = at
        offset = reader.latestOffset(offset, ReadAllAvailable())
        ends.append((offset["next"], "end" in offset))
    assert ends == [(10, False), (10, False), (20, False), (20, False), (25, True), (25, True)]


def test_no_rows_are_an_end() -> None:
    """A stream of them had no batch, and so no offset that tells its end."""
    reader = RowNumbers({"speed": "10", "tasks": "2", "count": "0"}).streamReader(None)
    offset = reader.latestOffset({"next": 0, "at": 5}, ReadAllAvailable())
    assert "end" in offset
    assert reader.latestOffset(offset, ReadAllAvailable()) == offset
    assert list(reader.partitions({"next": 0, "at": 5}, offset)) == []


@pytest.mark.spark
@pytest.mark.parametrize("watermark", ["", ", WATERMARK FOR ts AS ts"])
def test_a_stream_without_rows_ends(run: Run, watermark: str) -> None:
    table = f"CREATE TEMPORARY TABLE none (k INT, ts TIMESTAMP(3){watermark}) WITH ('connector' = 'datagen', 'number-of-rows' = '0');"
    assert run(f"{table} SET 'execution.runtime-mode' = 'streaming'; SELECT k FROM none") == []
