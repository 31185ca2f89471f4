"""Short statements over HTTP, and many writers of one table."""

from __future__ import annotations

import time

import httpx

from benchmarks.harness.page import Table
from benchmarks.harness.run import Run
from benchmarks.harness.server import BenchServer
from benchmarks.harness.timing import at_once, median_millis

_ON_SPARK = "SELECT 1 + 1"
"""What the gateway does not answer itself."""


def measure(run: Run) -> list[Table]:
    """Latencies of one client, commits per second of sixteen."""
    spark = run.plain_spark()
    with run.server(spark=True) as server:
        server.sql("CREATE TABLE small (id BIGINT, a DOUBLE, s STRING, ts TIMESTAMP(3), k INT)")
        values = ", ".join(f"({i}, 1.5, 'text {i}', TIMESTAMP '2024-01-01 00:00:00', {i})" for i in range(10))
        insert = median_millis(lambda: server.sql(f"INSERT INTO small VALUES {values}"), 200, most_seconds=run.seconds)
        for _ in range(20):
            server.sql(_ON_SPARK)
            spark.sql(_ON_SPARK).toArrow()
        literal = median_millis(lambda: server.sql("SELECT 1"), 100, most_seconds=run.seconds)
        ours = median_millis(lambda: server.sql(_ON_SPARK), 100, most_seconds=run.seconds)
        own = median_millis(lambda: spark.sql(_ON_SPARK).toArrow(), 100, most_seconds=run.seconds)
        rows = [
            ("`INSERT … VALUES`, 10 rows, p50 over HTTP", f"{insert:.1f} ms", "", "≤ 15 ms"),
            ("`SELECT 1`, p50 over HTTP", f"{literal:.1f} ms", "answered in the gateway", ""),
            (f"`{_ON_SPARK}`, p50 over HTTP", f"{ours:.1f} ms", f"{ours - own:+.1f} ms over Spark's own {own:.1f} ms", "≤ 15 ms above"),
            ("16 writers on one table", f"{_writers(server, 1, 16, run.seconds):.0f} commits/s", "", "≥ 200"),
            ("16 writers on 16 tables", f"{_writers(server, 16, 16, run.seconds):.0f} commits/s", "", ""),
        ]
    return [Table(head=("work", "measured", "beside", "goal"), rows=rows)]


def _writers(server: BenchServer, tables: int, count: int, duration: float) -> float:
    """Acknowledged inserts of one row per second."""
    for table in range(tables):
        server.sql(f"CREATE TABLE busy_{tables}_{table} (id BIGINT, s STRING)")
    done = [0] * count
    until = time.monotonic() + duration

    def write(number: int) -> None:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            while time.monotonic() < until:
                server.sql(f"INSERT INTO busy_{tables}_{number % tables} VALUES ({number}, 'x')", client)
                done[number] += 1

    at_once(write, count)
    for table in range(tables):
        rows = server.sql(f"SELECT count(*) FROM busy_{tables}_{table}")[0][0]
        assert rows == sum(done[table::tables]), f"{rows} rows of {sum(done[table::tables])} acknowledged"
    return sum(done) / duration
