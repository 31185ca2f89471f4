"""This server among those of its catalog: its number, and who has another number and where.

What a server holds in memory (statements, results, sessions) is known to it alone. Handles carry its number, so that any other server
can pass on what is asked of it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import secrets
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from uuid import UUID

from catalog import CatalogStore
from catalog.records import ServerRow
from model.errors import LakeError, Unavailable

_log = logging.getLogger(__name__)
_TELL_SECONDS = 10.0
_TELL_AGAIN_SECONDS = 1.0
"""After Postgres could not be told: others take whoever is silent for three times the usual pause for gone."""
SILENT_SECONDS = 30.0
"""Who could not tell that it lives may be silent for another reason than its end; so long Postgres must have been there for this server."""
_MISSED_SECONDS = 15.0
"""A server that was not seen for so long could not tell, or was held up; the others may have been, too."""
_FRESH_SECONDS = 2.0
"""How long what is known of the others is good for, but for a number that is not known."""
_KEY_BYTES = 32
_SEALS = b"sluice: servers' seals"
"""Makes of the pages' key one for another use."""


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
        self.name = name
        self._url: str | None = None
        self._lock = threading.Lock()
        self._tells = threading.Lock()
        """One at a time, so that what was told last is what is true now."""
        self._known: Mapping[int, ServerRow] = {}
        self._asked_at = 0.0
        self._reading: Future[Mapping[int, ServerRow]] | None = None
        """What one thread is about to know."""
        self._gone: set[int] = set()
        self._telling_since: float | None = None
        """Since when Postgres was told each time that this server lives."""
        self._missed: tuple[float, float] | None = None
        """Until when, and from when on, this server was not seen when that was last so for long."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sluice-peers", daemon=True)
        self.number, key = self._join()
        self._key = hmac.digest(key, _SEALS, hashlib.sha256)

    def _join(self) -> tuple[int, bytes]:
        while True:
            with self._catalog.transaction(brief=True) as tx:
                number = tx.servers.join(self.name)
                key = tx.state.pages_key(secrets.token_bytes(_KEY_BYTES))
            if number is not None:
                return number, key

    def seal(self, *said: str) -> str:
        """What only servers of the catalog can make of these words, the first of which tells what it is for: 64 hexadecimal digits."""
        return hmac.digest(self._key, json.dumps(said).encode(), hashlib.sha256).hex()

    def is_reached_here(self, row: ServerRow) -> bool:
        """Whether a server's processes are of the same machine, where addresses mean the same."""
        return row.name.rpartition("/")[0] == self.name.rpartition("/")[0]

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
        while not self._stop.wait(_TELL_SECONDS if self._telling_since is not None else _TELL_AGAIN_SECONDS):
            self._tell()

    def _tell(self) -> None:
        try:
            with self._tells, self._catalog.own() as tx:
                silent = tx.servers.tell(self.number, self.name, self._url)
        except LakeError:  # the others ask it themselves after a while
            _log.info("The catalog could not be told where this server is", exc_info=True)
            since = None
        except Exception:  # it is told as long as the server lives
            _log.exception("The catalog could not be told where this server is")
            since = None
        else:
            since = time.monotonic() if self._telling_since is None else self._telling_since
            self._was_silent(silent)
        with self._lock:
            self._telling_since = since

    def _was_silent(self, seconds: float | None) -> None:
        """Remember where this server was not seen for so long that all may have been taken for gone, as while Postgres was away."""
        if seconds is not None and seconds >= _MISSED_SECONDS:
            now = time.monotonic()
            with self._lock:
                self._missed = now, now - seconds

    def find(self, number: int) -> ServerRow | None:
        """The server of a number, also one that is gone for some days; raises `Unavailable`."""
        return self._rows(number).get(number)

    def others(self) -> list[ServerRow]:
        """The other servers that live, or did when this one was last able to tell of itself; raises `Unavailable`.

        After Postgres was away, or the machine stood still, nobody was seen for long; whoever comes back tells of itself in seconds.
        """
        rows = self._rows()
        with self._lock:
            return [row for row in rows.values() if row.number != self.number and (row.alive or self._may_live(row))]

    def _may_live(self, row: ServerRow) -> bool:
        now = time.monotonic()
        if self._missed is None or row.url is None or row.number in self._gone or now - self._missed[0] > SILENT_SECONDS:
            return False
        return self._asked_at - row.silent >= self._missed[1] - SILENT_SECONDS

    def answers_at(self, url: str | None) -> bool:
        """Whether this server answers there itself: whoever did before is gone."""
        return url is not None and url == self._url

    def is_gone(self, row: ServerRow) -> bool:
        """Whether a server has stopped, or was asked in vain after it had been silent for long."""
        with self._lock:
            return row.url is None or row.number in self._gone

    def asked_in_vain(self, row: ServerRow) -> bool:
        """Nobody of a server's number answers where it was; returns whether it is gone.

        Silence alone does not tell: Postgres may have been away, for all or for this server.
        """
        with self._lock:
            if not row.alive and self._telling_since is not None and time.monotonic() - self._telling_since >= SILENT_SECONDS:
                self._gone.add(row.number)
            return row.number in self._gone

    def _rows(self, wanted: int | None = None) -> Mapping[int, ServerRow]:
        """The servers by number, which one thread reads for all that ask meanwhile; while Postgres is away, as they were last."""
        with self._lock:
            known = wanted is None or wanted in self._known
            if known and time.monotonic() - self._asked_at <= _FRESH_SECONDS and self._known:
                return self._known
            reading, first = self._reading or Future(), self._reading is None
            self._reading = reading
        if first:
            self._read(reading)
        try:
            return reading.result()
        except Unavailable:
            if known and self._known:
                return self._known
            raise

    def _read(self, reading: Future[Mapping[int, ServerRow]]) -> None:
        try:
            with self._catalog.reading() as tx:
                rows = {row.number: row for row in tx.servers.all()}
        except BaseException as problem:
            self._done()
            reading.set_exception(problem)
        else:
            own = rows.get(self.number)
            self._was_silent(None if own is None else own.silent)
            self._done(rows)
            reading.set_result(rows)

    def _done(self, rows: Mapping[int, ServerRow] | None = None) -> None:
        with self._lock:
            self._reading = None
            self._asked_at = time.monotonic()
            if rows is not None:
                self._known = rows
                self._gone = {number for number in self._gone if number in rows and not rows[number].alive}
