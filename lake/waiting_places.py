"""How many requests may hold a thread, as while they wait for something to happen, and how many of them may be one principal's."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class WaitingPlaces:
    """Places for waiting requests; of one principal half of them, so that nobody waits alone and other requests find threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def place(self, principal: str, most: int) -> Iterator[bool]:
        """Whether a request of a principal may wait where so many may; its place is taken as long as the block lasts."""
        give_back = self.take(principal, most, most // 2)
        try:
            yield give_back is not None
        finally:
            if give_back is not None:
                give_back()

    def take(self, principal: str, most: int, of_one: int) -> Callable[[], None] | None:
        """A place of so many, of which one principal may have ``of_one``; returns what gives it back, None where none is free."""
        with self._lock:
            if self._taken[principal] >= max(1, of_one) or self._taken.total() >= max(1, most):
                return None
            self._taken[principal] += 1
        return lambda: self._give_back(principal)

    def _give_back(self, principal: str) -> None:
        with self._lock:
            self._taken[principal] -= 1
            if not self._taken[principal]:
                del self._taken[principal]
