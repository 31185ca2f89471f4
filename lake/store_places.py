"""Places beside the store, taken only once the table is free: there are few of them, for all tables."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from catalog import CatalogStore, CatalogTransaction, is_held
from catalog.connection import LOCK_TIMEOUT_MILLIS
from catalog.store import WAIT_SECONDS
from model.errors import Unavailable

T = TypeVar("T")
_LOCK_MILLIS = 250
"""How long a place is kept for what somebody else holds."""
_PAUSE_SECONDS = 0.25
_PATIENCE_SECONDS = LOCK_TIMEOUT_MILLIS / 1000


@contextlib.contextmanager
def locked_beside_store(
    catalog: CatalogStore,
    lock: Callable[[CatalogTransaction], T],
    *,
    place_seconds: float | None = WAIT_SECONDS,
    patience: float = _PATIENCE_SECONDS,
) -> Iterator[tuple[CatalogTransaction, T]]:
    """A transaction beside the store, and what ``lock`` answers, whose statements wait for a table or something of it.

    Its place is others' while that is somebody's: one table that is held for minutes, as by a repair, would keep those of all others
    waiting. ``place_seconds``: for how long a place is waited for, for ever with None; ``patience``: for how long the table is, with
    the places it takes meanwhile unless they are waited for for ever; in seconds. Raises `Unavailable` where either was in vain.
    """
    until: float | None = None
    while True:
        try:
            with contextlib.ExitStack() as locks:
                seconds = place_seconds
                if seconds is not None and until is not None:
                    seconds = min(seconds, max(0.0, until - time.monotonic()))
                tx = locks.enter_context(catalog.beside_store(seconds=seconds))
                tx.tables.wait_for(min(_LOCK_MILLIS, max(1, int(patience * 1000))))
                answer = lock(tx)
                tx.tables.wait_for(LOCK_TIMEOUT_MILLIS)  # what follows waits as everything does
                got = locks.pop_all()
        except Unavailable as problem:
            until = until or time.monotonic() + patience  # a wait for a place is none for the table
            if not is_held(problem) or time.monotonic() >= until:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            break
    with got:
        yield tx, answer
