"""Telling a running statement to stop, from any thread; from then on it decides nothing (`model.work.deciding`)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from model.errors import LakeError, StatementCanceled
from model.work.deciding import deciding_as

_log = logging.getLogger(__name__)


class Cancellation:
    """Set once, with the reason; what the statement waits on hears of it through callbacks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._reason: LakeError | None = None
        self._decisions = 0

    @property
    def canceled(self) -> bool:
        """Whether the statement was told to stop."""
        return self._event.is_set()

    @property
    def reason(self) -> LakeError | None:
        """Why it was told to stop; None while it was not."""
        return self._reason

    @property
    def may_have_decided(self) -> bool:
        """Whether something the present statement decides has taken effect, or may have, or may yet; after `tell` no other joins it."""
        return self._decisions > 0

    def cancel(self, reason: LakeError | None = None) -> bool:
        """Tell the statement to stop, and whatever it waits on; False where it was told before."""
        is_first = self.tell(reason or StatementCanceled("The statement was canceled."))
        if is_first:
            self.call_back()
        return is_first

    def tell(self, reason: LakeError) -> bool:
        """Tell the statement to stop, but not yet what it waits on; False where it was told before."""
        with self._lock:
            if self._event.is_set():
                return False
            self._reason = reason
            self._event.set()
        return True

    def call_back(self) -> None:
        """Tell what it waits on; twice is fine."""
        with self._lock:
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            _run(callback)

    def begin_decision(self) -> None:
        """Postgres is about to be asked; raises the reason where the statement was told to stop."""
        with self._lock:
            if self._reason is not None:
                raise self._reason
            self._decisions += 1

    def end_decision(self) -> None:
        """It is certain that a decision that was begun has changed nothing."""
        with self._lock:
            self._decisions -= 1

    def next_statement(self) -> None:
        """What was decided so far is an earlier statement's of the same text, which has ended."""
        with self._lock:
            self._decisions = 0

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


@contextmanager
def stopped_by(watch: Callable[[Callable[[], object]], Callable[[], None]]) -> Iterator[None]:
    """Work that is no statement, as of a body: the block is stopped when its client goes, as long as nothing is decided.

    ``watch`` takes what is to be called then, and returns what ends the watch.
    """
    canceled = Cancellation()
    forget = watch(canceled.cancel)
    try:
        with deciding_as(canceled):
            yield
    finally:
        forget()


def _run(callback: Callable[[], None]) -> None:
    try:
        callback()
    except Exception:  # whoever cancels must not suffer from what hears of it
        _log.exception("Something that had to hear of a cancel failed")
