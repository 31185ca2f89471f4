"""Waiting for what comes true by itself, for a bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable

_FIRST_PAUSE_SECONDS = 0.002


def eventually(condition: Callable[[], bool], seconds: float = 180, *, pause: float = 0.1) -> bool:
    """Whether the condition came true in time; it is looked at often to begin with, and each ``pause`` in the end."""
    until = time.monotonic() + seconds
    next_pause = min(_FIRST_PAUSE_SECONDS, pause)
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(next_pause)
        next_pause = min(2 * next_pause, pause)
    return True
