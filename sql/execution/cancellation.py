"""Telling a running statement to stop, from any thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from model.errors import LakeError, StatementCanceled

_log = logging.getLogger(__name__)


class Cancellation:
    """Set once, with the reason; what the statement waits on hears of it through callbacks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._reason: LakeError | None = None

    @property
    def canceled(self) -> bool:
        """Whether the statement was told to stop."""
        return self._event.is_set()

    @property
    def reason(self) -> LakeError | None:
        """Why it was told to stop; None while it was not."""
        return self._reason

    def cancel(self, reason: LakeError | None = None) -> bool:
        """Tell the statement to stop; False where it was told before."""
        with self._lock:
            if self._event.is_set():
                return False
            self._reason = reason or StatementCanceled("The statement was canceled.")
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            _run(callback)
        return True

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when canceled (at once where it is already); returns what takes the callback off again."""
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return lambda: self._forget(callback)
        _run(callback)
        return lambda: None

    def _forget(self, callback: Callable[[], None]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

    def check(self) -> None:
        """Raise the reason where the statement was told to stop; call it between steps."""
        if self._reason is not None:
            raise self._reason

    def wait(self, seconds: float) -> bool:
        """Sleep up to so long; True as soon as it is canceled."""
        return self._event.wait(seconds)


def _run(callback: Callable[[], None]) -> None:
    try:
        callback()
    except Exception:  # whoever cancels must not suffer from what hears of it
        _log.exception("Something that had to hear of a cancel failed")
