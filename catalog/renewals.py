"""All connections of a pool let go of at once, where one shows that the others lead nowhere, either."""

from __future__ import annotations

import threading
import time

from psycopg_pool import ConnectionPool

from catalog.connection import CatalogConnection

Pool = ConnectionPool[CatalogConnection]

READER_SECONDS = 1.0
"""Once in so long connections are made anew where one is dead, or leads to a Postgres that can only be read: the primary may be another."""


class Renewals:
    """When the connections of each pool were let go of last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[str, float] = {}

    def renew(self, *pools: Pool, dead: CatalogConnection | None = None) -> None:
        """Let go of all connections of pools, those in use once they are free; once a second at most: no standby is flooded with them.

        One that is ``dead`` and was made since shows that those made with it are, too: the pool would try one after the other, after
        longer and longer pauses.
        """
        for pool in pools:
            with self._lock:
                last = self._last.get(pool.name, -READER_SECONDS)
                if time.monotonic() - last < READER_SECONDS and (dead is None or dead.made_at < last):
                    continue
                self._last[pool.name] = time.monotonic()
            pool.drain()
