"""Sessions and their operations: order, isolation, pages, cancel, idle expiry."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.execution.executor import Chain
from gateway.gateway import Gateway, GatewayLimits
from gateway.operation import ENDED_CHARS, Operation, OperationState
from gateway.result_pages import NotReady, ResultPage
from gateway.sessions import GatewaySession, Sessions
from lake import Lake, Owner
from model.errors import (
    BadRequest,
    IllegalMove,
    InvalidToken,
    OperationNotExist,
    SessionNotExist,
    SqlSyntaxError,
    StatementCanceled,
    TooManyStatements,
)
from model.identifier import Identifier
from sql.connectors import ConnectorTable
from sql.execution.session import Session
from tests.fix_gateway import NoSpark
from tests.gateway.held import Held, in_background
from tests.sql.tables import make_table


def fetch_all(gateway: Gateway, session: str, operation: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    token: int | None = 0
    while token is not None:
        page = gateway.fetch(session, operation, token, wait=60)
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
    assert lake.open(Identifier("default", "t")).latest() is None


def test_an_operation_is_not_ready_until_it_has_run(gateway: Gateway, held: Callable[..., Held]) -> None:
    stuck = held()
    session = gateway.open_session()
    operation = gateway.submit(session, "SELECT held()")
    assert stuck.reached.wait(60)
    assert gateway.status(session, operation) is OperationState.RUNNING
    assert gateway.fetch(session, operation, 0) == NotReady()
    with pytest.raises(InvalidToken):
        gateway.fetch(session, operation, 1)
    stuck.let_go.set()
    page = gateway.fetch(session, operation, 0, wait=60)
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
    assert stuck.reached.wait(60)
    assert gateway.cancel(session, first) is OperationState.CANCELED
    assert fetch_all(gateway, session, gateway.submit(session, "SHOW DATABASES")) != []
    with pytest.raises(StatementCanceled):
        gateway.fetch(session, first, 0)


def test_an_error_in_the_text_shows_when_it_is_fetched(gateway: Gateway) -> None:
    session = gateway.open_session()
    operation = gateway.submit(session, "SELEC 1")
    with pytest.raises(SqlSyntaxError):
        gateway.fetch(session, operation, 0, wait=60)
    assert gateway.status(session, operation) is OperationState.ERROR


def test_closing_an_operation_twice_is_fine_and_then_it_is_gone(gateway: Gateway) -> None:
    session = gateway.open_session()
    operation = gateway.submit(session, "SHOW DATABASES")
    for _ in range(2):
        gateway.close_operation(session, operation)
    with pytest.raises(OperationNotExist, match=operation):
        gateway.status(session, operation)


def test_closing_a_session_cancels_and_frees(gateway: Gateway, held: Callable[..., Held]) -> None:
    stuck = held()
    session = gateway.open_session()
    outcome = in_background(lambda: gateway.run("SELECT held()", session=session))
    assert stuck.reached.wait(60)
    gateway.close_session(session)
    assert isinstance(outcome(), StatementCanceled)
    for use in (gateway.heartbeat, gateway.close_session, gateway.session_properties):
        with pytest.raises(SessionNotExist, match=session):
            use(session)


def test_there_are_only_so_many_sessions(gateway: Gateway) -> None:
    sessions = [gateway.open_session() for _ in range(3)]
    with pytest.raises(TooManyStatements, match="3 sessions"):
        gateway.open_session()
    gateway.close_session(sessions[0])
    gateway.open_session()


def test_what_sessions_hold_is_bounded_for_all_and_for_each_principal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.sessions._MOST_BYTES", 1_000_000)
    sessions = Sessions(max_sessions=15, idle_seconds=60.0, chain=lambda: Chain(5))
    anna, ben = Owner(principal="anna"), Owner(principal="ben")
    large = {"pipeline.name": "x" * 200_000}
    opened = [sessions.open(None, large, owner=anna) for _ in range(3)]
    with pytest.raises(TooManyStatements, match="those of anna, of 976 kB in all, four fifths of it for one"):
        sessions.open(None, large, owner=anna)
    assert len(sessions) == len(opened)
    other = sessions.open(None, {}, owner=ben)
    other.session.set("pipeline.name", "y" * 50_000)
    with pytest.raises(TooManyStatements):
        other.session.set("pipeline.name", "y" * 500_000)
    assert other.session.settings == {"pipeline.name": "y" * 50_000}
    definition = {"connector": "datagen", "fields.a.start": "1" * 50_000}
    tables = [ConnectorTable(name=f"t{at}", columns=(), options=definition) for at in range(7)]
    assert [other.session.add_temporary(table) for table in tables[:6]] == [True] * 6
    with pytest.raises(TooManyStatements):
        other.session.add_temporary(tables[6])
    assert other.session.drop_temporary("t0")
    other.session.reset()
    assert other.session.add_temporary(tables[0])
    for session in (*opened, other):
        sessions.close(session.handle)
    other.session.add_temporary(tables[0], replace=True)  # by a statement that still ran
    assert sessions._memory.usage() == {}
    assert [sessions.open(None, large, owner=ben) for _ in opened]


def test_what_sessions_hold_counts_as_bytes_of_memory() -> None:
    sessions = Sessions(max_sessions=1000, idle_seconds=60.0, chain=lambda: Chain(5))
    key = "pipeline.name"
    for character in "a\xe9\u4e2d\U0001f600":
        value = character * 100_000
        size = sys.getsizeof(value)
        session = sessions.open(None, {key: value})
        assert size <= sessions._memory.usage()[""] <= 5 * size
        session.session.set(key, character * 90_000)
        sessions.close(session.handle)
    assert sessions._memory.usage() == {}


@pytest.mark.parametrize("limit", [1000, 3000])
def test_as_many_sessions_as_there_may_be_have_space_for_a_clients_configuration(limit: int) -> None:
    sessions = Sessions(max_sessions=limit, idle_seconds=60.0, chain=lambda: Chain(5))
    configuration = {f"taskmanager.memory.some-option.{at:03}": "a value as long as such are" for at in range(200)}
    for _ in range(limit * 4 // 5):
        sessions.open("flink-jdbc", configuration)
    with pytest.raises(TooManyStatements, match=f"the rest of the {limit} this server keeps is for others"):
        sessions.open("flink-jdbc", configuration)


def test_a_reset_to_what_a_session_was_opened_with_takes_no_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.sessions._MOST_BYTES", 1_000_000)
    sessions = Sessions(max_sessions=15, idle_seconds=60.0, chain=lambda: Chain(5))
    opened = {"pipeline.name": "x" * 200_000, "a": "y"}
    session = sessions.open(None, opened).session
    before = sessions._memory.usage()
    other = sessions.open(None, {}).session
    for at in range(8):
        session.set("pipeline.name", "")
        session.set("a", "y")  # as it was
        session.set("b", "z")
        _fill(other, sessions)
        session.reset("pipeline.name" if at % 2 else None)
        session.reset()
        assert session.settings == opened
        other.reset()
    sessions.close(other.handle)
    assert sessions._memory.usage() == before


def _fill(session: Session, sessions: Sessions) -> None:
    """SET as much as the memory of all still takes."""
    for at in range(100):
        try:
            session.set(f"filled.{at}", "x" * 50_000)
        except TooManyStatements:
            return
    raise AssertionError(f"It holds {sessions._memory.usage()}.")


def test_an_idle_session_is_closed_but_not_while_it_works(lake: Lake, spark_stub: NoSpark, held: Callable[..., Held]) -> None:
    gateway = Gateway(lake, spark_stub, limits=GatewayLimits(local_threads=2, session_idle_seconds=60))
    gateway.start()
    stuck = held()
    working = gateway.open_session()
    gateway.submit(working, "SELECT held()")
    gateway._sessions.get(working)._used -= 61.0
    idle = _session_in(gateway._sessions, 61.0).handle
    until = time.monotonic() + 60
    while idle in [session.handle for session in gateway.sessions()]:
        assert time.monotonic() < until
        time.sleep(0.02)
    gateway.heartbeat(working)
    with pytest.raises(SessionNotExist):
        gateway.heartbeat(idle)
    stuck.let_go.set()
    gateway.close()


@pytest.mark.parametrize("ending", ["its answer", "the last row", "a statement nobody asked for since"])
def test_a_session_is_idle_from_the_end_of_its_last_use_on(
    lake: Lake, spark_stub: NoSpark, held: Callable[..., Held], monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """It was so from the beginning of its last statement, and went with what it had SET right after a long one."""
    gateway = Gateway(lake, spark_stub, limits=GatewayLimits(local_threads=2, session_idle_seconds=600))
    passed, now = 0.0, time.monotonic
    for module in ("gateway.sessions", "gateway.operation"):
        monkeypatch.setattr(f"{module}.time", SimpleNamespace(time=time.time, monotonic=lambda: now() + passed))
    stuck, session = held(), gateway.open_session()
    if ending == "the last row":
        result = gateway.run("SELECT 1", session=session)
        passed += 700
        assert gateway._sessions.expire() == []
        result.close()
    elif ending == "a statement nobody asked for since":
        operation = gateway._sessions._sessions[session].operation(gateway.submit(session, "SELECT held()"))
        assert stuck.reached.wait(60)
        passed += 700
        assert gateway._sessions.expire() == []
        stuck.let_go.set()
        assert operation.wait(60)
    else:
        outcome = in_background(lambda: gateway.run("SELECT held()", session=session))
        assert stuck.reached.wait(60)
        passed += 700
        assert gateway._sessions.expire() == []
        stuck.let_go.set()
        outcome().close()
    assert gateway._sessions.expire() == []
    passed += 500
    assert gateway._sessions.expire() == []
    passed += 200
    assert gateway._sessions.expire() == [session]
    gateway.close()


def test_a_session_has_only_so_many_statements_waiting(gateway: Gateway, held: Callable[..., Held]) -> None:
    held()
    session = gateway.open_session()
    for _ in range(5):
        gateway.submit(session, "SELECT held()")
    with pytest.raises(TooManyStatements, match="in this session"):
        gateway.submit(session, "SELECT held()")


def test_a_statement_canceled_before_it_ran_is_not_stopped_on_spark(
    gateway: Gateway, held: Callable[..., Held], spark_stub: NoSpark
) -> None:
    stuck = held()
    session = gateway.open_session()
    first = gateway.submit(session, "SELECT held()")
    assert stuck.reached.wait(60)
    waiting = gateway.submit(session, "SHOW DATABASES")
    gateway.cancel(session, waiting)
    gateway.cancel(session, first)
    until = time.monotonic() + 60
    while len(spark_stub.canceled) < 2:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert set(spark_stub.canceled) == {first}


def test_operations_nobody_closes_do_not_pile_up(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.sessions.MOST_OPERATIONS", 3)
    session = gateway.open_session()
    handles = []
    for _ in range(5):
        handles.append(gateway.submit(session, "SELEC 1"))
        with pytest.raises(SqlSyntaxError):
            gateway.fetch(session, handles[-1], 0, wait=60)
    for gone in handles[:2]:
        with pytest.raises(OperationNotExist):
            gateway.status(session, gone)
    assert [gateway.status(session, kept) for kept in handles[2:]] == [OperationState.ERROR] * 3


def test_what_has_ended_keeps_no_long_text(gateway: Gateway) -> None:
    """Sessions keep two hundred operations, and a text may have a megabyte."""
    session = gateway.open_session()
    long = "x" * 100_000
    for text in (f"SHOW DATABASES LIKE '{long}'", f"SELEC '{long}'"):
        operation = gateway._sessions.get(session).operation(gateway.submit(session, text))
        assert operation.wait(120)
        assert operation.text == operation.masked == text[:ENDED_CHARS]
        trace = None if operation.error is None else operation.error.__traceback__
        held = [value for frame, _ in traceback.walk_tb(trace) for value in frame.f_locals.values()]
        assert not [value for value in held if isinstance(value, str) and len(value) > ENDED_CHARS]
    assert gateway.recent.newest()[0].text == text[:ENDED_CHARS]


def test_reset_brings_back_what_the_session_was_opened_with(gateway: Gateway) -> None:
    session = gateway.open_session(properties={"pipeline.name": "x"})
    gateway.run("SET 'pipeline.name' = 'y'; SET 'table.local-time-zone' = 'Asia/Tokyo'; RESET 'pipeline.name'", session=session).close()
    assert gateway.session_properties(session) == {"pipeline.name": "x", "table.local-time-zone": "Asia/Tokyo"}
    gateway.run("SET 'pipeline.name' = 'z'; RESET", session=session).close()
    assert gateway.session_properties(session) == {"pipeline.name": "x"}


def _session_in(sessions: Sessions, seconds: float) -> GatewaySession:
    opened = sessions.open(None, {})
    opened._used -= seconds
    return opened


def test_a_session_that_is_used_while_another_is_closed_stays() -> None:
    """As where the results of the other lie in a store that hangs."""
    sessions = Sessions(max_sessions=10, idle_seconds=60.0, chain=lambda: Chain(5))
    closing, goes_on = threading.Event(), threading.Event()
    slow, used, idle = (_session_in(sessions, 61.0) for _ in range(3))

    def close() -> None:
        closing.set()
        assert goes_on.wait(60)

    slow.on_close = close
    expiring = threading.Thread(target=sessions.expire)
    expiring.start()
    assert closing.wait(60)
    operation = Operation("INSERT INTO t VALUES (1)", session=used.handle)
    operation.move(OperationState.PENDING)
    sessions.get(used.handle).add(operation)
    goes_on.set()
    expiring.join(60)
    assert sessions.all() == [used]
    assert operation.state is OperationState.PENDING
    with pytest.raises(SessionNotExist):
        sessions.get(idle.handle)


def test_nothing_is_begun_in_a_session_that_was_closed_meanwhile(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look for the session and its operation: nobody would ever free that."""
    handle = gateway.open_session()
    found = gateway._sessions.get(handle)
    gateway.close_session(handle)
    monkeypatch.setattr(gateway._sessions, "get", lambda _: found)
    for submit in (gateway.submit, lambda session, text: gateway.run(text, session=session)):
        with pytest.raises(SessionNotExist):
            submit(handle, "CREATE TABLE never (a INT)")
    assert (found.operations(), gateway.running()) == ([], [])
    monkeypatch.undo()
    assert "never" not in str(gateway.run("SHOW TABLES").collect())


def test_time_limits_hold_while_a_session_is_closed_slowly(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on, closing, overdue = threading.Event(), threading.Event(), threading.Event()

    def close() -> None:
        closing.set()
        assert goes_on.wait(60)

    slow = _session_in(gateway._sessions, 0.0)
    slow.on_close = close
    slow._used -= 1e6
    try:
        assert closing.wait(60)
        monkeypatch.setattr(gateway._running, "at_work", lambda: overdue.set() or [])  # type: ignore[func-returns-value]
        assert overdue.wait(120)
    finally:
        goes_on.set()
