"""The audit log: what was done is noted beside the work and written in batches, so that nobody waits for it."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator
from datetime import timedelta

from catalog import CatalogStore
from catalog.records import AuditRow
from model.errors import LakeError

_log = logging.getLogger(__name__)
_WRITE_SECONDS = 0.5
_FORGET_SECONDS = 3600.0
_MOST_WAITING = 100_000
"""Rows kept while Postgres is away; older ones give way."""
_BATCH = 5_000
_PAGE = 1_000


class AuditLog:
    """One server's writer of the log, and the log's reader."""

    def __init__(self, catalog: CatalogStore, *, kept: timedelta) -> None:
        self._catalog = catalog
        self._kept = kept
        self._waiting: deque[AuditRow] = deque(maxlen=_MOST_WAITING)
        self._writing = threading.Lock()
        self._stop = threading.Event()
        self._lost = 0
        self._said = ""
        self._thread = threading.Thread(target=self._run, name="sluice-audit", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def note(self, row: AuditRow) -> None:
        """Put a row into the log, soon."""
        if len(self._waiting) == _MOST_WAITING:
            self._lost += 1
        self._waiting.append(row)

    def flush(self) -> None:
        """Write what waits; raises `Unavailable` while Postgres is away, and nothing is lost then."""
        with self._writing:
            while rows := [self._waiting[at] for at in range(min(_BATCH, len(self._waiting)))]:
                with self._catalog.transaction() as tx:
                    tx.audit.add(rows)
                for _ in rows:
                    self._waiting.popleft()
            if self._lost:
                _log.error("%d entries of the audit log were lost while Postgres was away", self._lost)
                self._lost = 0

    def newest(self, principal: str | None) -> Iterator[AuditRow]:
        """What is in the log, of one principal or of all, the newest first."""
        self.flush()
        before: int | None = None
        while True:
            with self._catalog.reading() as tx:
                page = tx.audit.newest(principal=principal, before=before, limit=_PAGE)
            yield from page
            if len(page) < _PAGE:
                return
            before = page[-1].id

    def close(self) -> None:
        """Write the last rows and stop."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._try()

    def _run(self) -> None:
        forgotten = 0.0
        while not self._stop.wait(_WRITE_SECONDS):
            self._try()
            if time.monotonic() - forgotten > _FORGET_SECONDS:
                forgotten = time.monotonic()
                self._try_to_forget()

    def forget_old(self) -> None:
        """Drop what was kept long enough."""
        with self._catalog.transaction() as tx:
            tx.audit.forget(self._kept)

    def _try(self) -> None:
        try:
            self.flush()
            self._said = ""
        except LakeError as problem:
            if problem.message != self._said:  # it is tried twice a second
                _log.warning("The audit log waits: %s", problem.message)
            self._said = problem.message

    def _try_to_forget(self) -> None:
        try:
            self.forget_old()
        except LakeError:
            _log.warning("Old entries of the audit log could not be dropped", exc_info=True)
