"""Inserts and scans of many rows beside plain Spark on the same session settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.page import Table
from benchmarks.harness.run import Run
from benchmarks.harness.timing import in_turns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = "SELECT count(*), sum(a), max(b), count(DISTINCT s) FROM {} WHERE b > 0.5"
COLUMNS = "a BIGINT, k BIGINT, b DOUBLE, s STRING, ts TIMESTAMP(6)"
ROUNDS = 3


def measure(run: Run) -> list[Table]:
    """20 million rows of five columns."""
    count = run.size(20_000_000, 500_000)
    spark, source, out = run.plain_spark(), run.scratch / "source", str(run.scratch / "plain")
    _make_source(spark, source, count)
    with run.server(spark=True) as server:
        before = server.resident_bytes()
        server.sql(f"CREATE TABLE flat ({COLUMNS}) WITH ('bucket' = '-1')")
        server.sql(f"CREATE TABLE buckets ({COLUMNS}) WITH ('bucket' = '8', 'bucket-key' = 'a')")
        load = f"CREATE TEMPORARY TABLE src ({COLUMNS}) WITH ('connector'='filesystem','path'='{source}','format'='parquet'); "
        taken = in_turns(
            {
                "plain": lambda: spark.read.parquet(str(source)).write.mode("overwrite").parquet(out),
                "flat": lambda: server.sql(load + "INSERT OVERWRITE flat SELECT * FROM src"),
                "buckets": lambda: server.sql(load + "INSERT OVERWRITE buckets SELECT * FROM src"),
            },
            ROUNDS,
            most_seconds=10 * run.seconds,
        )
        spark.read.parquet(out).createOrReplaceTempView("plain")
        scans = in_turns(
            {"plain": lambda: spark.sql(QUERY.format("plain")).toArrow(), "flat": lambda: server.sql(QUERY.format("flat"))},
            ROUNDS,
            most_seconds=3 * run.seconds,
        )
        peak = server.resident_bytes()
    rows = [
        ("insert, `'bucket'='-1'`", f"{taken['flat']:.1f} s", f"{taken['plain'] / taken['flat']:.2f} × Spark's speed", "≥ 0.9"),
        ("insert, 8 ordered buckets", f"{taken['buckets']:.1f} s", f"{taken['buckets'] / taken['plain']:.2f} × Spark's time", "≤ 2.2"),
        ("plain Spark, the same rows", f"{taken['plain']:.1f} s", "1", ""),
        ("scan, filter, aggregate", f"{scans['flat']:.2f} s", f"{scans['plain'] / scans['flat']:.2f} × Spark's speed", "≥ 0.9"),
        ("plain Spark, the same query", f"{scans['plain']:.2f} s", "1", ""),
        ("memory of the server's Python process", f"{peak / 2**20:.0f} MB", f"{before / 2**20:.0f} MB before the bulk work", ""),
    ]
    note = f"{count:,} rows × 5 columns, medians of {ROUNDS} rounds."
    return [Table(head=("work", "measured", "ratio", "goal"), rows=rows, note=note)]


def _make_source(spark: SparkSession, path: Path, rows: int) -> None:
    """Rows of two BIGINTs, a DOUBLE, a STRING and a TIMESTAMP, as Parquet."""
    spark.sql(
        f"""SELECT id AS a, hash(id) * 1L AS k, rand(7) AS b, concat('user-', id % 100000) AS s,
            timestamp_ntz '2024-01-01 00:00:00' + make_dt_interval(0, 0, 0, id / 1000) AS ts FROM range({rows})"""
    ).write.mode("overwrite").parquet(str(path))
