"""Spark's own clock counts a second only as far as the machine leaves Spark its processors."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from sql.spark.scheduling.scheduling_clock import SchedulingClock, Times, scheduled
from tests.waiting import eventually

_SECOND = 10**9


class _Machine:
    def __init__(self) -> None:
        self.now = 100.0
        self.process: int | None = 7
        self.times: Times = {1: (0, 0), 2: (0, 0)}

    def run(self, seconds: float, ran: float, waited: float, thread: int = 1) -> None:
        self.now += seconds
        before = self.times.get(thread, (0, 0))
        self.times = self.times | {thread: (before[0] + round(ran * _SECOND), before[1] + round(waited * _SECOND))}


@pytest.fixture
def machine() -> _Machine:
    return _Machine()


@pytest.fixture
def seconds(machine: _Machine) -> SchedulingClock:
    made = SchedulingClock(lambda: machine.process, clock=lambda: machine.now, times_of=lambda _: machine.times)
    made()
    return made


@pytest.mark.parametrize(
    ("ran", "waited", "counted"),
    [(0, 0, 10), (10, 0, 10), (20, 1, 10), (10, 10, 10), (1, 3, 5), (1, 99, 0.2), (0, 10, 0)],
)
def test_a_second_counts_as_far_as_spark_got_what_it_asked_for(
    machine: _Machine, seconds: SchedulingClock, ran: float, waited: float, counted: float
) -> None:
    before = seconds()
    machine.run(10, ran, waited)
    assert seconds() - before == pytest.approx(counted)
    assert seconds() - before == pytest.approx(counted), "asked again at once"


def test_threads_come_and_go(machine: _Machine, seconds: SchedulingClock) -> None:
    machine.run(10, 1, 3, thread=5)
    assert seconds() == pytest.approx(5)
    del machine.times[5]
    machine.run(10, 1, 0)
    assert seconds() == pytest.approx(15)


def test_another_process_is_measured_from_its_start_and_without_one_all_counts(machine: _Machine, seconds: SchedulingClock) -> None:
    machine.process, machine.times = 8, {9: (0, 100 * _SECOND)}
    machine.now += 10
    assert seconds() == pytest.approx(10)
    machine.run(10, 0, 10, thread=9)
    assert seconds() == pytest.approx(10)
    machine.process = None
    machine.run(10, 0, 10, thread=9)
    assert seconds() == pytest.approx(20)


@contextmanager
def _running(command: str) -> Iterator[int]:
    process = subprocess.Popen(["sh", "-c", command], start_new_session=True)
    try:
        yield process.pid
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def test_what_the_kernel_counts() -> None:
    """A process whose children want four times the processors there are, and one that sleeps."""
    loops = " & ".join(["while :; do :; done"] * 4 * (os.cpu_count() or 1))
    with _running(f"{loops} & wait") as busy, _running("sleep 1000") as idle:
        starved, resting = SchedulingClock(lambda: busy), SchedulingClock(lambda: idle)
        assert eventually(lambda: psutil.Process(idle).status() == psutil.STATUS_SLEEPING)
        time.sleep(0.5)
        first = time.monotonic(), starved(), resting(), time.monotonic()
        time.sleep(1.0)
        last = time.monotonic(), starved(), resting(), time.monotonic()
    _, counted, slept, _ = (after - before for before, after in zip(first, last, strict=True))
    least, most = last[0] - first[-1], last[-1] - first[0]  # it takes its time to look, beside so many
    assert counted < 0.9 * most
    assert 0.8 * least <= slept <= most


def test_a_process_that_ends_while_its_threads_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def glob(self: Path, pattern: str) -> Iterator[Path]:
        raise FileNotFoundError(self / pattern)

    monkeypatch.setattr(Path, "glob", glob)
    assert scheduled(os.getpid()) == {}
