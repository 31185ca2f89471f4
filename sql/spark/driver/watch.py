"""A JVM that answers nobody is killed: one that stands still, or that ran out of memory and takes minutes to die."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from model.errors import Unavailable
from sql.execution.bounded_calls import BoundedCalls

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0
_AGAIN_SECONDS = 5.0
_SOON_SECONDS = 10.0
"""So long one that ran out of memory, or is to end, has to answer."""
_TOLD_SECONDS, _TOLD_PART = 30.0, 0.75
"""After so long without an answer, or this part of the limit, statements are refused at once: a collection of garbage takes less."""


class WatchedJvm(Protocol):
    """What is watched; `sql.spark.driver.jvm` has the real one."""

    def lives(self) -> bool: ...
    def ran_out_of_memory(self) -> bool: ...
    def answer(self) -> object: ...
    def kill(self) -> None: ...


class JvmWatch:
    """Asks a JVM as long as it lives, on one thread, and kills it where it does not answer within ``limit`` seconds.

    ``lost`` has Spark started anew where the JVM has ended. One that ran out of memory is asked by it, which also sees what else of Spark
    is broken, and ``prepare`` is called once for it.
    """

    def __init__(self, java: WatchedJvm, *, limit: float, lost: Callable[[], None], prepare: Callable[[], None]) -> None:
        self._java = java
        self._limit = limit
        self._lost = lost
        self._prepare = prepare
        self._prepared = False
        self._ends = False
        self._asking = BoundedCalls("spark-answer", seconds=limit)
        self._answer: Future[object] | None = None
        self._looks_to_next = 0
        self.silent = 0.0
        """For so many seconds it has not answered. They are counted by looks: where this process stands still, too, or gets no
        processor, the JVM cannot be blamed."""

    def start(self) -> None:
        """Begin; the thread ends with the JVM."""
        threading.Thread(target=self._run, name="spark-watch", daemon=True).start()

    def require(self) -> None:
        """Raise `Unavailable` where it has not answered for so long that nobody should wait for it."""
        if self.silent > min(_TOLD_SECONDS, _TOLD_PART * self._limit):
            raise Unavailable(
                f"Spark has not answered for {self.silent:.0f} s: its JVM stands still, or has no memory left. It is started anew after "
                f"{self._limit:g} s (SLUICE_SPARK_STANDSTILL_SECONDS) unless it answers."
            )

    def hurry(self) -> None:
        """It is to end, and somebody waits until it has: one that stands still is killed after seconds, for nothing is lost with it."""
        self._ends = True

    def answers(self) -> bool:
        """Whether it has answered just now."""
        return self.silent <= _AGAIN_SECONDS

    def _run(self) -> None:
        while self._java.lives():
            try:
                self.look()
            except Exception:  # it is watched as long as it lives
                _log.exception("Spark's JVM could not be looked at")
            time.sleep(_LOOK_SECONDS)
        self._asking.close()

    def look(self) -> None:
        """Look once; each look stands for a second."""
        is_short = self._java.ran_out_of_memory()
        if is_short and not self._prepared:
            self._prepared = True
            self._prepare()
        if self._answer is None or self._answer.done():
            self.silent = 0.0
            self._looks_to_next -= 1
            if self._looks_to_next <= 0 or self._ends:
                self._answer = self._asking.begin(self._lost if is_short else self._java.answer)
                self._looks_to_next = round(_AGAIN_SECONDS / _LOOK_SECONDS)
            return
        self.silent += _LOOK_SECONDS
        if self.silent >= (min(_SOON_SECONDS, self._limit) if is_short or self._ends else self._limit):
            why = "ran out of memory and" if is_short else "stands still: it"
            _log.error("Spark's JVM %s has not answered for %.0f s; it is killed", why, self.silent)
            self._java.kill()
            self._lost()
