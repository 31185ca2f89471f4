"""Being woken by commits: Postgres tells every server of each published snapshot (`LISTEN sluice_snapshot`).

A pooler in transaction mode passes no notices on. Where no DSN leads past it, one query a moment looks for all waiters.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

import psycopg

from catalog.connection import noticing_loss
from model.errors import LakeError

_log = logging.getLogger(__name__)
CHANNEL = "sluice_snapshot"
_LOOK_SECONDS = 5.0
"""How often the connection is asked whether it lives, and the thread whether it is still wanted."""
_RETRY_SECONDS = 1.0
_POLL_SECONDS = 0.5
"""Without notices: a stream hears of a commit so much later, and Postgres is asked twice a second while there are streams."""

Wake = Callable[[], None]
Branch = tuple[UUID, str]
NewestOf = Callable[[Sequence[Branch]], Mapping[Branch, int]]
"""The newest published snapshots of branches."""


class Notices:
    """One connection and one thread for all waiters of the process, there only while somebody waits.

    A notice may be lost (a broken connection, a standby that takes over); whoever waits also looks from time to time.
    """

    def __init__(self, dsn: str | None, newest_of: NewestOf) -> None:
        """Without a ``dsn`` that notices come through, ``newest_of`` is asked again and again."""
        self._dsn = dsn
        self._newest_of = newest_of
        self._lock = threading.Lock()
        self._waiters: dict[Branch, dict[int, Wake]] = {}
        self._number = 0
        self._thread: threading.Thread | None = None
        self._closed = False

    def subscribe(self, table_id: UUID, branch: str, wake: Wake) -> Callable[[], None]:
        """Call ``wake`` at each snapshot of the branch, on a thread that must not be kept; returns what ends it."""
        key = (table_id, branch)
        with self._lock:
            self._number += 1
            number = self._number
            self._waiters.setdefault(key, {})[number] = wake
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._listen, name="sluice-notices", daemon=True)
                self._thread.start()
        return lambda: self._forget(key, number)

    def close(self) -> None:
        """Let the thread end; waiters hear nothing more."""
        with self._lock:
            self._closed = True
            self._waiters.clear()

    @property
    def waiters(self) -> int:
        """How many wait."""
        with self._lock:
            return sum(map(len, self._waiters.values()))

    def _forget(self, key: Branch, number: int) -> None:
        with self._lock:
            waiters = self._waiters.get(key, {})
            waiters.pop(number, None)
            if not waiters:
                self._waiters.pop(key, None)

    def _wanted(self) -> bool:
        """Whether anybody waits; where not, the thread that asks is the last to know of itself."""
        with self._lock:
            if self._waiters and not self._closed:
                return True
            self._thread = None
            return False

    def _listen(self) -> None:
        pause = threading.Event()  # never set: a sleep
        while self._wanted():
            try:
                if self._poll(pause) if self._dsn is None else self._hear(self._dsn):
                    return
            except (psycopg.Error, LakeError):
                _log.info("The connection that hears of commits was lost; streams look by themselves until it is back")
                pause.wait(_RETRY_SECONDS)
            except Exception:  # commits are heard of as long as anybody waits
                _log.exception("Commits could not be heard of; streams look by themselves until they are")
                pause.wait(_RETRY_SECONDS)

    def _poll(self, pause: threading.Event) -> bool:
        """Look for new snapshots until nobody waits (True) or Postgres is away."""
        known: dict[Branch, int] = {}
        while self._wanted():
            with self._lock:
                branches = list(self._waiters)
            newest = self._newest_of(branches)
            ids = {branch: newest.get(branch, 0) for branch in branches}
            for branch, snapshot_id in ids.items():
                if known.get(branch) != snapshot_id:
                    self._wake(branch)
            known = ids
            pause.wait(_POLL_SECONDS)
        return True

    def _hear(self, dsn: str) -> bool:
        """Pass notices on until nobody waits (True) or the connection breaks."""
        with psycopg.connect(dsn, autocommit=True, **noticing_loss(dsn, connect_timeout=3)) as conn:
            conn.execute(f"LISTEN {CHANNEL}")
            self.wake_all()  # what was committed before this connection listened was told to nobody
            while True:
                for notice in conn.notifies(timeout=_LOOK_SECONDS):
                    table_id, _, branch_name = notice.payload.partition(" ")
                    with contextlib.suppress(ValueError):  # whoever is let into the database can send notices
                        self._wake((UUID(table_id), branch_name))
                if not self._wanted():
                    return True
                conn.execute("SELECT 1")

    def _wake(self, key: Branch) -> None:
        with self._lock:
            waiters = list(self._waiters.get(key, {}).values())
        for wake in waiters:
            wake()

    def wake_all(self) -> None:
        """Let all who wait look, for whatever else they wait for than snapshots, too."""
        with self._lock:
            keys = list(self._waiters)
        for key in keys:
            self._wake(key)
