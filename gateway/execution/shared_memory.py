"""Statements on Spark share its memory: where it is full, nobody can tell whose rows filled it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from model.errors import OutOfMemory, Unavailable


class _Use:
    """A statement that is on Spark."""

    def __init__(self, *, shared: bool) -> None:
        self.shared = shared
        """Whether another one was there at any time meanwhile."""


class SharedMemory:
    """Knows which statements were on Spark beside others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._uses: set[_Use] = set()

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """A statement is on Spark as long as the block lasts.

        Raises `Unavailable` for an `OutOfMemory` that another statement may have caused.
        """
        with self._lock:
            own = _Use(shared=bool(self._uses))
            for other in self._uses:
                other.shared = True
            self._uses.add(own)
        try:
            yield
        except OutOfMemory as full:
            if full.own or not own.shared:
                raise
            raise Unavailable(
                "Spark's memory was full while other statements ran there: one of them may have filled it. Try again in a moment; a "
                "statement that fails so again and again reads too many rows or columns at once, or Spark has too little "
                "(SLUICE_SPARK_DRIVER_MEMORY)."
            ) from full
        finally:
            with self._lock:
                self._uses.discard(own)
