"""How many requests may hold a thread while they wait for something to happen, and how many of them may be one principal's."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class WaitingPlaces:
    """Places for waiting requests; of one principal half of them, so that nobody waits alone and other requests find threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def place(self, principal: str, most: int) -> Iterator[bool]:
        """Whether a request of a principal may wait where so many may; its place is taken as long as the block lasts."""
        with self._lock:
            may = self._taken[principal] < max(1, most // 2) and self._taken.total() < max(1, most)
            self._taken[principal] += may
        try:
            yield may
        finally:
            with self._lock:
                self._taken[principal] -= may
                if not self._taken[principal]:
                    del self._taken[principal]
