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
        assert eventually(lambda: _metric(server, "sluice_spark_streams") == 1), "what others left has ended"
        # The one that tells so, and that of Spark's own process, which waits for news of the table.
        assert eventually(lambda: _metric(server, 'sluice_http_threads{what="busy"}') <= 2, 120, pause=2.0)
        server.sql("SET QUOTA streams.spark = 1 FOR USER anonymous")
        try:
            answer = httpx.post(f"{server.url}/sql?mode=streaming", content=query, timeout=120)
            assert (answer.status_code, answer.json()["quota"]) == (429, "streams.spark"), answer.text
            assert "anonymous has 1 open streams on Spark" in answer.json()["detail"]
            with Follower(server.url, f"SELECT id FROM {database}.q") as tail:
                assert tail.rows(1) == [{"id": 1}], "no place of Spark's is needed"
        finally:
            server.sql("RESET QUOTA streams.spark FOR USER anonymous")
        server.sql(f"INSERT INTO {database}.q VALUES (2)")
        assert stream.rows(1) == [{"id": 2}]
    assert eventually(lambda: _metric(server, "sluice_spark_streams") == 0, 90)


@pytest.mark.parametrize("patience", [pytest.param(4, id="short"), pytest.param(20, id="whole", marks=pytest.mark.torture)])
def test_a_consumer_is_told_what_was_read_and_not_what_waits_to_be(server: RunningServer, database: str, patience: int) -> None:
    """A client that asks for no page has read nothing, though there is a place for its rows."""
    server.wait_for_spark()
    table = f"{database}.q"
    server.sql(f"CREATE TABLE {table} (id BIGINT)" + "".join(f"; INSERT INTO {table} VALUES ({number})" for number in range(3)))
    options = "'scan.snapshot-id' = '1', 'scan.max-snapshot.count' = '1'"
    query = f"SELECT id + 0 AS id FROM {table} /*+ OPTIONS('consumer-id' = '%s', {options}) */"

    def is_told(least: int, consumer: str = "paged") -> bool:
        told = dict(server.sql(f"SELECT consumer_id, next_snapshot_id FROM {database}.`q$consumers`"))
        return bool(told.get(consumer, 0) >= least)

    with httpx.Client(base_url=server.url, timeout=120) as http:
        properties = {"properties": {"execution.runtime-mode": "streaming"}}
        session = f"/v2/sessions/{http.post('/v2/sessions', json=properties).json()['sessionHandle']}"
        asked = http.post(f"{session}/statements", json={"statement": query % "paged"}).json()
        operation = f"{session}/operations/{asked['operationHandle']}"
        assert eventually(lambda: http.get(f"{operation}/status").json()["status"] == "FINISHED", 120), "it has begun"
        assert not eventually(lambda: is_told(2), patience)
        page = http.get(f"{operation}/result/0").json()
        rows: list[dict[str, object]] = []
        while len(rows) < 3 or not is_told(3):
            rows += page["results"]["data"] if "results" in page else []
            page = http.get(page["nextResultUri"]).json()
        assert [row["fields"] for row in rows] == [[0], [1], [2]]
        assert http.delete(session).status_code == 200
    with Follower(server.url, query % "lines") as stream:
        assert stream.rows(3) == [{"id": 0}, {"id": 1}, {"id": 2}]
        assert eventually(lambda: is_told(3, "lines"), 60)
