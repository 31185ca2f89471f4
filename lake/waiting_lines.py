"""Who waits in this process for the same thing, in the order of arrival."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

Place = TypeVar("Place", bound=Hashable)

_LOOK_SECONDS = 0.5
"""How often who waits without an end looks whether it is still wanted."""


class WaitingLines(Generic[Place]):
    """A line for each place; only who is first goes on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[Place, deque[threading.Event]] = {}

    def somebody(self, place: Place) -> bool:
        """Whether somebody stands in a place's line, or is first in it and works."""
        with self._lock:
            return place in self._lines

    @contextlib.contextmanager
    def first(self, place: Place, seconds: float) -> Iterator[bool]:
        """Stand in line and leave it when the block ends; False where one was not first within so many seconds."""
        with self._standing(place) as mine:
            yield mine.wait(seconds)

    @contextlib.contextmanager
    def turn(self, place: Place, check: Callable[[], None]) -> Iterator[None]:
        """Stand in line until one is first; ``check`` is called now and then and raises where that is not wanted any more."""
        with self._standing(place) as mine:
            while not mine.wait(_LOOK_SECONDS):
                check()
            yield

    @contextlib.contextmanager
    def _standing(self, place: Place) -> Iterator[threading.Event]:
        mine = threading.Event()
        with self._lock:
            self._lines.setdefault(place, deque()).append(mine)
            self._lines[place][0].set()
        try:
            yield mine
        finally:
            with self._lock:
                line = self._lines[place]
                line.remove(mine)
                if line:
                    line[0].set()
                else:
                    del self._lines[place]
