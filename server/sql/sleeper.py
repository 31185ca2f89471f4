"""An answer without end leaves its thread while nothing comes, and is woken by what comes or by a timer."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from sql.execution.results import Waiting

_MOST_SECONDS = 10.0
"""An answer without end is looked at so often, for its signs of life."""
_AWAKE_SECONDS = 0.25
Later = Callable[[float, Callable[[], None]], None]
"""Calls something after so many seconds; from any thread, and without keeping one."""


class Sleeper:
    """Sleeps again and again; one timer goes along with it, however often it is woken before."""

    def __init__(self, waiting: Waiting, resume: Callable[[], None], later: Later) -> None:
        """``resume`` is called once for each sleep, from any thread, and must not block."""
        self._waiting = waiting
        self._resume = resume
        self._later = later
        self._nap = _Nap(lambda: None)
        self._tick_at = math.inf
        self._ended = False

    def sleep(self) -> None:
        """Resume when there may be more, which may be at once: whoever calls does nothing afterwards."""
        self._nap = nap = _Nap(self._resume)
        seconds = self._waiting.call_when_due(nap.end)
        nap.due = time.monotonic() + min(seconds, _MOST_SECONDS)
        if nap.due < self._tick_at:
            self._arm(nap.due)

    def end(self) -> None:
        """Let the timer go."""
        self._ended = True

    def _arm(self, at: float) -> None:
        """An earlier timer takes the place of a later one."""
        self._tick_at = at
        self._later(max(0.0, at - time.monotonic()), lambda: self._tick(at))

    def _tick(self, at: float) -> None:
        if self._ended or at != self._tick_at:
            return
        now = time.monotonic()
        left = self._nap.due - now
        if left <= 0:
            self._nap.end()
        # Awake it has no time to be woken at; it is asked again soon.
        self._arm(now + (left if 0 < left < math.inf else _AWAKE_SECONDS))


class _Nap:
    """Ends once, whoever ends it first."""

    def __init__(self, resume: Callable[[], None]) -> None:
        self.due = math.inf
        self._resume = resume
        self._lock = threading.Lock()
        self._over = False

    def end(self) -> None:
        with self._lock:
            if self._over:
                return
            self._over, self.due = True, math.inf
        self._resume()
