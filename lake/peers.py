"""This server among those of its catalog: its number, and who has another number and where.

What a server holds in memory (statements, results, sessions) is known to it alone. Handles carry its number, so that any other server
can pass on what is asked of it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from uuid import UUID

from catalog import CatalogStore
from catalog.records import ServerRow
from model.errors import LakeError

_log = logging.getLogger(__name__)
_TELL_SECONDS = 10.0
_FRESH_SECONDS = 2.0
"""How long what is known of the others is good for, but for a number that is not known."""


def pages_key(catalog: CatalogStore, made: bytes) -> bytes:
    """The key that signs the pages' cookies on all servers: the one there is, or ``made``; raises `Unavailable`."""
    with catalog.transaction() as tx:
        return tx.state.pages_key(made)


def end_login(catalog: CatalogStore, login: UUID, *, seconds: float) -> None:
    """No server takes this login of the pages any more, whose cookie lasts so many seconds at most; raises `Unavailable`."""
    with catalog.transaction() as tx:
        tx.logins.end(login, seconds=seconds)


def is_ended(catalog: CatalogStore, login: UUID) -> bool:
    """Whether somebody logged out of a login of the pages, on any server; raises `Unavailable`."""
    with catalog.transaction() as tx:
        return tx.logins.is_ended(login)


class Peers:
    """The servers of a catalog; one for a process that serves."""

    def __init__(self, catalog: CatalogStore, name: str) -> None:
        """Take a number; raises `Unavailable` where Postgres is away."""
        self._catalog = catalog
        self._name = name
        self._url: str | None = None
        self._lock = threading.Lock()
        self._known: Mapping[int, ServerRow] = {}
        self._read_at = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sluice-peers", daemon=True)
        self.number = self._join()

    def _join(self) -> int:
        while True:
            with self._catalog.transaction() as tx:
                number = tx.servers.join(self._name)
            if number is not None:
                return number

    def announce(self, url: str) -> None:
        """The server answers at this address now, which the others reach."""
        self._url = url
        self._tell()
        self._thread.start()

    def leave(self) -> None:
        """Nothing more is to be asked of this server; twice is fine."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._url = None
        self._tell()

    def _run(self) -> None:
        while not self._stop.wait(_TELL_SECONDS):
            self._tell()

    def _tell(self) -> None:
        try:
            with self._catalog.transaction() as tx:
                tx.servers.tell(self.number, self._name, self._url)
        except LakeError:  # the others take it for gone after a while, and for back when it is told again
            _log.info("The catalog could not be told where this server is", exc_info=True)

    def find(self, number: int) -> ServerRow | None:
        """The server of a number, also one that is gone for some days; raises `Unavailable`."""
        with self._lock:
            return self._read(at_once=number not in self._known).get(number)

    def others(self) -> list[ServerRow]:
        """The other servers that live; raises `Unavailable`."""
        with self._lock:
            return [row for row in self._read().values() if row.alive and row.number != self.number]

    def _read(self, *, at_once: bool = False) -> Mapping[int, ServerRow]:
        """The servers by number; for whoever holds the lock."""
        if at_once or time.monotonic() - self._read_at > _FRESH_SECONDS:
            with self._catalog.reading() as tx:
                self._known = {row.number: row for row in tx.servers.all()}
            self._read_at = time.monotonic()
        return self._known
