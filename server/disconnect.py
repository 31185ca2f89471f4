"""Noticing that a client has gone while its statement runs, so that nobody works for no one."""

from __future__ import annotations

import logging
import select
import socket
import threading
from collections.abc import Callable

from server.tls import peek

_log = logging.getLogger(__name__)
LOOK_SECONDS = 0.25
_HANGUP = select.POLLHUP | select.POLLERR | select.POLLNVAL | getattr(select, "POLLRDHUP", 0)


class DisconnectWatcher:
    """Looks at watched connections a few times a second, on one thread that sleeps while there is none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._filled = threading.Event()
        self._watched: dict[int, tuple[socket.socket, Callable[[], object]]] = {}
        self._next = 0
        self._thread: threading.Thread | None = None

    def watch(self, connection: socket.socket, gone: Callable[[], object]) -> Callable[[], None]:
        """Call ``gone`` once when the client closes its side; returns what ends the watch."""
        with self._lock:
            self._next += 1
            number = self._next
            self._watched[number] = (connection, gone)
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="sluice-disconnects", daemon=True)
                self._thread.start()
        self._filled.set()
        return lambda: self._forget(number)

    def _forget(self, number: int) -> None:
        with self._lock:
            self._watched.pop(number, None)

    def _look(self) -> None:
        idle = threading.Event()  # never set: a sleep
        while True:
            self._filled.wait()
            idle.wait(LOOK_SECONDS)
            with self._lock:
                if not self._watched:
                    self._filled.clear()
                    continue
                watched = list(self._watched.items())
            for number, (connection, gone) in watched:
                if _closed(connection):
                    self._forget(number)
                    _tell(gone)


def _tell(gone: Callable[[], object]) -> None:
    try:
        gone()
    except Exception:  # the watch goes on for everybody else
        _log.exception("A statement whose client has gone could not be canceled")


def _closed(connection: socket.socket) -> bool:
    """Whether the peer has closed; bytes it sent meanwhile (a next request) are left alone."""
    try:
        poller = select.poll()
        poller.register(connection, select.POLLIN | _HANGUP)
        events = poller.poll(0)
        if not events:
            return False
        if events[0][1] & _HANGUP:
            return True
        return peek(connection) == b""
    except (OSError, ValueError):
        return True
