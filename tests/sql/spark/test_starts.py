"""Whoever waits for Spark waits for the start that is under way, whatever became of an earlier one."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from model.errors import Unavailable
from sql.spark.session.pool import SparkPool
from sql.spark.session.settings import SparkSettings


class _Root:
    """A Spark session, as far as the pool ends it."""

    def stop(self) -> None: ...


class _Pool(SparkPool):
    """A pool whose starts and small jobs go on when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = [threading.Event() for _ in range(3)]
        self.may_start = [threading.Event() for _ in range(3)]
        self.job_begun, self.job_ends = threading.Event(), threading.Event()
        self.attempts = 0

    def _start(self) -> None:
        number, self.attempts = self.attempts, self.attempts + 1
        self.begun[number].set()
        assert self.may_start[number].wait(60)
        self._root: Any = _Root()

    def _small_job(self) -> None:
        if self.attempts == 1:
            self.job_begun.set()
            assert self.job_ends.wait(60)
            raise ConnectionError("its JVM was ended")

    def _end_jvm(self, root: Any, *, stuck: bool = False) -> None: ...


def test_a_start_whose_spark_was_ended_does_not_tell_of_the_next_one() -> None:
    pool = _Pool()
    threads = threading.enumerate()
    pool.may_start[0].set()
    pool.start_in_background()
    assert pool.job_begun.wait(60)
    (first,) = [thread for thread in threading.enumerate() if thread not in threads and thread.name == "spark-start"]
    pool._renew(pool._root, "stuck")  # while the small job of the first start runs
    assert pool.begun[1].wait(60)
    pool.job_ends.set()
    first.join(60)
    assert not first.is_alive()
    answers: list[object] = []

    def ask() -> None:
        try:
            answers.append(pool.root())
        except Unavailable as problem:
            answers.append(problem)

    asking = threading.Thread(target=ask)
    asking.start()
    assert pool.starting
    pool.may_start[1].set()
    asking.join(60)
    assert answers == [pool._root]
    assert pool.attempts == 2
    pool.stop()


def test_a_start_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sql.spark.session.pool._FIRST_PAUSE", 0.01)
    pool = _Pool()
    monkeypatch.setattr(pool, "_start", lambda: (_ for _ in ()).throw(OSError("no disk")))
    pool.start_in_background()
    with pytest.raises(Unavailable, match="Spark did not start, which is tried again: OSError"):
        pool.root()
    pool.stop()


def test_who_stops_ends_a_jvm_that_was_still_being_launched(tmp_path: Path) -> None:
    """Its directory among its words is all that is known of it; one that cannot write where it listens would live forever."""
    pool = SparkPool(SparkSettings(directory=tmp_path))
    launched = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", f"-Djava.io.tmpdir={pool._scratch.path}"])
    try:
        pool.stop()
        assert launched.wait(60) < 0
    finally:
        launched.kill()
        launched.wait()
