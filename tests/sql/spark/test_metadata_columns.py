"""Columns that tell where a row lies: there for who names them, in no star, and telling nothing that is kept from a caller."""

from __future__ import annotations

from collections import defaultdict

import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import AnalysisError, LakeError
from model.identifier import Identifier
from tests.lake.access.test_access import user
from tests.sql.spark.conftest import Run

pytestmark = pytest.mark.spark
PLACE = "__paimon_file_path, __paimon_row_index, __paimon_bucket"


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_each_row_lies_where_its_columns_say(run: Run, lake: Lake, format_: str) -> None:
    run(
        "CREATE TABLE t (id INT, day STRING) PARTITIONED BY (day) "
        f"WITH ('bucket' = '2', 'bucket-key' = 'id', 'file.format' = '{format_}', 'write-only' = 'true')"
    )
    run("INSERT INTO t VALUES (1, 'a'), (2, 'a'), (3, 'ü=%'), (4, NULL); INSERT INTO t SELECT id, 'a' FROM range(5, 50)")
    rows = run(f"SELECT id, day, {PLACE}, __paimon_partition FROM t")
    assert sorted(row[0] for row in rows) == list(range(1, 50))
    by_file = defaultdict(list)
    for id_, day, path, index, bucket, partition in rows:
        assert partition == {"day": day}
        assert f"/bucket-{bucket}/" in path
        by_file[path].append((index, id_))
    location = lake.open(Identifier("default", "t")).files.layout.location
    assert {path.rpartition("/")[2] for path in by_file} == {row[0].rpartition("/")[2] for row in run("SELECT file_path FROM t$files")}
    for path, numbered in by_file.items():
        file = f"{location}/{path}"
        written = (orc.read_table(file) if format_ == "orc" else pq.read_table(file, partitioning=None))["id"].to_pylist()
        assert [id_ for _, id_ in sorted(numbered)] == written
        assert [index for index, _ in sorted(numbered)] == list(range(len(written)))


def test_no_star_shows_them(run: Run) -> None:
    run("CREATE TABLE t (id INT, s STRING); CREATE TABLE u (id INT, n INT); INSERT INTO t VALUES (1, 'a'); INSERT INTO u VALUES (1, 7)")
    assert run("SELECT *, __paimon_bucket, s FROM t") == [(1, "a", 0, "a")]
    assert run("SELECT x.*, y.*, x.__paimon_row_index FROM t x JOIN u y ON x.id = y.id") == [(1, "a", 1, 7, 0)]
    assert run("SELECT *, default.t.__paimon_row_index FROM default.t JOIN u USING (id)") == [(1, "a", 7, 0)]
    assert run("SELECT *, t.__paimon_row_index + u.__paimon_row_index FROM t, u") == [(1, "a", 1, 7, 0)]
    assert run("SELECT * FROM t WHERE __paimon_row_index = 0 AND __paimon_file_path LIKE 'bucket-0/%'") == [(1, "a")]
    assert run("SELECT COUNT(*), COUNT(t.*), MAX(__paimon_row_index) FROM t") == [(1, 1, 0)]
    assert run("SELECT b FROM (SELECT __paimon_bucket AS b, * FROM t) x") == [(0,)]
    assert run("WITH x AS (SELECT * FROM t) SELECT x.*, __paimon_bucket FROM x, u") == [(1, "a", 0)]
    assert run("SELECT to_json(struct(*)) FROM t WHERE __paimon_bucket = 0") == [('{"id":1,"s":"a"}',)]
    with pytest.raises(LakeError, match="__paimon_bucket"):
        run("SELECT __paimon_bucket FROM (SELECT * FROM t) x")
    with pytest.raises(LakeError, match="__paimon_partition"):
        run("SELECT __paimon_partition FROM t")
    with pytest.raises(AnalysisError, match="not read beside a PIVOT, a NATURAL JOIN or names given to all columns"):
        run("SELECT __paimon_bucket FROM t NATURAL JOIN u")
    with pytest.raises(AnalysisError, match="not read beside a PIVOT"):
        run("SELECT __paimon_bucket FROM t AS x (a, b)")


def test_a_column_of_the_tables_own_keeps_its_name(run: Run) -> None:
    run("CREATE TABLE t (id INT, __paimon_bucket STRING, _metadata INT); INSERT INTO t VALUES (1, 'mine', 3)")
    assert run("SELECT * FROM t WHERE __paimon_row_index = 0") == [(1, "mine", 3)]
    assert run("SELECT __paimon_bucket, __paimon_row_index FROM t") == [("mine", 0)]


def test_rows_are_changed_in_a_table_whose_column_is_called_as_sparks(run: Run) -> None:
    run("CREATE TABLE t (id INT, _metadata STRING) WITH ('rows.erasable' = 'true')")
    run("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    run("DELETE FROM t WHERE abs(id) = 2")
    assert sorted(run("SELECT * FROM t")) == [(1, "a"), (3, "c")]


def test_they_tell_of_the_snapshot_that_is_read_and_go_into_other_tables(run: Run) -> None:
    run("CREATE TABLE t (id INT); CREATE TABLE places (path STRING, bucket INT, row BIGINT)")
    run("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
    (first,) = run("SELECT __paimon_file_path FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */")
    assert first in run("SELECT __paimon_file_path FROM t")
    run("INSERT INTO places SELECT __paimon_file_path, __paimon_bucket, __paimon_row_index FROM t")
    assert len(run("SELECT * FROM places")) == 2
    run("CREATE TABLE none (id INT)")
    assert run("SELECT *, __paimon_file_path FROM none") == []


def test_they_tell_nothing_that_is_kept_from_a_caller(on_spark: Gateway, lake: Lake, run: Run) -> None:
    run("CREATE TABLE t (id INT, day STRING, s STRING) PARTITIONED BY (day) WITH ('bucket' = '2', 'bucket-key' = 'id')")
    run("INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    ada = user(lake, "ada")
    run("GRANT SELECT ON t TO ada; CREATE POLICY p ON t TO ada USING (day = 'a')")

    def sees(query: str) -> list[tuple[object, ...]]:
        return on_spark.run(query, caller=lake.access.caller(ada)).collect()

    ((path, partition),) = sees("SELECT __paimon_file_path, __paimon_partition FROM t")
    assert str(path).startswith("day=a/bucket-")
    assert partition == {"day": "a"}
    with pytest.raises(AnalysisError, match="__paimon_row_index of t would tell of rows that are kept from you"):
        sees("SELECT id, __paimon_row_index FROM t")
    run("DROP POLICY p ON t; CREATE MASKING POLICY m ON t (day) TO ada USING ('*')")
    assert sees("SELECT day, __paimon_row_index FROM t") == [("*", 0), ("*", 0)]
    for name in ("__paimon_file_path", "__paimon_partition", "__paimon_bucket"):
        with pytest.raises(AnalysisError, match="would tell of column day, which is kept from you"):
            sees(f"SELECT {name} FROM t")
