"""A statement that goes on although it was told to stop: it loses its thread's place, readiness says so, and Spark is started anew."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from gateway.execution import canceller as canceller_module
from gateway.execution.canceller import Canceller, Patience
from gateway.execution.core_turns import CoreTurns
from gateway.gateway import Gateway
from gateway.health import check_health
from gateway.operation import Operation, OperationState
from lake import Caller, Lake
from model.errors import ResultTooLarge, StatementTimeout
from tests.fix_gateway import NoSpark
from tests.gateway.held import Held
from tests.gateway.test_executor import wait_for


class Hanging:
    """A Spark whose tasks do not end, and what it was told."""

    def __init__(self) -> None:
        self.canceled: list[str] = []
        self.interrupted: list[str] = []
        self.restarted: list[str] = []
        self.stages: dict[str, set[tuple[str, int]]] = {}
        self.live: list[tuple[str, int]] = []
        self.prepared = 0
        self.starting = self.silent = False
        self.stands, self.now, self.looked = False, time.monotonic(), 0
        """Whether the machine leaves it no processor."""

    def seconds(self) -> float:
        self.looked += 1
        if not self.stands:
            self.now = time.monotonic()
        return self.now

    def cancel(self, statement_id: str) -> None:
        self.canceled.append(statement_id)

    def interrupt(self, statement_id: str) -> None:
        self.interrupted.append(statement_id)

    def stages_of(self, statement_id: str) -> set[tuple[str, int]]:
        return self.stages.pop(statement_id, set())

    def live_tasks(self) -> list[tuple[str, int]]:
        return self.live

    def calls(self, statement_id: str) -> bool:
        return not self.starting

    def answers(self) -> bool:
        return not self.silent

    def prepare(self) -> None:
        self.prepared += 1

    def cores(self) -> int:
        return 2

    def restart(self, reason: str) -> None:
        self.restarted.append(reason)


@pytest.fixture
def hanging() -> Hanging:
    return Hanging()


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canceller_module, "_AGAIN_SECONDS", 0.05)


LONG = 40.0
"""Seconds beyond the patience of `canceller`, of which none comes by itself."""


@pytest.fixture
def canceller(hanging: Hanging) -> Iterator[Canceller]:
    made = Canceller(hanging, patience=Patience(interrupt=0.0, thread=0.0, told=0.0, starved=60.0, restart=30.0))
    yield made
    made.close()


@pytest.fixture
def operation() -> Operation:
    made = Operation("SELECT 1")
    made.move(OperationState.PENDING)
    made.begin()
    made.on_spark = True
    return made


def test_a_worker_that_does_not_end_loses_its_place_and_spark_is_started_anew(
    canceller: Canceller, hanging: Hanging, operation: Operation
) -> None:
    gave_up = threading.Event()

    to_others: list[bool] = []

    def give_up(others: bool) -> bool:
        to_others.append(others)
        gave_up.set()
        return True

    canceller.stop(operation, give_up)
    assert gave_up.wait(60)
    assert to_others == [True], "it may plan on, and hold a core: its principal begins nothing in its place"
    wait_for(lambda: len(hanging.canceled) >= 2)  # Spark forgets a cancel that comes between two jobs
    wait_for(lambda: canceller.lingering() == [operation.handle])
    assert canceller.outliving() == [], "it has no tasks: the others have Spark"
    assert hanging.restarted == []
    canceller._stopping[0].waited += LONG
    wait_for(lambda: bool(hanging.restarted))
    assert operation.handle in hanging.restarted[0]
    assert operation.handle in hanging.interrupted
    wait_for(lambda: canceller.outliving() == [])


def test_tasks_that_outlive_their_statement_are_told_and_end_with_spark(
    canceller: Canceller, hanging: Hanging, operation: Operation
) -> None:
    """Also where Spark has forgotten the job meanwhile."""
    operation.worker_ended = True
    hanging.stages = {operation.handle: {("app-1", 7)}}
    hanging.live = [("app-1", 7), ("app-1", 7), ("app-1", 8)]
    canceller.stop(operation)
    wait_for(lambda: canceller.outliving() == [operation.handle])
    assert canceller.lingering() == []
    assert hanging.restarted == []
    canceller._stopping[0].waited += LONG
    wait_for(lambda: bool(hanging.restarted))
    assert hanging.canceled == []
    assert "2 tasks" in hanging.restarted[0]
    assert hanging.prepared, "the next one was made ready before the first was ended"


def test_who_waits_for_a_start_of_spark_does_not_end_it(canceller: Canceller, hanging: Hanging, operation: Operation) -> None:
    """Each such end would make it wait for another start, which it would end as well."""
    hanging.starting = True
    canceller.stop(operation)
    canceller._stopping[0].waited += 60
    wait_for(lambda: len(hanging.canceled) > 2)
    assert hanging.restarted == []
    hanging.starting = False
    wait_for(lambda: bool(hanging.restarted))


def test_a_call_that_does_not_come_back_holds_up_no_other_statement(
    hanging: Hanging, operation: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that hangs outside Spark loses its place, and Spark is started anew only where its JVM answers otherwise."""
    goes_on = threading.Event()

    def stages_of(_: str) -> set[tuple[str, int]]:
        assert goes_on.wait(60)
        return set()

    monkeypatch.setattr(hanging, "stages_of", stages_of)
    hanging.silent = True
    canceller = Canceller(hanging, patience=Patience(answer=0.2, interrupt=0.0, thread=0.0, starved=60.0, restart=0.5))
    elsewhere, gave_up = Operation("SELECT 2"), threading.Event()
    elsewhere.move(OperationState.PENDING)
    elsewhere.begin()
    canceller.stop(operation)
    canceller.stop(elsewhere, lambda _: gave_up.set() or True)  # type: ignore[func-returns-value]
    assert gave_up.wait(60)
    canceller._stopping[0].waited += 60
    looked = hanging.looked
    wait_for(lambda: hanging.looked > looked + 2)
    assert (hanging.canceled, hanging.restarted) == ([], [])
    operation.worker_ended = True
    wait_for(lambda: hanging.looked > looked + 4)
    assert canceller.outliving() == [], "it was not told so long ago"
    assert any(statement.operation is operation for statement in canceller._stopping), "nobody knows yet which tasks it has left"
    operation.worker_ended, hanging.silent = False, False
    wait_for(lambda: bool(hanging.restarted))
    goes_on.set()
    canceller.close()


def test_seconds_in_which_the_jvm_stood_still_are_not_counted_against_tasks(
    hanging: Hanging, operation: Operation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collection of garbage that begins as a statement is canceled: its tasks hear of that once it is over."""
    goes_on = threading.Event()

    def stages_of(_: str) -> set[tuple[str, int]]:
        assert goes_on.wait(60)
        return {("app-1", 7)}

    monkeypatch.setattr(hanging, "stages_of", stages_of)
    hanging.live = [("app-1", 7), ("app-1", 7)]
    hanging.stands = True
    canceller = Canceller(hanging, waiting=lambda: True, patience=Patience(answer=0.2, waited_for=5.0, starved=30.0, restart=60.0))
    canceller._seconds = hanging.now
    canceller.stop(operation)
    (statement,) = canceller._stopping
    statement.since -= 1000
    hanging.now += 10
    wait_for(lambda: statement.waited == 10)
    hanging.silent = True
    hanging.now += 25
    looked = hanging.looked
    wait_for(lambda: hanging.looked > looked + 1)
    hanging.silent = False
    goes_on.set()
    looked = hanging.looked
    wait_for(lambda: statement.tasks == 2 and hanging.looked > looked + 2)
    assert hanging.restarted == []
    assert statement.waited == 0
    hanging.now += 6
    wait_for(lambda: bool(hanging.restarted))
    canceller.close()


def test_tasks_that_leave_nobody_a_core_end_with_spark_at_once(hanging: Hanging, operation: Operation) -> None:
    """Also where each of two statements holds only a part of them; one that holds a part alone is given its time."""
    canceller = Canceller(hanging, patience=Patience(starved=0.5, restart=60.0))
    other = Operation("SELECT 2")
    for one in (operation, other):
        one.worker_ended = one.begun = True
    hanging.stages = {operation.handle: {("app-1", 7)}, other.handle: {("app-1", 8)}}
    hanging.live = [("app-1", 7)]
    canceller.stop(operation)
    wait_for(lambda: bool(canceller._stopping) and canceller._stopping[0].tasks == 1)
    canceller._stopping[0].waited += 30
    canceller.stop(other)
    wait_for(lambda: len(canceller._stopping) == 1 and canceller._stopping[0].operation is operation)
    assert hanging.restarted == []
    hanging.stages, hanging.live = {other.handle: {("app-1", 8)}}, [("app-1", 7), ("app-1", 8)]
    canceller.stop(other)
    wait_for(lambda: bool(hanging.restarted))
    wait_for(lambda: not canceller._stopping)
    canceller.close()
    assert len(hanging.restarted) == 1
    assert "2 tasks hold all its cores" in hanging.restarted[0]
    assert operation.handle in hanging.restarted[0]
    assert other.handle in hanging.restarted[0]


@pytest.mark.parametrize("waited_for", [True, False])
def test_tasks_that_leave_nobody_a_core_end_sooner_where_somebody_waits_for_one(
    hanging: Hanging, operation: Operation, waited_for: bool
) -> None:
    looked = threading.Event()

    def waiting() -> bool:
        looked.set()
        return waited_for

    canceller = Canceller(hanging, waiting=waiting, patience=Patience(waited_for=0.5, starved=600.0, restart=600.0))
    operation.worker_ended = True
    hanging.stages, hanging.live = {operation.handle: {("app-1", 7)}}, [("app-1", 7), ("app-1", 7)]
    canceller.stop(operation)
    wait_for(lambda: bool(hanging.restarted) if waited_for else looked.is_set())
    if not waited_for:
        looked.clear()
        assert looked.wait(60), "it looks again"
        assert (hanging.restarted, len(canceller._stopping)) == ([], 1)
    canceller.close()


def test_tasks_of_others_and_of_a_former_spark_do_not_count(canceller: Canceller, hanging: Hanging, operation: Operation) -> None:
    operation.worker_ended = True
    hanging.stages = {operation.handle: {("app-1", 7)}}
    hanging.live = [("app-1", 8), ("app-2", 7)]
    canceller.stop(operation)
    wait_for(lambda: not canceller._stopping)
    assert hanging.restarted == []


def test_a_statement_that_hangs_outside_spark_is_no_reason_to_start_spark_anew(
    canceller: Canceller, hanging: Hanging, operation: Operation
) -> None:
    operation.on_spark = False
    gave_up = threading.Event()
    canceller.stop(operation, lambda others: gave_up.set() or not others)  # type: ignore[func-returns-value]
    assert gave_up.wait(60)
    wait_for(lambda: canceller._stopping[0].given_up)
    canceller._stopping[0].waited += 60
    wait_for(lambda: len(hanging.canceled) >= 3)
    assert (canceller.outliving(), hanging.restarted, hanging.interrupted) == ([], [], [])
    operation.worker_ended = True
    wait_for(lambda: not canceller._stopping)


_CALLS = ("cancel", "interrupt", "stages_of", "live_tasks", "cores", "calls", "seconds", "prepare", "restart", "give_up", "look", "waiting")


@pytest.mark.parametrize("failing", _CALLS)
def test_whatever_fails_once_the_next_statement_is_stopped_all_the_same(
    hanging: Hanging, operation: Operation, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canceller_module, "_LOOK_SECONDS", 0.0)
    failed: list[str] = []

    def once(call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            if name == failing and not failed:
                failed.append(name)
                raise OSError(name)
            return call(*arguments)

        return called

    for name in _CALLS[:-3]:
        monkeypatch.setattr(hanging, name, once(getattr(hanging, name), name))
    gave_up: list[str] = []
    made = Canceller(
        hanging,
        look=once(lambda: None, "look"),
        waiting=once(lambda: True, "waiting"),
        turns=CoreTurns(cast(Any, _NoTurns())),
        patience=Patience(interrupt=0.0, thread=0.0, starved=60.0, waited_for=60.0, restart=0.5),
    )
    try:
        wait_for(lambda: failing != "look" or bool(failed))
        if failing != "calls":  # which is asked of those without tasks alone
            hanging.stages, hanging.live = {operation.handle: {("app-1", 7)}}, [("app-1", 7), ("app-1", 7)]
        made.stop(operation, once(lambda _: gave_up.append(operation.handle) or True, "give_up"))  # type: ignore[func-returns-value]
        if failing == "cores":
            wait_for(lambda: bool(made._stopping))
            made._stopping[0].waited += 61
        wait_for(lambda: bool(failed))
        wait_for(lambda: bool(hanging.restarted) or failing == "restart")
        wait_for(lambda: not made._stopping)
        other = Operation("SELECT 2")
        other.move(OperationState.PENDING)
        other.begin()
        made.stop(other, lambda _: gave_up.append(other.handle) or True)  # type: ignore[func-returns-value]
        wait_for(lambda: other.handle in hanging.canceled and other.handle in gave_up)
    finally:
        made.close()
    assert operation.handle in hanging.canceled


class _NoTurns:
    """Spark, of which nobody holds a core."""

    def numbered_tasks(self) -> list[tuple[tuple[str, int], int]]:
        return []


def test_what_ends_in_time_is_forgotten(canceller: Canceller, hanging: Hanging, operation: Operation) -> None:
    operation.worker_ended = True
    canceller.stop(operation)
    wait_for(lambda: canceller.outliving() == [])
    assert hanging.restarted == []


def test_readiness_names_what_outlives(lake: Lake) -> None:
    class Ready(NoSpark):
        def __init__(self) -> None:
            super().__init__()
            self.ready = True

        def check(self) -> None:
            """It runs jobs."""

    assert check_health(lake, Ready()).spark.ok
    told = check_health(lake, Ready(), ["abc"]).spark
    assert (told.ok, "statement abc" in told.detail) == (False, True)
    told = check_health(lake, Ready(), [], ["abc"]).spark
    assert (told.ok, "Statement abc" in told.detail) == (True, True), "a balancer would take a server out that answers"


def test_a_stuck_statement_gives_its_slot_to_the_next(gateway: Gateway, held: Callable[..., Held], monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway has one Spark thread; a statement that never comes back from Spark has its error, and another user's runs."""
    monkeypatch.setattr(gateway._canceller, "_patience", Patience(thread=0.0))
    stuck, following = held("stuck", needs_spark=True), held("following", needs_spark=True)
    with pytest.raises(StatementTimeout):
        gateway.run("SELECT stuck()", timeout=0.5)
    following.let_go.set()
    gateway.run("SELECT following()", caller=Caller(principal="ben", administrator=True), timeout=50.0).close()
    assert not stuck.let_go.is_set()


def test_what_a_full_spool_stops_gives_its_slot_to_the_next(
    gateway: Gateway, held: Callable[..., Held], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its operation has not ended, as its worker would end it, which hangs in Spark."""
    monkeypatch.setattr(gateway._canceller, "_patience", Patience(thread=0.0))
    stuck, following = held("stuck", needs_spark=True), held("following", needs_spark=True)
    session = gateway.open_session()
    first = gateway._sessions.get(session).operation(gateway.submit(session, "SELECT stuck()"))
    assert stuck.reached.wait(60)
    assert first.cancellation.cancel(ResultTooLarge("full"))
    following.let_go.set()
    gateway.run("SELECT following()", caller=Caller(principal="ben", administrator=True), timeout=50.0).close()
    assert not stuck.let_go.is_set()
    stuck.let_go.set()


def test_what_a_full_spool_stops_between_two_statements_is_told_why(gateway: Gateway, held: Callable[..., Held]) -> None:
    stopped = held("stopped", asks=lambda context: context.cancellation.cancel(ResultTooLarge("full")))
    stopped.let_go.set()
    with pytest.raises(ResultTooLarge, match="full"):
        gateway.run("SELECT stopped(); SELECT 1", timeout=50.0)


def test_tasks_that_get_no_processor_do_not_end_spark(canceller: Canceller, hanging: Hanging, operation: Operation) -> None:
    """The machine is busy with other work; readiness says what goes on all the same."""
    operation.worker_ended = True
    hanging.stages, hanging.live = {operation.handle: {("app-1", 7)}}, [("app-1", 7)]
    canceller.stop(operation)
    wait_for(lambda: bool(canceller._stopping) and canceller._stopping[0].waited > 0)
    hanging.stands = True
    canceller._stopping[0].since -= 600
    wait_for(lambda: canceller.outliving() == [operation.handle])
    looked = hanging.looked
    wait_for(lambda: hanging.looked > looked + 3)
    assert hanging.restarted == []
    hanging.now += LONG
    wait_for(lambda: bool(hanging.restarted))
