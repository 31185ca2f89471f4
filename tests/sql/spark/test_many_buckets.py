"""A table with more buckets than there can be tasks: an INSERT by Spark takes what its rows take, and keeps each bucket's order."""

from __future__ import annotations

import pytest

from tests.sql.spark.conftest import Run

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("buckets", [1_001, 2**31 - 1])
@pytest.mark.timeout(300)
def test_an_insert_makes_no_task_for_each_of_many_buckets(run: Run, buckets: int) -> None:
    run(f"CREATE TABLE t (id BIGINT NOT NULL, n BIGINT) WITH ('bucket' = '{buckets}', 'bucket-key' = 'id')")
    run("INSERT INTO t SELECT id % 5, id FROM range(40)")
    run("INSERT INTO t VALUES (0, 40), (4, 41)")  # written here: each row where Spark put those of its key
    rows = run("SELECT id, n FROM t")
    assert sorted(rows) == sorted([(number % 5, number) for number in range(40)] + [(0, 40), (4, 41)])
    for key in range(5):
        assert [n for one, n in rows if one == key] == sorted(n for one, n in rows if one == key)
    assert run("SELECT count(*) FROM t$buckets") == [(5,)]
    assert run("SELECT n FROM t WHERE id = 4 AND n > 30") == [(34,), (39,), (41,)]
    run("CALL sys.compact('t')")
    assert sorted(run("SELECT id, n FROM t")) == sorted(rows)
