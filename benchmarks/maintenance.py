"""Maintenance beside what a user would do in plain Spark on the same data: read, coalesce, overwrite."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.page import Table
from benchmarks.run import Run
from benchmarks.server import BenchServer
from benchmarks.timing import seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[str, str, str, str]


def measure(run: Run) -> list[Table]:
    """Compaction and expiry."""
    with run.server(spark=True) as server:
        rows = [
            compaction(run, server, run.size(1000, 200), run.size(2_000_000, 400_000)),
            expiry(run, server, run.size(1000, 100)),
        ]
    return [Table(head=("work", "measured", "plain Spark", "ratio"), rows=rows)]


def many_files(spark: SparkSession, scratch: Path, files: int, rows: int) -> Path:
    """A directory of so many Parquet files."""
    path = scratch / f"files-{files}"
    spark.sql(f"SELECT id AS a, hash(id) * 1L AS k, concat('user-', id % 1000) AS s FROM range(0, {rows}, 1, {files})").write.parquet(
        str(path)
    )
    return path


def load(run: Run, server: BenchServer, table: str, source: Path) -> int:
    """The same files as commits of a table, without anything merged; returns how many there was time for."""
    server.sql(f"CREATE TABLE {table} (a BIGINT, k BIGINT, s STRING) WITH ('bucket' = '-1', 'write-only' = 'true')")
    until, done = run.patience(), 0
    for part in sorted(source.glob("*.parquet")):
        if time.monotonic() > until:
            part.unlink()
            continue
        done += 1
        headers = {"Content-Type": "application/vnd.apache.parquet"}
        server.client.post(f"/tables/default/{table}/rows", content=part.read_bytes(), headers=headers).raise_for_status()
    return done


def compaction(run: Run, server: BenchServer, files: int, rows: int) -> Row:
    """Merge small files; plain Spark reads, coalesces to as many files as we end with, and writes."""
    spark = run.plain_spark()
    with tempfile.TemporaryDirectory(dir=run.scratch) as directory:
        scratch = Path(directory)
        source = many_files(spark, scratch, files, rows)
        files = load(run, server, "merge", source)
        ours = seconds(lambda: server.sql("CALL sys.compact('default.merge')"))
        plain = seconds(lambda: spark.read.parquet(str(source)).coalesce(2).write.parquet(str(scratch / "out")))
    return f"compact {files} files of {rows:,} rows", f"{ours:.2f} s", f"{plain:.2f} s", f"{ours / plain:.2f}"


def expiry(run: Run, server: BenchServer, snapshots: int) -> Row:
    """Let snapshots go."""
    server.sql("CREATE TABLE old (a BIGINT) WITH ('write-only' = 'true')")
    until, made = run.patience(), 0
    while made < snapshots and time.monotonic() < until:
        server.sql(f"INSERT INTO old VALUES ({made})")
        made += 1
    ours = seconds(lambda: server.sql("CALL sys.expire_snapshots(`table` => 'old', retain_max => 1)"))
    return f"expire {made} snapshots", f"{ours:.2f} s", "–", "–"
