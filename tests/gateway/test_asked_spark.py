"""A JVM that stands still: health says so in time, and costs no thread more for each who asks."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from gateway.asked_spark import AskedSpark
from gateway.health import check_health
from lake import Lake
from model.errors import Unavailable
from tests.waiting import eventually


class _Still:
    """A Spark whose answers wait."""

    starting = asleep = False

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.asked: list[str] = []
        self.problem: Exception | None = None

    def check(self) -> None:
        self.asked.append(threading.current_thread().name)
        assert self.goes_on.wait(60)
        if self.problem is not None:
            raise self.problem


@pytest.fixture
def spark() -> Iterator[_Still]:
    made = _Still()
    yield made
    made.goes_on.set()


def test_a_spark_that_does_not_answer_is_told_in_time_and_asked_once(lake: Lake, spark: _Still) -> None:
    asked = AskedSpark(spark, seconds=0.2)
    for _ in range(5):
        told = check_health(lake, asked).spark
        assert (told.ok, "has not answered for 0.2 s" in told.detail) == (False, True)
    assert spark.asked == ["sluice-health"]
    spark.goes_on.set()
    assert eventually(lambda: check_health(lake, asked).spark.ok)
    assert set(spark.asked) == {"sluice-health"}
    asked.close()
    assert asked._calls._thread is not None
    asked._calls._thread.join(60)
    assert not asked._calls._thread.is_alive()


def test_what_spark_says_is_told_each_time(spark: _Still) -> None:
    asked = AskedSpark(spark, seconds=60.0)
    spark.goes_on.set()
    for problem in (Unavailable("gone"), ValueError("a bug"), None):
        spark.problem = problem
        if problem is None:
            asked.check()
        else:
            with pytest.raises(type(problem), match=str(problem)):
                asked.check()
    asked.close()


def test_a_thread_that_could_not_be_started_is_started_by_the_next_who_asks(spark: _Still, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = AskedSpark(spark, seconds=60.0)
    spark.goes_on.set()

    start = threading.Thread.start

    def none_left(thread: threading.Thread) -> None:
        if thread.name == "sluice-health":  # others of this process start theirs
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as crowded:
        crowded.setattr(threading.Thread, "start", none_left)
        with pytest.raises(RuntimeError):
            asked.check()
    for _ in range(3):
        asked.check()
    assert set(spark.asked) == {"sluice-health"}
    asked.close()
