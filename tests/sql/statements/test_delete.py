"""DELETE … WHERE: only where the table says so, only rows for which the condition is true, the rest where it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from gateway.gateway import Gateway
from lake import Lake, LakeTable
from lake.rewrite.change_rows import Changes, change_rows
from model.errors import AnalysisError, Forbidden, InvalidOption, UnsupportedStatement
from model.identifier import Identifier
from model.snapshot import CommitKind, Operation, Snapshot
from sql.dialect import parse_one
from sql.local.delete import plan_delete
from table.format.manifests.entries import ManifestEntry
from table.format.rows.arrow import arrow_schema
from table.scan.stream import Cursor, SettledOrder, StreamRules, plan_next
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches
from tests.fix_gateway import Ask
from tests.lake.access.test_access import user
from tests.lake.history_steps import rows_of
from tests.sql.tables import context_of

T = Identifier("default", "t")
ERASABLE = "'rows.erasable' = 'true'"


def live(lake: Lake, name: Identifier = T) -> list[ManifestEntry]:
    table = lake.open(name)
    return list(table.files.live_entries(table.latest()))


@pytest.fixture
def queue(ask: Ask) -> None:
    """One queue in four files of five rows."""
    ask(f"CREATE TABLE t (id INT, s STRING) WITH ('bucket' = '1', 'write-only' = 'true', {ERASABLE})")
    for n in range(4):
        ask("INSERT INTO t VALUES " + ", ".join(f"({5 * n + i}, '{'even' if i % 2 == 0 else 'odd'}')" for i in range(5)))


@pytest.mark.usefixtures("queue")
def test_only_files_with_matching_rows_are_written_anew_and_the_queue_keeps_its_order(ask: Ask, lake: Lake) -> None:
    before = {entry.file.file_name: entry.file for entry in live(lake)}
    assert ask("DELETE FROM t WHERE id BETWEEN 6 AND 8") == [(3, 5)]
    assert [id_ for (id_,) in ask("SELECT id FROM t")] == [0, 1, 2, 3, 4, 5, 9, *range(10, 20)]
    kept = {entry.file.file_name for entry in live(lake)} & before.keys()
    assert len(kept) == 3
    (new,) = (entry.file for entry in live(lake) if entry.file.file_name not in before)
    (old,) = (file for name, file in before.items() if name not in kept)
    assert (new.min_sequence_number, new.max_sequence_number, new.row_count) == (old.min_sequence_number, old.max_sequence_number, 2)
    ask("INSERT INTO t VALUES (20, 'x')")
    assert max(live(lake), key=lambda e: e.file.min_sequence_number).file.min_sequence_number == 20
    assert ask("SELECT id FROM t")[-1] == (20,)


@pytest.mark.usefixtures("queue")
def test_the_snapshot_says_delete_and_names_files_in_the_queues_order(ask: Ask, lake: Lake) -> None:
    ask("DELETE FROM t WHERE id = 1")
    table = lake.open(T)
    latest = table.latest()
    assert latest is not None
    snapshots = {snapshot.id: snapshot for snapshot in lake.snapshots(table)}
    assert (snapshots[5].commit_kind, snapshots[5].operation, snapshots[5].total_record_count) == (
        CommitKind.OVERWRITE,
        Operation.DELETE,
        19,
    )
    assert snapshots[5].delta_record_count == -1
    firsts = [entry.file.min_sequence_number for entry in table.files.live_entries(latest)]
    assert firsts == sorted(firsts)


@pytest.mark.usefixtures("queue")
def test_a_file_without_rows_left_goes_and_nothing_is_committed_where_nothing_matches(ask: Ask, lake: Lake) -> None:
    assert ask("DELETE FROM t WHERE id < 5") == [(5, 5)]
    assert len(live(lake)) == 3
    assert ask("DELETE FROM t WHERE id < 5") == [(0, None)]
    assert ask("DELETE FROM t WHERE s LIKE 'e%' OR s LIKE 'o%'")[0][0] == 15
    assert live(lake) == []
    assert ask("SELECT id FROM t") == []
    ask("INSERT INTO t VALUES (1, 'a')")
    assert ask("SELECT id FROM t") == [(1,)]


def test_rows_stay_unless_the_table_says_otherwise(ask: Ask) -> None:
    ask("CREATE TABLE t (id INT)")
    ask("INSERT INTO t VALUES (1)")
    with pytest.raises(UnsupportedStatement, match=r"ALTER TABLE `default`\.`t` SET \('rows\.erasable' = 'true'\)"):
        ask("DELETE FROM t WHERE id = 1")
    ask(f"ALTER TABLE t SET ({ERASABLE})")
    assert ask("DELETE FROM t WHERE id = 1") == [(1, 2)]
    ask("ALTER TABLE t RESET ('rows.erasable')")
    with pytest.raises(UnsupportedStatement):
        ask("DELETE FROM t WHERE id = 1")


def test_what_cannot_be_deleted_from(ask: Ask) -> None:
    ask(f"CREATE TABLE t (id INT) WITH ({ERASABLE})")
    with pytest.raises(UnsupportedStatement, match="TRUNCATE TABLE"):
        ask("DELETE FROM t")
    with pytest.raises(AnalysisError, match="no table whose rows"):
        ask("DELETE FROM t$files WHERE level = 0")
    with pytest.raises(AnalysisError, match="no options"):
        ask("DELETE FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */ WHERE id = 1")


def test_null_is_not_true(ask: Ask) -> None:
    ask(f"CREATE TABLE t (id INT, d DOUBLE) WITH ({ERASABLE})")
    ask("INSERT INTO t VALUES (1, 1.0), (2, NULL), (4, 5.0)")
    assert ask("DELETE FROM t WHERE NOT d > 1.0")[0][0] == 1
    assert ask("DELETE FROM t WHERE d > 4.0")[0][0] == 1
    assert ask("SELECT id FROM t") == [(2,)]
    assert ask("DELETE FROM t AS x WHERE x.d IS NULL")[0][0] == 1


def test_partitions_buckets_and_branches(ask: Ask, lake: Lake) -> None:
    ask(f"CREATE TABLE t (id INT, p STRING) PARTITIONED BY (p) WITH ('bucket' = '2', 'bucket-key' = 'id', {ERASABLE})")
    ask("INSERT INTO t VALUES " + ", ".join(f"({id_}, '{p}')" for p in ("a", "b/c d%20", "") for id_ in range(10)))
    before = {entry.file.file_name for entry in live(lake)}
    ask("CALL sys.create_tag('t', 'first')")
    ask("CALL sys.create_branch('t', 'b', 'first')")
    assert ask("DELETE FROM t$branch_b WHERE id = 3")[0][0] == 3
    assert len(ask("SELECT id FROM t")) == 30
    assert len(ask("SELECT id FROM t$branch_b")) == 27
    assert ask("DELETE FROM t WHERE p = 'b/c d%20' AND id >= 5")[0][0] == 5
    assert len(before - {entry.file.file_name for entry in live(lake)}) <= 2
    assert sorted(id_ for (id_,) in ask("SELECT id FROM t WHERE p = 'b/c d%20'")) == list(range(5))
    counts = sorted(ask("SELECT partition, record_count FROM t$partitions"))
    assert counts == [
        ("p=__DEFAULT_PARTITION__", 10),
        ("p=a", 10),
        ("p=b%2Fc d%2520", 5),
    ]


def test_a_dry_run_and_explain_tell_files_and_rows_and_change_nothing(ask: Ask, gateway: Gateway, lake: Lake) -> None:
    ask(f"CREATE TABLE t (id INT) WITH ({ERASABLE})")
    ask("INSERT INTO t VALUES (1), (2), (3)")
    ask("INSERT INTO t VALUES (4)")
    (entry,) = (entry for entry in live(lake) if entry.file.row_count == 3)
    with gateway.run("DELETE FROM t WHERE id > 1 AND id < 4", dry_run=True) as told:
        assert told.collect() == [("", entry.bucket, entry.file.file_name, 3, 2, entry.file.file_size, True)]
    assert len(ask("SELECT id FROM t")) == 4


def test_it_takes_the_right_to_delete_and_to_read(ask: Ask, gateway: Gateway, lake: Lake) -> None:
    ask(f"CREATE TABLE t (id INT, name STRING) WITH ({ERASABLE})")
    ask("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    token = user(lake, "ada")

    def ada(text: str) -> list[tuple[Any, ...]]:
        with gateway.run(text, caller=lake.access.caller(token)) as result:
            return result.collect()

    delete = "DELETE FROM t WHERE id = 1"
    gateway.run("GRANT SELECT ON t TO ada")
    with pytest.raises(Forbidden, match="DELETE"):
        ada(delete)
    gateway.run("REVOKE SELECT ON t FROM ada; GRANT DELETE ON t TO ada")
    with pytest.raises(Forbidden, match="SELECT"):
        ada(delete)
    gateway.run("GRANT SELECT ON t TO ada")
    with pytest.raises(Forbidden, match="ALTER"):
        ada("ALTER TABLE t SET ('rows.erasable' = 'false')")
    gateway.run("CREATE MASKING POLICY m ON t (name) TO ada USING (UPPER(name))")
    with pytest.raises(Forbidden, match=r"Column name of table default\.t is masked for ada"):
        ada("DELETE FROM t WHERE name = 'A'")
    gateway.run("DROP MASKING POLICY m ON t")
    assert ada(delete)[0][0] == 1


@pytest.mark.usefixtures("queue")
def test_a_compaction_meanwhile_makes_it_look_anew(ask: Ask, lake: Lake) -> None:
    table = lake.open(T)
    delete = plan_delete(parse_one("DELETE FROM t WHERE id IN (2, 12)"), context_of(lake))  # type: ignore[arg-type]
    calls = 0

    def find(table: LakeTable, snapshot: Snapshot | None) -> Changes:
        nonlocal calls
        calls += 1
        found = delete.find(context_of(lake), table, snapshot)
        if calls == 1:
            ask("INSERT INTO t VALUES (20, 'meanwhile')")
            ask("CALL sys.compact('t')")
        return found

    done = change_rows(lake, table, find)
    assert (calls, done.rows) == (2, 2)
    assert [id_ for (id_,) in ask("SELECT id FROM t")] == [id_ for id_ in range(21) if id_ not in (2, 12)]


@pytest.mark.usefixtures("queue")
def test_rows_that_come_meanwhile_stay(ask: Ask, lake: Lake) -> None:
    table = lake.open(T)
    delete = plan_delete(parse_one("DELETE FROM t WHERE s = 'odd'"), context_of(lake))  # type: ignore[arg-type]

    def find(table: LakeTable, snapshot: Snapshot | None) -> Changes:
        found = delete.find(context_of(lake), table, snapshot)
        ask("INSERT INTO t VALUES (20, 'odd')")
        return found

    assert change_rows(lake, table, find).rows == 8
    assert [id_ for (id_,) in ask("SELECT id FROM t")] == [*(5 * n + i for n in range(4) for i in (0, 2, 4)), 20]


@pytest.mark.usefixtures("queue")
def test_a_file_that_came_meanwhile_with_the_same_number_stays_behind(ask: Ask, lake: Lake) -> None:
    calls = 0

    def find(table: LakeTable, snapshot: Snapshot | None) -> Changes:
        nonlocal calls
        calls += 1
        found = rows_of({19})(table, snapshot)
        if calls == 1:
            commit_tied(lake)
        return found

    def commit_tied(lake: Lake) -> None:
        table = lake.open(T)
        batch = pa.RecordBatch.from_pydict({"id": [20], "s": ["tied"]}, schema=arrow_schema(table.schema.fields))
        (new,) = write_batches(table.files, table.schema, [batch])
        tied = replace(new, file=replace(new.file, min_sequence_number=-1, max_sequence_number=-1))  # the number of the row before
        lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=(tied,), commit_user="pypaimon"))

    assert change_rows(lake, lake.open(T), find).rows == 1
    assert calls == 1
    assert [id_ for (id_,) in ask("SELECT id FROM t")] == [*range(19), 20]


@pytest.mark.usefixtures("queue")
def test_streams_do_not_see_it(ask: Ask, lake: Lake) -> None:
    ask("DELETE FROM t WHERE id = 1")
    table = lake.open(T)
    (done,) = (snapshot for snapshot in lake.snapshots(table) if snapshot.id == 5)
    for overwrites in (False, True):
        rules = StreamRules(overwrites=overwrites)
        assert plan_next(table.files, table.schema, done, Cursor(next_snapshot_id=5), rules, SettledOrder()) == ()


def test_a_partition_of_another_number_of_buckets_is_rescaled_first(ask: Ask) -> None:
    ask(f"CREATE TABLE t (id INT) WITH ('bucket' = '4', 'bucket-key' = 'id', {ERASABLE})")
    ask("INSERT INTO t VALUES (1), (2), (3)")
    ask("ALTER TABLE t SET ('bucket' = '2')")
    with pytest.raises(InvalidOption, match=r"CALL sys\.rescale\('default\.t'\)"):
        ask("DELETE FROM t WHERE id = 2")
    ask("CALL sys.rescale('t')")
    assert ask("DELETE FROM t WHERE id = 2")[0][0] == 1


def test_a_repeat_under_its_key_deletes_once(gateway: Gateway, ask: Ask) -> None:
    ask(f"CREATE TABLE t (id INT) WITH ({ERASABLE})")
    ask("INSERT INTO t VALUES (1), (2)")
    first = gateway.run("DELETE FROM t WHERE id = 1", idempotency_key="k").collect()
    ask("INSERT INTO t VALUES (1)")
    assert gateway.run("DELETE FROM t WHERE id = 1", idempotency_key="k").collect() == first
    assert sorted(ask("SELECT id FROM t")) == [(1,), (2,)]
