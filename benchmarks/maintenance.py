"""Maintenance beside what a user would do in plain Spark on the same data: read, coalesce, overwrite."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.__main__ import plain_spark
from benchmarks.server import BenchServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[str, str, str, str]


def seconds(work: Callable[[], Any]) -> float:
    """How long the work takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def many_files(spark: SparkSession, scratch: Path, files: int, rows: int) -> Path:
    """A directory of so many Parquet files."""
    path = scratch / f"files-{files}"
    spark.sql(f"SELECT id AS a, hash(id) * 1L AS k, concat('user-', id % 1000) AS s FROM range(0, {rows}, 1, {files})").write.parquet(
        str(path)
    )
    return path


def load(server: BenchServer, table: str, source: Path) -> None:
    """The same files as commits of a table, without anything merged."""
    server.sql(f"CREATE TABLE {table} (a BIGINT, k BIGINT, s STRING) WITH ('bucket' = '-1', 'write-only' = 'true')")
    for part in sorted(source.glob("*.parquet")):
        headers = {"Content-Type": "application/vnd.apache.parquet"}
        server.client.post(f"/tables/default/{table}/rows", content=part.read_bytes(), headers=headers).raise_for_status()


def compaction(spark: SparkSession, server: BenchServer, files: int, rows: int) -> Row:
    """Merge small files; plain Spark reads, coalesces to as many files as we end with, and writes."""
    with tempfile.TemporaryDirectory() as directory:
        scratch = Path(directory)
        source = many_files(spark, scratch, files, rows)
        load(server, f"merge_{files}", source)
        ours = seconds(lambda: server.sql(f"CALL sys.compact('default.merge_{files}')"))
        plain = seconds(lambda: spark.read.parquet(str(source)).coalesce(2).write.parquet(str(scratch / "out")))
    return f"compact {files} files, {rows} rows", f"{ours:.2f} s", f"{plain:.2f} s", f"{ours / plain:.2f}"


def expiry(server: BenchServer, snapshots: int) -> Row:
    """Let snapshots go."""
    server.sql("CREATE TABLE old (a BIGINT) WITH ('write-only' = 'true')")
    for n in range(snapshots):
        server.sql(f"INSERT INTO old VALUES ({n})")
    ours = seconds(lambda: server.sql("CALL sys.expire_snapshots(`table` => 'old', retain_max => 1)"))
    return f"expire {snapshots} snapshots", f"{ours:.2f} s", "–", "–"


def planning(entries: int) -> Row:
    """A scan of a very large table with a condition that leaves few files, warm; manifests are synthetic."""
    from model.predicate import Compare, Op
    from model.schema import column, new_schema
    from model.snapshot import CommitKind
    from table.commit import CommitRequest, build_snapshot
    from table.file_io import LocalFileIO
    from table.manifest import EMPTY_ROW, DataFile, NewFile
    from table.scan import plan_scan
    from table.stats import ColumnStats, StatsModes
    from table.store import TableFiles

    schema = new_schema([column("a", "BIGINT")], options={"bucket": "-1"})
    modes = StatsModes(schema)
    with tempfile.TemporaryDirectory() as directory:
        files = TableFiles(LocalFileIO(), directory)
        adds = []
        for n in range(entries):
            stats, cols = modes.store({"a": ColumnStats(min=n * 10, max=n * 10 + 9, null_count=0)})
            file = DataFile(
                file_name=f"f{n}", file_size=1 << 20, row_count=10, value_stats=stats, value_stats_cols=cols, min_sequence_number=0,
                max_sequence_number=9, schema_id=0, creation_time_millis=0,
            )  # fmt: skip
            adds.append(NewFile(partition=EMPTY_ROW, bucket=0, file=file))
        request = CommitRequest(kind=CommitKind.APPEND, adds=tuple(adds), commit_user="u")
        snapshot = build_snapshot(files, schema, None, [request], uuid="u", time_millis=0)
        wanted = Compare("a", Op.EQ, entries * 5)
        plan_scan(files, schema, snapshot, wanted)
        warm = seconds(lambda: plan_scan(files, schema, snapshot, wanted))
    return f"plan a scan of {entries} files, one matches, warm", f"{warm * 1000:.0f} ms", "–", "–"


def rows(spark: SparkSession, server: BenchServer, *, quick: bool) -> list[Row]:
    """All measurements; ``quick`` leaves out what takes minutes."""
    found = [compaction(spark, server, 200 if quick else 1000, 400_000 if quick else 2_000_000)]
    found.append(expiry(server, 100 if quick else 1000))
    found.append(planning(20_000 if quick else 1_000_000))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.maintenance")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as made:
        spark = plain_spark()
        server = BenchServer(Path(made) / "data", Path(made))
        try:
            found = rows(spark, server, quick=options.quick)
        finally:
            server.stop()
            spark.stop()
    print("| work | measured | plain Spark | ratio |\n|---|---|---|---|")
    for row in found:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
