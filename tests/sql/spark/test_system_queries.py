"""Queries around a system table are answered as they are asked, by Spark over its rows."""

from __future__ import annotations

import pytest

from tests.short import short
from tests.sql.spark.conftest import Run

pytestmark = pytest.mark.spark


def test_a_query_around_a_system_table_counts_what_it_says(run: Run) -> None:
    run("CREATE TABLE t (id INT)")
    for number in range(3):
        run(f"INSERT INTO t VALUES ({number})")
    assert run("SELECT COUNT(*) FROM (SELECT DISTINCT schema_id FROM t$snapshots)") == [(1,)]
    assert run("SELECT COUNT(*) FROM (SELECT * FROM t$files WHERE record_count > 1) f") == [(0,)]
    assert run("SELECT snapshot_id FROM (SELECT snapshot_id FROM t$snapshots WHERE snapshot_id = 2 LIMIT 1) x") == [(2,)]
    assert run("SELECT COUNT(*) FROM t$files TABLESAMPLE (1 ROWS)") == [(1,)]
    assert run("SELECT b FROM t$snapshots AS x (a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p) WHERE a = 1") == [(0,)]
    pivot = "PIVOT (MAX(snapshot_id) FOR commit_kind IN ('APPEND'))"
    assert run(f"SELECT `APPEND` FROM (SELECT snapshot_id, commit_kind FROM t$snapshots) {pivot}") == [(3,)]
    assert run("SELECT id FROM (SELECT rowkind, id FROM t$audit_log WHERE id > 1)") == [(2,)]
    assert run("SELECT COUNT(*) FROM (SELECT * FROM sys.tables LIMIT 0)") == [(0,)]


@pytest.mark.parametrize("type_", short(["FLOAT", "DOUBLE"], ["DOUBLE"]))
def test_nan_is_the_largest_number_in_either_order(run: Run, type_: str) -> None:
    run(f"CREATE TABLE t (n INT, x {type_})")
    nan = f"CAST('NaN' AS {type_})"
    run(f"INSERT INTO t SELECT * FROM VALUES (1, {nan}), (2, 1.0), (3, NULL), (4, {nan}), (5, -1.0), (6, CAST('-inf' AS {type_})) AS v")
    for order in ("x, n", "x DESC, n", "n DESC, x", "x DESC, n DESC"):
        for rest in ("", " LIMIT 1", " LIMIT 3"):
            by_spark = run(f"SELECT n FROM t WHERE n + 0 > 0 ORDER BY {order}{rest}")
            assert run(f"SELECT n FROM t$ro ORDER BY {order}{rest}") == by_spark, (order, rest)
    assert run("SELECT n FROM t$ro WHERE x IS NOT NULL ORDER BY x LIMIT 1") == [(6,)]


@pytest.mark.parametrize("condition", ["c IS NOT NULL", "c IS NOT NULL AND size(c) + 0 = 1"])
def test_an_array_of_a_null_is_no_null(run: Run, condition: str) -> None:
    """In t$binlog each column is an ARRAY of what the table has; the second condition is for Spark."""
    run("CREATE TABLE t (id INT, c STRING); INSERT INTO t VALUES (1, NULL); INSERT INTO t VALUES (2, 'x')")
    assert run(f"SELECT COUNT(*) FROM t$binlog WHERE {condition}") == [(2,)]
    assert run("SELECT COUNT(*) FROM t$binlog WHERE c IS NULL") == [(0,)]


def test_rows_with_their_kind_are_of_the_part_of_the_past_that_the_table_gives(run: Run) -> None:
    run("CREATE TABLE t (id INT)")
    for number in range(3):
        run(f"INSERT INTO t VALUES ({number}), ({number + 10})")
    diff = "'incremental-between' = '1,2', 'incremental-between-scan-mode' = 'diff'"
    for part in ("'incremental-between' = '1,3'", diff, "'scan.mode' = 'latest-delta'"):
        rows = sorted(run(f"SELECT id + 0 AS id FROM t /*+ OPTIONS({part}) */"))
        assert rows
        for kind in ("audit_log", "ro"):
            assert sorted(run(f"SELECT id + 0 AS id FROM t${kind} /*+ OPTIONS({part}) */")) == rows, (part, kind)
            assert sorted(run(f"SELECT id FROM t${kind} /*+ OPTIONS({part}) */")) == rows, (part, kind)
