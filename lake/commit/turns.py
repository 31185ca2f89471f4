"""Every writer's turn comes: who lost the race for a snapshot reserves the next one, and everybody else waits for it.

The reservation stands in Postgres, in the row that decides, so that all servers and clients respect it. Nobody asks for one before a
race is lost: a table with one writer pays nothing.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from uuid import UUID

from cachetools import TTLCache

from catalog import CatalogStore
from model.errors import LakeError

_FIRST_WAIT, _LONGEST_WAIT = 0.005, 0.2
_LEAST_SECONDS, _MOST_SECONDS = 0.3, 1.0
"""Of a server's reservation: three times what its last attempt took, between these."""
_CLIENT_SECONDS, _MOST_CLIENT_SECONDS = 0.5, 2.0
"""Of a client's, which has to hear that it lost, wait as it does between its tries, build anew and send: twice what it took for that
the last time, between these. One that takes longer than the most gets none: it would keep everybody, and come too late all the same."""
_CLIENT_LOSSES = 2
_LOOK_SECONDS = 0.005
"""While the next decision is another's it is looked for so often whether it was made."""
_UNUSED_SECONDS = 5.0
"""A principal one of whose clients let a reservation run out gets none for so long."""


class ServerTurn:
    """The turns of one commit of this server, from one lost race to the next."""

    def __init__(self, catalog: CatalogStore, writer: str, table_id: UUID, branch: str) -> None:
        self._catalog = catalog
        self._writer = writer
        self._place = (table_id, branch)
        self._lost = 0
        self._reserved = False

    def wait(self, took: float) -> None:
        """After a lost race of an attempt that took so long: until it is worth trying again."""
        self._lost += 1
        seconds = min(max(_LEAST_SECONDS, 3 * took), _MOST_SECONDS)
        until = time.monotonic() + _MOST_SECONDS
        while time.monotonic() < until:
            with self._catalog.reading() as tx:
                found = tx.reservations.ask(*self._place, self._writer, seconds=seconds)
            if found.mine:
                self._reserved = True
                return
            if not found.others_seconds:  # nobody's, and too soon after one that was not used
                wait = min(_FIRST_WAIT * 2 ** min(self._lost - 1, 20), _LONGEST_WAIT)
                time.sleep(wait * random.uniform(0.5, 1.2))
                return
            time.sleep(min(_LOOK_SECONDS, found.others_seconds))

    def give_up(self) -> None:
        """The commit failed: the next decision is anybody's again."""
        if self._reserved:
            with contextlib.suppress(LakeError), self._catalog.reading() as tx:
                tx.reservations.release(*self._place, self._writer)


class ClientTurns:
    """The turns of commits that clients built: each attempt is a request of its own, told apart by principal and ``commitUser``."""

    def __init__(self, catalog: CatalogStore) -> None:
        self._catalog = catalog
        self._lock = threading.Lock()
        self._losses: TTLCache[tuple[UUID, str, str], int] = TTLCache(10_000, 30.0)
        self._told: TTLCache[tuple[UUID, str, str], float] = TTLCache(10_000, 30.0)
        """When a client was told that it lost."""
        self._reserved: TTLCache[str, str] = TTLCache(10_000, _UNUSED_SECONDS)
        """Principals with a reservation not used yet, and for which writer."""

    def committed(self, table_id: UUID, branch: str, principal: str, user: str) -> None:
        """A client's commit was decided: it has lost nothing."""
        writer = writer_of(principal, user)
        with self._lock:
            self._losses.pop((table_id, branch, writer), None)
            self._told.pop((table_id, branch, writer), None)
            if self._reserved.get(principal) == writer:
                self._reserved.pop(principal, None)

    def lost(self, table_id: UUID, branch: str, principal: str, user: str) -> None:
        """A client's commit lost its race: it hears of it once it is worth building it anew."""
        writer = writer_of(principal, user)
        key = (table_id, branch, writer)
        now = time.monotonic()
        with self._lock:
            count = self._losses[key] = self._losses.get(key, 0) + 1
            again = now - self._told.pop(key, now)  # from hearing of its last loss until now
        wants = count >= _CLIENT_LOSSES and again <= _MOST_CLIENT_SECONDS
        seconds = min(max(_CLIENT_SECONDS, 2 * again), _MOST_CLIENT_SECONDS)
        try:
            self._wait(table_id, branch, principal, writer, seconds=seconds if wants else 0.0)
        except LakeError:  # it lost, and that is all it must know
            pass
        finally:
            with self._lock:
                self._told[key] = time.monotonic()

    def _wait(self, table_id: UUID, branch: str, principal: str, writer: str, *, seconds: float) -> None:
        """Until the next decision is nobody's or the client's, whose it becomes for these seconds when its principal holds no other."""
        until = time.monotonic() + _MOST_SECONDS
        while time.monotonic() < until:
            with self._lock:
                free = principal not in self._reserved
            with self._catalog.reading() as tx:
                found = tx.reservations.ask(table_id, branch, writer, seconds=seconds if free else 0.0)
            if found.mine:
                with self._lock:
                    self._reserved[principal] = writer
            if not found.others_seconds:
                return
            time.sleep(min(_LOOK_SECONDS, found.others_seconds))


def writer_of(principal: str, user: str) -> str:
    """A client as reservations name it."""
    return f"{principal}/{user}"
