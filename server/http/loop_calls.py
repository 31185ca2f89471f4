"""Calls from other threads to an event loop: those that come together wake it once."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

_log = logging.getLogger(__name__)
_AT_ONCE = 64
"""After so many calls the loop looks at its connections."""


class LoopCalls:
    """Runs calls on an event loop in the order they came; made on the loop, used from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[Callable[[], None]] = deque()
        self._armed = False

    def soon(self, call: Callable[[], None]) -> None:
        """Run a call soon; nothing happens where the loop has ended."""
        self._calls.append(call)
        if not self._armed:
            self._armed = True
            try:
                self._loop.call_soon_threadsafe(self._run)
            except RuntimeError:  # the server has stopped
                _log.debug("The event loop has ended", exc_info=True)

    def _run(self) -> None:
        self._armed = False  # before the calls are taken: one that comes now is taken here, or arms anew
        for _ in range(min(len(self._calls), _AT_ONCE)):
            call = self._calls.popleft()
            try:
                call()
            except Exception:
                _log.exception("A call to the event loop failed")
        if self._calls and not self._armed:
            self._armed = True
            self._loop.call_soon(self._run)
