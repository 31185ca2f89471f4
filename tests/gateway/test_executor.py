"""Two lanes: what needs no Spark never waits behind what does; bounds, order in a session, draining."""

import re
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from gateway.execution.executor import Executor, Lane, StatementLimits, Steps
from model.errors import TooManyStatements, Unavailable


@pytest.fixture
def executor() -> Iterator[Executor]:
    running = Executor(local_threads=2, spark_threads=1, queue_limit=2, local_queue_limit=2, chain_limit=2)
    yield running
    running.close(2)


def doing(action: Callable[[], object]) -> Steps:
    action()
    return
    yield Lane.LOCAL


def on_spark(action: Callable[[], object]) -> Steps:
    yield Lane.SPARK
    action()


class Gate:
    """Holds a worker until it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        assert self.opened.wait(60)


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)


def test_local_work_passes_blocked_spark_work(executor: Executor) -> None:
    gate, done = Gate(), threading.Event()
    executor.submit(on_spark(gate))
    executor.submit(on_spark(lambda: None))
    assert gate.reached.wait(60)
    executor.submit(doing(done.set))
    assert done.wait(60)
    gate.opened.set()


def test_never_more_spark_work_at_once_than_threads() -> None:
    executor = Executor(local_threads=4, spark_threads=2, queue_limit=100)
    lock, now, most = threading.Lock(), 0, 0

    def work() -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.01)
        with lock:
            now -= 1

    for _ in range(20):
        executor.submit(on_spark(work))
    assert executor.drain(60)
    executor.close()
    assert most == 2


def test_a_full_queue_refuses_and_takes_again_when_there_is_space(executor: Executor) -> None:
    gates = [Gate(), Gate()]
    for gate in gates:
        executor.submit(doing(gate))
        assert gate.reached.wait(60)
    executor.submit(doing(lambda: None))
    executor.submit(doing(lambda: None))
    with pytest.raises(TooManyStatements, match="2 statements already wait"):
        executor.submit(doing(lambda: None))
    for gate in gates:
        gate.opened.set()
    wait_for(lambda: executor.waiting(Lane.LOCAL) == 0)
    executor.submit(doing(lambda: None))


def test_work_that_finds_the_spark_queue_full_is_told(executor: Executor) -> None:
    gate = Gate()
    executor.submit(on_spark(gate))
    assert gate.reached.wait(60)
    for _ in range(2):
        executor.submit(on_spark(lambda: None))
    wait_for(lambda: executor.waiting(Lane.SPARK) == 2)
    told: list[BaseException] = []

    def steps() -> Steps:
        try:
            yield Lane.SPARK
        except TooManyStatements as full:
            told.append(full)

    executor.submit(steps())
    wait_for(lambda: bool(told))
    gate.opened.set()


def test_one_session_runs_one_after_another_in_order(executor: Executor) -> None:
    chain, gate, seen = executor.chain(), Gate(), []
    executor.submit(doing(gate), chain=chain)
    assert gate.reached.wait(60)
    executor.submit(on_spark(lambda: seen.append("second")), chain=chain)
    executor.submit(doing(lambda: seen.append("third")), chain=chain)
    with pytest.raises(TooManyStatements, match="in this session"):
        executor.submit(doing(lambda: None), chain=chain)
    other = threading.Event()
    executor.submit(doing(other.set), chain=executor.chain())
    assert other.wait(60)
    assert seen == []
    gate.opened.set()
    wait_for(lambda: len(seen) == 2)
    assert seen == ["second", "third"]


def test_abandoned_work_gives_its_turn_to_the_next_at_once(executor: Executor) -> None:
    chain, gate, done = executor.chain(), Gate(), threading.Event()
    stuck = executor.submit(doing(gate), chain=chain)
    assert gate.reached.wait(60)
    executor.submit(doing(done.set), chain=chain)
    executor.abandon(stuck)
    assert done.wait(60)
    gate.opened.set()


def test_work_abandoned_in_a_queue_is_closed_without_waiting_for_spark(executor: Executor) -> None:
    gate, closed, ran = Gate(), threading.Event(), threading.Event()
    executor.submit(on_spark(gate))
    assert gate.reached.wait(60)

    def steps() -> Steps:
        try:
            yield Lane.SPARK
            ran.set()
        finally:
            closed.set()

    waiting = executor.submit(steps())
    wait_for(lambda: executor.waiting(Lane.SPARK) == 1)
    executor.abandon(waiting)
    assert closed.wait(60)
    gate.opened.set()
    assert executor.drain(60)
    assert not ran.is_set()


def test_work_abandoned_in_a_session_never_starts(executor: Executor) -> None:
    chain, gate, ran = executor.chain(), Gate(), threading.Event()
    executor.submit(doing(gate), chain=chain)
    assert gate.reached.wait(60)
    executor.abandon(executor.submit(doing(ran.set), chain=chain))
    gate.opened.set()
    assert executor.drain(60)
    assert not ran.is_set()


def test_draining_refuses_new_work_and_waits_for_the_old(executor: Executor) -> None:
    gate = Gate()
    executor.submit(doing(gate))
    assert gate.reached.wait(60)
    assert not executor.drain(0.05)
    with pytest.raises(Unavailable, match="stopping"):
        executor.submit(doing(lambda: None))
    with pytest.raises(Unavailable), executor.outside():
        pass
    gate.opened.set()
    assert executor.drain(60)


def test_draining_waits_for_work_on_the_callers_thread(executor: Executor) -> None:
    with executor.outside():
        assert not executor.drain(0.05)
    assert executor.drain(60)


def test_an_error_let_out_ends_the_work_and_not_the_thread(executor: Executor, caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> None:
        raise RuntimeError("a bug")

    for _ in range(5):
        executor.submit(doing(broken))
        wait_for(lambda: executor.waiting(Lane.LOCAL) == 0)
    done = threading.Event()
    executor.submit(doing(done.set))
    assert done.wait(60)
    wait_for(lambda: "a bug" in caplog.text)


def test_threads_do_not_grow_with_work() -> None:
    executor = Executor(local_threads=3, spark_threads=1, queue_limit=1000)
    before = set(threading.enumerate())
    for _ in range(200):
        executor.submit(on_spark(lambda: None))
    assert executor.drain(60)
    come = [thread.name for thread in set(threading.enumerate()) - before]
    assert not [name for name in come if name.startswith(tuple(f"sluice-{lane}-" for lane in Lane))], "others of this process come and go"
    executor.close()


def test_principals_take_turns_whatever_one_of_them_queued() -> None:
    executor = Executor(local_threads=1, spark_threads=1, queue_limit=100)
    gate, order, done = Gate(), list[str](), threading.Event()
    try:
        executor.submit(on_spark(gate), owner="loud")
        assert gate.reached.wait(60)
        for number in range(20):
            executor.submit(on_spark(lambda number=number: order.append(f"loud {number}")), owner="loud")  # type: ignore[misc]
        for number in range(2):
            executor.submit(on_spark(lambda number=number: order.append(f"quiet {number}")), owner="quiet")  # type: ignore[misc]
        executor.submit(on_spark(done.set), owner="third")
        wait_for(lambda: executor.queued()["spark"] == 23)
        gate.opened.set()
        wait_for(lambda: len(order) == 22)
        assert order.index("quiet 0") <= 1
        assert order.index("quiet 1") <= 3
        assert done.is_set()
    finally:
        executor.close(2)


def test_one_principal_does_not_fill_the_queue() -> None:
    executor = Executor(local_threads=1, spark_threads=1, local_queue_limit=10)
    gate = Gate()
    try:
        executor.submit(doing(gate), owner="loud")
        assert gate.reached.wait(60)
        for _ in range(8):
            executor.submit(doing(lambda: None), owner="loud")
        with pytest.raises(
            TooManyStatements, match="8 statements of loud wait already; the rest of the queue's 10 places is kept for others"
        ):
            executor.submit(doing(lambda: None), owner="loud")
        executor.submit(doing(lambda: None), owner="quiet")
    finally:
        gate.opened.set()
        executor.close(2)


def counted(ran: list[int], refused: list[TooManyStatements], number: int) -> Steps:
    try:
        yield Lane.SPARK
        ran.append(number)
    except TooManyStatements as full:
        refused.append(full)


@pytest.mark.parametrize("quota", [None, 0])
def test_where_none_may_wait_for_spark_what_runs_at_once_runs(quota: int | None) -> None:
    limit = 0 if quota is None else 100
    executor = Executor(local_threads=1, spark_threads=2, kept_threads=1, queue_limit=limit, limits=lambda _: StatementLimits(queued=quota))
    gates, local, ran, refused = [Gate() for _ in range(3)], threading.Event(), list[int](), list[TooManyStatements]()
    try:
        for gate, owner in zip(gates, ("ada", "ada", "bob"), strict=True):
            executor.submit(on_spark(gate), owner=owner)
            assert gate.reached.wait(60)
        for owner in ("ada", "cid"):
            executor.submit(counted(ran, refused, 1), owner=owner)
        wait_for(lambda: len(refused) == 2)
        wanted = (
            r"3 statements run on Spark, and none may wait \(SLUICE_STATEMENT_QUEUE = 0\)" if quota is None else "statements.queued = 0"
        )
        assert all(re.search(wanted, problem.message) for problem in refused)
        executor.submit(doing(local.set), owner="ada")
        assert local.wait(60), "what needs no Spark has a queue of its own"
        for gate in gates:
            gate.opened.set()
        wait_for(lambda: not executor.usage())
        executor.submit(counted(ran, refused, 2), owner="ada")
        wait_for(lambda: ran == [2])
    finally:
        for gate in gates:
            gate.opened.set()
        executor.close(2)


def test_a_quota_bounds_what_runs_and_waits_for_spark() -> None:
    limits = {"few": StatementLimits(running=1, queued=2)}
    executor = Executor(local_threads=1, spark_threads=3, limits=lambda owner: limits.get(owner, StatementLimits()))
    first, other, ran, refused = Gate(), threading.Event(), list[int](), list[TooManyStatements]()

    try:
        executor.submit(on_spark(first), owner="few")
        assert first.reached.wait(60)
        for number in range(3):
            executor.submit(counted(ran, refused, number), owner="few")
        wait_for(lambda: len(refused) == 1)
        assert "the quota statements.queued = 2" in refused[0].message
        executor.submit(on_spark(other.set), owner="many")
        assert other.wait(60)
        assert ran == [], "two threads are free, and one statement may run"
        first.opened.set()
        wait_for(lambda: sorted(ran) == [0, 1])
    finally:
        first.opened.set()
        executor.close(2)


def test_a_thread_that_does_not_come_back_is_replaced() -> None:
    executor = Executor(local_threads=1, spark_threads=1)
    gate, next_one = Gate(), threading.Event()
    try:
        work = executor.submit(on_spark(gate), owner="a")
        assert gate.reached.wait(60)
        assert not executor.give_up(work), "somebody still waits for it"
        executor.abandon(work)
        assert executor.give_up(work)
        assert not executor.give_up(work)
        assert executor.stuck() == 1
        executor.submit(on_spark(next_one.set), owner="a")
        assert next_one.wait(60), "the place of the stuck one was taken"
        assert executor.drain(60)
        gate.opened.set()
        wait_for(lambda: executor.stuck() == 0)
    finally:
        gate.opened.set()
        executor.close(2)


@pytest.mark.parametrize(("lane", "counted"), [(Lane.LOCAL, 3), (Lane.SPARK, 6)])
def test_given_up_works_count_among_their_principals_until_they_end(lane: Lane, counted: int) -> None:
    """They write, or compute, on: whoever starts ever more of them would have all of the machine.

    But what hangs for ever keeps no principal out of the local lane, where every statement begins.
    """
    executor = Executor(local_threads=8, spark_threads=8, limits=lambda _: StatementLimits(running=6))
    stuck, live, others = [Gate() for _ in range(6)], [Gate() for _ in range(6)], [Gate() for _ in range(4)]
    steps = doing if lane is Lane.LOCAL else on_spark
    try:
        for gate in stuck:  # six of eight threads are what one principal may have
            work = executor.submit(steps(gate), owner="a")
            assert gate.reached.wait(60)
            executor.abandon(work)
            assert executor.give_up(work)
        for gate in live:
            executor.submit(steps(gate), owner="a")
        wait_for(lambda: sum(gate.reached.is_set() for gate in live) == 6 - counted)
        for gate in others:  # they find threads enough
            executor.submit(steps(gate), owner="b")
            assert gate.reached.wait(60)
        assert sum(gate.reached.is_set() for gate in live) == 6 - counted
        for gate in [*stuck, *others]:
            gate.opened.set()
        assert all(gate.reached.wait(60) for gate in live)
        wait_for(lambda: executor.stuck() == 0)
    finally:
        for gate in [*stuck, *live, *others]:
            gate.opened.set()
        executor.close(2)


def test_a_work_that_plans_on_keeps_its_place_from_its_own_principal_and_nobody_else() -> None:
    """Told to stop, it holds a core until Spark is started anew: whoever cancels such statements began the next ones in their places."""
    executor = Executor(local_threads=8, spark_threads=2)
    stuck, own, others = [Gate(), Gate()], [Gate(), Gate()], [Gate(), Gate()]
    try:
        for gate in stuck:
            work = executor.submit(on_spark(gate), owner="a")
            assert gate.reached.wait(60)
            executor.abandon(work)
            assert executor.give_up(work, to_others=True)
        for gate in own:
            executor.submit(on_spark(gate), owner="a")
        for gate in others:
            executor.submit(on_spark(gate), owner="b")
            assert gate.reached.wait(60)
            gate.opened.set()
        assert not own[0].reached.wait(0.2)
        stuck[0].opened.set()
        assert own[0].reached.wait(60)
        assert not own[1].reached.wait(0.2)
        stuck[1].opened.set()
        assert own[1].reached.wait(60)
    finally:
        for gate in [*stuck, *own, *others]:
            gate.opened.set()
        executor.close(2)


def test_who_has_given_up_works_does_not_come_behind_all_others() -> None:
    executor = Executor(local_threads=4, spark_threads=1)
    stuck, busy, own, last = [Gate(), Gate()], [Gate() for _ in range(4)], Gate(), Gate()
    try:
        for gate in stuck:
            work = executor.submit(doing(gate), owner="a")
            assert gate.reached.wait(60)
            executor.abandon(work)
            assert executor.give_up(work)
        for owner, gate in zip("bcde", busy, strict=True):
            executor.submit(doing(gate), owner=owner)
            assert gate.reached.wait(60)
        executor.submit(doing(last), owner="b")
        executor.submit(doing(own), owner="a")
        busy[1].opened.set()
        assert own.reached.wait(40), "she runs nothing but what was given up"
        assert not last.reached.is_set()
    finally:
        for gate in [*stuck, *busy, own, last]:
            gate.opened.set()
        executor.close(2)


def test_a_given_up_work_goes_on_in_no_other_lane() -> None:
    """It took the thread that it came to with it when it ended."""
    executor = Executor(local_threads=1, spark_threads=1)
    gate, went_on, next_one = Gate(), threading.Event(), threading.Event()

    def steps() -> Steps:
        gate()
        yield Lane.SPARK
        went_on.set()

    try:
        work = executor.submit(steps(), owner="a")
        assert gate.reached.wait(60)
        executor.abandon(work)
        assert executor.give_up(work)
        gate.opened.set()
        wait_for(lambda: executor.stuck() == 0)
        for _ in range(3):
            executor.submit(on_spark(next_one.set), owner="a")
            assert next_one.wait(60)
            next_one.clear()
        assert not went_on.is_set()
    finally:
        gate.opened.set()
        executor.close(2)


def test_where_the_system_has_no_thread_the_place_is_given_later(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = Executor(local_threads=1, spark_threads=1)
    gate, next_one = Gate(), threading.Event()

    start = threading.Thread.start

    def no_thread(self: threading.Thread) -> None:
        if self.name.startswith("sluice-spark-"):  # others of this process start theirs
            raise RuntimeError("can't start new thread")
        start(self)

    try:
        work = executor.submit(on_spark(gate), owner="a")
        assert gate.reached.wait(60)
        executor.abandon(work)
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", no_thread)
            with pytest.raises(RuntimeError):
                executor.give_up(work)
        assert executor.stuck() == 0
        assert executor.give_up(work)
        executor.submit(on_spark(next_one.set), owner="a")
        assert next_one.wait(60), "the place of the stuck one was taken"
    finally:
        gate.opened.set()
        executor.close(2)


def test_who_fills_spark_leaves_threads_to_others() -> None:
    """A principal that runs nothing finds one of the kept threads; who has all others does not."""
    executor = Executor(local_threads=2, spark_threads=2, kept_threads=1, queue_limit=100)
    heavy, light, third = [Gate() for _ in range(4)], Gate(), threading.Event()
    for gate in heavy:
        executor.submit(on_spark(gate), owner="heavy")
    assert heavy[0].reached.wait(60)
    assert heavy[1].reached.wait(60)
    wait_for(lambda: executor.waiting(Lane.SPARK) == 2)
    executor.submit(on_spark(light), owner="light")
    assert light.reached.wait(60)
    assert not heavy[2].reached.is_set()
    executor.submit(on_spark(third.set), owner="third")
    wait_for(lambda: executor.waiting(Lane.SPARK) == 3)
    light.opened.set()
    assert third.wait(60)
    assert (heavy[2].reached.is_set(), executor.waiting(Lane.SPARK)) == (False, 2), "a kept thread came free, and the queue's first stays"
    for gate in heavy:
        gate.opened.set()
    assert executor.drain(60)
    executor.close()


def test_who_fills_the_local_lane_leaves_threads_to_others() -> None:
    executor = Executor(local_threads=4, spark_threads=1)
    gates, last, done = [Gate() for _ in range(4)], Gate(), threading.Event()
    try:
        works = [executor.submit(doing(gate), owner="mia") for gate in gates]
        assert all(gate.reached.wait(60) for gate in gates[:3])
        executor.submit(doing(done.set), owner="noa")
        assert done.wait(60), "three of four threads are hers, and one is not"
        assert not gates[3].reached.is_set()
        assert executor.waiting(Lane.LOCAL) == 1
        executor.abandon(works[3])
        wait_for(lambda: executor.waiting(Lane.LOCAL) == 0)
        executor.submit(doing(last), owner="mia")
        gates[0].opened.set()
        assert last.reached.wait(60), "the next of hers runs once one of hers has ended"
    finally:
        for gate in [*gates, last]:
            gate.opened.set()
        executor.close(2)


def test_two_who_fill_the_local_lane_leave_a_thread_to_whoever_has_none() -> None:
    executor = Executor(local_threads=8, spark_threads=1)
    gates = {who: [Gate() for _ in range(6)] for who in ("mia", "noa")}
    first, second = threading.Event(), Gate()
    try:
        for who, own in gates.items():
            for gate in own:
                executor.submit(doing(gate), owner=who)
        wait_for(lambda: sum(gate.reached.is_set() for own in gates.values() for gate in own) == 7)
        executor.submit(doing(first.set), owner="eve")
        assert first.wait(60)
        executor.submit(doing(second), owner="eve")
        assert second.reached.wait(60)
        assert sum(gate.reached.is_set() for own in gates.values() for gate in own) == 7
        for own in gates.values():
            for gate in own:
                gate.opened.set()
        assert all(gate.reached.wait(60) for own in gates.values() for gate in own), "all that waited run once there is a thread"
    finally:
        for gate in [*gates["mia"], *gates["noa"], second]:
            gate.opened.set()
        executor.close(2)
