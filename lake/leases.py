"""What this process holds by leases in Postgres, and how long it may trust that it does."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from uuid import UUID

_RENEWED_AFTER = 0.25
"""Share of a lease after which it is renewed."""
_TRUSTED = 0.85
"""Share of a lease after which a server that could not renew it stops working."""


class HeldLeases:
    """The things held, all renewed together."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._held: set[UUID] = set()
        self._until = 0.0
        self._renewed = 0.0

    def due(self) -> bool:
        """Whether it is time to renew."""
        return time.monotonic() - self._renewed >= self.seconds * _RENEWED_AFTER

    def holds(self, key: UUID) -> bool:
        """Whether this process holds the thing, beyond doubt."""
        with self._lock:
            return key in self._held and time.monotonic() < self._until

    @property
    def renewed_at(self) -> float:
        """When the last renewal that was answered was asked for (monotonic)."""
        return self._renewed

    def all(self) -> set[UUID]:
        """The things held as of the last renewal, beyond doubt or not."""
        with self._lock:
            return set(self._held)

    def trusted(self) -> bool:
        """Whether what is held is held beyond doubt; not where renewing has failed for too long."""
        return time.monotonic() < self._until

    def renewed(self, keys: Collection[UUID], *, asked: float) -> set[UUID]:
        """Note what Postgres, asked at this time (monotonic), says is still held; returns what was lost."""
        with self._lock:
            lost = self._held - set(keys)
            self._held &= set(keys)
            self._until = asked + self.seconds * _TRUSTED
            self._renewed = asked
        return lost

    def add(self, key: UUID, *, asked: float) -> None:
        """Note a thing taken at this time (monotonic)."""
        with self._lock:
            if not self._held:
                self._until = asked + self.seconds * _TRUSTED
            self._held.add(key)

    def drop(self, key: UUID) -> None:
        """Forget a thing that was given up."""
        with self._lock:
            self._held.discard(key)
