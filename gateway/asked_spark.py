"""Spark as health asks it: a JVM that stands still answers nobody, and no call into it ends."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from typing import Protocol

from model.errors import Unavailable
from sql.execution.bounded_calls import BoundedCalls

ANSWER_SECONDS = 10.0


class Checkable(Protocol):
    """Spark as health looks at it."""

    @property
    def starting(self) -> bool: ...
    @property
    def asleep(self) -> bool: ...
    def check(self) -> None: ...


class AskedSpark:
    """Asks on one thread of its own, since each costs the JVM one; all who ask meanwhile get the same answer."""

    def __init__(self, spark: Checkable, *, seconds: float = ANSWER_SECONDS) -> None:
        self._spark = spark
        self._seconds = seconds
        self._lock = threading.Lock()
        self._calls = BoundedCalls("sluice-health", seconds=seconds)
        self._answer: Future[None] | None = None

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
            if self._answer is None or self._answer.done():
                self._answer = self._calls.begin(self._spark.check)
            answer = self._answer
        wait([answer], self._seconds)
        if not answer.done():
            raise Unavailable(f"Spark has not answered for {self._seconds:g} s: its JVM stands still, or has no memory left.")
        answer.result()

    def close(self) -> None:
        """Ask no more; returns at once, for a thread that asks may never come back."""
        self._calls.close()
