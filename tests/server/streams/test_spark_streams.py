"""Streaming SELECTs that run on Spark: what they take of the server, and how many there may be."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.following import Follower
from tests.running import RunningServer
from tests.waiting import eventually

pytestmark = pytest.mark.spark


def _metric(server: RunningServer, name: str) -> float:
    text = httpx.get(f"{server.url}/metrics", timeout=60).text
    return float(re.findall(rf"^{re.escape(name)} (\S+)$", text, re.M)[0])


def test_a_stream_on_spark_holds_no_thread_while_nothing_comes_and_is_counted_by_its_quota(server: RunningServer, database: str) -> None:
    server.wait_for_spark()
    server.sql(f"CREATE TABLE {database}.q (id BIGINT); INSERT INTO {database}.q VALUES (1)")
    query = f"SELECT id + 0 AS id FROM {database}.q"
    with Follower(server.url, query) as stream:
        assert stream.rows(1, seconds=120) == [{"id": 1}]
        assert _metric(server, "sluice_spark_streams") == 1
        # The one that tells so, and that of Spark's own process, which waits for news of the table.
        assert eventually(lambda: _metric(server, 'sluice_http_threads{what="busy"}') <= 2, 60, pause=2.0)
        server.sql("SET QUOTA streams.spark = 1 FOR USER anonymous")
        try:
            answer = httpx.post(f"{server.url}/sql?mode=streaming", content=query, timeout=120)
            assert (answer.status_code, answer.json()["quota"]) == (429, "streams.spark"), answer.text
            assert "anonymous has 1 open streams on Spark" in answer.json()["detail"]
            with Follower(server.url, f"SELECT id FROM {database}.q") as tail:
                assert tail.rows(1, seconds=60) == [{"id": 1}], "no place of Spark's is needed"
        finally:
            server.sql("RESET QUOTA streams.spark FOR USER anonymous")
        server.sql(f"INSERT INTO {database}.q VALUES (2)")
        assert stream.rows(1, seconds=60) == [{"id": 2}]
    assert eventually(lambda: _metric(server, "sluice_spark_streams") == 0, 90)
