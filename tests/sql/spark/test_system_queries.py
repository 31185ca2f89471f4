"""Queries around a system table are answered as they are asked, by Spark over its rows."""

from __future__ import annotations

import pytest

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
