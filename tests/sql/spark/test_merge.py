"""MERGE INTO: rows of a source change, remove and add rows of a table, in one snapshot."""

from __future__ import annotations

from typing import Any

import pytest

from lake import Lake
from model.errors import AnalysisError, ExecutionError, Forbidden, LakeError, UnsupportedStatement
from model.identifier import Identifier
from model.snapshot import CommitKind, Operation
from tests.lake.access.test_access import user
from tests.short import short
from tests.sql.spark.conftest import Run

T = Identifier("default", "t")
ERASABLE = "'rows.erasable' = 'true', 'write-only' = 'true'"


@pytest.fixture
def merged(run: Run) -> None:
    """A queue of two files, and a source."""
    run(f"CREATE TABLE t (id INT NOT NULL, v INT, s STRING DEFAULT 'new') WITH ('bucket' = '1', {ERASABLE})")
    run("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')")
    run("INSERT INTO t VALUES (4, 40, 'd'), (5, NULL, 'e')")
    run("CREATE TABLE src (id INT, v INT, what STRING)")
    run("INSERT INTO src VALUES (2, 200, 'update'), (3, 300, 'delete'), (4, 400, 'keep')")
    run("INSERT INTO src VALUES (7, 700, 'add'), (8, 800, 'skip'), (NULL, 9, 'add')")


@pytest.mark.usefixtures("merged")
def test_all_clauses_at_once(run: Run, lake: Lake) -> None:
    done = run(
        "MERGE INTO t USING src AS s ON t.id = s.id "
        "WHEN MATCHED AND s.what = 'update' THEN UPDATE SET v = s.v + t.v, s = upper(t.s) "
        "WHEN MATCHED AND what = 'delete' THEN DELETE "
        "WHEN NOT MATCHED AND what = 'add' AND id IS NOT NULL THEN INSERT (v, id) VALUES (v, id) "
        "WHEN NOT MATCHED BY SOURCE AND v IS NULL THEN UPDATE SET v = id * 1000"
    )
    assert done == [(4, 3)]
    assert run("SELECT * FROM t") == [(1, 10, "a"), (2, 220, "B"), (4, 40, "d"), (5, 5000, "e"), (7, 700, "new")]
    table = lake.open(T)
    latest = table.files.read_snapshot(3)
    assert latest is not None
    assert (latest.commit_kind, latest.operation, latest.delta_record_count) == (CommitKind.OVERWRITE, Operation.MERGE, 0)
    numbers = sorted(e.file.min_sequence_number for e in table.files.live_entries(table.latest()))
    assert numbers == [0, 3, 5]
    assert run("CALL sys.check_table('t', deep => true)") == []


@pytest.mark.usefixtures("merged")
def test_stars_take_the_sources_columns_by_name(run: Run, lake: Lake) -> None:
    source = "(SELECT s AS s, v + 1 AS v, id FROM t WHERE id < 3 UNION ALL SELECT 'x', 6, 6) AS s"
    assert run(f"MERGE INTO t AS x USING {source} ON x.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")[0][0] == 3
    assert run("SELECT * FROM t WHERE id < 3 OR id = 6") == [(1, 11, "a"), (2, 21, "b"), (6, 6, "x")]
    with pytest.raises(LakeError):
        run("MERGE INTO t USING src ON t.id = src.id WHEN MATCHED THEN UPDATE SET *")  # it has no column s
    new = "MERGE INTO t USING (SELECT 9 AS id, 9 AS v, 'n' AS s) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    assert run(new)[0][0] == 1
    latest = lake.open(T).latest()
    assert latest is not None
    assert (latest.commit_kind, latest.operation) == (CommitKind.APPEND, Operation.MERGE), "nothing was taken away: streams see it"
    assert run(new) == [(0, None)]


@pytest.mark.usefixtures("merged")
def test_a_row_that_is_matched_twice_is_an_error_but_for_a_delete(run: Run) -> None:
    before = run("SELECT * FROM t")
    twice = "(SELECT 2 AS id, 1 AS n UNION ALL SELECT 2, 2) s"
    for clause in (
        "WHEN MATCHED THEN UPDATE SET v = n",
        "WHEN MATCHED AND n = 1 THEN DELETE",
        "WHEN MATCHED AND n > 9 THEN UPDATE SET v = n",
    ):
        with pytest.raises(ExecutionError, match="matched by several rows of the source"):
            run(f"MERGE INTO t USING {twice} ON t.id = s.id {clause}")
    assert run("SELECT * FROM t") == before
    assert run(f"MERGE INTO t USING {twice} ON t.id = s.id WHEN MATCHED THEN DELETE")[0][0] == 1
    assert run(f"MERGE INTO t USING {twice} ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, v) VALUES (n, id)")[0][0] == 2


@pytest.mark.usefixtures("merged")
def test_what_is_refused(run: Run, lake: Lake) -> None:
    before = run("SELECT * FROM t")
    for wrong in (
        "WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET v = 1",
        "WHEN NOT MATCHED THEN INSERT (v) VALUES (1)",
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (1)",
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (1, t.v)",
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = src.v",
        "WHEN NOT MATCHED THEN DELETE",
        "WHEN MATCHED THEN INSERT *",
        "WHEN MATCHED THEN UPDATE SET v = 1, v = 2",
        "WHEN MATCHED THEN UPDATE SET v = reflect('java.lang.System', 'exit', 1)",
        "WHEN MATCHED AND java_method('java.lang.System', 'gc') IS NULL THEN DELETE",
        "",
    ):
        with pytest.raises(LakeError):
            run(f"MERGE INTO t USING src ON t.id = src.id {wrong}")
    with pytest.raises(ExecutionError):
        run("MERGE INTO t USING src ON t.id = src.id WHEN NOT MATCHED THEN INSERT (id) VALUES (nullif(src.id, 7))")
    with pytest.raises(AnalysisError, match="another name"):
        run("MERGE INTO t USING t ON t.id = t.id WHEN MATCHED THEN DELETE")
    run("ALTER TABLE t RESET ('rows.erasable')")
    with pytest.raises(UnsupportedStatement, match="are not merged one by one"):
        run("MERGE INTO t USING src ON t.id = src.id WHEN MATCHED THEN DELETE")
    assert run("SELECT * FROM t") == before


@pytest.mark.usefixtures("merged")
def test_rights_policies_and_masks(run: Run, lake: Lake) -> None:
    token = user(lake, "ada")
    run("GRANT SELECT, DELETE ON t TO ada; GRANT SELECT ON src TO ada")
    statement = "MERGE INTO t USING src s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
    with pytest.raises(Forbidden):
        run(statement, caller=lake.access.caller(token))
    run("GRANT INSERT ON t TO ada; CREATE POLICY few ON t TO ada USING (id <= 2)")
    run("CREATE MASKING POLICY hidden ON t (s) TO ada USING ('*')")
    with pytest.raises(Forbidden, match="masked"):
        run(f"{statement}, s = t.s", caller=lake.access.caller(token))
    assert run(statement, caller=lake.access.caller(token))[0][0] == 1
    with pytest.raises(Forbidden, match="row policy"):
        run(f"{statement} WHEN NOT MATCHED THEN INSERT (id) VALUES (100)", caller=lake.access.caller(token))
    assert run(f"{statement} WHEN NOT MATCHED AND id IS NULL THEN INSERT (id) VALUES (-1)", caller=lake.access.caller(token))[0][0] == 2
    assert run("SELECT * FROM t") == [(1, 10, "a"), (2, 200, "b"), (3, 30, "c"), (4, 40, "d"), (5, None, "e"), (-1, None, "new")]


@pytest.mark.usefixtures("merged")
def test_a_dry_run_and_explain_change_nothing(run: Run) -> None:
    before = run("SELECT * FROM t")
    statement = "MERGE INTO t USING src s ON t.id = s.id AND t.id > 3 WHEN MATCHED THEN DELETE "
    statement += "WHEN NOT MATCHED AND id = 7 THEN INSERT (id) VALUES (id)"
    lines = run(statement, dry_run=True)
    assert sorted((rows, merged) for *_, rows, merged, _, _ in lines) == [(0, 1), (2, 1)]
    ((text,),) = run(f"EXPLAIN {statement}")
    assert "files: 1 kept, 1 skipped, of 2" in text
    assert run("SELECT * FROM t") == before


@pytest.mark.parametrize("format_", short(["parquet", "orc"], ["parquet"]))
def test_partitions_buckets_and_nested_columns(run: Run, format_: str) -> None:
    options = f"'bucket' = '2', 'bucket-key' = 'id', 'file.format' = '{format_}', {ERASABLE}"
    run(f"CREATE TABLE t (id INT, p STRING, r ROW<a INT, b STRING>, ts TIMESTAMP(3)) PARTITIONED BY (p) WITH ({options})")
    row = "named_struct('a', CAST(id AS INT), 'b', 'x'), TIMESTAMP '2024-01-01 00:00:00'"
    run(f"INSERT INTO t SELECT CAST(id AS INT), 'p' || id % 2, {row} FROM range(10)")
    source = "(SELECT CAST(id AS INT) AS id, 'p' || (id + 1) % 3 AS p FROM range(5, 15)) s"
    done = run(
        f"MERGE INTO t USING {source} ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.p = s.p, r.a = t.r.a * 2, ts = ts + INTERVAL '1' HOUR "
        "WHEN NOT MATCHED THEN INSERT (p, id) VALUES (s.p, s.id) WHEN NOT MATCHED BY SOURCE AND r.a = 0 THEN DELETE"
    )
    assert done[0][0] == 11
    expected: list[tuple[Any, ...]] = sorted(
        [(i, f"p{i % 2}", i, 0) for i in range(1, 5)] + [(i, f"p{(i + 1) % 3}", 2 * i, 1) for i in range(5, 10)]
    )
    expected += [(i, f"p{(i + 1) % 3}", None, None) for i in range(10, 15)]
    assert sorted(run("SELECT id, p, r.a, extract(hour FROM ts) FROM t"), key=lambda row: row[0]) == expected
    for i in (6, 12):
        assert run(f"SELECT id FROM t WHERE id = {i} AND p = 'p{(i + 1) % 3}'") == [(i,)]
    assert run("CALL sys.check_table('t', deep => true)") == []


def test_words_that_are_calls_are_no_columns_of_one_side(run: Run) -> None:
    run(f"CREATE TABLE t (id INT, m MAP<STRING, INT>, at TIMESTAMP(3), now TIME(3)) WITH ('bucket' = '1', {ERASABLE})")
    run("INSERT INTO t (id) VALUES (1)")
    values = "(s.id, MAP['k', v], LOCALTIMESTAMP, CURRENT_TIME)"
    sides = f"WHEN NOT MATCHED AND LOCALTIMESTAMP > TIMESTAMP '2020-01-01 00:00:00' THEN INSERT (id, m, at, now) VALUES {values}"
    by_source = "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET at = LOCALTIMESTAMP, m = MAP['t', id], now = LOCALTIME"
    assert run(f"MERGE INTO t USING (SELECT 2 AS id, 5 AS v) s ON t.id = s.id {sides} {by_source}")[0][0] == 2
    found = run("SELECT id, m['k'], m['t'], at IS NULL, now IS NULL FROM t ORDER BY id")
    assert found == [(1, None, 1, False, False), (2, 5, None, False, False)]


def test_digits_beyond_a_columns_precision_are_cut_off(run: Run) -> None:
    run(
        f"CREATE TABLE t (id INT, a TIMESTAMP(3), b TIMESTAMP_LTZ(3), c TIMESTAMP(0), r ROW<x TIMESTAMP(3)>) "
        f"WITH ('bucket' = '1', {ERASABLE})"
    )
    run("INSERT INTO t (id) VALUES (1), (2)")
    time = "TIMESTAMP '2024-01-02 03:04:05.678901' + INTERVAL '0' SECOND"
    done = run(
        f"UPDATE t SET a = {time}, b = CAST('2024-01-02 03:04:05.678901Z' AS TIMESTAMP_LTZ), c = {time}, r = ROW({time}) WHERE id = 1"
    )
    assert done[0][0] == 1
    shown = "CAST(a AS STRING), CAST(unix_micros(b) AS STRING), CAST(c AS STRING), CAST(r.x AS STRING)"
    expected = ("2024-01-02 03:04:05.678", "1704164645678000", "2024-01-02 03:04:05", "2024-01-02 03:04:05.678")
    assert run(f"SELECT {shown} FROM t WHERE id = 1") == [expected]
