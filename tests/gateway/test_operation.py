"""One statement's life: the moves that are legal, all others refused, and what waiters get."""

import itertools
import threading

import pytest

from gateway.operation import NEXT, Operation, OperationState
from model.errors import IllegalMove, InvalidData, StatementCanceled, StatementTimeout
from sql.execution.results import ResultSet

S = OperationState
WAY_TO: dict[OperationState, tuple[OperationState, ...]] = {
    S.INITIALIZED: (),
    S.PENDING: (S.PENDING,),
    S.RUNNING: (S.PENDING, S.RUNNING),
    S.FINISHED: (S.PENDING, S.RUNNING, S.FINISHED),
    S.CANCELED: (S.CANCELED,),
    S.TIMEOUT: (S.TIMEOUT,),
    S.ERROR: (S.ERROR,),
    S.CLOSED: (S.CLOSED,),
}
LEGAL = {
    (S.INITIALIZED, S.PENDING),
    (S.PENDING, S.RUNNING),
    (S.RUNNING, S.FINISHED),
    *itertools.product((S.INITIALIZED, S.PENDING, S.RUNNING), (S.CANCELED, S.TIMEOUT, S.ERROR, S.CLOSED)),
    *itertools.product((S.FINISHED, S.CANCELED, S.TIMEOUT, S.ERROR), (S.CLOSED,)),
}


def in_state(state: OperationState) -> Operation:
    operation = Operation("SELECT 1", timeout=5)
    for step in WAY_TO[state]:
        operation.move(step)
    return operation


@pytest.mark.parametrize(("before", "after"), sorted(LEGAL))
def test_legal_moves_are_made(before: OperationState, after: OperationState) -> None:
    operation = in_state(before)
    operation.move(after)
    assert operation.state is after


@pytest.mark.parametrize(("before", "after"), sorted(set(itertools.product(S, S)) - LEGAL))
def test_every_other_move_is_refused(before: OperationState, after: OperationState) -> None:
    operation = in_state(before)
    with pytest.raises(IllegalMove, match=f"is {before} and cannot become {after}"):
        operation.move(after)
    assert operation.state is before


def test_the_table_names_every_state() -> None:
    assert set(NEXT) == set(S)
    assert {state for state in S if state.terminal} == {S.FINISHED, S.CANCELED, S.TIMEOUT, S.ERROR, S.CLOSED}


def closed_when(result: ResultSet) -> list[str]:
    seen: list[str] = []
    result.on_close(lambda: seen.append("closed"))
    return seen


def test_a_result_that_comes_after_a_cancel_is_freed_and_not_given() -> None:
    operation = in_state(S.RUNNING)
    assert operation.cancel()
    late = ResultSet.ok()
    seen = closed_when(late)
    operation.succeed(late)
    assert seen == ["closed"]
    assert operation.state is S.CANCELED
    with pytest.raises(StatementCanceled):
        operation.outcome()


def test_a_cancel_frees_the_waiter_at_once_and_reaches_the_worker() -> None:
    operation = in_state(S.RUNNING)
    threading.Timer(0.05, operation.cancel).start()
    assert operation.wait(60)
    assert operation.cancellation.canceled
    with pytest.raises(StatementCanceled):
        operation.cancellation.check()


def test_the_first_end_wins() -> None:
    operation = in_state(S.RUNNING)
    operation.fail(InvalidData("broken"))
    assert not operation.cancel()
    assert not operation.expire()
    with pytest.raises(InvalidData, match="broken"):
        operation.outcome()


def test_a_limit_passed_is_told_with_the_limit() -> None:
    operation = in_state(S.RUNNING)
    operation.expire()
    with pytest.raises(StatementTimeout, match="limit of 5 s"):
        operation.outcome()


def test_closing_frees_the_result_and_is_repeatable() -> None:
    operation = in_state(S.RUNNING)
    result = ResultSet.ok()
    seen = closed_when(result)
    operation.succeed(result)
    operation.close()
    operation.close()
    assert operation.state is S.CLOSED
    assert seen == ["closed"]


def test_closing_a_running_operation_cancels_it() -> None:
    operation = in_state(S.RUNNING)
    operation.close()
    assert operation.cancellation.canceled
    assert operation.state is S.CLOSED


def test_end_callbacks_run_once_also_when_late() -> None:
    operation = in_state(S.RUNNING)
    seen: list[int] = []
    operation.on_end(lambda: seen.append(1))
    operation.succeed(ResultSet.ok())
    operation.close()
    operation.on_end(lambda: seen.append(2))
    assert seen == [1, 2]


def test_who_waits_is_told_after_the_lists() -> None:
    operation = in_state(S.RUNNING)
    told: list[bool] = []
    operation.on_end(lambda: told.append(operation.wait(0)))
    operation.succeed(ResultSet.ok())
    assert told == [False]
    assert operation.wait(0)


def test_a_list_that_fails_leaves_nobody_waiting() -> None:
    operation = in_state(S.RUNNING)

    def fail() -> None:
        raise RuntimeError("no space")

    operation.on_end(fail)
    with pytest.raises(RuntimeError):
        operation.succeed(ResultSet.ok())
    assert operation.wait(0)


def test_overdue_only_while_it_runs() -> None:
    operation = Operation("SELECT 1", timeout=0)
    assert operation.overdue()
    operation.expire()
    assert not operation.overdue()
    assert not Operation("SELECT 1").overdue()
