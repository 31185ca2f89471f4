"""Maintenance beside what a user would do in plain Spark on the same data: read, coalesce, overwrite."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.page import Table
from benchmarks.harness.run import Run
from benchmarks.harness.server import BenchServer
from benchmarks.harness.timing import in_turns, seconds
from catalog import CatalogStore
from lake import Lake
from model.identifier import Identifier
from model.schema.types import IntType
from model.snapshot import CommitKind
from table.compaction.rewrite import as_entry
from table.format.manifests.entries import NewFile
from table.format.rows import binary_row
from table.format.rows.arrow import arrow_schema
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches

Row = tuple[str, str, str, str]
PARTITIONS = 100
_SORTS = 3


def measure(run: Run) -> list[Table]:
    """Compaction, sorting, expiry, and the search for orphans."""
    with run.server(spark=True) as server:
        works: list[Callable[[], Row]] = [
            lambda: compaction(run, server, run.size(1000, 100), run.size(2_000_000, 200_000), rounds=3),
            lambda: compaction(run, server, run.size(10_000, 1000), run.size(20_000_000, 2_000_000), rounds=1),
            lambda: expiry(run, server, run.size(1000, 100)),
            lambda: orphans(server, run.size(100_000, 5000)),
            lambda: zorder(run, server, run.size(20_000_000, 1_000_000)),
        ]
        rows = []
        for work in works:
            rows.append(work())
            print(" | ".join(rows[-1]), flush=True)  # they take minutes
    note = (
        "Plain Spark reads the same files, coalesces them to as many as we end with (for the z-order: splits them by ranges of both "
        "columns and sorts within) and writes them. It knows no snapshots; beside the search for orphans stands a bare walk over the files."
    )
    return [Table(head=("work", "measured", "beside it", "ratio"), rows=rows, note=note)]


def check(run: Run) -> list[Table]:
    """A look at every byte of a table; beside it, its files are read and nothing is done with them, by as many threads."""
    files, rows, threads = 64, run.size(20_000_000, 1_000_000), 8
    with run.server(spark=False) as server, tempfile.TemporaryDirectory(dir=run.scratch) as directory:
        source = many_files(Path(directory), files, rows, checksums=True)
        taken_over(server, "whole", source)
        paths = list(source.iterdir())
        size = sum(path.stat().st_size for path in paths)

        def read() -> None:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(lambda path: len(path.read_bytes()), paths))

        call = f"CALL sys.check_table(`table` => 'whole', deep => %s, parallelism => {threads})"
        works: dict[str, Callable[[], object]] = {
            "deep": lambda: server.sql(call % "true"),
            "plain": read,
            "else": lambda: server.sql(call % "false"),
        }
        times = in_turns(works, _SORTS, most_seconds=20 * run.seconds)
    per_second = {name: size / seconds / 1e6 for name, seconds in times.items()}
    plain = f"{times['plain']:.2f} s, {per_second['plain']:,.0f} MB/s"
    of = f"{rows:,} rows, {size / 1e6:,.0f} MB in {len(paths)} files"
    deep = (
        f"check with `deep`, {of}",
        f"{times['deep']:.2f} s, {per_second['deep']:,.0f} MB/s",
        plain,
        f"{times['deep'] / times['plain']:.1f}",
    )
    shallow = f"check without `deep`, {of}", f"{times['else']:.2f} s", plain, f"{times['else'] / times['plain']:.2f}"
    note = (
        "Beside it stands reading the same files, and doing nothing with the bytes. All is in the page cache, so what is measured is the "
        "work, not the disk: where a disk gives less than a deep check takes, the disk is what it waits for. A deep check verifies the "
        "checksum of each page and unpacks and decodes all values; one without looks at sizes and footers. Other work on the machine slows "
        f"the check more than the reading: its load was {os.getloadavg()[0]:.0f}."
    )
    return [Table(head=("work", "measured", "beside it", "ratio"), rows=[deep, shallow], note=note)]


def many_files(scratch: Path, files: int, rows: int, *, checksums: bool = False) -> Path:
    """A directory of so many Parquet files."""
    path = scratch / f"files-{files}"
    path.mkdir()
    each = rows // files

    def write(number: int) -> None:
        ids = np.arange(number * each, (number + 1) * each)
        words = pa.DictionaryArray.from_arrays(pa.array(ids % 1000), [f"user-{n}" for n in range(1000)]).cast(pa.string())
        columns = {"a": ids, "k": ids * 2_654_435_761 % 2**31, "s": words}
        pq.write_table(pa.table(columns), path / f"part-{number:05}.parquet", compression="zstd", write_page_checksum=checksums)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(write, range(files)))
    return path


def taken_over(server: BenchServer, table: str, source: Path) -> None:
    """A table of the same files, where they lie; nobody merges them by himself."""
    server.sql(f"CREATE TABLE {table} (a BIGINT, k BIGINT, s STRING) WITH ('bucket' = '-1', 'write-only' = 'true')")
    server.sql(f"CALL sys.migrate_file(source_table => '{source}', target_table => 'default.{table}')")


def compaction(run: Run, server: BenchServer, files: int, rows: int, *, rounds: int) -> Row:
    """Merge small files; plain Spark reads, coalesces to as many files as we end with, and writes."""
    spark = run.plain_spark()
    with tempfile.TemporaryDirectory(dir=run.scratch) as directory:
        source, out = many_files(Path(directory), files, rows), str(Path(directory) / "out")
        tables = [f"merge_{files}_{number}" for number in range(rounds + 1 if rounds > 1 else 1)]
        for table in tables:
            taken_over(server, table, source)
        after = max(1, server.sql(f"CALL sys.compact('default.{tables[0]}', dry_run => true)")[0][2])
        next_table = iter(tables)
        small = spark.read.parquet(str(source)).coalesce(after)
        works: dict[str, Callable[[], object]] = {
            "ours": lambda: server.sql(f"CALL sys.compact('default.{next(next_table)}')"),
            "plain": lambda: small.write.mode("overwrite").parquet(out),
        }
        if rounds > 1:
            times = in_turns(works, rounds, most_seconds=10 * run.seconds)
        else:  # both are warm by now
            times = {name: seconds(work) for name, work in works.items()}
        left = server.sql(f"SELECT COUNT(*) FROM {tables[0]}$files")[0][0]
        for table in tables:
            server.sql(f"DROP TABLE {table}")
    name = f"compact {files:,} files of {rows:,} rows into {left}"
    return name, f"{times['ours']:.2f} s", f"{times['plain']:.2f} s", f"{times['ours'] / times['plain']:.2f}"


def zorder(run: Run, server: BenchServer, rows: int) -> Row:
    """Sort a table along a curve through two columns."""
    spark = run.plain_spark()
    with tempfile.TemporaryDirectory(dir=run.scratch) as directory:
        source, out = many_files(Path(directory), 16, rows), str(Path(directory) / "out")
        tables = [f"sorted_{number}" for number in range(_SORTS + 1)]  # one more, by which both get warm
        for table in tables:
            taken_over(server, table, source)
        next_table = iter(tables)
        read = spark.read.parquet(str(source))

        def ours() -> None:
            server.sql(f"CALL sys.compact(`table` => 'default.{next(next_table)}', order_strategy => 'zorder', order_by => 'a,k')")

        def plain() -> None:
            files = server.sql(f"SELECT COUNT(*) FROM {tables[0]}$files")[0][0]
            ranges = read.repartitionByRange(files, "a", "k").sortWithinPartitions("a", "k")
            ranges.write.mode("overwrite").parquet(out)

        times = in_turns({"ours": ours, "plain": plain}, _SORTS, most_seconds=20 * run.seconds)
        for table in tables:
            server.sql(f"DROP TABLE {table}")
    return (
        f"z-order {rows:,} rows by two columns",
        f"{times['ours']:.1f} s",
        f"{times['plain']:.1f} s",
        f"{times['ours'] / times['plain']:.2f}",
    )


def expiry(run: Run, server: BenchServer, snapshots: int) -> Row:
    """Let snapshots go, and the file each of them added, which were merged since."""
    server.sql("CREATE TABLE old (a BIGINT) WITH ('bucket' = '-1', 'write-only' = 'true')")
    until, made = run.patience(), 0
    while made < snapshots and time.monotonic() < until:
        server.sql(f"INSERT INTO old VALUES ({made})")
        made += 1
    server.sql("CALL sys.compact('default.old')")
    files = sum(1 for _ in server.warehouse.rglob("old/**/*.parquet"))
    ours = seconds(lambda: server.sql("CALL sys.expire_snapshots(`table` => 'old', retain_max => 1, retain_min => 1)"))
    assert server.sql("SELECT COUNT(*) FROM old$snapshots")[0][0] == 1
    left = sum(1 for _ in server.warehouse.rglob("old/**/*.parquet"))
    return f"expire {made:,} snapshots and {files - left:,} files", f"{ours:.2f} s", "–", "–"


def orphans(server: BenchServer, files: int) -> Row:
    """Look through a table's files for those nobody needs; beside it, a bare walk over them."""
    server.sql("CREATE TABLE large (a BIGINT, p INT) PARTITIONED BY (p) WITH ('bucket' = '-1', 'write-only' = 'true')")
    root = server.warehouse / "default.db" / "large"
    lost = link_files(server, "large", files)
    call = "CALL sys.remove_orphan_files(`table` => 'default.large', dry_run => true)"
    ours = seconds(lambda: server.sql(call))
    plain = seconds(lambda: [path.stat().st_mtime for path in root.rglob("*.parquet")])
    server.sql("CALL sys.remove_orphan_files('default.large')")
    left = sum(1 for _ in root.rglob("*.parquet"))
    assert left == files - lost, f"{left} files are left"
    return f"find {lost:,} orphans among {files:,} files", f"{ours:.2f} s", f"{plain:.2f} s", f"{ours / plain:.2f}"


def link_files(server: BenchServer, table: str, files: int) -> int:
    """Give a table so many files of a week ago in `PARTITIONS`, those of each one on disk; returns how many are not committed."""
    with contextlib.closing(CatalogStore(server.catalog_dsn())) as catalog:
        lake = Lake(catalog, str(server.warehouse))
        opened = lake.open(Identifier("default", table))
        batch = pa.RecordBatch.from_pydict({"a": [1], "p": [0]}, schema=arrow_schema(opened.schema.fields))
        (first,) = write_batches(opened.files, opened.schema, [batch])
        origin = opened.files.data_path(opened.schema, as_entry(first, -1))
        week_ago = time.time() - 7 * 24 * 3600
        os.utime(origin, (week_ago, week_ago))
        adds = []
        each = files // PARTITIONS
        lost = max(1, each // 100)
        for partition in range(PARTITIONS):
            encoded = binary_row.encode_prefixed([IntType()], (partition,))
            directory = Path(opened.files.layout.bucket_dir(opened.schema, (partition,), 0))
            directory.mkdir(parents=True, exist_ok=True)
            names = [f"data-{partition}-{number}.parquet" for number in range(each)]
            shutil.copy2(origin, directory / names[0])  # a file system allows so many links only
            for name in names[1:]:
                os.link(directory / names[0], directory / name)
            adds += [NewFile(partition=encoded, bucket=0, file=replace(first.file, file_name=name)) for name in names[lost:]]
        os.unlink(origin)
        lake.commit(opened, CommitRequest(kind=CommitKind.APPEND, adds=tuple(adds), commit_user="benchmark"))
        lake.close()
    return lost * PARTITIONS
