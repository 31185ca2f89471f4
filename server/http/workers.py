"""Threads that run what may block: the one that worked last works next, and those nobody needs for a while end."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

_log = logging.getLogger(__name__)
IDLE_SECONDS = 30.0
"""A thread that had no work for so long ends; the same few serve a steady load, and a crowd of requests leaves none behind."""
Job = Callable[[], None]


class Workers:
    """At most so many threads; further jobs wait for one in the order they came."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._waiting: deque[Job] = deque()
        self._alive = 0
        self._made = 0

    def submit(self, job: Job) -> None:
        """Run a job soon; never blocks."""
        with self._lock:
            if self._idle:
                self._idle.pop().give(job)
                return
            if self._alive >= self._most:
                self._waiting.append(job)
                return
            self._alive += 1
            self._made += 1
            number = self._made
        worker = _Worker(self, job)
        try:
            threading.Thread(target=worker.run, name=f"{self._name}-{number}", daemon=True).start()
        except RuntimeError:  # the machine has no thread left; those that are there do it
            with self._lock:
                self._alive -= 1
                self._waiting.append(job)
            _log.exception("No thread could be started")

    def counts(self) -> dict[str, float]:
        """Threads at work, threads without, and jobs that wait."""
        with self._lock:
            return {"busy": self._alive - len(self._idle), "idle": len(self._idle), "waiting": len(self._waiting)}

    def next_job(self, worker: _Worker) -> Job | None:
        """What a worker does next; None where it waits to be given something."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._idle.append(worker)
            return None

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

    def __init__(self, workers: Workers, job: Job) -> None:
        self._workers = workers
        self._job: Job | None = job
        self._given = threading.Semaphore(0)

    def give(self, job: Job) -> None:
        """Wake it for a job."""
        self._job = job
        self._given.release()

    def run(self) -> None:
        """Work until nothing came for a while."""
        while True:
            job, self._job = self._job, None
            assert job is not None
            try:
                job()
            except Exception:  # a job answers for itself; what still comes here is a bug of its own
                _log.exception("A job of the HTTP server failed")
            job = self._workers.next_job(self)
            if job is not None:
                self._job = job
                continue
            while not self._given.acquire(timeout=IDLE_SECONDS):
                if self._workers.let_go(self):
                    return
