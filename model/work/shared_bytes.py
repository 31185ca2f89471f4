"""Bytes of a memory that all share, counted by whose they are."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable

from model.work.fair_share import most_of_one
from model.work.waiting import wait_for


class SharedBytes:
    """So many bytes of all principals together, and four fifths of them of one; from any thread."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._changed = threading.Condition()
        self._of: Counter[str] = Counter()
        self._waiting: defaultdict[str, deque[object]] = defaultdict(deque)

    def usage(self) -> dict[str, int]:
        """Bytes by principal."""
        with self._changed:
            return dict(self._of)

    def has_space(self, principal: str) -> bool:
        """Whether a principal could take a byte more now."""
        with self._changed:
            return self._fits(principal, 1, self.most)

    def take(self, principal: str, size: int, *, times: int = 1) -> bool:
        """Count so many bytes more of a principal, until `give`; False where there is no space for them.

        ``times``: there is so many times the space for what they are.
        """
        with self._changed:
            return self._take(principal, size, self.most * times)

    def wait(self, principal: str, size: int, seconds: float, check: Callable[[], None], *, times: int = 1) -> bool:
        """The same, once there is space, after those of the principal that wait already; False where there was none for so long.

        ``check`` is called while it waits, and raises where it is to wait no longer. More than one may have is counted as so much.
        """
        size = min(size, most_of_one(self.most))
        own = object()
        with self._changed:
            queue = self._waiting[principal]
            queue.append(own)
            try:
                return wait_for(self._changed, lambda: queue[0] is own and self._take(principal, size, self.most * times), seconds, check)
            finally:
                queue.remove(own)
                if not queue:
                    del self._waiting[principal]
                self._changed.notify_all()

    def take_anyway(self, principal: str, size: int) -> None:
        """Count so many bytes more that are there already, or are not to be lost."""
        with self._changed:
            self._of[principal] += size

    def give(self, principal: str, size: int) -> None:
        """So many bytes that were counted are free again."""
        with self._changed:
            self._of[principal] -= size
            if not self._of[principal]:
                del self._of[principal]
            self._changed.notify_all()

    def _take(self, principal: str, size: int, most: int) -> bool:
        fits = self._fits(principal, size, most)
        if fits:
            self._of[principal] += size
        return fits

    def _fits(self, principal: str, size: int, most: int) -> bool:
        most_own = most_of_one(most)
        total = sum(min(own, most_own) for own in self._of.values())  # what one has beyond its share takes away nothing of others'
        return total + size <= most and self._of.get(principal, 0) + size <= most_own
