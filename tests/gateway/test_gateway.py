"""The gateway as the server sees it: texts, limits, cancel, draining, health."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from gateway.gateway import Gateway, GatewayLimits, RunningStatement
from gateway.operation import OperationState
from lake import Lake
from model.errors import (
    BadRequest,
    InvalidOption,
    SqlSyntaxError,
    StatementCanceled,
    StatementTimeout,
    StatementTooLarge,
    TableNotExist,
    TooManyStatements,
    Unavailable,
)
from sql.execution.results import ResultSet
from tests.fix_gateway import NoSpark
from tests.gateway.held import Held, in_background, run_out
from tests.sql.tables import make_table
from tests.waiting import eventually


def test_several_statements_run_in_order_and_the_last_answers(gateway: Gateway) -> None:
    text = "CREATE DATABASE d; USE d; CREATE TABLE t (id INT); INSERT INTO t VALUES (1), (2); SELECT * FROM t"
    assert gateway.run(text).collect() == [(1,), (2,)]
    assert gateway.run("SELECT id FROM d.t").collect() == [(1,), (2,)]


def test_what_a_text_sets_is_gone_after_it(gateway: Gateway) -> None:
    gateway.run("CREATE DATABASE d; USE d; CREATE TABLE t (id INT)").close()
    with pytest.raises(TableNotExist, match=r"default\.t"):
        gateway.run("INSERT INTO t VALUES (1)")


def test_what_a_text_sets_goes_before_what_is_sent_with_it(gateway: Gateway) -> None:
    gateway.run("CREATE TABLE t (id INT)").close()
    streaming, key = {"execution.runtime-mode": "streaming"}, "execution.runtime-mode"

    def unbounded(text: str) -> bool:
        with gateway.run(text, settings=streaming) as result:
            return result.unbounded

    assert unbounded("SELECT * FROM t")
    assert not unbounded(f"SET '{key}' = 'batch'; SELECT * FROM t")
    assert unbounded("SET 'pipeline.name' = 'a'; SELECT * FROM t")
    assert unbounded(f"SET '{key}' = 'batch'; RESET '{key}'; SELECT * FROM t")
    assert unbounded(f"SET '{key}' = 'batch'; RESET; SELECT * FROM t")


def test_a_text_may_begin_in_another_database(gateway: Gateway) -> None:
    gateway.run("CREATE DATABASE d; CREATE TABLE d.t (id INT)").close()
    assert gateway.run("INSERT INTO t VALUES (1)", database="d").collect() == [(1, 1)]


def test_a_failure_in_the_middle_says_what_took_effect(gateway: Gateway, lake: Lake) -> None:
    make_table(lake, id="INT")
    with pytest.raises(TableNotExist) as caught:
        gateway.run("INSERT INTO t VALUES (1); INSERT INTO u VALUES (1); INSERT INTO t VALUES (2)")
    assert caught.value.statement_index == 1
    assert caught.value.completed == ("INSERT INTO t VALUES (1)",)
    assert gateway.run("SELECT * FROM t").collect() == [(1,)]


def test_a_syntax_error_has_its_place_in_the_whole_text(gateway: Gateway) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        gateway.run("SET 'pipeline.name' = 'a';\n  SELEC 1")
    assert caught.value.line == 2
    assert caught.value.column is not None
    assert caught.value.column >= 3


@pytest.mark.parametrize("text", ["", " \n ", ";;", "-- nothing"])
def test_a_text_without_a_statement_is_refused(gateway: Gateway, text: str) -> None:
    with pytest.raises(BadRequest, match="holds no statement"):
        gateway.run(text)


def test_a_text_too_long_is_refused(lake: Lake, spark_stub: NoSpark) -> None:
    gateway = Gateway(lake, spark_stub, limits=GatewayLimits(statement_chars=100, local_threads=1))
    with pytest.raises(StatementTooLarge, match="101 characters; the most read here is 100"):
        gateway.run("x" * 101)
    gateway.close()


def test_unknown_settings_are_refused(gateway: Gateway) -> None:
    with pytest.raises(InvalidOption, match=r"pipeline\.nmae"):
        gateway.run("SHOW DATABASES", settings={"pipeline.nmae": "x"})


def test_a_time_limit_frees_the_client_whatever_the_worker_does(gateway: Gateway, held: Callable[..., Held]) -> None:
    stuck = held()
    seen: list[RunningStatement] = []
    outcome = in_background(lambda: gateway.run("SELECT held()", timeout=600, on_start=seen.append))
    assert stuck.reached.wait(60)
    run_out(gateway.running_statement(seen[0].statement_id))
    with pytest.raises(StatementTimeout, match=r"limit of 600 s"):
        raise outcome()
    stuck.let_go.set()
    assert stuck.freed.wait(60)


def test_a_session_may_set_its_own_limit(gateway: Gateway, held: Callable[..., Held]) -> None:
    held()
    with pytest.raises(StatementTimeout, match=r"limit of 0\.2 s"):
        gateway.run("SELECT held()", settings={"statement.timeout": "200 ms"})


def test_a_limit_that_is_set_holds_from_the_next_statement_on(gateway: Gateway, held: Callable[..., Held]) -> None:
    held()
    with pytest.raises(StatementTimeout, match=r"limit of 0\.2 s"):
        gateway.run("SET 'statement.timeout' = '200 ms'; SELECT held()", timeout=60)
    with pytest.raises(StatementTimeout, match=r"limit of 0\.3 s"):
        gateway.run("SET 'statement.timeout' = '1 h'; SELECT held()", timeout=0.3)


def test_a_limit_that_is_reset_holds_no_longer(gateway: Gateway, held: Callable[..., Held]) -> None:
    stuck = held()
    outcome = in_background(lambda: gateway.run("SET 'statement.timeout' = '1 min'; RESET 'statement.timeout'; SELECT held()"))
    assert stuck.reached.wait(60)
    assert [one.timeout for one in gateway.running()] == [gateway.limits.statement_seconds]
    stuck.let_go.set()
    outcome()


def test_a_submitted_statement_ends_at_its_limit_too(gateway: Gateway, held: Callable[..., Held]) -> None:
    held()
    session = gateway.open_session()
    operation = gateway.submit(session, "SELECT held()", {"statement.timeout": "200 ms"})
    with pytest.raises(StatementTimeout):
        gateway.fetch(session, operation, 0, wait=60)
    assert gateway.status(session, operation) is OperationState.TIMEOUT


def test_a_cancel_frees_the_client_at_once_and_reaches_spark(gateway: Gateway, held: Callable[..., Held], spark_stub: NoSpark) -> None:
    stuck = held(needs_spark=True)
    seen: list[RunningStatement] = []
    outcome = in_background(lambda: gateway.run("SELECT held()", on_start=seen.append))
    assert stuck.reached.wait(60)
    assert seen[0].cancel()
    assert isinstance(outcome(), StatementCanceled)
    until = time.monotonic() + 60
    while spark_stub.canceled[:1] != [seen[0].statement_id]:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert not stuck.freed.is_set()
    stuck.let_go.set()
    assert stuck.freed.wait(60)  # the late result was thrown away
    assert not seen[0].cancel()


def test_spark_is_told_again_until_the_worker_has_ended(gateway: Gateway, held: Callable[..., Held], spark_stub: NoSpark) -> None:
    stuck = held(needs_spark=True)
    seen: list[RunningStatement] = []
    outcome = in_background(lambda: gateway.run("SELECT held()", on_start=seen.append))
    assert stuck.reached.wait(60)
    seen[0].cancel()
    outcome()
    until = time.monotonic() + 60
    while len(spark_stub.canceled) < 2:
        assert time.monotonic() < until
        time.sleep(0.01)
    stuck.let_go.set()


def test_a_stuck_spark_statement_holds_up_none_that_needs_no_spark(gateway: Gateway, held: Callable[..., Held]) -> None:
    stuck = held(needs_spark=True)
    outcome = in_background(lambda: gateway.run("SELECT held()"))
    assert stuck.reached.wait(60)
    assert gateway.run("SHOW DATABASES", timeout=60).collect() == [("default",)]
    stuck.let_go.set()
    outcome()


def test_a_full_queue_is_told(lake: Lake, spark_stub: NoSpark, held: Callable[..., Held]) -> None:
    gateway = Gateway(lake, spark_stub, limits=GatewayLimits(local_threads=1, queued_statements=1, least_queued_locally=1))
    stuck = held()
    running = in_background(lambda: gateway.run("SELECT held()"))
    assert stuck.reached.wait(60)
    waiting = in_background(lambda: gateway.run("SHOW DATABASES"))
    until = time.monotonic() + 60
    while len(gateway.running()) < 2:
        assert time.monotonic() < until
        time.sleep(0.005)
    with pytest.raises(TooManyStatements):
        gateway.run("SHOW DATABASES")
    stuck.let_go.set()
    assert isinstance(running(), ResultSet)
    assert isinstance(waiting(), ResultSet)
    assert gateway.running() == []
    gateway.close()


def test_draining_lets_work_end_and_takes_no_more(gateway: Gateway, held: Callable[..., Held]) -> None:
    stuck = held()
    outcome = in_background(lambda: gateway.run("SELECT held()"))
    assert stuck.reached.wait(60)
    drained = in_background(lambda: gateway.drain(60))
    assert eventually(lambda: gateway._executor._draining, pause=0.01)
    with pytest.raises(Unavailable, match="stopping"):
        gateway.run("SHOW DATABASES")
    stuck.let_go.set()
    assert isinstance(outcome(), ResultSet)
    assert drained() is True


def test_draining_cancels_what_does_not_end(gateway: Gateway, held: Callable[..., Held]) -> None:
    stuck = held()
    outcome = in_background(lambda: gateway.run("SELECT held()"))
    assert stuck.reached.wait(60)
    assert gateway.drain(0.1) is False
    assert isinstance(outcome(), StatementCanceled)


def test_health_tells_the_parts_apart(gateway: Gateway, spark_stub: NoSpark) -> None:
    health = gateway.health()
    assert (health.postgres.ok, health.spark.ok, health.warehouse.ok, health.ok) == (True, False, True, False)
    assert health.spark.detail == "There is no Spark in this test."


def test_health_names_a_warehouse_that_is_away(gateway: Gateway, lake: Lake, warehouse: Any) -> None:
    warehouse.parent.mkdir(exist_ok=True)
    warehouse.mkdir(exist_ok=True)
    for found in warehouse.rglob("*"):
        if found.name == ".sluice":
            found.rename(found.with_name("gone"))
    (warehouse / ".sluice").write_text("a file where a directory is needed")
    health = gateway.health()
    assert health.postgres.ok
    assert not health.warehouse.ok
    assert "warehouse" in health.warehouse.detail
