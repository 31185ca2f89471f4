"""The gateway on a real Spark: statements that need it and others side by side, cancel, the spool's cap."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway import operation
from gateway.gateway import Gateway, GatewayLimits, RunningStatement
from lake import Lake
from model.errors import ExecutionError, ResultTooLarge, StatementCanceled
from sql.spark.session.pool import SparkPool
from sql.spark.write import writes
from tests.gateway.held import HeldStep, in_background
from tests.short import diagonal, one_in
from tests.sql.tables import make_table
from tests.waiting import eventually

pytestmark = pytest.mark.spark
SLOW = "SELECT COUNT(*) FROM range(0, 20000000000, 1, 10000) WHERE sin(id) > 2"


@pytest.fixture
def on_spark(lake: Lake, pool: SparkPool) -> Iterator[Gateway]:
    made = Gateway(lake, pool, limits=GatewayLimits(local_threads=4, spark_statements=2, result_bytes=100_000))
    made.start()
    yield made
    made.close()


def test_statements_with_and_without_spark_see_the_same_rows(on_spark: Gateway, lake: Lake) -> None:
    make_table(lake, id="INT", s="STRING")
    text = "INSERT INTO t VALUES (1, 'a'), (2, 'b'); INSERT INTO t SELECT id + 2, upper(s) FROM t; SELECT * FROM t"
    assert on_spark.run(text).collect() == [(1, "a"), (2, "b"), (3, "A"), (4, "B")]
    assert on_spark.run("SELECT SUM(id), MAX(s) FROM t").collect() == [(10, "b")]


def test_what_is_to_be_known_of_a_table_is_told_by_spark_too(on_spark: Gateway, lake: Lake) -> None:
    table = make_table(lake, id="INT")
    with lake.catalog.transaction() as tx:
        tx.tables.set_diverged(table.table_id, "snapshot-9")
    lake.standing.look_around(tables=0)
    for query in ("SELECT SUM(id), MAX(id) FROM t", "WITH a AS (SELECT id FROM t) SELECT x.id FROM a x JOIN a y ON x.id = y.id"):
        with on_spark.run(query) as result:
            assert [notice.partition(":")[0] for notice in result.notices] == ["Table default.t is shown as the catalog knows it"]


def test_an_insert_by_spark_under_a_key_lands_once(on_spark: Gateway, lake: Lake) -> None:
    make_table(lake, id="INT")
    text = "INSERT INTO t SELECT id + 1 FROM (VALUES (1), (2)) AS v(id)"
    first = on_spark.run(text, idempotency_key="k").collect()
    assert on_spark.run(text, idempotency_key="k").collect() == first == [(2, 1)]
    assert on_spark.run("SELECT COUNT(*) FROM t").collect() == [(2,)]


def test_a_cancel_frees_the_client_and_then_spark(on_spark: Gateway, pool: SparkPool) -> None:
    started: list[RunningStatement] = []
    outcome: list[BaseException] = []

    def run() -> None:
        try:
            on_spark.run(SLOW, on_start=started.append)
        except StatementCanceled as canceled:
            outcome.append(canceled)

    thread = threading.Thread(target=run)
    thread.start()
    tracker = pool.root().sparkContext.statusTracker()
    try:
        assert eventually(lambda: bool(started and tracker.getActiveJobsIds()), pause=0.05)
    finally:  # a statement that goes on would hold Spark for all tests after this one
        for statement in started:
            statement.cancel()
    thread.join(60)
    assert outcome
    assert eventually(lambda: not tracker.getActiveJobsIds(), pause=0.05)
    assert on_spark.run("SELECT 1 + 1").collect() == [(2,)]


def test_a_statement_sees_no_settings_of_a_canceled_one_that_is_still_at_work(
    on_spark: Gateway, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next of its session begins at once, beside it."""
    make_table(lake, id="INT")
    reached, go_on = threading.Event(), threading.Event()

    def publish(*arguments: Any) -> Any:
        reached.set()
        assert go_on.wait(60)
        return real(*arguments)

    real = writes._publish
    monkeypatch.setattr(writes, "_publish", publish)
    session = on_spark.open_session()
    text = "CAST(concat('abc', id) AS INT) FROM range(1)"
    insert = on_spark.submit(session, "INSERT INTO t SELECT CAST(id AS INT) FROM range(3)")
    try:
        assert reached.wait(60)
        on_spark.cancel(session, insert)
        with pytest.raises(ExecutionError, match="CAST_INVALID_INPUT"):
            on_spark.run(f"SELECT {text}", session=session)
        with pytest.raises(ExecutionError, match="CAST_INVALID_INPUT"):
            on_spark.run(f"INSERT INTO t SELECT {text}", session=session)
    finally:
        go_on.set()
    with pytest.raises(ExecutionError, match="CAST_INVALID_INPUT"):
        on_spark.run(f"SELECT {text}", session=session)
    assert on_spark.run("SELECT COUNT(*) FROM t").collect() == [(0,)]


def test_a_result_past_the_spools_cap_is_refused_and_leaves_nothing(on_spark: Gateway, warehouse: Path) -> None:
    with pytest.raises(ResultTooLarge, match="past 100000 bytes"):
        on_spark.run("SELECT id, uuid() AS u FROM range(200000)")
    assert list((warehouse / ".sluice" / "spool").rglob("*.parquet")) == []


def test_a_result_that_passes_the_cap_while_it_is_written_ends_there_and_says_so(on_spark: Gateway, warehouse: Path) -> None:
    endless = "SELECT id, uuid() AS u FROM range(200000) UNION ALL SELECT id, 'x' FROM range(1000000000000000) WHERE sin(id) > 2"
    with pytest.raises(ResultTooLarge, match="past 100000 bytes"):
        on_spark.run(endless)
    assert list((warehouse / ".sluice" / "spool").rglob("*.parquet")) == []


def test_a_large_result_is_streamed_from_the_spool_and_its_files_go_with_it(on_spark: Gateway, warehouse: Path) -> None:
    result = on_spark.run("SELECT id FROM range(150000) WHERE id % 10 = 0")
    spool = warehouse / ".sluice" / "spool"
    assert list(spool.rglob("*.parquet")) != []
    assert sorted(row[0] for row in result.collect()) == list(range(0, 150_000, 10))
    assert list(spool.rglob("*.parquet")) == []


def test_a_sessions_time_zone_reaches_spark(on_spark: Gateway) -> None:
    session = on_spark.open_session()
    on_spark.run("SET 'table.local-time-zone' = 'Asia/Tokyo'", session=session).close()
    assert on_spark.run("SELECT current_timezone()", session=session).collect() == [("Asia/Tokyo",)]
    assert on_spark.run("SELECT current_timezone()").collect() == [("UTC",)]


def test_explain_says_what_is_answered_without_spark(on_spark: Gateway, lake: Lake) -> None:
    make_table(lake, id="INT", s="STRING")
    on_spark.run("INSERT INTO t VALUES (1, 'a')").close()
    ((local,),) = on_spark.run("EXPLAIN SELECT s FROM t WHERE id = 1").collect()
    ((spark,),) = on_spark.run("EXPLAIN SELECT upper(s) FROM t WHERE id = 2").collect()
    assert local.startswith("Answered in the gateway")
    assert spark.startswith("== Tables ==")
    assert "0 kept, 1 skipped" in spark


@pytest.mark.parametrize("word", one_in(2, ["files", "partitions", "snapshots", "manifests", "tags", "buckets", "file_indexes"]))
def test_an_empty_system_table_can_be_read_by_spark(on_spark: Gateway, lake: Lake, word: str) -> None:
    make_table(lake, partition="p", id="INT", p="STRING")
    assert on_spark.run(f"SELECT count(DISTINCT 1 + 1), max(upper('a')) FROM t${word}").collect() == [(0, None)]


BY_SPARK = {
    "insert": "INSERT INTO t SELECT id + 1 FROM t",
    "overwrite": "INSERT OVERWRITE t SELECT id + 1 FROM t",
    "set": "EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT id FROM t; INSERT INTO u SELECT id FROM t; END",
    "merge": "MERGE INTO t USING (SELECT id FROM t) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 9",
    "create": "CREATE TABLE v AS SELECT id FROM t",
}


@pytest.mark.parametrize(("how", "step_name"), diagonal(BY_SPARK, ["synced", "decided"]))
def test_a_write_by_spark_that_is_canceled_while_it_commits(
    on_spark: Gateway, lake: Lake, monkeypatch: pytest.MonkeyPatch, how: str, step_name: str
) -> None:
    text = BY_SPARK[how]
    for name in ("t", "u"):
        make_table(lake, name, id="INT", options={"rows.erasable": "true"})
    on_spark.run("INSERT INTO t VALUES (1)").close()
    step = HeldStep()
    monkeypatch.setattr(lake._core, "_hook", step)
    monkeypatch.setattr(operation, "STOP_SECONDS", 60.0)  # what is let go ends in time on a busy machine, too
    step.hold(step_name)
    started: list[RunningStatement] = []
    join = in_background(lambda: on_spark.run(text, on_start=started.append))
    assert step.reached.wait(120)
    assert started[0].cancel()
    if step_name == "synced":
        assert isinstance(join(), StatementCanceled)
    step.let_go.set()
    if step_name == "decided":
        join().close()
    assert eventually(lambda: not on_spark._executor._unfinished, pause=0.05)
    snapshots = [on_spark.run(f"SELECT COUNT(*) FROM {name}$snapshots").collect()[0][0] for name in ("t", "u")]
    tables = {row[0] for row in on_spark.run("SHOW TABLES").collect()}
    if step_name == "synced":
        assert snapshots == [1, 0]
        assert tables == {"t", "u"}
    else:
        assert snapshots == [1 if "TABLE v" in text else 2, 1 if "INTO u" in text else 0]
        assert tables == ({"t", "u", "v"} if "TABLE v" in text else {"t", "u"})
