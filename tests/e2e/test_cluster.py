"""Spark on other machines: a master that comes late, workers that have only Spark and a Python, settings from a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.fix_server import StartServer
from tests.running import RunningServer
from tests.standalone_spark import StandaloneSpark, archive, hidden
from tests.torture.job_campaign import job, start_job
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneSpark]:
    made = StandaloneSpark(tmp_path, hidden=hidden())
    try:
        yield made
    finally:
        made.stop()


def spark_says(server: RunningServer) -> str:
    found = httpx.get(f"{server.url}/readyz", timeout=30).json()["spark"]
    return "" if found["ok"] else str(found["detail"])


def work(server: RunningServer, database: str) -> None:
    """What runs Python in executors: z-order, buckets, and a job's source."""
    rows, queue, copied = (f"{database}.{name}" for name in ("rows", "queue", "copied"))
    server.sql(f"CREATE TABLE {rows} (id BIGINT, a INT, b INT) WITH ('bucket' = '-1')")
    server.sql(f"INSERT INTO {rows} SELECT id, CAST(id % 7 AS INT), CAST(id % 11 AS INT) FROM range(1000)")
    server.sql(f"CALL sys.compact(`table` => '{rows}', order_strategy => 'zorder', order_by => 'a,b')")
    server.sql(f"CREATE TABLE {queue} (id BIGINT, v STRING) WITH ('bucket' = '2', 'bucket-key' = 'id')")
    server.sql(f"INSERT INTO {queue} SELECT id, 'x' FROM {rows}")
    assert server.sql(f"SELECT count(*), sum(id) FROM {queue}") == [[1000, 499500]]
    server.sql(f"CREATE TABLE {copied} (id BIGINT, v STRING) WITH ('bucket' = '-1')")
    at_once = "SET 'execution.runtime-mode' = 'streaming'; SET 'execution.checkpointing.interval' = '200 ms'"
    server.sql(f"{at_once}; INSERT INTO {copied} SELECT * FROM {queue}")
    assert eventually(lambda: server.value(f"SELECT COUNT(*) FROM {copied}") >= 1000, seconds=300, pause=0.5)  # which needs no core there
    assert server.sql(f"SELECT count(*), sum(id) FROM {copied}") == [[1000, 499500]]
    (copies,) = server.sql("SHOW JOBS")
    server.sql(f"STOP JOB '{copies[0]}'")


def windows(server: RunningServer, database: str) -> None:
    """What keeps state in more parts than two: windows of a job that goes on from there, with those that are open then."""
    minutes = range(40)
    server.sql(f"CREATE TABLE {database}.seen (ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' HOUR)")
    server.sql(f"CREATE TABLE {database}.counted (at TIMESTAMP(3), n BIGINT)")
    rows = ", ".join(f"(TIMESTAMP '2024-01-01 10:{minute:02}:00')" for minute in minutes)
    server.sql(f"INSERT INTO {database}.seen VALUES {rows}")
    window = "TABLE(TUMBLE(TABLE seen, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
    insert = f"INSERT INTO counted SELECT window_start, COUNT(*) FROM {window} GROUP BY window_start, window_end"
    id_ = start_job(server, insert, database=database)
    checkpoint = server.warehouse / ".sluice" / "jobs" / id_
    assert eventually(lambda: any(checkpoint.glob("*/commits/[0-9]*")), seconds=300, pause=0.5), job(server, id_)
    assert len(list(checkpoint.glob("*/state/0/[0-9]*"))) > 2
    server.sql(f"ALTER JOB '{id_}' RESTART")
    assert eventually(lambda: job(server, id_)["restarts"] > 0 and job(server, id_)["state"] == "RUNNING", seconds=300), job(server, id_)
    server.sql(f"INSERT INTO {database}.seen VALUES {rows}, (TIMESTAMP '2024-01-01 12:00:00')")
    counted = f"SELECT count(*), min(n), max(n) FROM {database}.counted"
    assert eventually(lambda: server.sql(counted)[0][0] >= len(minutes), seconds=300, pause=0.5), job(server, id_)
    assert server.sql(counted) == [[len(minutes), 2, 2]]
    server.sql(f"STOP JOB '{id_}'")


def test_executors_need_only_spark_and_a_python(standalone_server: RunningServer) -> None:
    standalone_server.wait_for_spark(600)  # six JVMs on a busy machine may take longer than a statement waits
    standalone_server.sql("CREATE DATABASE cluster")
    work(standalone_server, "cluster")
    windows(standalone_server, "cluster")
    standalone_server.sql("DROP DATABASE cluster CASCADE")


@pytest.mark.torture
def test_a_cluster_that_comes_late_goes_and_comes_back(cluster: StandaloneSpark, tmp_path: Path, start_server: StartServer) -> None:
    """Two servers share its two cores."""
    conf = tmp_path / "spark.conf"
    conf.write_text("# small machines\nspark.executor.memory 512m\n")
    settings = {
        "SLUICE_SPARK_MASTER": cluster.url,
        "SLUICE_SPARK_ARCHIVE": str(archive(tmp_path)),
        "SLUICE_SPARK_CONF": str(conf),
        "SLUICE_SPARK_DRIVER_MEMORY": "1g",
    }
    servers = [start_server(name, **settings) for name in ("one", "two")]
    assert all(f"waited for {cluster.url}" in spark_says(server) for server in servers)
    cluster.start()
    for server in servers:
        server.wait_for_spark(300)
        work(server, "default")
    cluster.stop()
    assert eventually(lambda: all(map(spark_says, servers)), seconds=300)
    cluster.start()
    for server in servers:
        server.wait_for_spark(300)
        assert server.value("SELECT SUM(id) FROM range(0, 100)") == 4950
