"""What never changes, kept decoded for the whole process and bounded by the memory it takes."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
IDLE_SECONDS = 300.0
"""Each commit leaves behind what the next one's readers do not ask for; little of it is asked for again after so long."""


@dataclass(slots=True)
class _Kept(Generic[V]):
    value: V
    size: int
    used: float


class ByteCache(Generic[K, V]):
    """The values used last, up to ``most_bytes`` by the estimate of ``size``; for many threads.

    What nobody asked for in ``idle_seconds`` goes as others come, so that what a table has left behind does not stay until the
    cache is full. ``clock`` gives seconds.
    """

    def __init__(
        self,
        most_bytes: int,
        size: Callable[[V], int],
        *,
        idle_seconds: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lock = threading.Lock()
        self._size, self._most_bytes = size, most_bytes
        self._idle_seconds, self._clock = idle_seconds, clock
        self._kept: OrderedDict[K, _Kept[V]] = OrderedDict()
        """What was used longest ago first."""
        self._held = 0

    def get(self, key: K) -> V | None:
        """The value, or None where it is not kept (any more)."""
        with self._lock:
            entry = self._kept.get(key)
            if entry is None:
                return None
            entry.used = self._clock()
            self._kept.move_to_end(key)
            return entry.value

    def put(self, key: K, value: V) -> None:
        """Keep a value; one that would fill the whole cache is not kept."""
        size = self._size(value)
        with self._lock:
            if size > self._most_bytes:
                return
            now = self._clock()
            if (before := self._kept.pop(key, None)) is not None:
                self._held -= before.size
            self._kept[key] = _Kept(value, size, now)
            self._held += size
            while self._held > self._most_bytes or next(iter(self._kept.values())).used < now - self._idle_seconds:
                _, oldest = self._kept.popitem(last=False)
                self._held -= oldest.size

    def or_load(self, key: K, load: Callable[[], V]) -> V:
        """The value, loaded where it is not kept; two threads may load it at once."""
        value = self.get(key)
        if value is None:
            value = load()
            self.put(key, value)
        return value

    @property
    def held_bytes(self) -> int:
        """What is kept now, by the estimate."""
        with self._lock:
            return self._held

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self._held = 0
