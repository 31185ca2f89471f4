"""Transactions that stay open while a store works: only a few at once, since a store may hang, or be at it for an hour."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import psycopg

from model.errors import Unavailable


class StorePlaces:
    """Places of such transactions among the connections of a pool, waited for without a connection."""

    def __init__(self, connections: int) -> None:
        self._writing = threading.BoundedSemaphore(max(1, connections // 4))
        self._removing = threading.BoundedSemaphore(max(1, connections // 8))

    @contextlib.contextmanager
    def place(self, *, removes: bool, seconds: float | None) -> Iterator[None]:
        """A place, also for what ``removes`` trees, which takes none of those that write a file.

        Raises `Unavailable` where none came free in so many seconds; with None it is waited for.
        """
        places = self._removing if removes else self._writing
        if not places.acquire(timeout=seconds):
            raise Unavailable(
                "The store answers slowly: all changes of its files that this server makes at once wait for it. Try again in a moment."
            ) from _NoPlace()
        try:
            yield
        finally:
            places.release()


class _NoPlace(Exception):
    """None came free in time."""


def is_held(problem: Unavailable) -> bool:
    """Whether somebody else held for too long what a transaction wanted to lock."""
    return isinstance(problem.__cause__, psycopg.errors.LockNotAvailable)


def waited_in_vain(problem: Unavailable) -> bool:
    """Whether Postgres answers, and others held for too long what a transaction wanted: a lock, or the places beside the store."""
    return is_held(problem) or isinstance(problem.__cause__, _NoPlace)
