"""Files of other writers that leave partition columns to their manifest, as Flink's ``sys.clone`` of Hive's tables does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from gateway.gateway import Gateway
from lake import Lake
from model.identifier import Identifier
from model.snapshot import CommitKind
from table.format.manifests.entries import ManifestEntry, NewFile
from table.write.snapshot_builder import CommitRequest
from tests.lake.register.damage import forget_metadata
from tests.short import short

pytestmark = pytest.mark.spark
ROWS = [(1, "x", 2), (2, "x", 4), (3, "y", 6), (4, None, 8)]


def leave_out_partitions(lake: Lake) -> None:
    """Put the table's files in their own places again without their partition column, as another client's commit would."""
    table = lake.open(Identifier("default", "t"))
    entries = list(table.files.live_entries(table.latest()))
    adds = tuple(_without_partition(table.files.data_path(table.schema, entry), entry) for entry in entries)
    lake.commit(table, CommitRequest(kind=CommitKind.OVERWRITE, adds=adds, deletes=tuple(entries), commit_user="other"))
    forget_metadata()


def _without_partition(path: str, entry: ManifestEntry) -> NewFile:
    name = f"data-{uuid4()}-0.{path.rpartition('.')[2]}"
    at = str(Path(path).with_name(name))
    if name.endswith("orc"):
        orc.write_table(orc.read_table(path).drop_columns(["dt"]), at)
    else:
        pq.write_table(pq.read_table(path).drop_columns(["dt"]), at)
    file = replace(entry.file, file_name=name, file_size=Path(at).stat().st_size, embedded_file_index=None, extra_files=())
    return NewFile(partition=entry.partition, bucket=entry.bucket, file=file)


@pytest.fixture(params=short(["parquet", "orc"], ["parquet"]))
def on_spark(on_spark: Gateway, lake: Lake, request: pytest.FixtureRequest) -> Gateway:
    """With a table of such files."""
    options = f"'bucket' = '-1', 'file.format' = '{request.param}'"
    on_spark.run(f"CREATE TABLE t (a INT, dt STRING, b INT) PARTITIONED BY (dt) WITH ({options})").close()
    values = ", ".join(f"({a}, {'NULL' if dt is None else repr(dt)}, {b})" for a, dt, b in ROWS)
    on_spark.run(f"INSERT INTO t VALUES {values}").close()
    leave_out_partitions(lake)
    return on_spark


def rows(gateway: Gateway, text: str) -> list[tuple[object, ...]]:
    return sorted(gateway.run(text).collect(), key=repr)


def test_spark_reads_the_partitions_of_the_manifest(on_spark: Gateway) -> None:
    sums = [("x", 6), ("y", 6), (None, 8)]
    assert rows(on_spark, "SELECT dt, SUM(b) FROM t GROUP BY dt") == sorted(sums, key=repr)
    assert rows(on_spark, "SELECT a FROM t WHERE dt = 'x' AND abs(a) * 3 > 1") == [(1,), (2,)]


def test_rewrites_keep_rows_in_their_partitions(on_spark: Gateway) -> None:
    on_spark.run("CALL sys.compact(`table` => 't', order_strategy => 'order', order_by => 'a')").close()
    assert rows(on_spark, "SELECT * FROM t") == sorted(ROWS, key=repr)
    partitions = "SELECT `partition`, SUM(record_count) FROM t$files GROUP BY `partition`"
    assert sorted(count for _, count in on_spark.run(partitions).collect()) == [1, 1, 2]


def test_rows_are_found_by_their_partition_to_be_changed(on_spark: Gateway) -> None:
    on_spark.run("ALTER TABLE t SET ('rows.erasable' = 'true')").close()
    on_spark.run("DELETE FROM t WHERE dt = 'x' AND abs(a) = 1").close()
    on_spark.run("UPDATE t SET b = b + 1 WHERE upper(dt) = 'Y'").close()
    assert rows(on_spark, "SELECT * FROM t") == sorted([(2, "x", 4), (3, "y", 7), (4, None, 8)], key=repr)
