"""Noticing that a client has gone while its statement runs, so that nobody works for no one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import cache

from server.http.workers import Workers

_log = logging.getLogger(__name__)
CONNECTION = "sluice.connection"
"""Where the WSGI environment has the `Client`; absent in tests that call the app directly."""
WAITING = "sluice.waiting"
"""Where the environment of an answer without end says what tells of more: its reader gets no thread while nothing comes."""
ENDLESS = "sluice.endless"
"""Where the environment of an answer says that it has no end: it can be asked for again, and nothing is done by it."""
PRINCIPAL = "sluice.principal"
"""Where the WSGI environment says who asked, once that was found out."""


class Client:
    """Who waits for an answer; the HTTP server says when it has gone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gone = False
        self._watches: dict[int, Callable[[], object]] = {}
        self._next = 0

    def watch(self, gone: Callable[[], object]) -> Callable[[], None]:
        """Call ``gone`` once when the client leaves, on a thread of its own; returns what ends the watch."""
        with self._lock:
            self._next += 1
            number = self._next
            if not self._gone:
                self._watches[number] = gone
                return lambda: self._forget(number)
        _tellers().submit(lambda: _tell(gone))
        return lambda: None

    def leave(self) -> None:
        """The client has gone; twice is fine."""
        with self._lock:
            self._gone = True
            watches, self._watches = list(self._watches.values()), {}
        for gone in watches:
            _tellers().submit(lambda gone=gone: _tell(gone))  # type: ignore[misc] # mypy cannot infer such a lambda

    def _forget(self, number: int) -> None:
        with self._lock:
            self._watches.pop(number, None)


@cache
def _tellers() -> Workers:
    """Not the threads that answer: those may all be busy with the statements to be canceled."""
    return Workers(2, "sluice-disconnects")


def _tell(gone: Callable[[], object]) -> None:
    try:
        gone()
    except Exception:
        _log.exception("A statement whose client has gone could not be canceled")
