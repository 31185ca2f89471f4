"""Stopping the Spark jobs of canceled statements, away from the client that asked for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from sql.operation import Operation

_log = logging.getLogger(__name__)
_AGAIN_SECONDS = 1.0


class Canceller:
    """One thread of its own: a call into the JVM may take long, and each thread that makes one costs the JVM a thread.

    A statement is told to stop again and again until its worker has ended, since Spark forgets a cancel that comes
    between two of its jobs.
    """

    def __init__(self, cancel: Callable[[str], None]) -> None:
        self._cancel = cancel
        self._woken = threading.Condition()
        self._operations: list[Operation] = []
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="sluice-canceller", daemon=True)
        self._thread.start()

    def stop(self, operation: Operation) -> None:
        """Stop what the operation runs on Spark, if anything; returns at once."""
        if not operation.begun:
            return
        with self._woken:
            self._operations.append(operation)
            self._woken.notify()

    def close(self, seconds: float = 2.0) -> None:
        """End the thread."""
        with self._woken:
            self._closed = True
            self._woken.notify()
        self._thread.join(seconds)

    def _serve(self) -> None:
        while True:
            with self._woken:
                while not self._operations and not self._closed:
                    self._woken.wait()
                if self._closed:
                    return
                running = self._operations = [operation for operation in self._operations if not operation.worker_ended]
            for operation in list(running):
                try:
                    self._cancel(operation.handle)
                except Exception:  # the JVM may be gone, and with it what was to be stopped
                    _log.warning("The Spark jobs of statement %s could not be stopped", operation.handle, exc_info=True)
            with self._woken:
                if self._operations:
                    self._woken.wait(_AGAIN_SECONDS)
