"""What Postgres said of tokens: asked anew after a moment, and good for a little longer while it is away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from cachetools import LRUCache

from model.errors import Unavailable

TRUSTED_SECONDS = 1.0
"""For so long what is known of a token is not asked again: another server's REVOKE takes hold after it, our own at once."""
OUTAGE_SECONDS = 60.0
"""So long it still counts while Postgres cannot be asked: results are fetched and sessions kept through a restart of it."""
_MOST_KNOWN = 10_000
_MOST_UNKNOWN = 1000
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class _Answer(Generic[V]):
    """What Postgres said, and when (monotonic)."""

    value: V | None
    asked_at: float
    at: float

    def fresh(self) -> bool:
        return time.monotonic() < self.asked_at + TRUSTED_SECONDS

    def still_good(self) -> bool:
        return time.monotonic() < self.at + OUTAGE_SECONDS


class RememberedAnswers(Generic[V]):
    """Answers by key, those that are None apart: anybody can make up tokens, and they push nobody out who is known."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: LRUCache[bytes, _Answer[V]] = LRUCache(_MOST_KNOWN)
        self._unknown: LRUCache[bytes, _Answer[V]] = LRUCache(_MOST_UNKNOWN)
        self._age = 0

    def ask(self, key: bytes, look: Callable[[], V | None]) -> V | None:
        """What is remembered, or what a look tells; raises what looking raises where nothing counts that is remembered."""
        with self._lock:
            known, age = self._known.get(key) or self._unknown.get(key), self._age
        if known is not None and known.fresh():
            return known.value
        now = time.monotonic()
        try:
            fresh = _Answer(look(), now, now)
        except Unavailable:
            if known is None or not known.still_good():
                raise
            fresh = _Answer(known.value, time.monotonic(), known.at)
        with self._lock:
            if age == self._age:  # what was changed while we looked must not be remembered as it was
                own, other = (self._unknown, self._known) if fresh.value is None else (self._known, self._unknown)
                other.pop(key, None)
                own[key] = fresh
        return fresh.value

    def last(self, key: bytes) -> V | None:
        """What was told last, however long ago; None where that is not remembered."""
        with self._lock:
            known = self._known.get(key)
        return None if known is None else known.value

    def forget(self) -> None:
        """Ask anew from now on."""
        with self._lock:
            self._age += 1
            self._known.clear()
            self._unknown.clear()
