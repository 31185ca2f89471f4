"""When the rows of a stream on Spark count as read: some time after they were handed on, while whoever reads them still asks."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from lake.streams.snapshot_steps import SETTLED_SECONDS

_LOOK_SECONDS = 0.25
_LEAST_SECONDS = 0.01


class Handed:
    """Counts the batches of rows that wait, those that were handed on, and those of them that count as read, as a tail's do."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._added = self._given = self._read = 0
        self._given_at = 0.0

    def add(self) -> None:
        """One more is to be handed on."""
        with self._news:
            self._added += 1

    def give(self) -> None:
        """The next one is handed on: whoever asks again has had it."""
        with self._news:
            self._given, self._given_at = self._given + 1, math.inf

    def ask(self) -> None:
        """The reader asks for more, perhaps again and again."""
        with self._news:
            now = time.monotonic()
            if self._given_at == math.inf:
                self._given_at = now
            elif now - self._given_at >= SETTLED_SECONDS:
                self._read = self._given
                self._news.notify_all()

    def seconds(self) -> float:
        """In how many seconds it helps that the reader asks."""
        with self._news:
            left = self._given_at + SETTLED_SECONDS - time.monotonic()
            return math.inf if self._read == self._given else max(_LEAST_SECONDS, left)

    def wait(self, closed: Callable[[], bool]) -> bool:
        """Wait until all that were added count as read; False where the stream is closed before."""
        with self._news:
            while self._read < self._added and not closed():
                self._news.wait(_LOOK_SECONDS)
            return self._read >= self._added
