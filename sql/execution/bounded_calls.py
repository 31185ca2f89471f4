"""Calls that may never come back, such as those into a JVM that stands still."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import Any, TypeVar

from model.errors import Unavailable

T = TypeVar("T")


class BoundedCalls:
    """Makes one call at a time, on one thread of its own, since each thread that calls into a JVM costs it one.

    A call that takes too long is left alone there until it comes back, and no other is made meanwhile.
    """

    def __init__(self, name: str, *, seconds: float) -> None:
        self._name = name
        self._seconds = seconds
        self._lock = threading.Lock()
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._last: Future[Any] | None = None
        self._thread: threading.Thread | None = None

    def __call__(self, call: Callable[[], T]) -> T:
        """What a call returns or raises; raises `Unavailable` after the seconds, and at once while an earlier one is out."""
        answer = self.begin(call)
        wait([answer], self._seconds)
        if not answer.done():
            raise Unavailable(f"There was no answer within {self._seconds:g} s.")
        return answer.result()

    def begin(self, call: Callable[[], T]) -> Future[T]:
        """Begin a call, and return at once; raises `Unavailable` while an earlier one is out."""
        with self._lock:
            if self._last is not None and not self._last.done():
                raise Unavailable("There is no answer yet to an earlier call.")
            if self._thread is None:
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                thread.start()  # where the machine has none to give, the next who asks tries again
                self._thread = thread
            answer: Future[T] = Future()
            self._last = answer
            self._calls.put((call, answer))
            return answer

    def close(self) -> None:
        """Make no more; returns at once, for a call that is out may never come back."""
        self._calls.put(None)

    def _run(self) -> None:
        while (following := self._calls.get()) is not None:
            call, answer = following
            try:
                answer.set_result(call())
            except BaseException as problem:  # whoever asked raises it
                answer.set_exception(problem)
            del following, call, answer  # what they refer to goes before the next comes
