"""CALL sys.erase whose condition Spark decides, where a client wrote footers and bounds that leave a row out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake import Lake
from model.identifier import Identifier
from model.snapshot import CommitKind
from table.write.writer import write_batches
from tests.erased import holders
from tests.short import short
from tests.sql.spark.conftest import Run

VALUE, OTHER = "SIXTEENLETTERS99", "SIXTEENLETTERS00"


def test_a_row_group_whose_bounds_leave_a_row_out_hides_none(run: Run, lake: Lake, warehouse: Path) -> None:
    run("CREATE TABLE t (id INT, name STRING) WITH ('rows.erasable' = 'true', 'write-only' = 'true')")
    table = lake.open(Identifier("default", "t"))
    (holding,), (other,) = (
        list(write_batches(table.files, table.schema, [pa.record_batch({"id": pa.array([1], pa.int32()), "name": [name]})]))
        for name in (VALUE, OTHER)
    )
    path = Path(table.location) / "bucket-0" / holding.file.file_name
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    assert VALUE.encode() in data[footer:]
    path.write_bytes(data[:footer] + data[footer:].replace(VALUE.encode(), OTHER.encode()))
    assert pq.read_table(path).column("name").to_pylist() == [VALUE]
    told = replace(holding.file, value_stats=other.file.value_stats, value_stats_cols=other.file.value_stats_cols)
    with table.write() as write:
        lake.commit(table, write.request(CommitKind.APPEND, adds=write.add([replace(holding, file=told)])))
    assert run(f"SELECT id FROM t WHERE name = '{VALUE}' AND abs(id) = 1") == [], "queries believe what is told"
    done = run(f"CALL sys.erase(`table` => 't', `where` => 'name = ''{VALUE}'' AND abs(id) = 1')")
    assert [row[:3] for row in done if row[0] == "table"] == [("table", "default.t", 1)]
    assert run("SELECT count(*) FROM t") == [(0,)]
    assert holders(warehouse, seen=VALUE) == []


@pytest.mark.parametrize("format_", short(["parquet", "orc"], ["parquet"]))
def test_a_partition_that_a_files_own_rows_tell_otherwise_is_the_manifests(run: Run, lake: Lake, warehouse: Path, format_: str) -> None:
    """As all of Paimon's readers show it, where Spark alone shows the file's."""
    options = f"'rows.erasable' = 'true', 'write-only' = 'true', 'file.format' = '{format_}'"
    run(f"CREATE TABLE t (id INT, p STRING) PARTITIONED BY (p) WITH ({options})")
    table = lake.open(Identifier("default", "t"))
    (moved,), (other,) = (
        list(write_batches(table.files, table.schema, [pa.record_batch({"id": pa.array([id_], pa.int32()), "p": [p]})]))
        for id_, p in ((1, VALUE), (2, "y"))
    )
    name = moved.file.file_name
    (Path(table.location) / f"p={VALUE}" / "bucket-0" / name).rename(Path(table.location) / "p=y" / "bucket-0" / name)
    with table.write() as write:
        lake.commit(table, write.request(CommitKind.APPEND, adds=write.add([replace(moved, partition=other.partition), other])))
    assert run("SELECT id, p FROM t") == [(1, "y"), (2, "y")]
    assert sorted(run("SELECT id, p FROM t WHERE abs(id) > 0")) == [(1, "y"), (2, "y")]
    assert run("SELECT id FROM t WHERE upper(p) = 'Y' AND abs(id) = 1") == [(1,)]
    done = run("CALL sys.erase(`table` => 't', `where` => 'upper(p) = ''Y'' AND abs(id) = 1')")
    assert [row[:3] for row in done if row[0] == "table"] == [("table", "default.t", 1)]
    assert run("SELECT id, p FROM t") == [(2, "y")]
    assert holders(warehouse, seen=VALUE) == []


def test_files_of_partitions_that_the_condition_rules_out_are_not_read(run: Run, lake: Lake) -> None:
    run("CREATE TABLE t (id INT, name STRING, p STRING) PARTITIONED BY (p) WITH ('rows.erasable' = 'true', 'write-only' = 'true')")
    run(f"INSERT INTO t VALUES (1, '{VALUE}', 'a'), (2, '{VALUE}', 'b')")
    (lost,) = (Path(lake.open(Identifier("default", "t")).location) / "p=b").rglob("data-*")
    lost.unlink()
    done = run(f"CALL sys.erase(`table` => 't', `where` => 'p = ''a'' AND name = ''{VALUE}'' AND abs(id) = 1')")
    assert [row[:3] for row in done if row[0] == "table"] == [("table", "default.t", 1)]
