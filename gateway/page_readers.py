"""Threads that make the rows of pages: so many of a server, in fair turns among principals, of whom none has all."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from model.work.fair_queue import FairQueue

_log = logging.getLogger(__name__)
_MOST = 128
_OF_ONE = _MOST * 3 // 4
_KEPT = _MOST // 8


@dataclass(frozen=True, slots=True, eq=False)
class _Reading:
    """The rows of one page, and for whom they are made."""

    fill: Callable[[], object]
    owner: str


class PageReaders:
    """At most so many pages are read at once; others wait for their turn, which costs nothing but a place in a queue."""

    def __init__(self, most: int = _MOST, *, of_one: int = _OF_ONE, kept: int = _KEPT) -> None:
        """``of_one`` may be one principal's; the last ``kept`` are only for principals of whom none is read."""
        self._lock = threading.Lock()
        self._waiting = FairQueue[_Reading](threads=most, running_limit=lambda _: of_one, places=most - kept)

    def read(self, fill: Callable[[], object], owner: str) -> None:
        """Read a page when it is its owner's turn. Raises `RuntimeError` where the machine has no thread for it."""
        own = _Reading(fill, owner)
        with self._lock:
            self._waiting.push(own)
            reading = self._waiting.pop()
        if reading is None:
            return
        try:
            threading.Thread(target=self._run, args=(reading,), name="sluice-result-page", daemon=True).start()
        except RuntimeError:
            with self._lock:
                self._waiting.done(reading)
                if reading is not own:  # a thread that ends takes it
                    self._waiting.push(reading)
                    return
            raise

    def _run(self, first: _Reading) -> None:
        reading: _Reading | None = first
        while reading is not None:
            try:
                reading.fill()
            except Exception:  # a reading tells its failure to who waits; what comes here is a bug
                _log.exception("A page of a result could not be read")
            with self._lock:
                self._waiting.done(reading)
                reading = self._waiting.pop()


READERS = PageReaders()
"""Those of this process."""
