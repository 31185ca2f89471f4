"""UPDATE: only where the table says so, only rows for which the condition is true, each at its place."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import AnalysisError, ExecutionError, Forbidden, InvalidData, LakeError, UnsupportedStatement
from model.identifier import Identifier
from model.snapshot import CommitKind, Operation
from sql.parameters.parameters import Parameters
from tests.lake.access.test_access import user
from tests.short import short
from tests.sql.spark.conftest import Run

T = Identifier("default", "t")
ERASABLE = "'rows.erasable' = 'true', 'write-only' = 'true'"


@pytest.mark.parametrize("format_", short(["parquet", "orc"], ["orc"]))
def test_a_queue_keeps_its_order_and_only_files_with_such_rows_are_written_anew(run: Run, lake: Lake, format_: str) -> None:
    run(f"CREATE TABLE t (id INT, s STRING, n BIGINT) WITH ('bucket' = '1', 'file.format' = '{format_}', {ERASABLE})")
    for n in range(4):
        run("INSERT INTO t VALUES " + ", ".join(f"({5 * n + i}, 's{i}', {i})" for i in range(5)))
    table = lake.open(T)
    before = {e.file.file_name: e.file for e in table.files.live_entries(table.latest())}
    assert run("UPDATE t AS x SET s = concat(x.s, '!'), n = id * 10 WHERE abs(id) % 5 = 2 AND id < 10") == [(2, 5)]
    rows = run("SELECT id, s, n FROM t")
    assert [row[0] for row in rows] == list(range(20))
    assert [row for row in rows if row[1].endswith("!")] == [(2, "s2!", 20), (7, "s2!", 70)]
    after = {e.file.file_name: e.file for e in table.files.live_entries(table.latest())}
    assert len(after.keys() & before.keys()) == 2
    numbers = sorted((file.min_sequence_number, file.max_sequence_number) for file in after.values())
    assert numbers == sorted((file.min_sequence_number, file.max_sequence_number) for file in before.values())
    done = table.files.read_snapshot(5)
    assert done is not None
    assert (done.commit_kind, done.operation, done.delta_record_count) == (CommitKind.OVERWRITE, Operation.UPDATE, 0)
    assert run("UPDATE t SET s = 'x' WHERE id > 100") == [(0, None)]
    assert run("UPDATE t SET n = NULL")[0][0] == 20
    assert run("SELECT count(*), count(n) FROM t") == [(20, 0)]


def test_rows_move_to_the_partition_and_bucket_they_belong_to(run: Run) -> None:
    run(f"CREATE TABLE t (id INT, p STRING, s STRING) PARTITIONED BY (p) WITH ('bucket' = '2', 'bucket-key' = 'id', {ERASABLE})")
    run("INSERT INTO t VALUES " + ", ".join(f"({id_}, '{p}', 'x')" for p in ("a", "b") for id_ in range(10)))
    assert run("UPDATE t SET p = 'b' WHERE p = 'a' AND id < 5")[0][0] == 5
    assert sorted(run("SELECT id FROM t WHERE p = 'a'")) == [(id_,) for id_ in range(5, 10)]
    assert len(run("SELECT id FROM t WHERE p = 'b'")) == 15
    assert run("UPDATE t SET p = NULL, id = id + 100 WHERE p = 'b' AND s = 'x' AND id >= 5")[0][0] == 5
    assert sorted(run("SELECT id FROM t WHERE p IS NULL")) == [(id_,) for id_ in range(105, 110)]
    assert run("SELECT id, p FROM t WHERE id = 107") == [(107, None)], "found by its bucket"
    assert run("CALL sys.check_table('t', deep => true)") == []
    run("INSERT INTO t VALUES (105, NULL, 'last')")
    assert [s for (s,) in run("SELECT s FROM t WHERE id = 105 AND p IS NULL")] == ["x", "last"]


def test_values_are_stored_as_an_insert_stores_them(run: Run) -> None:
    run(f"CREATE TABLE t (id INT NOT NULL, c VARCHAR(3), d DECIMAL(5, 2), n TINYINT, k INT DEFAULT 7) WITH ({ERASABLE})")
    run("INSERT INTO t VALUES (1, 'a', 1.5, 1, 1)")
    for wrong in ("id = NULL", "c = 'long'", "n = 300", "d = 12345", "n = 'x'", "d = true"):
        with pytest.raises((ExecutionError, AnalysisError, InvalidData)):
            run(f"UPDATE t SET {wrong}")
    for wrong in ("id = nullif(id, id)", "c = repeat('a', 4)", "n = id + 300", "d = id + 12345"):
        with pytest.raises(ExecutionError):
            run(f"UPDATE t SET {wrong}")
    with pytest.raises(LakeError, match="none"):
        run("UPDATE t SET none = 1")
    with pytest.raises(AnalysisError, match="twice"):
        run("UPDATE t SET c = 'a', c = 'b'")
    for several in ("explode(array(1, 2))", "row_number() OVER (ORDER BY id)", "max(id)"):
        with pytest.raises(LakeError):
            run(f"UPDATE t SET id = {several}")
    assert run("SELECT * FROM t") == run("SELECT 1, 'a', CAST(1.5 AS DECIMAL(5, 2)), CAST(1 AS TINYINT), 1")
    run("UPDATE t SET c = 5, d = 2, n = 3, k = DEFAULT")
    assert run("SELECT c, CAST(d AS STRING), n, k FROM t") == [("5", "2.00", 3, 7)]
    run("UPDATE t SET c = DEFAULT, k = 3")
    assert run("SELECT c, k FROM t") == [(None, 3)]


def test_parts_of_a_row_are_given_values(run: Run) -> None:
    run(f"CREATE TABLE t (id INT, r ROW<a INT, b ROW<c STRING, d TIMESTAMP(3)>>) WITH ({ERASABLE})")
    run("INSERT INTO t VALUES (1, named_struct('a', 1, 'b', named_struct('c', 'x', 'd', TIMESTAMP '2024-01-01 00:00:01'))), (2, NULL)")
    assert run("UPDATE t x SET x.r.b.c = upper(r.b.c), r.a = id + 1")[0][0] == 2
    assert run("SELECT id, r.a, r.b.c, CAST(r.b.d AS STRING) FROM t ORDER BY id") == [
        (1, 2, "X", "2024-01-01 00:00:01"),
        (2, 3, None, None),
    ]
    with pytest.raises(AnalysisError, match="no part z"):
        run("UPDATE t SET r.z = 1")
    with pytest.raises(AnalysisError, match="twice"):
        run("UPDATE t SET r.b.c = 'x', r.b = NULL")


def test_subqueries_decide_and_give_values(run: Run) -> None:
    run(f"CREATE TABLE t (id INT, v INT) WITH ({ERASABLE})")
    run("CREATE TABLE o (id INT, v INT)")
    run("INSERT INTO t VALUES (1, 0), (2, 0), (3, NULL)")
    run("INSERT INTO o VALUES (1, 10), (3, 30)")
    assert run("UPDATE t SET v = (SELECT max(o.v) FROM o WHERE o.id = t.id) WHERE id IN (SELECT id FROM o)")[0][0] == 2
    assert sorted(run("SELECT * FROM t")) == [(1, 10), (2, 0), (3, 30)]
    assert run("UPDATE t SET v = ? WHERE id = ?", parameters=Parameters.from_json([5, 2]))[0][0] == 1
    assert run("UPDATE t SET v = 1 WHERE NOT v > 10")[0][0] == 2


def test_it_takes_the_rights_and_the_option(run: Run, on_spark: Gateway, lake: Lake) -> None:
    run("CREATE TABLE t (id INT, name STRING, secret STRING)")
    run("INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    with pytest.raises(UnsupportedStatement, match=r"are not updated .* ALTER TABLE `default`\.`t` SET"):
        run("UPDATE t SET name = 'z'")
    run(f"ALTER TABLE t SET ({ERASABLE})")
    token = user(lake, "ada")
    run("GRANT SELECT, DELETE ON t TO ada")
    update = "UPDATE t SET name = 'z' WHERE id = 1"
    with pytest.raises(Forbidden, match="UPDATE"):
        run(update, caller=lake.access.caller(token))
    run("GRANT INSERT ON t TO ada; REVOKE DELETE ON t FROM ada")
    with pytest.raises(Forbidden, match="DELETE"):
        run(update, caller=lake.access.caller(token))
    run("GRANT DELETE ON t TO ada")
    run("CREATE MASKING POLICY m ON t (secret) TO ada USING (UPPER(secret))")
    for reading in ("SET name = secret", "SET name = 'q' WHERE secret = 'X'", "SET name = t.secret", "SET name = to_json(struct(*))"):
        with pytest.raises((Forbidden, AnalysisError)):
            run(f"UPDATE t {reading}", caller=lake.access.caller(token))
    run("UPDATE t SET secret = 'new', name = 'z' WHERE id = 1", caller=lake.access.caller(token))
    assert sorted(run("SELECT * FROM t")) == [(1, "z", "new"), (2, "b", "y")]


def test_a_row_policy_binds_the_rows_before_and_after(run: Run, lake: Lake) -> None:
    run(f"CREATE TABLE t (id INT, tenant STRING, v INT) WITH ({ERASABLE})")
    run("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'a', 3)")
    token = user(lake, "ada")
    run("GRANT SELECT, INSERT, DELETE ON t TO ada")
    run("CREATE POLICY mine ON t TO ada USING (tenant = 'a')")
    assert run("UPDATE t SET v = v * 10", caller=lake.access.caller(token))[0][0] == 2
    before = sorted(run("SELECT * FROM t"))
    assert before == [(1, "a", 10), (2, "b", 2), (3, "a", 30)]
    for outside in ("'b'", "NULL", "upper(tenant)"):
        with pytest.raises(Forbidden, match="sees, whom a row policy binds") as refused:
            run(f"UPDATE t SET tenant = {outside} WHERE id = 1", caller=lake.access.caller(token))
        assert "'a'" not in refused.value.message
    assert sorted(run("SELECT * FROM t")) == before
    assert run("UPDATE t SET v = 0", caller=lake.access.caller(token), dry_run=True) == [("", 0, "", 0, 2, 0, True)]


def test_a_dry_run_and_explain_change_nothing(run: Run, lake: Lake) -> None:
    run(f"CREATE TABLE t (id INT, s STRING) WITH ({ERASABLE})")
    run("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    run("INSERT INTO t VALUES (100, 'c')")
    ((*_, rows, changed, _, dry),) = run("UPDATE t SET s = upper(s) WHERE id = 2", dry_run=True)
    assert (rows, changed, dry) == (2, 1, True)
    ((text,),) = run("EXPLAIN UPDATE t SET s = upper(s) WHERE id > 50")
    assert "files: 1 kept, 1 skipped, of 2" in text
    assert sorted(run("SELECT s FROM t")) == [("a",), ("b",), ("c",)]


def test_old_versions_of_updated_rows_are_erased(run: Run) -> None:
    run(f"CREATE TABLE t (id INT, mail STRING) WITH ({ERASABLE})")
    run("INSERT INTO t VALUES (1, 'ada@x'), (2, 'bob@x')")
    run("CALL sys.create_tag('t', 'first')")
    run("UPDATE t SET mail = NULL WHERE upper(mail) = 'ADA@X'")
    places = {row[0]: row[2] for row in run("CALL sys.erase(`table` => 't', `where` => 'mail = ''ada@x''')")}
    assert (places["table"], places["tag"]) == (0, 1)
    assert sorted(run("SELECT * FROM t")) == [(1, None), (2, "bob@x")]
