"""What never changes, kept decoded for the whole process and bounded by the memory it takes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from cachetools import LRUCache

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ByteCache(Generic[K, V]):
    """The values used last, up to ``most_bytes`` by the estimate of ``size``; for many threads."""

    def __init__(self, most_bytes: int, size: Callable[[V], int]) -> None:
        self._lock = threading.Lock()
        self._size = size
        self._lru: LRUCache[K, V] = LRUCache(most_bytes, getsizeof=size)

    def get(self, key: K) -> V | None:
        """The value, or None where it is not kept (any more)."""
        with self._lock:
            return self._lru.get(key)

    def put(self, key: K, value: V) -> None:
        """Keep a value; one that would fill the whole cache is not kept."""
        size = self._size(value)
        with self._lock:
            if size <= self._lru.maxsize:
                self._lru[key] = value

    def or_load(self, key: K, load: Callable[[], V]) -> V:
        """The value, loaded where it is not kept; two threads may load it at once."""
        found = self.get(key)
        if found is None:
            found = load()
            self.put(key, found)
        return found

    @property
    def held_bytes(self) -> int:
        """What is kept now, by the estimate."""
        with self._lock:
            return int(self._lru.currsize)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._lru.clear()
