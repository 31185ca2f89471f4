"""Waiting for what comes true by itself, for a bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(condition: Callable[[], bool], seconds: float = 180, *, pause: float = 0.1) -> bool:
    """Whether the condition came true in time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(pause)
    return True
