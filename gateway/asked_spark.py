"""Spark as health asks it: a JVM that stands still answers nobody, and no call into it ends."""

from __future__ import annotations

import threading
from typing import Protocol

from model.errors import Unavailable

ANSWER_SECONDS = 10.0


class Checkable(Protocol):
    """Spark as health looks at it."""

    @property
    def starting(self) -> bool: ...
    @property
    def asleep(self) -> bool: ...
    def check(self) -> None: ...


class _Answer:
    def __init__(self) -> None:
        self.came = threading.Event()
        self.problem: Exception | None = None


class AskedSpark:
    """Asks on one thread of its own, since each costs the JVM one; all who ask meanwhile get the same answer."""

    def __init__(self, spark: Checkable, *, seconds: float = ANSWER_SECONDS) -> None:
        self._spark = spark
        self._seconds = seconds
        self._lock = threading.Lock()
        self._asked = threading.Semaphore(0)
        self._answer = _Answer()
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def starting(self) -> bool:
        """Whether it takes no statements yet, and soon will."""
        return self._spark.starting

    @property
    def asleep(self) -> bool:
        """Whether it starts with the first statement."""
        return self._spark.asleep

    def check(self) -> None:
        """Raise `Unavailable` unless Spark answers in time and runs jobs."""
        with self._lock:
            is_first = self._thread is None
            if is_first:
                thread = threading.Thread(target=self._run, name="sluice-health", daemon=True)
                thread.start()  # where the machine has none to give, the next who asks tries again
                self._thread = thread
            if is_first or self._answer.came.is_set():
                self._answer = _Answer()
                self._asked.release()
            answer = self._answer
        if not answer.came.wait(self._seconds):
            raise Unavailable(f"Spark has not answered for {self._seconds:g} s: its JVM stands still, or has no memory left.")
        if answer.problem is not None:
            raise answer.problem

    def close(self) -> None:
        """Ask no more; returns at once, for a thread that asks may never come back."""
        self._closed = True
        self._asked.release()

    def _run(self) -> None:
        while True:
            self._asked.acquire()
            if self._closed:
                return
            answer = self._answer
            try:
                self._spark.check()
            except Exception as problem:  # whoever asked raises it
                answer.problem = problem
            answer.came.set()
