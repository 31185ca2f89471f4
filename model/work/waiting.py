"""Waiting for others, for as long as somebody waits for the waiter."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_LOOK_SECONDS = 0.5
"""Whoever waits looks so often whether it is to wait no longer."""


def wait_for(changed: threading.Condition, holds: Callable[[], bool], seconds: float, check: Callable[[], None]) -> bool:
    """Wait until something holds, which is asked with each change; False where it did not for so long. The caller has the condition.

    ``check`` is called while it waits, and raises where it is to wait no longer.
    """
    until = time.monotonic() + seconds
    while not holds():
        left = until - time.monotonic()
        if left <= 0:
            return False
        changed.wait(min(left, _LOOK_SECONDS))
        check()
    return True
