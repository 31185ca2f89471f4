"""A Spark that nobody uses yet: made when the one that runs may have to be ended, so that the next start takes a second."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from sql.spark.driver.jvm import Jvm

_log = logging.getLogger(__name__)
_KEPT_SECONDS = 300.0
"""One that was not needed for so long is ended: it holds some 400 MB."""


@dataclass(frozen=True, slots=True)
class StartedJvm:
    """A JVM, and the context in it where one was made there already."""

    java: Jvm
    context: Any = None


class Standby:
    """At most one Spark ahead of the next start."""

    def __init__(self, make: Callable[[], StartedJvm]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: Future[StartedJvm] | None = None
        self._since = 0.0
        self._closed = False

    def prepare(self) -> None:
        """Begin to make one where there is none; returns at once."""
        with self._lock:
            self._since = time.monotonic()
            if self._made is not None or self._closed:
                return
            made: Future[StartedJvm] = Future()
            self._made = made
        _log.info("Another JVM for Spark is made ready: the one that runs may have to be ended")
        threading.Thread(target=self._run, args=(made,), name="spark-standby", daemon=True).start()

    def take(self) -> StartedJvm | None:
        """The one that was made, waiting for one that is being made; None where there is none that can be used."""
        with self._lock:
            made, self._made = self._made, None
        if made is None:
            return None
        try:
            started = made.result()
        except Exception:  # told by the thread that made it
            return None
        if not started.java.lives():
            started.java.end()
            return None
        return started

    def expire(self, seconds: float = _KEPT_SECONDS) -> None:
        """End one that nobody needed for so long; returns at once."""
        with self._lock:
            if self._made is None or not self._made.done() or time.monotonic() - self._since <= seconds:
                return
            made, self._made = self._made, None
        threading.Thread(target=_end, args=(made,), name="spark-standby", daemon=True).start()

    def close(self) -> None:
        """Make none any more, and end the one there is."""
        with self._lock:
            self._closed = True
            made, self._made = self._made, None
        if made is not None:
            made.add_done_callback(_end)  # a stop does not wait for a start; the JVM ends with this process at the latest

    def _run(self, made: Future[StartedJvm]) -> None:
        try:
            started = self._make()
        except BaseException as problem:  # the next start launches one itself, and says what is wrong
            _log.warning("No JVM could be made ready for Spark: %s", type(problem).__name__)
            made.set_exception(problem)
            with self._lock:
                if self._made is made:
                    self._made = None
        else:
            made.set_result(started)


def _end(made: Future[StartedJvm]) -> None:
    with contextlib.suppress(Exception):
        started = made.result()
        started.java.kill()
        started.java.end()
