"""Stopping the Spark jobs of canceled statements, away from the client that asked for it, whatever they hang on."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from model.errors import LakeError
from sql.operation import Operation

_log = logging.getLogger(__name__)
_AGAIN_SECONDS = 1.0
_LOOK_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """For how many seconds a statement that was told to stop may go on."""

    thread: float = 10.0
    """Then another thread takes the place of its own."""
    told: float = 30.0
    """Then readiness says so."""
    restart: float = 60.0
    """Then Spark is started anew, which fails what runs there."""


class _Stopping:
    def __init__(self, operation: Operation, give_up: Callable[[], bool]) -> None:
        self.operation = operation
        self.give_up = give_up
        self.since = time.monotonic()
        self.given_up = False


class Canceller:
    """One thread of its own: a call into the JVM may take long, and each thread that makes one costs the JVM a thread.

    A statement is told to stop again and again until its worker and its tasks have ended, since Spark forgets a cancel that comes
    between two of its jobs. A worker that does not end loses its place, and Spark is started anew where nothing else helps.
    """

    def __init__(
        self,
        cancel: Callable[[str], None],
        *,
        active: Callable[[str], int] = lambda _: 0,
        restart: Callable[[str], None] = lambda _: None,
        look: Callable[[], None] = lambda: None,
        patience: Patience | None = None,
    ) -> None:
        self._cancel = cancel
        self._active = active
        self._restart = restart
        self._look = look
        self._patience = patience or Patience()
        self._woken = threading.Condition()
        self._stopping: list[_Stopping] = []
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="sluice-canceller", daemon=True)
        self._thread.start()

    def stop(self, operation: Operation, give_up: Callable[[], bool] = lambda: False) -> None:
        """Stop what the operation runs on Spark, if anything; returns at once. ``give_up`` frees the place of its thread."""
        if not operation.begun:
            return
        with self._woken:
            self._stopping.append(_Stopping(operation, give_up))
            self._woken.notify()

    def outliving(self) -> list[str]:
        """Statements that go on although they were told to stop a while ago."""
        now = time.monotonic()
        with self._woken:
            return [one.operation.handle for one in self._stopping if now - one.since > self._patience.told]

    def close(self, seconds: float = 2.0) -> None:
        """End the thread."""
        with self._woken:
            self._closed = True
            self._woken.notify()
        self._thread.join(seconds)

    def _serve(self) -> None:
        while True:
            with self._woken:
                if not self._stopping and not self._closed:
                    self._woken.wait(_LOOK_SECONDS)
                if self._closed:
                    return
                stopping = list(self._stopping)
            if not stopping:
                self._guarded(self._look, "Spark could not be asked how it is")
            ended = [one for one in stopping if self._ended(one)]
            with self._woken:
                self._stopping = [one for one in self._stopping if one not in ended]
                if self._stopping:
                    self._woken.wait(_AGAIN_SECONDS)

    def _ended(self, one: _Stopping) -> bool:
        """Tell it to stop once more; whether it has ended."""
        handle, waited = one.operation.handle, time.monotonic() - one.since
        if not one.operation.worker_ended:
            self._guarded(lambda: self._cancel(handle), f"The Spark jobs of statement {handle} could not be stopped")
            if waited > self._patience.thread and not one.given_up:
                one.given_up = one.give_up()
                if one.given_up:
                    _log.warning("Statement %s was told to stop %d s ago; another thread takes its place", handle, waited)
        active = 0
        try:
            active = self._active(handle)
        except Exception:  # the JVM may be gone, and with it its tasks
            _log.debug("Spark does not tell the tasks of statement %s", handle, exc_info=True)
        if one.operation.worker_ended and not active:
            return True
        if waited > self._patience.restart:
            reason = f"statement {handle} goes on {waited:.0f} s after it was told to stop"
            self._guarded(lambda: self._restart(reason), "Spark could not be started anew")
            return True
        return False

    @staticmethod
    def _guarded(action: Callable[[], None], what: str) -> None:
        try:
            action()
        except LakeError:
            pass  # what is away is told to whoever needs it
        except Exception:  # the JVM may be gone, and with it what was to be stopped
            _log.warning("%s", what, exc_info=True)
