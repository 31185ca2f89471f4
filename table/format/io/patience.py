"""How long an object store may fail requests, or leave them without an answer: one budget of time for all that a statement asks of it."""

from __future__ import annotations

import contextlib
import errno
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from model.errors import Unavailable
from table.format.io.storage_errors import translating

STORE_SECONDS = 30.0
"""The budget of a statement whose server says nothing else, and of a request that no statement makes."""
_ATTEMPTS = 9
"""Tries of a request; the pauses between them double up to three seconds, six in all."""
_FIRST_PAUSE_SECONDS = 0.05
_FOR_NOW = re.compile(
    r"AWS Error (NETWORK_CONNECTION|SLOW_DOWN|THROTTLING|REQUEST_TIMEOUT|SERVICE_UNAVAILABLE|INTERNAL_FAILURE)"
    r"|HTTP status (429|5\d\d)|Failed to flush response stream"
)
"""Words of a store that refuses for now or does not answer. The last ones are those of Arrow's reader where a refusal is longer than the
bytes it asked for."""
T = TypeVar("T")
P = ParamSpec("P")


class StorePatience:
    """Seconds lost to requests that failed and to the pauses after them; those lost beside each other count once.

    What is answered costs nothing, however long it takes. Where nothing was lost for as long as the budget is, all of it is there again: a
    stream reads for days.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._lost = 0.0
        self._counted_to = 0.0

    def left(self) -> float:
        """Seconds that may still be lost."""
        with self._lock:
            if self._lost and time.monotonic() - self._counted_to > self.seconds:
                self._lost = 0.0
            return self.seconds - self._lost

    def lose(self, began: float, ended: float) -> None:
        """Count a span of the monotonic clock in which a request failed, or was waited with."""
        with self._lock:
            since = max(began, self._counted_to)
            if ended > since:
                self._lost += ended - since
                self._counted_to = ended


_PATIENCE: ContextVar[StorePatience | None] = ContextVar("store_patience", default=None)
"""What is left of the statement this thread works for."""


def begin_patience(seconds: float) -> None:
    """Give all that this thread, or the context it runs in, asks of object stores from now on one budget of time."""
    _PATIENCE.set(StorePatience(seconds))


def present_patience() -> StorePatience | None:
    """The budget of the statement this thread works for; None where each request has its own."""
    return _PATIENCE.get()


def seconds_left() -> float:
    """What the statement this thread works for may still lose, for another process that works for it."""
    patience = _PATIENCE.get()
    return STORE_SECONDS if patience is None else max(0.0, patience.left())


def most_patient(budgets: Iterable[StorePatience | None]) -> StorePatience | None:
    """The budget that has most left; None, where each request has its own, has all of it. Raises `ValueError` without any."""
    return max(budgets, key=lambda budget: STORE_SECONDS if budget is None else budget.left())


@contextlib.contextmanager
def patient_as(patience: StorePatience | None) -> Iterator[None]:
    """Count what this thread asks of object stores in the block, and the threads it starts with `carried`, for this budget."""
    token = _PATIENCE.set(patience)
    try:
        yield
    finally:
        _PATIENCE.reset(token)


def patient_for(seconds: float) -> AbstractContextManager[None]:
    """Give all that is asked in the block so a budget of its own."""
    return patient_as(StorePatience(seconds))


def carried(work: Callable[P, T]) -> Callable[P, T]:
    """The same work, for another thread: what it asks of stores counts for the statement of this one."""
    patience = _PATIENCE.get()

    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with patient_as(patience):
            return work(*args, **kwargs)

    return work if patience is None else run


def asked(path: str, ask: Callable[[float], T], *, attempt_seconds: float, repeats: bool = True) -> T:
    """What the store answers; it is asked again where it refuses for now or does not answer, as long as the statement's budget lasts.

    ``ask`` is given the seconds that may still be lost; ``attempt_seconds`` is what an attempt without an answer takes: one that the budget
    has no place for is not begun. ``repeats`` says whether what was done, and its answer lost, may be done again.
    Raises `Unavailable` naming the path, and `FileNotFoundError`.
    """
    patience = _PATIENCE.get() or StorePatience(STORE_SECONDS)
    if patience.left() <= 0:
        raise _given_up(path, patience, None)
    for attempt in range(_ATTEMPTS):
        began = time.monotonic()
        try:
            with translating(path):
                return ask(patience.left())
        except Unavailable as problem:
            if _FOR_NOW.search(str(problem.__cause__)) is None:
                raise
            pause = _FIRST_PAUSE_SECONDS * 2**attempt
            now = time.monotonic()
            patience.lose(began, now)
            if not repeats or attempt == _ATTEMPTS - 1:
                raise
            if patience.left() < pause + min(attempt_seconds, now - began):  # as long as the last one took, unless it was answered
                raise _given_up(path, patience, problem) from problem.__cause__
        time.sleep(pause)
        patience.lose(now, time.monotonic())
    raise AssertionError("the last attempt returns or raises")


def _given_up(path: str, patience: StorePatience, problem: Unavailable | None) -> Unavailable:
    """The failure of a statement that waits no longer."""
    last = "" if problem is None else f" The last answer: {problem.__cause__}"
    words = f"this statement has waited for requests that were refused or not answered as long as it may, {patience.seconds:g} s in all"
    try:
        with translating(path):
            raise TimeoutError(errno.ETIMEDOUT, f"{words}.{last}")
    except Unavailable as told:
        return told
