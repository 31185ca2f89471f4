"""Measure, print and write docs/benchmarks.md."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import threading
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from benchmarks.server import SCRATCH, BenchServer
from benchmarks.timing import in_turns, median_millis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
QUERY = "SELECT count(*), sum(a), max(b), count(DISTINCT s) FROM {} WHERE b > 0.5"
Row = tuple[str, str, str, str]


def plain_spark() -> SparkSession:
    """Spark as anybody would start it, with the meaning our sessions have."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[*]").appName("plain")
    for key, value in {
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.hadoop.parquet.compression.codec.zstd.level": "1",
        "spark.sql.shuffle.partitions": str(max(4, 2 * (os.cpu_count() or 2))),
    }.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    return session


def make_source(spark: SparkSession, path: Path, rows: int) -> None:
    """Rows of two BIGINTs, a DOUBLE, a STRING and a TIMESTAMP, as Parquet."""
    spark.sql(
        f"""SELECT id AS a, hash(id) * 1L AS k, rand(7) AS b, concat('user-', id % 100000) AS s,
            timestamp_ntz '2024-01-01 00:00:00' + make_dt_interval(0, 0, 0, id / 1000) AS ts FROM range({rows})"""
    ).write.mode("overwrite").parquet(str(path))


def bulk(spark: SparkSession, server: BenchServer, source: Path, scratch: Path, rounds: int) -> list[Row]:
    """Inserts and a scan beside Spark's own."""
    columns = "a BIGINT, k BIGINT, b DOUBLE, s STRING, ts TIMESTAMP(6)"
    server.sql(f"CREATE TABLE flat ({columns}) WITH ('bucket' = '-1')")
    server.sql(f"CREATE TABLE buckets ({columns}) WITH ('bucket' = '8', 'bucket-key' = 'a')")
    load = f"CREATE TEMPORARY TABLE src ({columns}) WITH ('connector'='filesystem','path'='{source}','format'='parquet'); "
    out = str(scratch / "plain")
    taken = in_turns(
        {
            "plain": lambda: spark.read.parquet(str(source)).write.mode("overwrite").parquet(out),
            "flat": lambda: server.sql(load + "INSERT OVERWRITE flat SELECT * FROM src"),
            "buckets": lambda: server.sql(load + "INSERT OVERWRITE buckets SELECT * FROM src"),
        },
        rounds,
    )
    spark.read.parquet(out).createOrReplaceTempView("plain")
    scans = in_turns(
        {"plain": lambda: spark.sql(QUERY.format("plain")).toArrow(), "flat": lambda: server.sql(QUERY.format("flat"))}, rounds
    )
    return [
        ("insert, `'bucket'='-1'`", f"{taken['flat']:.1f} s", f"{taken['plain'] / taken['flat']:.2f} × Spark's speed", "≥ 0.9"),
        ("insert, 8 ordered buckets", f"{taken['buckets']:.1f} s", f"{taken['buckets'] / taken['plain']:.2f} × Spark's time", "≤ 2.2"),
        ("plain Spark, the same rows", f"{taken['plain']:.1f} s", "1", ""),
        ("scan, filter, aggregate", f"{scans['flat']:.2f} s", f"{scans['plain'] / scans['flat']:.2f} × Spark's speed", "≥ 0.9"),
        ("plain Spark, the same query", f"{scans['plain']:.2f} s", "1", ""),
    ]


def small(spark: SparkSession, server: BenchServer) -> list[Row]:
    """Short statements over HTTP."""
    server.sql("CREATE TABLE small (id BIGINT, a DOUBLE, s STRING, ts TIMESTAMP(3), k INT)")
    values = ", ".join(f"({i}, 1.5, 'text {i}', TIMESTAMP '2024-01-01 00:00:00', {i})" for i in range(10))
    insert = median_millis(lambda: server.sql(f"INSERT INTO small VALUES {values}"), 200)
    for _ in range(20):
        server.sql("SELECT 1")
        spark.sql("SELECT 1").toArrow()
    ours = median_millis(lambda: server.sql("SELECT 1"), 100)
    own = median_millis(lambda: spark.sql("SELECT 1").toArrow(), 100)
    return [
        ("`INSERT … VALUES`, 10 rows, p50 over HTTP", f"{insert:.1f} ms", "", "≤ 15 ms"),
        ("`SELECT 1`, p50 over HTTP", f"{ours:.1f} ms", f"{ours - own:+.1f} ms over Spark's own {own:.1f} ms", "≤ 15 ms above"),
        ("16 writers on one table", f"{_writers(server, 16, 10.0):.0f} commits/s", "", "≥ 200"),
    ]


def _writers(server: BenchServer, count: int, duration: float) -> float:
    """Acknowledged inserts of one row per second."""
    server.sql("CREATE TABLE busy (id BIGINT, s STRING)")
    done = [0] * count
    until = time.monotonic() + duration

    def write(number: int) -> None:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            while time.monotonic() < until:
                server.sql(f"INSERT INTO busy VALUES ({number}, 'x')", client)
                done[number] += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / duration


def page(rows: list[Row], count: int, rounds: int) -> str:
    """The page of docs."""
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`. Absolute times move with the machine; ratios are taken in one run, in turns: compare those.",
        "",
        f"{count:,} rows × 5 columns, medians of {rounds} rounds, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"Spark {version('pyspark')}.",
        "",
        "| work | measured | ratio | goal |",
        "|---|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run everything once."""
    parser = argparse.ArgumentParser(prog="benchmarks")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-page", action="store_true", help="print only")
    options = parser.parse_args()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as made:
        scratch = Path(made)
        source = scratch / "source"
        spark = plain_spark()
        make_source(spark, source, options.rows)
        server = BenchServer(scratch / "data", scratch)
        try:
            server.wait_for_spark()
            rows = small(spark, server)
            before = server.resident_bytes()
            rows += bulk(spark, server, source, scratch, options.rounds)
            peak = server.resident_bytes()
            rows.append(
                ("memory of the server's Python process", f"{peak / 2**20:.0f} MB", f"{before / 2**20:.0f} MB before the bulk work", "")
            )
        finally:
            server.stop()
            spark.stop()
    text = page(rows, options.rows, options.rounds)
    print(text)
    if not options.no_page:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
