"""Whoever waits for Spark waits for the start that is under way, whatever became of an earlier one."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from model.errors import Unavailable
from sql.spark.driver.start_failure import length_of, why_not_started
from sql.spark.session.pool import SparkPool
from sql.spark.session.settings import SparkSettings
from tests.waiting import eventually


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


_WORDS = """\
26/11/30 04:03:36 WARN StandaloneAppClient$ClientEndpoint: Failed to connect to master 127.0.0.1:9
org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.ThreadUtils$.awaitResult(ThreadUtils.scala:310)
Caused by: java.io.IOException: Failed to connect to /127.0.0.1:9
\tat org.apache.spark.network.client.TransportClientFactory.createClient(TransportClientFactory.java:294)
Caused by: io.netty.channel.AbstractChannel$AnnotatedConnectException: finishConnect(..) failed: Connection refused: /127.0.0.1:9
26/11/30 04:04:36 ERROR StandaloneSchedulerBackend: Application has been killed. Reason: All masters are unresponsive! Giving up.
"""


def test_a_master_that_is_away_is_told_with_its_time_and_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the second attempt on it was "Py4JJavaError", and since when was told of the first alone."""
    monkeypatch.setattr("sql.spark.session.pool._FIRST_PAUSE", 0.01)
    log = tmp_path / "logs/spark.log"
    log.parent.mkdir()
    log.write_text("Caused by: an.earlier.Exception: of another start\n")
    pool = SparkPool(SparkSettings(master="spark://127.0.0.1:9", directory=tmp_path, log=log))
    tried = []

    def fail() -> None:
        tried.append(log.stat().st_size)
        with log.open("a") as words:
            words.write(_WORDS)
        raise RuntimeError("<exception str() failed>")

    monkeypatch.setattr(pool, "_start", fail)
    pool._since -= 100
    pool.start_in_background()
    assert eventually(lambda: len(tried) >= 3)
    for ask in (pool.root, pool.ping):
        with pytest.raises(Unavailable) as told:
            ask()
        for words in ("at spark://127.0.0.1:9 for 1", " s, which is tried again: AnnotatedConnectException: ", "Connection refused: /127"):
            assert words in told.value.message
    pool.stop()


@pytest.mark.parametrize(
    ("problem", "words", "told"),
    [
        (RuntimeError(), "26/11/30 04:04:36 ERROR Backend: Killed. Giving up.\n", "Killed. Giving up"),
        (RuntimeError(), "nothing of use\n", "RuntimeError"),
        (OSError(), _WORDS, "OSError"),
    ],
)
def test_what_the_log_does_not_tell_is_told_by_its_kind(tmp_path: Path, problem: Exception, words: str, told: str) -> None:
    log = tmp_path / "spark.log"
    assert why_not_started(problem, log, length_of(log)) == type(problem).__name__
    log.write_text(words)
    assert why_not_started(problem, log, 0) == told
    assert why_not_started(problem, log, 10_000_000) == told, "a log that was begun anew"
    assert why_not_started(problem, log, length_of(log)) == type(problem).__name__


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
