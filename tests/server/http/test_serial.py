"""Short jobs on one thread; another helps where that one is stuck."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from server.http.loop_calls import LoopCalls
from server.http.serial import SerialWorkers
from tests.waiting import eventually


def test_short_jobs_run_in_order_and_each_once() -> None:
    workers, done = SerialWorkers(8, "test-serial"), list[int]()
    for number in range(2000):
        workers.submit(lambda number=number: done.append(number))  # type: ignore[misc]
    assert eventually(lambda: len(done) == 2000)
    assert sorted(done) == list(range(2000))


def test_a_stuck_job_holds_up_no_other_and_a_failing_one_neither() -> None:
    workers, go, done = SerialWorkers(3, "test-serial"), threading.Event(), list[int]()
    began = threading.Semaphore(0)

    def stuck() -> None:
        began.release()
        go.wait(60)

    for _ in range(2):
        workers.submit(stuck)
    assert all(began.acquire(timeout=60) for _ in range(2))
    workers.submit(lambda: [][1])
    for number in range(20):
        workers.submit(lambda number=number: done.append(number))  # type: ignore[misc]
    assert eventually(lambda: done == list(range(20)))
    workers.submit(stuck)  # the last thread: what comes now waits until one is free
    assert began.acquire(timeout=60)
    workers.submit(lambda: done.append(99))
    assert workers.counts() == {"busy": 3, "idle": 0, "waiting": 1}
    go.set()
    assert eventually(lambda: done[-1] == 99 and workers.counts()["busy"] == 0)
    for number in range(100, 200):  # one after another, with pauses: each finds a thread
        workers.submit(lambda number=number: done.append(number))  # type: ignore[misc]
        assert eventually(lambda number=number: done[-1] == number)  # type: ignore[misc]


def test_calls_to_a_loop_keep_their_order_whoever_makes_them() -> None:
    loop = asyncio.new_event_loop()
    calls, done = LoopCalls(loop), list[tuple[int, int]]()

    def caller(who: int) -> Callable[[], None]:
        def call() -> None:
            for number in range(3000):
                calls.soon(lambda number=number: done.append((who, number)))  # type: ignore[misc]

        return call

    running = threading.Thread(target=loop.run_forever)
    running.start()
    calls.soon(lambda: [][1])  # a bug in one keeps nothing else
    callers = [threading.Thread(target=caller(who)) for who in range(4)]
    for one in callers:
        one.start()
    for one in callers:
        one.join()
    assert eventually(lambda: len(done) == 12000)
    assert all([number for who, number in done if who == one] == list(range(3000)) for one in range(4))
    loop.call_soon_threadsafe(loop.stop)
    running.join()
    loop.close()
    calls.soon(lambda: None)  # the server has stopped
