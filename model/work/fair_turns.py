"""Computations of which only so many run at once, in fair turns among principals."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from model.work.fair_queue import FairQueue


class _Waiter:
    """A thread that waits for its turn."""

    def __init__(self, owner: str | None) -> None:
        self.owner = owner
        self.has_turn = threading.Semaphore(0)


class FairTurns:
    """At most so many turns at once; the next one is of whoever has fewest, and among these of whoever had one longest ago."""

    def __init__(self, most: int) -> None:
        self._lock = threading.Lock()
        self._queue = FairQueue[_Waiter](threads=most)

    @contextmanager
    def turn(self, owner: str | None) -> Iterator[None]:
        """Wait for a turn, which lasts as long as the block: in it nothing is waited for."""
        waiter = _Waiter(owner)
        with self._lock:
            self._queue.push(waiter)
            self._let_in()
        waiter.has_turn.acquire()
        try:
            yield
        finally:
            with self._lock:
                self._queue.done(waiter)
                self._let_in()

    def _let_in(self) -> None:
        while (waiter := self._queue.pop()) is not None:
            waiter.has_turn.release()
