"""Compaction on Spark: merging on executors, and sorting by columns and along curves."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gateway.gateway import Gateway, GatewayLimits
from lake import Lake, LakeTable
from lake.rewrite.compaction import compact, live_files, plan
from model.errors import AnalysisError, RewriteConflict, StatementCanceled
from model.identifier import Identifier
from model.snapshot import CommitKind, Snapshot
from sql.spark.session.pool import SparkPool
from sql.spark.write.compaction import on_spark
from sql.spark.write.sorting import cluster_files
from table.compaction.clustering import Clustering, choose_clusters
from table.compaction.rewrite import planned
from table.format.manifests.entries import DataFile, FileSource, ManifestEntry
from table.format.rows.arrow import arrow_schema
from table.scan.read import read_batches
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches
from tests.gateway.held import in_background
from tests.interop.strict import check_warehouse
from tests.lake.rewrite.test_compaction import QUEUE, append, ids, live, rows
from tests.short import diagonal, short
from tests.sql.statements.test_partition_bytes import written_by_pypaimon
from tests.sql.tables import make_table
from tests.waiting import eventually

pytestmark = pytest.mark.spark


@pytest.fixture
def gateway(lake: Lake, pool: SparkPool) -> Iterator[Gateway]:
    made = Gateway(lake, pool, limits=GatewayLimits(spark_statements=1))
    made.start()
    yield made
    made.close()


def call(gateway: Gateway, text: str) -> list[tuple[Any, ...]]:
    with gateway.run(text, timeout=120) as result:
        return result.collect()


def test_executors_merge_as_the_gateway_does(lake: Lake, pool: SparkPool) -> None:
    table = make_table(lake, options={**QUEUE, "bucket": "3", "compaction.max.file-num": "2"}, id="INT", s="STRING")
    for n in range(0, 40, 10):
        append(lake, table, range(n, n + 10), s=[f"s{i}" for i in range(10)])
    before = sorted(ids(table))
    with pool.lease().running("c") as session:
        done = compact(lake.commit, table, plan(table, full=True), rewriter=on_spark(session))
    assert done.tasks == 3
    assert len(live(table)) == 3
    assert sorted(ids(table)) == before
    assert all(entry.file.file_source is FileSource.COMPACT for entry in live(table))
    for bucket in range(3):
        of_bucket = [e.file for e in live_files(table, None, {bucket})]
        assert of_bucket[0].max_sequence_number - of_bucket[0].min_sequence_number + 1 == of_bucket[0].row_count


@pytest.fixture
def scattered(lake: Lake) -> LakeTable:
    options = {"bucket": "-1", "target-file-size": "16 kb", "file.compression": "none"}
    table = make_table(lake, options=options, partition="p", id="INT", b="INT", p="INT")
    for n in range(4):
        numbers = [(n * 7919 + i * 104729) % 10000 for i in range(2000)]
        append(lake, table, numbers, b=[(x * 31) % 10000 for x in numbers], p=[x % 2 for x in numbers])
    return table


@pytest.mark.parametrize("strategy", short(["order", "zorder", "hilbert"], ["order", "hilbert"]))
def test_sorted_partitions_let_files_be_skipped(lake: Lake, gateway: Gateway, scattered: LakeTable, strategy: str) -> None:
    before = sorted(map(repr, rows(scattered)))
    assert overlapping(scattered, "id") > 3
    (done,) = call(gateway, f"CALL sys.compact(`table` => 't', order_strategy => '{strategy}', order_by => 'id,b')")
    assert done[5] == 8000
    assert sorted(map(repr, rows(scattered))) == before
    assert overlapping(scattered, "id") < (1.2 if strategy == "order" else 3)
    latest = scattered.latest()
    assert latest is not None
    assert (latest.commit_kind, latest.total_record_count, latest.delta_record_count) == ("OVERWRITE", 8000, 0)
    if strategy == "order":
        assert ordered(scattered)


def overlapping(table: LakeTable, column: str) -> float:
    """How many files of a partition hold a value, on average."""
    from table.format.rows.stats import column_stats

    found = []
    for partition in {e.partition for e in live(table)}:
        files = [e.file for e in live(table) if e.partition == partition]
        ranges: list[Any] = [column_stats(f.value_stats, f.value_stats_cols, table.schema)[column] for f in files]
        found += [sum(r.min <= probe <= r.max for r in ranges) for probe in range(0, 10000, 500)]
    return float(sum(found)) / len(found)


def ordered(table: LakeTable) -> bool:
    from table.compaction.rewrite import planned
    from table.scan.read import read_batches

    for entry in live(table):
        batches = read_batches(table.files, table.schema, planned(table.files, table.schema, [entry]))
        values = [(r["id"], r["b"]) for batch in batches for r in batch.to_pylist()]
        if values != sorted(values):
            return False
    return True


def test_rows_appended_while_sorting_stay(lake: Lake, gateway: Gateway, scattered: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    from sql.spark.write import sorting

    real = sorting.sort_files

    def meanwhile(*arguments: Any, **named: Any) -> Any:
        written = real(*arguments, **named)
        append(lake, scattered, [123456], b=[0], p=[0])
        return written

    monkeypatch.setattr(sorting, "sort_files", meanwhile)
    call(gateway, "CALL sys.compact(`table` => 't', order_strategy => 'order', order_by => 'id')")
    assert len(rows(scattered)) == 8001


def test_a_queue_is_not_sorted(lake: Lake, gateway: Gateway) -> None:
    make_table(lake, "q", id="INT")
    with pytest.raises(AnalysisError, match="in the order they came"):
        call(gateway, "CALL sys.compact(`table` => 'q', order_strategy => 'order', order_by => 'id')")


def test_system_tables_join_on_spark(lake: Lake, gateway: Gateway, scattered: LakeTable) -> None:
    found = call(
        gateway,
        "SELECT s.commit_kind, count(*), sum(f.record_count) FROM t$files f JOIN t$schemas c ON f.schema_id = c.schema_id "
        "CROSS JOIN (SELECT max(commit_kind) AS commit_kind FROM t$snapshots) s GROUP BY s.commit_kind",
    )
    assert found == [("APPEND", len(live(scattered)), 8000)]
    assert call(gateway, "SELECT rowkind, count(*) FROM t$audit_log WHERE p = 1 GROUP BY rowkind") == [
        ("+I", sum(row["p"] == 1 for row in rows(scattered)))
    ]


def test_statistics_are_kept_with_the_snapshot(lake: Lake, gateway: Gateway, warehouse: Path) -> None:
    table = make_table(lake, "a", id="INT", s="STRING")
    append(lake, table, [3, 1, 2], s=["x", None, "long"])
    assert call(gateway, "CALL sys.analyze_table(`table` => 'a', columns => 's', dry_run => true)") == [("s", 2, 1, 3, True)]
    assert call(gateway, "CALL sys.analyze_table('a')") == [("id", 3, 0, 3, False), ("s", 2, 1, 3, False)]
    assert call(gateway, "SELECT commit_kind, total_record_count FROM a$snapshots WHERE snapshot_id = 2") == [("ANALYZE", 3)]
    ((snapshot_id, count, found),) = call(gateway, "SELECT snapshot_id, mergedRecordCount, colstat FROM a$statistics")
    assert (snapshot_id, count) == (1, 3)
    assert '"min":"1","max":"3"' in found
    append(lake, table, [4], s=["y"])
    assert len(call(gateway, "SELECT * FROM a$statistics")) == 1
    assert ids(table) == [3, 1, 2, 4]
    call(gateway, "INSERT OVERWRITE a SELECT id, s FROM a WHERE id > 2")
    assert check_warehouse(warehouse)["statistics"] == 1
    assert call(gateway, "SELECT operation FROM a$snapshots") == [(None,), ("ANALYZE",), (None,), ("OVERWRITE",)]


def test_statistics_spell_what_is_no_number_as_java_reads_it(lake: Lake, gateway: Gateway) -> None:
    table = make_table(lake, "a", id="INT", d="DOUBLE", f="FLOAT")
    append(lake, table, [1, 2], d=[float("-inf"), float("inf")], f=[0.5, float("nan")])
    call(gateway, "CALL sys.analyze_table('a')")
    ((found,),) = call(gateway, "SELECT colstat FROM a$statistics")
    assert '"min":"-Infinity","max":"Infinity"' in found
    assert '"min":"0.5","max":"NaN"' in found


def test_incremental_clustering(gateway: Gateway, lake: Lake) -> None:
    """Unsorted files at level 0 are sorted together and rise; what is sorted stays until enough has come, or `full` is said."""
    call(
        gateway,
        "CREATE TABLE c (id INT, b INT, p INT) PARTITIONED BY (p) WITH ('bucket' = '-1', 'clustering.incremental' = 'true', "
        "'clustering.columns' = 'id', 'target-file-size' = '16 kb', 'file.compression' = 'none')",
    )
    table = lake.open(Identifier("default", "c"))
    for n in range(4):
        append(lake, table, [(n * 7919 + i * 104729) % 10000 for i in range(2000)], b=[0] * 2000, p=[n % 2] * 2000)
    before = sorted(rows(table), key=str)
    assert call(gateway, "CALL sys.compact('c')")[0][0] == 0  # two runs a partition, five are wanted
    (done,) = call(gateway, "CALL sys.compact(`table` => 'c', compact_strategy => 'full', `where` => 'p = 0')")
    assert (done[0], done[5]) == (1, 4000)
    assert sorted(rows(table), key=str) == before
    levels = {(e.partition, e.file.level) for e in live(table)}
    assert sorted(level for _, level in levels) == [0, 5]
    top = sorted((e.file for e in live(table) if e.file.level == 5), key=lambda f: f.file_name)
    assert len(top) > 1
    spans = sorted((min(ids_of(table, file)), max(ids_of(table, file))) for file in top)
    assert all(left[1] <= right[0] for left, right in pairwise(spans))  # sorted across the files, too
    assert call(gateway, "CALL sys.compact(`table` => 'c', compact_strategy => 'full', partitions => 'p=0')")[0][0] == 0
    for n in range(5):
        append(lake, table, [n], b=[0], p=[0])
    assert call(gateway, "CALL sys.compact(`table` => 'c', dry_run => true, partitions => 'p=0')")[0][:2] == (1, 5)
    call(gateway, "CALL sys.compact(`table` => 'c', options => 'clustering.incremental.mode=local-sort', partitions => 'p=0')")
    assert {e.file.level for e in live(table)} == {0, 4, 5}
    assert call(gateway, "SELECT level, SUM(record_count) FROM c$files WHERE level > 0 GROUP BY level ORDER BY level") == [
        (4, 5),
        (5, 4000),
    ]
    assert call(gateway, "SELECT commit_kind FROM c$snapshots ORDER BY snapshot_id DESC LIMIT 1") == [("COMPACT",)]
    with pytest.raises(AnalysisError, match="without order_strategy"):
        call(gateway, "CALL sys.compact(`table` => 'c', order_strategy => 'order', order_by => 'b')")


def test_files_follow_one_another_but_where_each_task_sorts_what_it_reads(gateway: Gateway, lake: Lake) -> None:
    options = "'bucket' = '-1', 'clustering.incremental' = 'true', 'clustering.columns' = 'id', 'source.split.target-size' = '16 kb'"
    overlapping = {}
    for mode in ("global-sort", "local-sort"):
        name = mode.partition("-")[0]
        call(
            gateway,
            f"CREATE TABLE c_{name} (id INT) WITH ({options}, 'clustering.incremental.mode' = '{mode}', 'target-file-size' = '16 kb')",
        )
        table = lake.open(Identifier("default", f"c_{name}"))
        for n in range(4):
            append(lake, table, [(n * 7919 + i * 104729) % 10000 for i in range(2000)])
        before = sorted(ids(table))
        call(gateway, f"CALL sys.compact(`table` => 'c_{name}', compact_strategy => 'full')")
        found = [ids_of(table, entry.file) for entry in live(table)]
        assert sorted(ids(table)) == before
        assert all(numbers == sorted(numbers) for numbers in found)
        spans = sorted((numbers[0], numbers[-1]) for numbers in found)
        assert len(spans) > 1
        overlapping[mode] = any(left[1] > right[0] for left, right in pairwise(spans))
    assert overlapping == {"global-sort": False, "local-sort": True}


@pytest.mark.parametrize(("strategy", "ordered"), [("order", True), ("zorder", False), ("auto", False)])
def test_rows_are_clustered_by_the_strategy_that_is_given(gateway: Gateway, lake: Lake, strategy: str, *, ordered: bool) -> None:
    """Two columns go along a curve where none is given."""
    clustered = f"'clustering.incremental' = 'true', 'clustering.columns' = 'id,b', 'clustering.strategy' = '{strategy}'"
    call(gateway, f"CREATE TABLE y (id INT, b INT) WITH ('bucket' = '-1', {clustered})")
    table = lake.open(Identifier("default", "y"))
    for part in range(2):
        append(lake, table, [(part + i * 37) % 64 for i in range(256)], b=[(i * 11) % 64 for i in range(256)])
    call(gateway, "CALL sys.compact(`table` => 'y', compact_strategy => 'full')")
    found = [(row["id"], row["b"]) for entry in live(table) for row in rows_of(table, entry)]
    assert len(found) == 512
    assert (found == sorted(found)) is ordered


@pytest.mark.parametrize("optimized", ["false", "true"])
def test_bulk_writes_into_what_is_clustered_bit_by_bit_are_sorted_where_an_option_says_so(
    gateway: Gateway, lake: Lake, optimized: str
) -> None:
    call(
        gateway,
        "CREATE TABLE w (id INT) WITH ('bucket' = '-1', 'clustering.incremental' = 'true', 'clustering.columns' = 'id', "
        f"'clustering.incremental.optimize-write' = '{optimized}')",
    )
    call(gateway, "INSERT INTO w SELECT CAST((id * 104729) % 10007 AS INT) FROM range(0, 5000, 1, 1)")
    table = lake.open(Identifier("default", "w"))
    found = [number for entry in live(table) for number in ids_of(table, entry.file)]
    assert (found == sorted(found)) is (optimized == "true")
    assert sorted(found) == sorted((n * 104729) % 10007 for n in range(5000))


@pytest.mark.parametrize(("looked_at", "ordered"), [("3", False), ("8", True)])
def test_the_curve_looks_at_so_many_bytes_of_a_text(gateway: Gateway, lake: Lake, looked_at: str, *, ordered: bool) -> None:
    """Texts that differ behind them are one to it, and keep the order they came in."""
    call(gateway, f"CREATE TABLE v (id INT, s STRING) WITH ('bucket' = '-1', 'zorder.var-length-contribution' = '{looked_at}')")
    table = lake.open(Identifier("default", "v"))
    for part in ([3, 1, 2], [6, 4, 5]):
        append(lake, table, part, s=[f"abc{number}" for number in part])
    call(gateway, "CALL sys.compact(`table` => 'v', order_strategy => 'zorder', order_by => 's')")
    assert (ids(table) == [1, 2, 3, 4, 5, 6]) is ordered
    assert sorted(ids(table)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(("ours", "race"), diagonal([False, True], [False, True]))
def test_clustering_keeps_the_rows_of_a_partition_that_clients_write_in_two_ways(
    gateway: Gateway, lake: Lake, pool: SparkPool, *, ours: bool, race: bool
) -> None:
    """Also where the commit loses a race to a change of a row there, after which each task is committed by itself."""
    options = "'bucket' = '-1', 'clustering.incremental' = 'true', 'clustering.columns' = 'id', 'write-only' = 'true'"
    call(gateway, f"CREATE TABLE t (id INT, p TIMESTAMP(6)) PARTITIONED BY (p) WITH ({options}, 'rows.erasable' = 'true')")
    for row in (8, 9):
        call(gateway, f"INSERT INTO t VALUES ({row}, TIMESTAMP '2024-01-02 03:04:05')")
    written_by_pypaimon(lake, 2)
    if ours:
        call(gateway, "INSERT INTO t VALUES (3, NULL), (1, NULL); INSERT INTO t VALUES (4, NULL)")
    else:
        written_by_pypaimon(lake, 4)
    table = lake.open(Identifier("default", "t"))
    clustering = Clustering.of(table.schema)
    assert clustering is not None
    tasks = list(choose_clusters(clustering, live_files(table), full=True))
    before, changes = sorted(ids(table)), ["UPDATE t SET id = 44 WHERE id = 4"] * race

    def commit(table: LakeTable, request: CommitRequest) -> Snapshot:
        if changes:
            call(gateway, changes.pop())
        return lake.commit(table, request)

    with pool.lease().running("c") as session:
        done = compact(commit, table, tasks, rewriter=cluster_files(session))
    assert sorted(ids(table)) == ([*before[: before.index(4)], *before[before.index(4) + 1 :], 44] if race else before)
    assert (done.conflicts, done.rows) == (1, 2) if race else (0, len(before))
    assert {(len(rows_of(table, entry)), entry.file.level) for entry in live(table)} >= {(2, 5)}


@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (p)"])
def test_incremental_clustering_of_buckets(gateway: Gateway, lake: Lake, partitioned: str) -> None:
    """Each bucket is sorted by itself, also where what is sorted together stood apart in it, and takes rows behind it again."""
    options = "'bucket' = '3', 'bucket-key' = 'id', 'bucket-append-ordered' = 'false', 'num-sorted-run.compaction-trigger' = '3'"
    clustered = "'clustering.incremental' = 'true', 'clustering.columns' = 'b'"
    call(gateway, f"CREATE TABLE e (id INT, b INT, p INT) {partitioned} WITH ({options}, {clustered}, 'write-only' = 'true')")
    table = lake.open(Identifier("default", "e"))
    for n in range(4):
        append(lake, table, list(range(n * 100, n * 100 + 100)), b=[(i * 7919) % 100 for i in range(100)], p=[i % 2 for i in range(100)])
        if n == 2:
            assert 0 < call(gateway, "CALL sys.compact('e')")[0][5] <= 300
    before = sorted(rows(table), key=str)
    homes = {row["id"]: entry.bucket for entry in live(table) for row in rows_of(table, entry)}
    done = call(gateway, "CALL sys.compact(`table` => 'e', compact_strategy => 'full')")[0]
    assert (done[0], done[5]) == (6 if partitioned else 3, 400)
    assert sorted(rows(table), key=str) == before
    for entry in live(table):
        found = rows_of(table, entry)
        assert (entry.file.level, entry.total_buckets) == (3, 3)
        assert [row["b"] for row in found] == sorted(row["b"] for row in found)
        assert {homes[row["id"]] for row in found} == {entry.bucket}
    append(lake, table, [1000], b=[1], p=[1])
    assert len(rows(table)) == 401


@pytest.mark.parametrize("how", ["together", "alone", "after a race"])
def test_clustering_brings_rows_back_into_their_buckets(gateway: Gateway, lake: Lake, pool: SparkPool, how: str) -> None:
    """Earlier versions put rows into the bucket of a time's digits that its column does not store."""
    options = "'bucket' = '3', 'bucket-key' = 'id', 'bucket-append-ordered' = 'false', 'write-only' = 'true'"
    clustered = "'clustering.incremental' = 'true', 'clustering.columns' = 'b'"
    call(gateway, f"CREATE TABLE e (id INT, b INT) WITH ({options}, {clustered})")
    table = lake.open(Identifier("default", "e"))
    # After a race the buckets give each other equally many rows: there b has the values of id.
    append(lake, table, range(100), b=[(i * 7919) % 100 + (0 if how == "after a race" else 50) for i in range(100)])
    homes = {row["id"]: entry.bucket for entry in live(table) for row in rows_of(table, entry)}
    elsewhere = replace(table.schema, options={**table.schema.options, "bucket-key": "b"})
    for entry in live(table):
        batch = pa.RecordBatch.from_pylist(rows_of(table, entry), arrow_schema(table.schema.fields))
        adds = tuple(write_batches(table.files, elsewhere, [batch]))
        lake.commit(table, CommitRequest(kind=CommitKind.OVERWRITE, adds=adds, deletes=(entry,), commit_user="u"))
    assert any(homes[row["id"]] != entry.bucket for entry in live(table) for row in rows_of(table, entry))
    clustering = Clustering.of(table.schema)
    assert clustering is not None
    tasks = list(choose_clusters(clustering, live_files(table), full=True))
    assert len(tasks) == 3
    lost = [RewriteConflict("lost", resource_name="e")] * (how == "after a race")

    def commit(table: LakeTable, request: CommitRequest) -> Snapshot:
        if lost:
            raise lost.pop()
        return lake.commit(table, request)

    with pool.lease().running("c") as session:
        done = compact(commit, table, tasks[:1] if how == "alone" else tasks, rewriter=cluster_files(session))
        if how == "after a race":
            assert (done.conflicts, done.rows) == (3, 0)
            done = compact(commit, table, tasks, rewriter=cluster_files(session))
    assert done.conflicts == 0
    assert sorted(ids(table)) == list(range(100))
    mended = [entry for entry in live(table) if how != "alone" or entry.file.file_source is FileSource.COMPACT]
    assert {homes[row["id"]] == entry.bucket for entry in mended for row in rows_of(table, entry)} == {True}
    assert {entry.file.level for entry in mended} == ({5, 0} if how == "alone" else {5})


def rows_of(table: LakeTable, entry: ManifestEntry) -> list[dict[str, Any]]:
    files = planned(table.files, table.schema, [entry])
    return [row for batch in read_batches(table.files, table.schema, files) for row in batch.to_pylist()]


def ids_of(table: LakeTable, file: DataFile) -> list[int]:
    (entry,) = [e for e in live(table) if e.file.file_name == file.file_name]
    files = planned(table.files, table.schema, [entry])
    return [row["id"] for batch in read_batches(table.files, table.schema, files) for row in batch.to_pylist()]


def test_bulk_writes_are_sorted_by_the_clustering_columns(gateway: Gateway, lake: Lake) -> None:
    call(gateway, "CREATE TABLE w (id BIGINT, x BIGINT) WITH ('bucket' = '-1', 'clustering.columns' = 'x')")
    call(gateway, "INSERT INTO w SELECT id, (id * 7919) % 1000 FROM range(1000)")
    table = lake.open(Identifier("default", "w"))
    for entry in live(table):
        files = planned(table.files, table.schema, [entry])
        found = [row["x"] for batch in read_batches(table.files, table.schema, files) for row in batch.to_pylist()]
        assert found == sorted(found)


@contextlib.contextmanager
def no_core_free(pool: SparkPool, let_go: Path) -> Iterator[None]:
    """Hold every core of Spark, so that what is begun meanwhile waits in it."""

    def hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        let_go.with_suffix(f".{os.getpid()}").touch()
        while not let_go.exists():
            time.sleep(0.05)
        yield from batches

    def work() -> None:
        with pool.lease().running("holder") as session:
            session.range(2, numPartitions=2).mapInArrow(hold, "id BIGINT").count()

    holder = threading.Thread(target=work)
    holder.start()
    try:
        assert eventually(lambda: len(list(let_go.parent.glob(f"{let_go.name}.*"))) == 2, 120)
        yield
    finally:
        let_go.touch()
        holder.join(120)


def test_a_cancel_while_spark_sorts_leaves_no_file(
    lake: Lake, gateway: Gateway, pool: SparkPool, scattered: LakeTable, tmp_path: Path
) -> None:
    before, latest = all_files(scattered), scattered.latest()
    with no_core_free(pool, tmp_path / "held"):
        join = in_background(lambda: call(gateway, "CALL sys.compact(`table` => 't', order_strategy => 'zorder', order_by => 'id,b')"))
        assert eventually(lambda: bool(gateway.running() and gateway.progress(gateway.running()[0]).stages), 120)
        (operation,) = gateway.running()
        operation.cancel()
        assert isinstance(join(), StatementCanceled)
    assert eventually(lambda: operation.worker_ended, 120)
    assert (all_files(scattered), scattered.latest()) == (before, latest)
    assert len(call(gateway, "CALL sys.compact(`table` => 't', order_strategy => 'zorder', order_by => 'id,b')")) == 1
    assert scattered.latest() != latest


def all_files(table: LakeTable) -> set[str]:
    return {str(path) for path in Path(table.location).rglob("*") if path.is_file()}
