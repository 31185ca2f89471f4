"""The gateway as the server sees it: texts, sessions, operations, limits, cancel, repeats, draining."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlglot import exp

from lake import Lake
from model.errors import (
    BadRequest,
    IdempotencyInProgress,
    IdempotencyMismatch,
    IllegalMove,
    InvalidOption,
    InvalidToken,
    OperationNotExist,
    SessionNotExist,
    SqlSyntaxError,
    StatementCanceled,
    StatementTimeout,
    StatementTooLarge,
    TableNotExist,
    TooManyStatements,
    Unavailable,
)
from sql.gateway import Gateway, GatewayLimits, RunningStatement
from sql.operation import OperationState
from sql.pages import NotReady, ResultPage
from sql.results import ResultSet
from sql.statements.base import ExecutionContext, Statement
from sql.statements.base import build as build_statement
from tests.sql.conftest import NoSpark
from tests.sql.tables import make_table


@dataclass
class Held:
    """A statement that runs until it is let go; deaf to cancels."""

    needs_spark: bool = False
    reached: threading.Event = field(default_factory=threading.Event)
    let_go: threading.Event = field(default_factory=threading.Event)
    freed: threading.Event = field(default_factory=threading.Event)

    def run(self, context: ExecutionContext) -> ResultSet:
        self.reached.set()
        assert self.let_go.wait(20)
        result = ResultSet.ok()
        result.on_close(self.freed.set)
        return result


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Held]]:
    """Makes ``SELECT <name>()`` a statement that is held."""
    made: dict[str, Held] = {}

    def build(tree: exp.Expr) -> Statement:
        call = tree.find(exp.Anonymous)
        return made[call.name] if call is not None and call.name in made else build_statement(tree)

    monkeypatch.setattr("sql.script.build", build)

    def make(name: str = "held", *, needs_spark: bool = False) -> Held:
        made[name] = Held(needs_spark)
        return made[name]

    yield make
    for one in made.values():
        one.let_go.set()


def in_background(action: Callable[[], Any]) -> Callable[[], Any]:
    """Start an action; call what comes back to get its outcome."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(action())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def join() -> Any:
        thread.join(10)
        assert outcome
        return outcome[0]

    return join


# Texts


def test_several_statements_run_in_order_and_the_last_answers(gateway: Gateway) -> None:
    text = "CREATE DATABASE d; USE d; CREATE TABLE t (id INT); INSERT INTO t VALUES (1), (2); SELECT * FROM t"
    assert gateway.run(text).collect() == [(1,), (2,)]
    assert gateway.run("SELECT id FROM d.t").collect() == [(1,), (2,)]


def test_what_a_text_sets_is_gone_after_it(gateway: Gateway) -> None:
    gateway.run("CREATE DATABASE d; USE d; CREATE TABLE t (id INT)").close()
    with pytest.raises(TableNotExist, match=r"default\.t"):
        gateway.run("INSERT INTO t VALUES (1)")


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


def test_a_one_shot_gives_its_spark_session_back(gateway: Gateway, spark_stub: NoSpark) -> None:
    gateway.run("SHOW DATABASES").close()
    assert len(spark_stub.released) == 1


# Time limits and cancel


def test_a_time_limit_frees_the_client_whatever_the_worker_does(gateway: Gateway, held: Callable[..., Held]) -> None:
    stuck = held()
    started = time.monotonic()
    with pytest.raises(StatementTimeout, match=r"limit of 0\.1 s"):
        gateway.run("SELECT held()", timeout=0.1)
    assert time.monotonic() - started < 1
    stuck.let_go.set()
    assert stuck.freed.wait(5)


def test_a_session_may_set_its_own_limit(gateway: Gateway, held: Callable[..., Held]) -> None:
    held()
    with pytest.raises(StatementTimeout, match=r"limit of 0\.2 s"):
        gateway.run("SELECT held()", settings={"statement.timeout": "200 ms"})


def test_a_submitted_statement_ends_at_its_limit_too(gateway: Gateway, held: Callable[..., Held]) -> None:
    held()
    session = gateway.open_session()
    operation = gateway.submit(session, "SELECT held()", {"statement.timeout": "200 ms"})
    with pytest.raises(StatementTimeout):
        gateway.fetch(session, operation, 0, wait=5)
    assert gateway.status(session, operation) is OperationState.TIMEOUT


def test_a_cancel_frees_the_client_within_a_second_and_reaches_spark(
    gateway: Gateway, held: Callable[..., Held], spark_stub: NoSpark
) -> None:
    stuck = held(needs_spark=True)
    seen: list[RunningStatement] = []
    outcome = in_background(lambda: gateway.run("SELECT held()", on_start=seen.append))
    assert stuck.reached.wait(5)
    started = time.monotonic()
    assert seen[0].cancel()
    assert isinstance(outcome(), StatementCanceled)
    assert time.monotonic() - started < 1
    until = time.monotonic() + 5
    while spark_stub.canceled[:1] != [seen[0].statement_id]:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert not stuck.freed.is_set()
    stuck.let_go.set()
    assert stuck.freed.wait(5)  # the late result was thrown away
    assert not seen[0].cancel()


def test_spark_is_told_again_until_the_worker_has_ended(gateway: Gateway, held: Callable[..., Held], spark_stub: NoSpark) -> None:
    stuck = held(needs_spark=True)
    seen: list[RunningStatement] = []
    outcome = in_background(lambda: gateway.run("SELECT held()", on_start=seen.append))
    assert stuck.reached.wait(5)
    seen[0].cancel()
    outcome()
    until = time.monotonic() + 5
    while len(spark_stub.canceled) < 2:
        assert time.monotonic() < until
        time.sleep(0.01)
    stuck.let_go.set()


def test_a_stuck_spark_statement_holds_up_none_that_needs_no_spark(gateway: Gateway, held: Callable[..., Held]) -> None:
    stuck = held(needs_spark=True)
    outcome = in_background(lambda: gateway.run("SELECT held()"))
    assert stuck.reached.wait(5)
    assert gateway.run("SHOW DATABASES", timeout=5).collect() == [("default",)]
    stuck.let_go.set()
    outcome()


def test_a_full_queue_is_told(lake: Lake, spark_stub: NoSpark, held: Callable[..., Held]) -> None:
    gateway = Gateway(lake, spark_stub, limits=GatewayLimits(local_threads=1, queued_statements=1))
    stuck = held()
    running = in_background(lambda: gateway.run("SELECT held()"))
    assert stuck.reached.wait(5)
    waiting = in_background(lambda: gateway.run("SHOW DATABASES"))
    until = time.monotonic() + 5
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


# Sessions and operations


def fetch_all(gateway: Gateway, session: str, operation: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    token: int | None = 0
    while token is not None:
        page = gateway.fetch(session, operation, token, wait=5)
        assert isinstance(page, ResultPage)
        for batch in page.batches:
            rows += batch.to_pylist()
        token = page.next_token
    return rows


def test_a_session_keeps_what_it_set_and_others_do_not_see_it(gateway: Gateway) -> None:
    gateway.run("CREATE DATABASE d").close()
    first, second = gateway.open_session("first", {"pipeline.name": "x"}), gateway.open_session()
    gateway.run("USE d; SET 'table.local-time-zone' = 'Asia/Tokyo'", session=first).close()
    assert gateway.session_properties(first) == {"pipeline.name": "x", "table.local-time-zone": "Asia/Tokyo"}
    assert gateway.session_properties(second) == {}
    for session, database in ((first, "d"), (second, "default")):
        assert [list(row.values()) for row in fetch_all(gateway, session, gateway.submit(session, "SHOW CURRENT DATABASE"))] == [[database]]


def test_configuring_a_session_takes_settings_and_refuses_queries(gateway: Gateway, lake: Lake) -> None:
    make_table(lake, id="INT")
    session = gateway.open_session()
    gateway.configure_session(session, "SET 'pipeline.name' = 'y';")
    assert gateway.session_properties(session) == {"pipeline.name": "y"}
    for text in ("SELECT 1", "INSERT INTO t VALUES (1)", "INSERT INTO t SELECT 1"):
        with pytest.raises(BadRequest, match="submit this one"):
            gateway.configure_session(session, text)
    assert lake.open(make_identifier()).latest() is None


def make_identifier() -> Any:
    from model.identifier import Identifier

    return Identifier("default", "t")


def test_an_operation_is_not_ready_until_it_has_run(gateway: Gateway, held: Callable[..., Held]) -> None:
    stuck = held()
    session = gateway.open_session()
    operation = gateway.submit(session, "SELECT held()")
    assert stuck.reached.wait(5)
    assert gateway.status(session, operation) is OperationState.RUNNING
    assert gateway.fetch(session, operation, 0) == NotReady()
    with pytest.raises(InvalidToken):
        gateway.fetch(session, operation, 1)
    stuck.let_go.set()
    page = gateway.fetch(session, operation, 0, wait=5)
    assert isinstance(page, ResultPage)
    assert [batch.to_pylist() for batch in page.batches] == [[{"result": "OK"}]]
    assert gateway.status(session, operation) is OperationState.FINISHED
    with pytest.raises(IllegalMove, match="is FINISHED and cannot be canceled"):
        gateway.cancel(session, operation)


def test_one_session_runs_its_statements_in_order(gateway: Gateway, held: Callable[..., Held]) -> None:
    stuck = held()
    session, other = gateway.open_session(), gateway.open_session()
    gateway.submit(session, "SELECT held()")
    second = gateway.submit(session, "SHOW DATABASES")
    assert fetch_all(gateway, other, gateway.submit(other, "SHOW DATABASES")) != []
    assert gateway.status(session, second) is OperationState.PENDING
    stuck.let_go.set()
    assert fetch_all(gateway, session, second) != []


def test_the_next_statement_runs_though_the_one_canceled_before_it_is_stuck(gateway: Gateway, held: Callable[..., Held]) -> None:
    stuck = held()
    session = gateway.open_session()
    first = gateway.submit(session, "SELECT held()")
    assert stuck.reached.wait(5)
    assert gateway.cancel(session, first) is OperationState.CANCELED
    assert fetch_all(gateway, session, gateway.submit(session, "SHOW DATABASES")) != []
    with pytest.raises(StatementCanceled):
        gateway.fetch(session, first, 0)


def test_an_error_in_the_text_shows_when_it_is_fetched(gateway: Gateway) -> None:
    session = gateway.open_session()
    operation = gateway.submit(session, "SELEC 1")
    with pytest.raises(SqlSyntaxError):
        gateway.fetch(session, operation, 0, wait=5)
    assert gateway.status(session, operation) is OperationState.ERROR


def test_closing_an_operation_twice_is_fine_and_then_it_is_gone(gateway: Gateway) -> None:
    session = gateway.open_session()
    operation = gateway.submit(session, "SHOW DATABASES")
    for _ in range(2):
        gateway.close_operation(session, operation)
    with pytest.raises(OperationNotExist, match=operation):
        gateway.status(session, operation)


def test_closing_a_session_cancels_and_frees(gateway: Gateway, held: Callable[..., Held], spark_stub: NoSpark) -> None:
    stuck = held()
    session = gateway.open_session()
    outcome = in_background(lambda: gateway.run("SELECT held()", session=session))
    assert stuck.reached.wait(5)
    gateway.close_session(session)
    assert isinstance(outcome(), StatementCanceled)
    assert spark_stub.released == [session]
    for use in (gateway.heartbeat, gateway.close_session, gateway.session_properties):
        with pytest.raises(SessionNotExist, match=session):
            use(session)


def test_there_are_only_so_many_sessions(gateway: Gateway) -> None:
    sessions = [gateway.open_session() for _ in range(3)]
    with pytest.raises(TooManyStatements, match="3 sessions"):
        gateway.open_session()
    gateway.close_session(sessions[0])
    gateway.open_session()


def test_an_idle_session_is_closed_but_not_while_it_works(lake: Lake, spark_stub: NoSpark, held: Callable[..., Held]) -> None:
    gateway = Gateway(lake, spark_stub, limits=GatewayLimits(local_threads=2, session_idle_seconds=0.2))
    gateway.start()
    stuck = held()
    idle, working = gateway.open_session(), gateway.open_session()
    gateway.submit(working, "SELECT held()")
    until = time.monotonic() + 5
    while idle not in spark_stub.released:
        assert time.monotonic() < until
        time.sleep(0.02)
    gateway.heartbeat(working)
    with pytest.raises(SessionNotExist):
        gateway.heartbeat(idle)
    stuck.let_go.set()
    gateway.close()


def test_a_session_has_only_so_many_statements_waiting(gateway: Gateway, held: Callable[..., Held]) -> None:
    held()
    session = gateway.open_session()
    for _ in range(5):
        gateway.submit(session, "SELECT held()")
    with pytest.raises(TooManyStatements, match="in this session"):
        gateway.submit(session, "SELECT held()")


# Repeats


def test_an_insert_under_a_key_lands_once_also_after_a_restart(gateway: Gateway, lake: Lake, spark_stub: NoSpark) -> None:
    make_table(lake, id="INT")
    text = "INSERT INTO t VALUES (1), (2)"
    first = gateway.run(text, idempotency_key="k", caller="me").collect()
    assert gateway.run(text, idempotency_key="k", caller="me").collect() == first == [(2, 1)]
    restarted = Gateway(Lake(lake.catalog, lake.warehouse), spark_stub)
    assert restarted.run(text, idempotency_key="k", caller="me").collect() == first
    restarted.close()
    assert gateway.run("SELECT COUNT(*) FROM t").collect() == [(2,)]


def test_another_body_under_the_same_key_is_refused(gateway: Gateway, lake: Lake) -> None:
    make_table(lake, id="INT")
    gateway.run("INSERT INTO t VALUES (1)", idempotency_key="k").close()
    with pytest.raises(IdempotencyMismatch):
        gateway.run("INSERT INTO t VALUES (2)", idempotency_key="k")


def test_a_key_whose_statement_runs_is_refused_meanwhile(gateway: Gateway, lake: Lake, held: Callable[..., Held]) -> None:
    stuck = held()
    make_table(lake, id="INT")
    text = "INSERT INTO t SELECT held()"
    outcome = in_background(lambda: gateway.run(text, idempotency_key="k"))
    assert stuck.reached.wait(5)
    with pytest.raises(IdempotencyInProgress):
        gateway.run(text, idempotency_key="k")
    stuck.let_go.set()
    assert isinstance(outcome(), ResultSet)


def test_a_failed_statement_gives_its_key_back(gateway: Gateway, lake: Lake) -> None:
    for _ in range(2):
        with pytest.raises(TableNotExist):
            gateway.run("INSERT INTO t VALUES (1)", idempotency_key="k")
    make_table(lake, id="INT")
    assert gateway.run("INSERT INTO t VALUES (1)", idempotency_key="k").collect() == [(1, 1)]


def test_a_key_covers_one_statement(gateway: Gateway) -> None:
    with pytest.raises(BadRequest, match="covers one statement, and the text holds 2"):
        gateway.run("SHOW DATABASES; SHOW DATABASES", idempotency_key="k")


def test_a_query_may_have_a_key_which_changes_nothing(gateway: Gateway, lake: Lake) -> None:
    make_table(lake, id="INT")
    for rows in ([], [(1,)]):
        assert gateway.run("SELECT * FROM t", idempotency_key="k").collect() == rows
        gateway.run("INSERT INTO t VALUES (1)").close()


def test_a_definition_under_a_key_is_answered_again(gateway: Gateway) -> None:
    for _ in range(2):
        assert gateway.run("CREATE DATABASE d", idempotency_key="k").collect() == [("OK",)]


# The end


def test_draining_lets_work_end_and_takes_no_more(gateway: Gateway, held: Callable[..., Held]) -> None:
    stuck = held()
    outcome = in_background(lambda: gateway.run("SELECT held()"))
    assert stuck.reached.wait(5)
    drained = in_background(lambda: gateway.drain(5))
    time.sleep(0.05)
    with pytest.raises(Unavailable, match="stopping"):
        gateway.run("SHOW DATABASES")
    stuck.let_go.set()
    assert isinstance(outcome(), ResultSet)
    assert drained() is True


def test_draining_cancels_what_does_not_end(gateway: Gateway, held: Callable[..., Held]) -> None:
    stuck = held()
    outcome = in_background(lambda: gateway.run("SELECT held()"))
    assert stuck.reached.wait(5)
    assert gateway.drain(0.1) is False
    assert isinstance(outcome(), StatementCanceled)


def test_health_tells_the_parts_apart(gateway: Gateway, spark_stub: NoSpark) -> None:
    health = gateway.health()
    assert (health.postgres.ok, health.spark.ok, health.warehouse.ok, health.ok) == (True, False, True, False)
    assert health.spark.detail == "Spark is still starting."


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
