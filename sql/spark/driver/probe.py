"""Whether Spark still runs jobs: a small one is run where none has succeeded lately."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from model.errors import Unavailable

_log = logging.getLogger(__name__)
DAMAGED = re.compile(r"Illegal size -?\d+ of collection")
"""Scala's word for a collection whose count is not what it holds, as when two threads changed it at once: every job that has it fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePatience:
    """Seconds."""

    lately: float = 60.0
    """A success is news for so long."""
    told: float = 30.0
    """A small job that waits so long although no task runs tells that Spark is broken."""
    restart: float = 60.0
    """After so long Spark is started anew."""


class JobProbe:
    """Runs a small job on a thread of its own, which costs the JVM one thread; whoever asks never waits for it."""

    def __init__(
        self,
        job: Callable[[], object],
        busy: Callable[[], bool],
        patience: ProbePatience | None = None,
        lacking: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._job = job
        self._busy = busy
        """Whether tasks run: a small job may have to wait for them."""
        self._lacking = lacking
        """What jobs wait for that a new start of Spark would not bring; None where there is nothing of the kind."""
        self._patience = patience or ProbePatience()
        self._lock = threading.Lock()
        self._succeeded = time.monotonic()
        self._idle_since: float | None = None
        """Since when the job waits while no task runs."""
        self._failure: str | None = None
        self._failing_since: float | None = None
        """Since when no small job has succeeded."""
        self._damaged = False
        """Whether a small job has met what only a new start mends."""
        self._running: Future[object] | None = None
        self._renewals = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sluice-probe")

    def succeeded(self) -> None:
        """Spark has just run something."""
        self._succeeded = time.monotonic()
        self._failure, self._failing_since, self._damaged = None, None, False

    def suspect(self) -> None:
        """Begin a small job whatever has succeeded lately."""
        with self._lock:
            if self._running is None:
                self._running = self._thread.submit(self._run, self._renewals)

    def check(self) -> None:
        """Raise `Unavailable` where Spark runs no jobs any more; begin a small job where nobody knows."""
        with self._lock:
            if self._running is None and (self._failure is not None or time.monotonic() - self._succeeded > self._patience.lately):
                self._running = self._thread.submit(self._run, self._renewals)
        stuck = self.stuck_for()
        if self._failure is not None:
            raise Unavailable(f"Spark answers but runs no jobs: {self._failure}")
        if stuck > self._patience.told:
            if (lacking := self._lacking()) is not None:
                raise Unavailable(f"Spark runs no jobs: for {stuck:.0f} s it has waited for {lacking}.")
            raise Unavailable(
                f"Spark answers, but a small job has waited {stuck:.0f} s for it while no task runs; it is started anew soon."
            )

    def hopeless(self) -> bool:
        """Whether nothing but a new start of Spark helps."""
        if self._damaged:
            return True
        failing = 0.0 if self._failing_since is None else time.monotonic() - self._failing_since
        return max(self.stuck_for(), failing) > self._patience.restart and self._lacking() is None

    def stuck_for(self) -> float:
        """For how many seconds a small job has waited for a Spark that does nothing else."""
        if self._running is None or self._busy():
            self._idle_since = None
            return 0.0
        now = time.monotonic()
        if self._idle_since is None:
            self._idle_since = now
        return now - self._idle_since

    def renewed(self) -> None:
        """Spark was started anew."""
        with self._lock:
            self._running, self._idle_since = None, None
            self._renewals += 1
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="sluice-probe")
        self.succeeded()

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _run(self, renewals: int) -> None:
        failure, damaged = None, False
        try:
            self._job()
        except Exception as problem:  # whatever Spark says, the small job had nothing wrong in it
            failure, damaged = type(problem).__name__, DAMAGED.search(str(problem)) is not None
            _log.warning("Spark does not run a small job", exc_info=True)
        with self._lock:
            if renewals != self._renewals:
                return  # it was a Spark that is gone
            self._running, self._idle_since = None, None
            if failure is None:
                self.succeeded()
                return
            self._failure, self._damaged = failure, damaged
            self._failing_since = self._failing_since or time.monotonic()
