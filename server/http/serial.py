"""Short jobs one after another: threads that compete for the interpreter's lock do a thousand of them slower than one thread alone."""

from __future__ import annotations

import logging
import threading

from model.work.fair_queue import FairQueue
from server.http.workers import IDLE_SECONDS, Job, Work

_log = logging.getLogger(__name__)
_STUCK_SECONDS = 0.025
"""Where jobs wait and none was begun for so long, another thread helps: the ones at work read a file, or wait for Postgres."""


class SerialWorkers:
    """One thread as long as it gets on, and up to so many while jobs take long.

    Jobs begin in fair turns among their owners, those of one in the order they came.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._lock = threading.Lock()
        self._called_for = threading.Condition(self._lock)
        """Where threads wait that have nothing to do."""
        self._moved = threading.Condition(self._lock)
        """Where the one waits that watches."""
        self._jobs = FairQueue[Work](threads=most)
        self._alive = self._idle = self._at_work = self._made = 0
        self._begun = 0
        """Jobs begun so far: while that does not grow, those at work are stuck."""
        self._watched = self._called = False
        """Whether a thread watches or is about to; whether it was called and has not come yet."""

    def submit(self, job: Job, owner: str | None = None) -> None:
        """Run a job soon; never blocks."""
        with self._lock:
            self._jobs.push(Work(job, owner))
            if not self._watched:
                self._call_one()
            elif not self._at_work:
                self._moved.notify()

    def counts(self) -> dict[str, float]:
        """Threads at work, threads without, and jobs that wait."""
        with self._lock:
            return {"busy": self._at_work, "idle": self._alive - self._at_work, "waiting": len(self._jobs)}

    def _call_one(self) -> None:
        """Under the lock: let one more thread watch, where there may be one."""
        if not self._idle:
            if self._alive >= self._most:
                return
            self._made += 1
            try:
                threading.Thread(target=self._run, name=f"{self._name}-{self._made}", daemon=True).start()
            except RuntimeError:  # the machine has no thread left; those that are there do it
                _log.exception("No thread could be started")
                return
            self._alive += 1
        self._watched = self._called = True
        self._called_for.notify()

    def _run(self) -> None:
        while (work := self._first()) is not None:
            while work is not None:
                try:
                    work.job()
                except Exception:  # a job answers for itself; what still comes here is a bug of its own
                    _log.exception("A job of the HTTP server failed")
                work = self._next(work)

    def _first(self) -> Work | None:
        """Wait until a job is for this thread; None where it was not called for so long that it ends."""
        with self._lock:
            while True:
                while not self._called:
                    self._idle += 1
                    called = self._called_for.wait(IDLE_SECONDS)
                    self._idle -= 1
                    if not called and not self._called:
                        self._alive -= 1
                        return None
                self._called = False
                while self._jobs and self._at_work:
                    begun = self._begun
                    if not self._moved.wait(_STUCK_SECONDS) and begun == self._begun:
                        break
                self._watched = False
                if self._jobs:
                    self._at_work += 1
                    return self._taken()

    def _next(self, done: Work) -> Work | None:
        """What a thread goes on with; None where no job waits."""
        with self._lock:
            self._jobs.done(done)
            if self._jobs:
                return self._taken()
            self._at_work -= 1
            return None

    def _taken(self) -> Work:
        """Under the lock: the job whose turn it is; others that wait are watched."""
        self._begun += 1
        work = self._jobs.pop()
        assert work is not None
        if self._jobs and not self._watched:
            self._call_one()
        return work
