"""A statement that is stopped while it commits: what is not decided never is, and what may be is never called canceled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

from gateway import operation as operations
from gateway.gateway import Gateway, RunningStatement
from gateway.operation import OperationState
from lake import Lake
from lake.commit.turns import ServerTurns
from model.errors import OutcomeUnknown, RewriteConflict, StatementCanceled, StatementTimeout, Unavailable
from model.identifier import Identifier
from sql.execution.results import ResultSet
from tests.fix_gateway import Ask
from tests.gateway.held import Held, HeldStep, in_background, run_out
from tests.sql.tables import make_table
from tests.waiting import eventually

S = OperationState


@pytest.fixture
def step(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldStep]:
    made = HeldStep()
    monkeypatch.setattr(lake._core, "_hook", made)
    monkeypatch.setattr(operations, "STOP_SECONDS", 60.0)  # what is let go ends in time on a busy machine, too
    yield made
    made.let_go.set()


@pytest.fixture
def table(lake: Lake) -> None:
    make_table(lake, id="INT", options={"rows.erasable": "true"})


def started(gateway: Gateway, text: str, **options: Any) -> tuple[Callable[[], Any], RunningStatement]:
    """Run a text in the background; what joins it, and the statement."""
    running: list[RunningStatement] = []
    join = in_background(lambda: gateway.run(text, on_start=running.append, **options))
    assert eventually(lambda: bool(running), pause=0.01)
    return join, running[0]


WRITES = {
    "insert": "INSERT INTO t VALUES (9)",
    "delete": "DELETE FROM t WHERE id = 1",
    "update": "UPDATE t SET id = 9 WHERE id = 1",
    "truncate": "TRUNCATE TABLE t",
    "call": "CALL sys.compact('t', compact_strategy => 'full')",
}


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("text", WRITES.values(), ids=WRITES)
def test_what_is_canceled_before_its_decision_is_never_committed(gateway: Gateway, step: HeldStep, ask: Ask, text: str) -> None:
    for row in (1, 2):
        gateway.run(f"INSERT INTO t VALUES ({row})").close()
    step.hold("synced")
    join, statement = started(gateway, text)
    assert step.reached.wait(60)
    began = time.monotonic()
    assert statement.cancel()
    assert isinstance(join(), StatementCanceled)
    assert time.monotonic() - began < 30  # nobody waits for it
    step.let_go.set()
    assert eventually(lambda: not gateway._executor._unfinished, pause=0.01)
    assert sorted(ask("SELECT id FROM t")) == [(1,), (2,)]
    assert ask("SELECT COUNT(*) FROM t$snapshots") == [(2,)]


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("timeout", [None, 600.0], ids=["cancel", "timeout"])
@pytest.mark.parametrize("text", WRITES.values(), ids=WRITES)
def test_what_is_decided_by_then_ends_as_it_became(gateway: Gateway, step: HeldStep, text: str, timeout: float | None) -> None:
    for row in (1, 2):
        gateway.run(f"INSERT INTO t VALUES ({row})").close()
    step.hold("decided")
    join, statement = started(gateway, text, timeout=timeout)
    operation = gateway.running_statement(statement.statement_id)
    assert step.reached.wait(60)
    if timeout is None:
        assert statement.cancel()
        assert statement.cancel()  # twice is fine
    else:
        run_out(operation)
        assert eventually(lambda: operation.cancellation.canceled, pause=0.01)
    assert not operation.state.terminal
    step.let_go.set()
    result = join()
    assert isinstance(result, ResultSet), result
    result.close()
    assert gateway.recent.find(statement.statement_id).state is S.FINISHED  # type: ignore[union-attr]
    assert gateway.run("SELECT COUNT(*) FROM t$snapshots").collect() == [(3,)]


@pytest.mark.usefixtures("table")
def test_whose_decision_takes_too_long_is_told_that_it_may_be_committed(
    gateway: Gateway, step: HeldStep, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "STOP_SECONDS", 0.2)
    step.hold("decided")
    join, statement = started(gateway, "INSERT INTO t VALUES (9)")
    assert step.reached.wait(60)
    assert statement.cancel()
    error = join()
    assert isinstance(error, OutcomeUnknown)
    assert "canceled" in error.message
    assert "may have taken effect" in error.message
    assert gateway.recent.find(statement.statement_id).state is S.ERROR  # type: ignore[union-attr]
    step.let_go.set()
    assert eventually(lambda: not gateway._executor._unfinished, pause=0.01)
    assert ask("SELECT id FROM t") == [(9,)]


@pytest.mark.usefixtures("table")
def test_a_time_limit_that_ends_in_a_decision_is_told_so(gateway: Gateway, step: HeldStep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "STOP_SECONDS", 0.2)
    step.hold("decided")
    join, statement = started(gateway, "INSERT INTO t VALUES (9)", timeout=600)
    assert step.reached.wait(60)
    run_out(gateway.running_statement(statement.statement_id))
    with pytest.raises(OutcomeUnknown, match=r"longer than its limit of 600 s\. It had begun to commit"):
        raise join()


@pytest.mark.usefixtures("table")
def test_what_waits_behind_a_commit_ends_undecided_and_the_others_go_on(gateway: Gateway, step: HeldStep, ask: Ask) -> None:
    step.hold("synced")
    first, _ = started(gateway, "INSERT INTO t VALUES (1)")
    assert step.reached.wait(60)
    canceled, statement = started(gateway, "INSERT INTO t VALUES (2)")
    queue = next(iter(gateway.lake._committer._groups._queues.values()))
    assert eventually(lambda: len(queue.waiting) == 1, pause=0.01)
    others = [started(gateway, f"INSERT INTO t VALUES ({row})")[0] for row in (3, 4)]
    assert eventually(lambda: len(queue.waiting) == 3, pause=0.01)
    assert statement.cancel()
    assert isinstance(canceled(), StatementCanceled)
    step.let_go.set()
    for join in (first, *others):
        join().close()
    assert sorted(ask("SELECT id FROM t")) == [(1,), (3,), (4,)]
    assert ask("SELECT COUNT(*) FROM t$snapshots") == [(2,)]  # the others' is one


@pytest.mark.usefixtures("table")
def test_who_is_stopped_in_a_group_that_is_built_leaves_it_and_it_stays_together(gateway: Gateway, step: HeldStep, ask: Ask) -> None:
    step.hold("synced")
    joins = [started(gateway, "INSERT INTO t VALUES (1)")[0]]
    assert step.reached.wait(60)
    queue = next(iter(gateway.lake._committer._groups._queues.values()))
    statements = []
    for row in (2, 3, 4):
        join, statement = started(gateway, f"INSERT INTO t VALUES ({row})")
        joins.append(join)
        statements.append(statement)
        assert eventually(lambda row=row: len(queue.waiting) == row - 1, pause=0.01)  # type: ignore[misc]
    first, step.let_go = step.let_go, threading.Event()
    step.reached.clear()
    step.hold("synced")
    first.set()
    assert step.reached.wait(60)  # three in one, on their way to the decision
    assert statements[1].cancel()
    assert isinstance(joins.pop(2)(), StatementCanceled)
    step.let_go.set()
    for join in joins:
        join().close()
    assert sorted(ask("SELECT id FROM t")) == [(1,), (2,), (4,)]
    assert ask("SELECT COUNT(*) FROM t$snapshots") == [(2,)]


@pytest.mark.usefixtures("table")
def test_what_stands_in_line_on_other_servers_ends_undecided(
    gateway: Gateway, lake: Lake, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: ServerTurns = lake._committer._turns
    standing, let_go = threading.Event(), threading.Event()
    taken = turns.taken

    def in_line(places: Any) -> Any:
        standing.set()
        assert let_go.wait(60)
        return taken(places)

    monkeypatch.setattr(turns, "taken", in_line)
    join, statement = started(gateway, "INSERT INTO t VALUES (9)")
    assert standing.wait(60)
    assert statement.cancel()
    assert isinstance(join(), StatementCanceled)
    let_go.set()
    assert eventually(lambda: not gateway._executor._unfinished, pause=0.01)
    assert ask("SELECT COUNT(*) FROM t$snapshots") == [(0,)]


@pytest.mark.usefixtures("table")
def test_the_next_statement_of_a_session_waits_for_what_is_being_decided(gateway: Gateway, step: HeldStep, ask: Ask) -> None:
    session = gateway.open_session()
    step.hold("decided")
    first = gateway.submit(session, "INSERT INTO t VALUES (1)")
    assert step.reached.wait(60)
    assert gateway.cancel(session, first) is S.RUNNING
    second = gateway.submit(session, "INSERT INTO t VALUES (2)")
    time.sleep(0.2)
    assert gateway.status(session, second) is S.PENDING
    step.let_go.set()
    gateway.fetch(session, second, 0, wait=60)
    assert gateway.status(session, first) is S.FINISHED
    assert sorted(ask("SELECT id FROM t")) == [(1,), (2,)]


def test_a_definition_is_not_made_after_a_cancel(gateway: Gateway, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    reached, let_go = threading.Event(), threading.Event()

    def late(*_: Any) -> None:
        reached.set()
        assert let_go.wait(60)

    monkeypatch.setattr("lake.tables.databases.check_option_lengths", late)
    join, statement = started(gateway, "CREATE DATABASE d")
    assert reached.wait(60)
    assert statement.cancel()
    assert isinstance(join(), StatementCanceled)
    let_go.set()
    assert eventually(lambda: not gateway._executor._unfinished, pause=0.01)
    assert "d" not in lake.list_databases()


DECIDES_BESIDE = {
    "expiry": ("CALL sys.expire_snapshots('p', retain_max => 1)", "lake.rewrite.expiry.require_newest_readable"),
    "repair": ("CALL sys.repair_table('p')", "lake.register.repair.filed_consumers"),
    "done": ("CALL sys.mark_partition_done('p', 'd=full')", "lake.tables.metadata.partition_page"),
    "drop": ("ALTER TABLE p DROP PARTITION (d = 'bare')", "lake.lake.named_partitions"),
}


@pytest.mark.parametrize(("text", "before"), DECIDES_BESIDE.values(), ids=DECIDES_BESIDE)
def test_what_decides_without_a_commit_changes_nothing_after_a_cancel(
    gateway: Gateway, lake: Lake, monkeypatch: pytest.MonkeyPatch, text: str, before: str
) -> None:
    make_table(lake, "p", id="INT", d="STRING", partition="d", options={"partition.mark-done-action": "mark-event"})
    for _ in range(2):
        gateway.run("INSERT INTO p VALUES (1, 'full')").close()
    opened = lake.open(Identifier("default", "p"))
    lake.create_partitions(opened, [{"d": "bare"}])
    lost = opened.files.layout.snapshot_file(2)  # which a repair writes again, and nothing else
    if "repair" in text:
        opened.files.io.delete(lost)

    def found() -> object:
        return (
            [one.id for one in lake.snapshots(opened)],
            [(row.name, row.done) for row in lake.partition_page(opened)],
            opened.files.io.file_exists(lost),
        )

    was, reached, let_go = found(), threading.Event(), threading.Event()
    module, _, name = before.rpartition(".")
    then = getattr(import_module(module), name)

    def late(*args: Any, **kwargs: Any) -> Any:
        reached.set()
        assert let_go.wait(60)
        return then(*args, **kwargs)

    with monkeypatch.context() as held:
        held.setattr(before, late)
        join, statement = started(gateway, text)
        assert reached.wait(60)
        assert statement.cancel()
        assert isinstance(join(), StatementCanceled)
        let_go.set()
        assert eventually(lambda: not gateway._executor._unfinished, pause=0.01)
    assert found() == was
    gateway.run(text).close()
    assert found() != was


@pytest.mark.usefixtures("table")
def test_a_canceled_insert_may_be_sent_again_under_its_key(
    gateway: Gateway, step: HeldStep, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "STOP_SECONDS", 0.2)
    for name in ("synced", "decided"):
        step.let_go.clear()
        step.reached.clear()
        step.hold(name)
        join, statement = started(gateway, "INSERT INTO t VALUES (9)", idempotency_key=name)
        assert step.reached.wait(60)
        statement.cancel()
        assert isinstance(join(), StatementCanceled | OutcomeUnknown)
        step.let_go.set()
        assert eventually(lambda: not gateway._executor._unfinished, pause=0.01)
        gateway.run("INSERT INTO t VALUES (9)", idempotency_key=name).close()
    assert ask("SELECT id FROM t") == [(9,), (9,)]


def test_what_had_been_done_before_a_cancel_is_told() -> None:
    operation = operations.Operation("CALL sys.compact('t')")
    for state in (S.PENDING, S.RUNNING):
        operation.move(state)
    operation.cancellation.begin_decision()
    assert operation.cancel()
    with pytest.raises(StatementCanceled) as canceled:
        operation.cancellation.check()
    operation.fail(canceled.value)
    assert operation.state is S.CANCELED
    with pytest.raises(StatementCanceled, match=r"canceled\. What it had done before that stands\."):
        operation.outcome()


def test_what_fails_while_it_is_stopped_tells_its_failure() -> None:
    operation = operations.Operation("DELETE FROM t")
    for state in (S.PENDING, S.RUNNING):
        operation.move(state)
    operation.cancellation.begin_decision()
    assert operation.cancel()
    operation.close()
    operation.fail(RewriteConflict("lost", resource_name="t"))
    assert isinstance(operation.error, RewriteConflict)
    assert operation.state is S.CLOSED


def test_a_limit_that_two_find_over_leaves_a_decision_its_time() -> None:
    operation = operations.Operation("INSERT INTO t VALUES (1)", timeout=0.01)
    for state in (S.PENDING, S.RUNNING):
        operation.move(state)
    operation.cancellation.begin_decision()
    assert eventually(operation.overdue, pause=0.01)
    assert operation.expire()
    assert not operation.expire()
    assert not operation.state.terminal
    stop = operation._stop
    assert stop is not None
    operation._stop = stop._replace(until=0.0)
    assert operation.expire()
    assert operation.state is S.ERROR
    assert isinstance(operation.error, OutcomeUnknown)


def test_a_decision_that_changed_nothing_leaves_a_statement_free_to_end() -> None:
    operation = operations.Operation("INSERT INTO t VALUES (1)")
    operation.cancellation.begin_decision()
    operation.cancellation.end_decision()
    assert operation.cancel()
    assert operation.state is S.CANCELED
    with pytest.raises(StatementCanceled):
        operation.cancellation.begin_decision()


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(
    ("text", "decides"),
    [
        ("CREATE DATABASE d", True),
        ("CREATE DATABASE IF NOT EXISTS `default`", False),
        ("CREATE DATABASE `default`", False),
        ("CALL sys.create_tag('t', 'one', dry_run => TRUE)", False),
        ("CALL sys.create_tag('t', 'one')", True),
    ],
)
def test_what_changes_nothing_has_decided_nothing(gateway: Gateway, text: str, decides: bool) -> None:
    gateway.run("INSERT INTO t VALUES (1)").close()
    session = gateway.open_session()
    handle = gateway.submit(session, text)
    operation = gateway._sessions.get(session).operation(handle)
    operation.wait_to_end()
    assert operation.state is (S.ERROR if text == "CREATE DATABASE `default`" else S.FINISHED)
    assert operation.cancellation.may_have_decided is decides


@pytest.mark.usefixtures("table")
def test_a_text_whose_time_is_over_tells_what_took_effect_before(gateway: Gateway, held: Callable[..., Held], ask: Ask) -> None:
    waits = held()
    join, statement = started(gateway, "INSERT INTO t VALUES (1); SELECT held(); INSERT INTO t VALUES (2)", timeout=600)
    assert waits.reached.wait(60)
    run_out(gateway.running_statement(statement.statement_id))
    with pytest.raises(StatementTimeout) as over:
        raise join()
    assert (over.value.statement_index, over.value.completed) == (1, ("INSERT INTO t VALUES (1)",))
    assert ask("SELECT id FROM t") == [(1,)]


@pytest.mark.usefixtures("table")
def test_a_canceled_text_tells_what_took_effect_before(gateway: Gateway, held: Callable[..., Held]) -> None:
    waits = held()
    join, statement = started(gateway, "INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); SELECT held()")
    assert waits.reached.wait(60)
    assert statement.cancel()
    error = join()
    assert isinstance(error, StatementCanceled)
    assert (error.statement_index, error.completed) == (2, ("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"))
    waits.let_go.set()  # and its worker changes nothing of that any more
    assert eventually(lambda: not gateway._executor._unfinished, pause=0.01)
    assert (error.statement_index, len(error.completed)) == (2, 2)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize(("seconds", "told"), [(60.0, (1, 1)), (0.2, (0, 0))], ids=["ended by its worker", "of open outcome"])
def test_a_text_canceled_while_one_of_its_statements_commits(
    gateway: Gateway, step: HeldStep, monkeypatch: pytest.MonkeyPatch, seconds: float, told: tuple[int, int]
) -> None:
    monkeypatch.setattr(operations, "STOP_SECONDS", seconds)
    step.hold("decided")
    join, statement = started(gateway, "INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
    assert step.reached.wait(60)
    assert statement.cancel()
    if seconds > 1:
        step.let_go.set()
    error = join()
    assert isinstance(error, StatementCanceled if seconds > 1 else OutcomeUnknown)
    assert (error.statement_index, len(error.completed)) == told
    assert "stands" not in error.message
    ended = gateway.recent.find(statement.statement_id)
    assert ended is not None
    assert ended.state is (S.CANCELED if seconds > 1 else S.ERROR)
    step.let_go.set()
    assert eventually(lambda: not gateway._executor._unfinished, pause=0.01)
    assert gateway.run("SELECT id FROM t").collect() == [(1,)]


@pytest.mark.usefixtures("table")
def test_what_is_refused_between_two_statements_tells_what_took_effect_before(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    renewed = gateway.lake.access.renewed
    asked: list[int] = []

    def away(caller: Any) -> Any:
        asked.append(1)
        if len(asked) == 2:
            raise Unavailable("away")
        return renewed(caller)

    monkeypatch.setattr(gateway.lake.access, "renewed", away)
    with pytest.raises(Unavailable) as refused:
        gateway.run("INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
    assert (refused.value.statement_index, refused.value.completed) == (1, ("INSERT INTO t VALUES (1)",))


@pytest.mark.usefixtures("table")
def test_a_server_that_stops_waits_for_what_is_being_decided(gateway: Gateway, step: HeldStep) -> None:
    step.hold("decided")
    insert, statement = started(gateway, "INSERT INTO t VALUES (1)")
    operation = gateway.running_statement(statement.statement_id)
    assert step.reached.wait(60)
    drained = in_background(lambda: gateway.drain(0.0))
    assert eventually(lambda: operation.cancellation.canceled, pause=0.01)
    assert not operation.state.terminal
    step.let_go.set()
    result = insert()
    assert isinstance(result, ResultSet), result
    result.close()
    assert drained() is False  # it did not end in time, and was not cut off either
