"""Threads that run what may block: the one that worked last works next, and those nobody needs for a while end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from model.work.fair_queue import FairQueue

_log = logging.getLogger(__name__)
IDLE_SECONDS = 30.0
"""A thread that had no work for so long ends; the same few serve a steady load, and a crowd of requests leaves none behind."""
Job = Callable[[], None]


@dataclass(slots=True, eq=False)
class Work:
    """A job, and whose it is."""

    job: Job
    owner: str | None


class Workers:
    """At most so many threads; further jobs wait for one in fair turns among their owners, of one owner in the order they came."""

    def __init__(self, most: int, name: str, *, of_one: int | None = None, kept: int = 0) -> None:
        """``of_one`` threads may work for one owner at once; the last ``kept`` of all only for owners that have none."""
        self._most = most
        self._name = name
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._waiting = FairQueue[Work](threads=most, running_limit=lambda _: of_one, places=most - kept if kept else None)
        self._alive = 0
        self._made = 0

    def submit(self, job: Job, owner: str | None = None) -> None:
        """Run a job soon; never blocks."""
        with self._lock:
            self._waiting.push(Work(job, owner))
            if not self._idle and self._alive >= self._most:
                return
            work = self._waiting.pop()
            if work is None:
                return
            if self._idle:
                self._idle.pop().give(work)
                return
            self._alive += 1
            self._made += 1
            number = self._made
        worker = _Worker(self, work)
        try:
            threading.Thread(target=worker.run, name=f"{self._name}-{number}", daemon=True).start()
        except RuntimeError:  # the machine has no thread left; those that are there do it
            with self._lock:
                self._alive -= 1
                self._waiting.done(work)
                self._waiting.push(work)
            _log.exception("No thread could be started")

    def counts(self) -> dict[str, float]:
        """Threads at work, threads without, and jobs that wait."""
        with self._lock:
            return {"busy": self._alive - len(self._idle), "idle": len(self._idle), "waiting": len(self._waiting)}

    def next_work(self, worker: _Worker, done: Work) -> Work | None:
        """What a worker does after its last work; None where it waits to be given something."""
        with self._lock:
            self._waiting.done(done)
            work = self._waiting.pop()
            if work is None:
                self._idle.append(worker)
            return work

    def let_go(self, worker: _Worker) -> bool:
        """Whether a worker that waited in vain may end; False where it was given a job at that moment."""
        with self._lock:
            if worker not in self._idle:
                return False
            self._idle.remove(worker)
            self._alive -= 1
            return True


class _Worker:
    """One thread's place among the others."""

    def __init__(self, workers: Workers, work: Work) -> None:
        self._workers = workers
        self._work: Work | None = work
        self._given = threading.Semaphore(0)

    def give(self, work: Work) -> None:
        """Wake it for a work."""
        self._work = work
        self._given.release()

    def run(self) -> None:
        """Work until nothing came for a while."""
        while True:
            work, self._work = self._work, None
            assert work is not None
            try:
                work.job()
            except Exception:  # a job answers for itself; what still comes here is a bug of its own
                _log.exception("A job of the HTTP server failed")
            following = self._workers.next_work(self, work)
            del work  # an idle thread must not hold what it did last
            if following is not None:
                self._work = following
                continue
            while not self._given.acquire(timeout=IDLE_SECONDS):
                if self._workers.let_go(self):
                    return
