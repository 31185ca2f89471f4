"""INSERT OVERWRITE … PARTITION replaces the partition its rows are written to, however the value is spelled."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from model.errors import AnalysisError
from tests.sql.spark.conftest import Run
from tests.sql.statements.test_partition_bytes import written_by_pypaimon

pytestmark = pytest.mark.spark


def test_what_is_named_is_what_is_replaced(run: Run) -> None:
    kinds = [("STRING", "7"), ("INT", "'007'"), ("FLOAT", "1.1"), ("TIMESTAMP(3)", "TIMESTAMP '2024-01-02 03:04:05'")]
    for number, (type_, spelled) in enumerate(kinds):
        static = "'dynamic-partition-overwrite' = 'false'"
        run(f"CREATE TABLE t{number} (a INT, p {type_}) PARTITIONED BY (p) WITH ({static})")
        for value in (1, 2):
            run(f"INSERT OVERWRITE t{number} PARTITION (p = {spelled}) SELECT CAST({value} + count(*) AS INT) FROM range(2)")
        assert run(f"SELECT a FROM t{number}") == [(4,)], (type_, spelled)
    for number, spelled in ((0, "007"), (0, "1e2"), (1, "1.5")):
        with pytest.raises(AnalysisError, match="PARTITION"):
            run(f"INSERT OVERWRITE t{number} PARTITION (p = {spelled}) SELECT CAST(count(*) AS INT) FROM range(2)")
        assert run(f"SELECT a FROM t{number}") == [(4,)]


@pytest.mark.parametrize(("dynamic", "left"), [("true", [(1, 1), (9, 2)]), ("false", [(9, 2)])])
def test_an_overwrite_replaces_the_partitions_of_its_rows_or_all(run: Run, dynamic: str, left: list[tuple[int, int]]) -> None:
    run(f"CREATE TABLE t (a INT, p INT) PARTITIONED BY (p) WITH ('dynamic-partition-overwrite' = '{dynamic}')")
    run("INSERT INTO t VALUES (1, 1), (2, 2)")
    run("INSERT OVERWRITE t SELECT CAST(9 AS INT), CAST(2 AS INT) FROM range(1)")
    assert run("SELECT a, p FROM t ORDER BY a") == left


@pytest.mark.parametrize("where", ["", "PARTITION (p = NULL) "])
def test_a_partition_that_pypaimon_writes_otherwise_is_replaced_whole(run: Run, on_spark: Gateway, where: str) -> None:
    """Its row of a NULL in a long TIMESTAMP has no slot for it."""
    run("CREATE TABLE t (id INT, p TIMESTAMP(6)) PARTITIONED BY (p) WITH ('bucket' = '-1')")
    run("INSERT INTO t VALUES (1, NULL), (2, TIMESTAMP '2024-01-02 03:04:05')")
    written_by_pypaimon(on_spark.lake, 3)
    run(f"INSERT OVERWRITE t {where}VALUES ({'9' if where else '9, NULL'})")
    assert run("SELECT id FROM t ORDER BY id") == [(2,), (9,)]
