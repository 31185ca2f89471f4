"""What a client that prepares a query had analysed is run as it is, unless anything it rests on has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from gateway.gateway import Gateway
from lake import Lake
from tests.sql.tables import make_table

pytestmark = pytest.mark.spark
QUERY = "SELECT sum(id) AS total, max(s) FROM t"


@pytest.fixture
def on_spark(on_spark: Gateway, lake: Lake) -> Gateway:
    """With a table of two rows."""
    make_table(lake, id="INT", s="STRING")
    on_spark.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')").close()
    return on_spark


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What Spark was given to analyse."""
    found: list[str] = []
    real: Callable[..., Any] = SparkSession.sql

    def sql(session: SparkSession, text: str, *rest: Any, **more: Any) -> Any:
        found.append(text)
        return real(session, text, *rest, **more)

    monkeypatch.setattr(SparkSession, "sql", sql)
    return found


def prepared_and_run(gateway: Gateway, text: str, between: str = "", session: str | None = None) -> list[tuple[Any, ...]]:
    with gateway.run(text, session=session, describe=True) as described:
        kept = described.analysed
    if between:
        gateway.run(between, session=session).close()
    return gateway.run(text, session=session, analysed=kept).collect()


def test_spark_analyses_a_query_once(on_spark: Gateway, texts: list[str]) -> None:
    assert prepared_and_run(on_spark, QUERY) == [(3, "b")]
    assert prepared_and_run(on_spark, "SELECT 0 + 1 AS one") == [(1,)]
    assert len([text for text in texts if "total" in text]) == len([text for text in texts if "one" in text]) == 1


@pytest.mark.parametrize(
    ("between", "rows"),
    [
        ("INSERT INTO t VALUES (10, 'z')", [(13, "z")]),
        ("INSERT OVERWRITE t VALUES (7, 'q')", [(7, "q")]),
        ("DROP TABLE t; CREATE TABLE t (id BIGINT, s STRING)", [(None, None)]),
        ("ALTER TABLE t DROP s; ALTER TABLE t ADD s STRING", [(3, None)]),
        ("CREATE DATABASE other; CREATE TABLE other.t (id INT, s STRING); USE other", [(None, None)]),
    ],
)
def test_what_has_changed_since_is_seen(on_spark: Gateway, texts: list[str], between: str, rows: list[tuple[Any, ...]]) -> None:
    session = on_spark.open_session()
    assert prepared_and_run(on_spark, QUERY, between, session) == rows
    assert len([text for text in texts if "total" in text]) == 2


def test_the_zone_of_the_session_is_seen(on_spark: Gateway) -> None:
    session = on_spark.open_session()
    query = "SELECT hour(CAST(TIMESTAMP_LTZ '2024-01-01 00:00:00Z' AS TIMESTAMP)) AS h"
    assert prepared_and_run(on_spark, query, session=session) == [(0,)]
    assert prepared_and_run(on_spark, query, "SET 'table.local-time-zone' = 'Asia/Tokyo'", session) == [(9,)]


@pytest.mark.parametrize("query", ["SELECT id FROM t$snapshots", "SELECT sum(id) FROM v", "SELECT sum(id) FROM t VERSION AS OF 1"])
def test_what_is_not_a_table_as_it_stands_is_analysed_anew(on_spark: Gateway, query: str) -> None:
    on_spark.run("CREATE VIEW v AS SELECT id FROM t").close()
    if "$" in query:
        query = "SELECT sum(snapshot_id) FROM t$snapshots"
    with on_spark.run(query, describe=True) as described:
        assert described.analysed is None
