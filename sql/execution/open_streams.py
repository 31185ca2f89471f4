"""Streaming queries on Spark that clients read: how many there may be, and the few threads that ask Spark about all of them."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Protocol

from model.errors import TooManyStatements
from model.work.fair_share import may_have_another

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0
_ENDERS = 4
"""Threads that end queries, each of which may have to wait for a micro-batch; a call into the JVM costs it a thread for each of ours."""


class SparkStream(Protocol):
    """A query as this module sees it."""

    @property
    def principal(self) -> str:
        """Whose it is."""
        ...

    def look(self) -> bool:
        """Ask Spark how it is, and tell its reader where it has ended; whether it has."""
        ...

    def end(self) -> None:
        """End it in Spark and free what it holds; may take long."""
        ...


class OpenStreams:
    """A place for each query until Spark has ended it. Readers and those that close results never wait for Spark here."""

    def __init__(self, most: int = 0, stopped: Callable[[str], None] = lambda _: None) -> None:
        """``stopped`` hears under which name Spark knows the tasks of a query that was stopped, which may go on."""
        self._most = most
        self.stopped = stopped
        self._lock = threading.Condition()
        self._places: Counter[str] = Counter()
        """How many each principal has."""
        self._watched: list[SparkStream] = []
        self._ending: deque[SparkStream] = deque()
        self._threads = 0
        self._looking = False

    def __len__(self) -> int:
        return self._places.total()

    def take(self, principal: str) -> None:
        """A place for one more of a principal; raises `TooManyStatements` where none is left for it."""
        with self._lock:
            own, taken = self._places[principal], len(self)
            if not may_have_another(own, taken, self._most):
                limit = f"SLUICE_SPARK_STREAMS = {self._most}"
                if taken >= self._most:
                    open_now = f"{taken} streaming queries on Spark are open on this server, as many as {limit} lets."
                else:
                    open_now = f"{own} streaming queries of {principal} on Spark are open; the rest of {limit} is for others."
                raise TooManyStatements(
                    f"{open_now} Close some or try again later; a SELECT of columns of one table that compares them with literals is "
                    "followed without Spark."
                )
            self._places[principal] += 1

    def give_back(self, principal: str) -> None:
        """A place of a query that never began, or has ended."""
        with self._lock:
            self._places[principal] -= 1
            if not self._places[principal]:
                del self._places[principal]
            self._lock.notify_all()

    def watch(self, stream: SparkStream) -> None:
        """Watch a query until it has ended by itself, or is to be ended."""
        with self._lock:
            self._watched.append(stream)
            if not self._looking:
                self._looking = True
                threading.Thread(target=self._look, name="sluice-spark-streams", daemon=True).start()
            self._lock.notify_all()

    def end(self, stream: SparkStream) -> None:
        """End a query soon, and give its place back when that is done; never blocks. Once for each."""
        with self._lock:
            if stream in self._watched:
                self._watched.remove(stream)
            self._ending.append(stream)
            if self._threads < _ENDERS:
                self._threads += 1
                name = f"sluice-spark-streams-end-{self._threads}"
                threading.Thread(target=self._end, name=name, daemon=True).start()
            self._lock.notify_all()

    def wait_for_none(self, seconds: float = 5.0) -> bool:
        """Whether all have ended in time."""
        until = time.monotonic() + seconds
        with self._lock:
            while len(self):
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._lock.wait(left)
        return True

    def _look(self) -> None:
        while True:
            with self._lock:
                while not self._watched:
                    self._lock.wait()
                watched = list(self._watched)
            ended = [stream for stream in watched if self._has_ended(stream)]
            with self._lock:
                self._watched = [stream for stream in self._watched if stream not in ended]
            time.sleep(_LOOK_SECONDS)

    @staticmethod
    def _has_ended(stream: SparkStream) -> bool:
        try:
            return stream.look()
        except Exception:  # it tells its reader itself; what still comes here is a bug of its own
            _log.exception("A streaming query could not be looked at")
            return True

    def _end(self) -> None:
        while True:
            with self._lock:
                while not self._ending:
                    self._lock.wait()
                stream = self._ending.popleft()
            try:
                stream.end()
            except Exception:
                _log.exception("What a streaming query held could not be freed")
            principal = stream.principal
            del stream  # an idle thread must not hold what it ended last
            self.give_back(principal)
