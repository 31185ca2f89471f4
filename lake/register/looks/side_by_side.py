"""Files looked at by several threads at once, and what they found handed on in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from table.format.io.patience import carried

T = TypeVar("T")
R = TypeVar("R")
_AHEAD = 4
"""Looks for each thread that are begun before what the first found is taken, so that no thread waits for that, and little is held."""


class SideBySide:
    """So many threads, for one check or for several beside each other; they end once nobody holds this."""

    def __init__(self, threads: int) -> None:
        self._most = _AHEAD * max(1, threads)
        self._pool = ThreadPoolExecutor(max(1, threads), thread_name_prefix="look")

    @staticmethod
    def of(threads: int | SideBySide) -> SideBySide:
        """Threads of one's own, or those that others have, too."""
        return threads if isinstance(threads, SideBySide) else SideBySide(threads)

    def each(self, look: Callable[[T], R], items: Iterable[T]) -> Generator[tuple[T, R]]:
        """Each item with what a look at it found, in order, the next ones looked at meanwhile; raises what a look raises.

        What has not begun when whoever takes it stops does not begin.
        """
        begun: deque[tuple[T, Future[R]]] = deque()
        try:
            for item in items:
                begun.append((item, self._pool.submit(carried(look), item)))
                if len(begun) >= self._most:
                    first, future = begun.popleft()
                    yield first, future.result()
            while begun:
                first, future = begun.popleft()
                yield first, future.result()
        finally:
            for _, future in begun:
                future.cancel()
