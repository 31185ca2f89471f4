"""Queries made at random and run by the real Spark: over every type, every allowed function with odd arguments, nested in each other."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from catalog import CatalogStore
from gateway.gateway import Gateway, GatewayLimits
from lake import Lake
from sql.spark.session.pool import SparkPool
from tests.fuzz.inputs import drawn
from tests.fuzz.oracle import failed_once, judged, sql
from tests.fuzz.queries import query
from workers.pool import WorkerPool

pytestmark = pytest.mark.spark
SHORT, SECONDS = 60, 10.0
"""So many in a normal run, or as many as there is time for."""
PART, PARTS = 2_000, 4
TABLE = (
    "CREATE TABLE t (id INT, s STRING, d DATE, ts TIMESTAMP(3), xs ARRAY<INT>)",
    "INSERT INTO t VALUES (1, 'a', DATE '2024-02-29', TIMESTAMP '2024-01-01 00:00:00', ARRAY[1, 2]), (2, NULL, NULL, NULL, NULL)",
    "CREATE TABLE u (a STRING, b STRING)",
)


@pytest.fixture
def gateway(dsn: str, tmp_path: Path, workers: WorkerPool, pool: SparkPool) -> Iterator[Gateway]:
    """A gateway with Spark, in place of the server's tests' own without."""
    catalog = CatalogStore(dsn)
    lake = Lake(catalog, str(tmp_path / "warehouse"))
    made = Gateway(lake, pool, limits=GatewayLimits(local_threads=4, spark_statements=1), workers=workers)
    made.start()
    yield made
    made.close()
    lake.close()
    catalog.close()


def run(client: FlaskClient, text: str, what: str) -> int:
    """Send one; returns its status."""
    sent = text.encode()
    headers = {"Content-Type": "application/sql"}
    return judged(lambda: client.post("/sql?timeout=30&max_rows=100", data=sent, headers=headers, buffered=True), what, sent).status_code


def campaign(client: FlaskClient, seeds: range, *, seconds: float = float("inf")) -> Counter[int]:
    """Send the seeds' queries while there is time; returns how many were answered with 2xx, 4xx, …"""
    for text in TABLE:
        sql(client, text)
    answered: Counter[int] = Counter()
    end = time.monotonic() + seconds
    for seed in seeds:
        if time.monotonic() > end:
            break
        answered[run(client, query(drawn("spark", seed))[:40_000], f"spark seed {seed}") // 100] += 1
    assert '["A"]' in sql(client, "SELECT upper(s) FROM t WHERE id = 1").text, "Spark no longer answers as before"
    return answered


def test_queries_are_answered(client: FlaskClient) -> None:
    answered = campaign(client, range(SHORT), seconds=SECONDS)
    sent = answered.total()
    assert answered[2] > sent / 2 or sent < 50, f"of {sent} only {answered[2]} were queries that run"


@pytest.mark.torture
@pytest.mark.parametrize("part", range(PARTS))
def test_thousands_of_queries(client: FlaskClient, part: int) -> None:
    campaign(client, range(SHORT + part * PART, SHORT + (part + 1) * PART))


def test_what_failed_once(client: FlaskClient) -> None:
    for text in TABLE:
        sql(client, text)
    for name, _, sent in failed_once("spark"):
        run(client, sent.decode(), f"spark kept as {name}")
