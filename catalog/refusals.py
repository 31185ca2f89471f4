"""Why Postgres lets nobody in, as it says itself: the pool that tries in the background only says that no connection came."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import psycopg

from catalog.connection import CatalogConnection

TRUSTED_SECONDS = 10.0
"""For so long after it was said a refusal is told as the cause: the pool tries again within this time."""
NONE_FREE = "it has no free connection: others use all that its max_connections allows"
_NONE_FREE = re.compile(r"too many (clients|connections)|connection slots are reserved", re.IGNORECASE)
_NONE_FREE_STATE = "53300"


class Refusals:
    """The last refusal of a connection, of those whose words are anybody's to read: they name no address and no user."""

    def __init__(self, others: Refusals | None = None) -> None:
        """``others``: of connections that can be made, too, once one of these was; that none of these can says nothing of them."""
        self._others = others
        self._lock = threading.Lock()
        self._last: tuple[float, str] | None = None
        self._failing = False

    def heard(self, problem: psycopg.OperationalError) -> None:
        """Take in why a connection could not be made."""
        self._failing = True
        if problem.sqlstate == _NONE_FREE_STATE or _NONE_FREE.search(str(problem)):
            with self._lock:
                self._last = time.monotonic(), NONE_FREE

    @property
    def failing(self) -> bool:
        """Whether the last try to make a connection failed."""
        return self._failing

    def made(self) -> None:
        """A connection was made."""
        self._failing = False
        if self._others is not None:
            self._others.made()

    def cause(self) -> str | None:
        """The last refusal, where it was said just now."""
        with self._lock:
            if self._last is None or time.monotonic() - self._last[0] > TRUSTED_SECONDS:
                return None
            return self._last[1]

    def told_by(self, kind: type[CatalogConnection]) -> type[CatalogConnection]:
        """The same kind of connection, which tells of refusals here."""
        refusals = self

        class Telling(kind):  # type: ignore[valid-type, misc]
            @classmethod
            def connect(cls, *args: Any, **kwargs: Any) -> Any:
                try:
                    made = super().connect(*args, **kwargs)
                except psycopg.OperationalError as problem:
                    refusals.heard(problem)
                    raise
                refusals.made()
                return made

        return Telling
