"""A JVM that stands still is killed after the limit, and not before; what of it is asked costs one thread."""

from __future__ import annotations

import threading

import pytest

from model.errors import Unavailable
from sql.spark.driver.watch import JvmWatch
from tests.waiting import eventually


class _Jvm:
    def __init__(self) -> None:
        self.is_short = False
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.asked: list[str] = []
        self.killed = False

    def lives(self) -> bool:
        return not self.killed

    def ran_out_of_memory(self) -> bool:
        return self.is_short

    def answer(self) -> object:
        self.asked.append(threading.current_thread().name)
        return self.goes_on.wait(60)

    def kill(self) -> None:
        self.killed = True
        self.goes_on.set()


class _Told:
    def __init__(self, java: _Jvm) -> None:
        self.lost = self.prepared = 0
        self.watch = JvmWatch(java, limit=40, lost=self._lose, prepare=self._prepare)

    def _lose(self) -> None:
        self.lost += 1

    def _prepare(self) -> None:
        self.prepared += 1


@pytest.fixture
def java() -> _Jvm:
    return _Jvm()


@pytest.fixture
def told(java: _Jvm) -> _Told:
    return _Told(java)


def _look(watch: JvmWatch, times: int) -> None:
    for _ in range(times):
        watch.look()
        assert watch._answer is not None
        if watch._java.goes_on.is_set():  # type: ignore[attr-defined]
            assert eventually(watch._answer.done)


def test_one_that_answers_is_asked_now_and_then(java: _Jvm, told: _Told) -> None:
    _look(told.watch, 20)
    assert java.asked == ["spark-answer"] * 4
    assert told.watch.answers()
    told.watch.require()
    assert (java.killed, told.lost, told.prepared) == (False, 0, 0)


def test_one_that_stands_still_is_told_and_then_killed(java: _Jvm, told: _Told) -> None:
    java.goes_on.clear()
    _look(told.watch, 31)
    told.watch.require()
    assert not told.watch.answers()
    _look(told.watch, 1)
    with pytest.raises(Unavailable, match=r"has not answered for 31 s: its JVM stands still.*after 40 s"):
        told.watch.require()
    _look(told.watch, 8)
    assert (java.killed, told.lost) == (False, 0)
    _look(told.watch, 1)
    assert (java.killed, told.lost) == (True, 1)
    assert eventually(lambda: bool(java.asked)), "the thread that asks may be late"
    assert java.asked == ["spark-answer"]


def test_where_the_limit_is_short_statements_are_told_before_it_is_over(java: _Jvm) -> None:
    watch = JvmWatch(java, limit=20, lost=lambda: None, prepare=lambda: None)
    java.goes_on.clear()
    _look(watch, 16)
    watch.require()
    _look(watch, 1)
    with pytest.raises(Unavailable, match=r"has not answered for 16 s: .*after 20 s"):
        watch.require()
    assert not java.killed


def test_a_pause_is_forgotten_once_it_is_over(java: _Jvm, told: _Told) -> None:
    java.goes_on.clear()
    _look(told.watch, 39)
    java.goes_on.set()
    assert told.watch._answer is not None
    assert eventually(told.watch._answer.done)
    told.watch.look()
    told.watch.require()
    assert told.watch.answers()
    java.goes_on.clear()
    _look(told.watch, 39)
    assert not java.killed


def test_one_that_ran_out_of_memory_has_ten_seconds(java: _Jvm, told: _Told) -> None:
    java.is_short = True
    _look(told.watch, 10)
    assert (told.lost, told.prepared, java.killed) == (2, 1, False), "it answers, and is asked whether Spark is of use"
    java.is_short = False
    java.goes_on.clear()
    _look(told.watch, 1)
    java.is_short = True
    _look(told.watch, 9)
    assert not java.killed
    _look(told.watch, 1)
    assert java.killed


def test_one_that_is_to_end_has_ten_seconds(java: _Jvm, told: _Told) -> None:
    _look(told.watch, 2)
    told.watch.hurry()
    java.goes_on.clear()
    _look(told.watch, 10)  # the first of them asks, however lately it answered
    assert eventually(lambda: len(java.asked) == 2)
    assert not java.killed
    _look(told.watch, 1)
    assert java.killed
