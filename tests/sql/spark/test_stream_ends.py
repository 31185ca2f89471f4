"""When a streaming query of Spark is over, whose sources have ended."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from sql.spark.streaming.streaming_query import at_end
from tests.waiting import eventually

pytestmark = pytest.mark.spark


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """One whose queries never say that they are idle."""
    made = spark.newSession()
    made.conf.set("spark.sql.streaming.noDataProgressEventInterval", "1d")
    made.dataSource.register(_ended_source())
    return made


def _ended_source() -> type[DataSource]:
    """A source of two rows that ends behind them; a class of its own here, so that it travels to Spark's processes whole."""

    class Ended(DataSource):
        @classmethod
        def name(cls) -> str:
            return "ended"

        def schema(self) -> str:
            return "k INT, ts TIMESTAMP_LTZ"

        def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:  # noqa: N802 - Spark's name
            class Reader(SimpleDataSourceStreamReader):
                def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
                    return {"end": False}

                def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[Any, ...]], dict[str, Any]]:
                    rows = [] if start["end"] else [(key, dt.datetime(2026, 1, 1, tzinfo=dt.UTC)) for key in (1, 2)]
                    return iter(rows), {"end": True}

                def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[tuple[Any, ...]]:  # noqa: N802
                    return self.read(start)[0]

            return Reader()

    return Ended


def _source(session: SparkSession, key: str) -> DataFrame:
    return session.readStream.format("ended").load().withWatermark("ts", "1 second").withColumnRenamed("ts", f"ts_{key}")


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
