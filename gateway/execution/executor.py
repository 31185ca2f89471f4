"""Threads for statements: a fixed number of them, in two lanes, with bounded queues.

Fixed, because every Python thread that talked to Spark leaves a JVM thread behind (`gateway.md` 0.8). Two lanes, so
that what needs no Spark never waits behind what does: work starts in the local lane and asks to go on in the other.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextvars import Context
from dataclasses import dataclass
from enum import StrEnum

from gateway.execution.statement_queue import StatementQueue
from model.errors import TooManyStatements, Unavailable
from model.work.quota import QUEUED, RUNNING
from table.format.io.patience import STORE_SECONDS, patient_for

_log = logging.getLogger(__name__)


class Lane(StrEnum):
    """Where a piece of work runs."""

    LOCAL = "local"
    SPARK = "spark"


_KEPT_FOR_NEWCOMERS = 8
"""One of so many local threads is for principals that run nothing there."""
_KEPT_LOCAL = 4
"""One of so many local threads is kept from each principal, for others."""
Steps = Generator[Lane, None, None]
"""A statement's work. It yields the lane it wants to go on in and is resumed there, or is thrown `TooManyStatements`
where that lane's queue is full. It is closed where it was abandoned. Other errors it lets out are bugs."""


class Chain:
    """Works that run one after another, in the order they came: the statements of one session."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.waiting: deque[Work] = deque()
        self.busy: Work | None = None


class Work:
    """One statement's steps on their way through the lanes."""

    def __init__(self, steps: Steps, chain: Chain | None, context: Context, owner: str | None) -> None:
        self.steps = steps
        self.context = context
        self.chain = chain
        self.owner = owner
        """The principal whose turn it takes; None for the server's own."""
        self.abandoned = False
        self.lane: Lane | None = None
        """Where it runs now."""
        self.given_up = False
        """Whether its thread was replaced because it does not come back."""


class _Queue:
    """A lane's waiting works."""

    def __init__(self, lock: threading.Lock, works: StatementQueue[Work]) -> None:
        self.works = works
        self.filled = threading.Condition(lock)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementLimits:
    """How many statements of one principal may run on Spark, and wait for it, at once; None is no limit."""

    running: int | None = None
    queued: int | None = None


def _no_limits(_: str) -> StatementLimits:
    return StatementLimits()


class Executor:
    """Runs statements; ``queue_limit`` bounds how many may wait for Spark, ``local_queue_limit`` in the local lane, ``chain_limit`` in each
    session.

    ``kept_threads`` are Spark threads beyond the others, for principals that run nothing there.
    """

    def __init__(  # noqa: PLR0913 - a number for each kind of thread and of queue
        self,
        *,
        local_threads: int = 32,
        spark_threads: int = 4,
        kept_threads: int = 0,
        queue_limit: int = 256,
        local_queue_limit: int = 256,
        chain_limit: int = 64,
        store_seconds: float = STORE_SECONDS,
        limits: Callable[[str], StatementLimits] = _no_limits,
    ) -> None:
        # Long statements of one principal leave threads to the short ones of others.
        most_local = max(1, local_threads - max(1, local_threads // _KEPT_LOCAL))
        local_places = local_threads - local_threads // _KEPT_FOR_NEWCOMERS
        local_works = StatementQueue[Work](
            local_queue_limit,
            threads=local_threads,
            running_limit=lambda _: most_local,
            places=local_places,
            lent_limit=most_local // 2,  # every statement begins here, and what hangs in a dead mount never ends
        )
        spark_works = StatementQueue[Work](
            queue_limit, threads=spark_threads + kept_threads, running_limit=lambda owner: limits(owner).running, places=spark_threads
        )
        self._limits = limits
        self._store_seconds = store_seconds
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._queues = {
            Lane.LOCAL: _Queue(self._lock, local_works),
            Lane.SPARK: _Queue(self._lock, spark_works),
        }
        self._stuck = 0
        self._chain_limit = chain_limit
        self._unfinished = 0
        self._draining = False
        self._closed = False
        self._threads: list[threading.Thread] = []
        for lane, count in ((Lane.LOCAL, local_threads), (Lane.SPARK, spark_threads + kept_threads)):
            for _ in range(count):
                self._start(lane)

    def queued(self) -> dict[str, int]:
        """Works that wait for a thread, by lane."""
        with self._lock:
            return {lane.value: len(queue.works) for lane, queue in self._queues.items()}

    def usage(self) -> dict[tuple[str, str], int]:
        """How many statements of each principal run on Spark and wait for it, by (principal, quota)."""
        with self._lock:
            works = self._queues[Lane.SPARK].works
            counted = ((RUNNING, works.running()), (QUEUED, works.waiting()))
        return {(owner, quota): count for quota, counts in counted for owner, count in counts.items() if owner is not None}

    def wake(self) -> None:
        """Look again which work may run: a principal's limit may have changed."""
        with self._lock:
            self._queues[Lane.SPARK].filled.notify_all()

    def chain(self) -> Chain:
        """An order of its own, for one session."""
        return Chain(self._chain_limit)

    def submit(self, steps: Steps, *, chain: Chain | None = None, context: Context | None = None, owner: str | None = None) -> Work:
        """Take work in, to be done in a context of its own; raises `TooManyStatements`, and `Unavailable` while draining."""
        work = Work(steps, chain, context or Context(), owner)
        with self._lock:
            self._check_open()
            if chain is not None and chain.busy is not None:
                if len(chain.waiting) >= chain.limit:
                    raise TooManyStatements(f"{chain.limit} statements already wait in this session; read some results first.")
                chain.waiting.append(work)
            else:
                self._check_place(work, Lane.LOCAL)
                self._push(work, Lane.LOCAL)
                if chain is not None:
                    chain.busy = work
            self._unfinished += 1
        return work

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Count work done on a thread of the caller's, so that draining waits for it, and give it one budget of time for object stores.

        Raises `Unavailable` while draining.
        """
        with self._lock:
            self._check_open()
            self._unfinished += 1
        try:
            with patient_for(self._store_seconds):
                yield
        finally:
            with self._lock:
                self._count_off()

    def abandon(self, work: Work) -> None:
        """Nobody waits for this work any more: its place in a queue and in its session is free at once."""
        with self._lock:
            if work.abandoned:
                return
            work.abandoned = True
            if work.chain is not None and work in work.chain.waiting:
                work.chain.waiting.remove(work)
                self._count_off()
                return
            for queue in self._queues.values():
                if work in queue.works:
                    queue.works.remove(work)
                    work.owner = None  # it is the server's own now, and waits for none of its principal's
                    self._push(work, Lane.LOCAL)  # some thread has to close it; it must not wait for Spark's
            self._next_of(work)

    def waiting(self, lane: Lane) -> int:
        """How many works wait in a lane."""
        return len(self._queues[lane].works)

    def drain(self, seconds: float) -> bool:
        """Refuse new work and wait for the rest; False where some was left when the time was over."""
        until = time.monotonic() + seconds
        with self._lock:
            self._draining = True
            while self._unfinished:
                left = until - time.monotonic()
                if left <= 0:
                    return False
                self._idle.wait(left)
        return True

    def close(self, seconds: float = 5.0) -> None:
        """Stop the threads; those still busy after so long are left to end with the process."""
        until = time.monotonic() + seconds
        with self._lock:
            self._draining = self._closed = True
            for queue in self._queues.values():
                queue.filled.notify_all()
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _serve(self, lane: Lane) -> None:
        queue = self._queues[lane]
        while True:
            with self._lock:
                while (work := queue.works.pop()) is None:
                    if self._closed:
                        return
                    queue.filled.wait()
                work.lane = lane
            self._advance(work, lane)
            if work.given_up:  # another thread has its place
                return
            del work  # an idle thread must not hold what it did last

    def _advance(self, work: Work, lane: Lane) -> None:
        """Run steps until they end or want to go on elsewhere."""
        try:
            wanted = lane
            while wanted is lane:
                if work.abandoned:
                    work.context.run(work.steps.close)
                    break
                wanted = work.context.run(next, work.steps)
                if work.abandoned:  # it goes on nowhere, least of all on a thread that would end with it
                    wanted = lane
                if wanted is not lane and self._move(work, wanted):
                    return
        except StopIteration:
            pass
        except Exception:  # steps answer their client themselves; what still comes here is a bug of theirs
            _log.exception("A statement's steps let an error out")
        with self._lock:
            if work.given_up:
                self._stuck -= 1
                self._queues[lane].works.take_back(work)
                self._leave(work)
            else:
                self._leave(work)
                self._next_of(work)
                self._count_off()

    def give_up(self, work: Work, *, to_others: bool = False) -> bool:
        """The work was abandoned and its thread does not come back: another one takes its place; False where it has come back.

        ``to_others``: not for works of its own principal, as what it still does there takes a core from all.

        It counts among its principal's works until it ends: what it does there costs the others. In the local lane such works count for
        half of what a principal may run at most, and its next ones run beside them.
        """
        with self._lock:
            if work.lane is None or work.given_up or not work.abandoned:
                return False
            if not self._closed:
                self._start(work.lane)  # first: where the system gives no thread the place is not lost, and it is tried again
            work.given_up = True
            self._stuck += 1
            queue = self._queues[work.lane]
            queue.works.lend(work, to_others=to_others)
            queue.filled.notify()
            self._next_of(work)
            self._count_off()
        return True

    def stuck(self) -> int:
        """How many threads hang in works that were given up."""
        return self._stuck

    def _start(self, lane: Lane) -> None:
        thread = threading.Thread(target=self._serve, args=(lane,), name=f"sluice-{lane}-{len(self._threads)}", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _leave(self, work: Work) -> None:
        """The work runs no more in its lane; another one of its owner's may."""
        if work.lane is not None:
            queue = self._queues[work.lane]
            queue.works.done(work)
            queue.filled.notify()
            work.lane = None

    def _move(self, work: Work, lane: Lane) -> bool:
        """Queue the work in another lane; False where that is full and the steps have been told so."""
        try:
            with self._lock:
                self._check_place(work, lane)
                self._leave(work)
                self._push(work, lane)
        except TooManyStatements as full:
            work.context.run(work.steps.throw, full)
            return False
        return True

    def _check_open(self) -> None:
        if self._draining:
            raise Unavailable("The server is stopping and takes no more statements.")

    def _check_place(self, work: Work, lane: Lane) -> None:
        queued = self._limits(work.owner).queued if lane is Lane.SPARK and work.owner is not None else None
        self._queues[lane].works.check_place(work.owner, queued)

    def _push(self, work: Work, lane: Lane) -> None:
        queue = self._queues[lane]
        queue.works.push(work)
        queue.filled.notify()

    def _next_of(self, work: Work) -> None:
        """Let the session's next statement run where this one was its turn."""
        chain = work.chain
        if chain is None or chain.busy is not work:
            return
        chain.busy = chain.waiting.popleft() if chain.waiting else None
        if chain.busy is not None:
            self._push(chain.busy, Lane.LOCAL)

    def _count_off(self) -> None:
        self._unfinished -= 1
        if not self._unfinished:
            self._idle.notify_all()
