"""A backup keeps what it names: while one runs nothing is decided by which files of the warehouse go.

The backup holds a lock in a transaction of its own, which decisions of that kind share for as long as theirs last: what was decided
before is in the backup, and nothing is decided after. The lock goes with the backup's connection, however that ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psycopg
from psycopg import Cursor

from catalog.connection import CatalogConnection, connect, notice_this_machine
from catalog.objects.directories import FILLED_KEY
from model.catalog_errors import BackupRunning
from model.errors import IllegalMove, Unavailable

BACKUP = "sluice-backup"
"""What a backup calls its connection."""
_FILLS = "sluice-restore"
"""What a restore calls the connection that keeps the directory it fills."""
_KEY = "hashtextextended('sluice backup', 0)"
_TRY = f"SELECT pg_try_advisory_xact_lock_shared({_KEY})"
_WAIT = "60s"
"""Decisions that are under way when a backup begins are short."""


class HoldRepository:
    """Asks for a backup inside the caller's transaction."""

    def __init__(self, conn: CatalogConnection) -> None:
        self._conn = conn

    def require_no_backup(self, doing: str) -> None:
        """Raise `BackupRunning` while one runs; one that begins now waits until this transaction has ended."""
        self._require(self._conn.execute(_TRY), doing)

    def none_ahead(self, doing: str) -> Callable[[], None]:
        """The same, asked with the next statement; what is returned raises then. A backup waits in any case."""
        cursor = self._conn.ahead(_TRY)
        return lambda: self._require(cursor, doing)

    def _require(self, asked: Cursor[Any], doing: str) -> None:
        row = asked.fetchone()
        assert row is not None
        if not row[0]:
            raise BackupRunning(doing, since=self._since())

    def _since(self) -> str | None:
        query = "SELECT min(xact_start) FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"
        row = self._conn.execute(query, (BACKUP,)).fetchone()
        return None if row is None or row[0] is None else f"{row[0]:%Y-%m-%d %H:%M:%S %Z}"


@contextlib.contextmanager
def holding(dsn: str) -> Iterator[Callable[[], None]]:
    """Let no file go until the block ends; what is yielded raises `Unavailable` where that did not hold all the time.

    Raises `IllegalMove` where another backup runs, and `Unavailable` where Postgres is away.
    """
    taken = "Another backup of this catalog runs: wait until it has ended."
    lost = "Postgres went away while the backup ran, so that files it names may have expired meanwhile: make another one."
    with _locked(dsn, BACKUP, f"SELECT pg_advisory_xact_lock({_KEY})", None, taken=taken, lost=lost) as check:
        yield check


@contextlib.contextmanager
def filling(dsn: str, directory: str) -> Iterator[Callable[[], None]]:
    """Let nobody remove a directory that is on record as garbage until the block ends, while it is filled for a table that is to be.

    What is yielded raises `Unavailable` where that did not hold all the time, as this does where Postgres is away.
    """
    taken = f"{directory} is being removed or filled: repeat the command."
    lost = f"Postgres went away while {directory} was filled, so that it may have been removed meanwhile: repeat the command."
    with _locked(dsn, _FILLS, f"SELECT pg_advisory_xact_lock({FILLED_KEY})", {"location": directory}, taken=taken, lost=lost) as check:
        yield check


@contextlib.contextmanager
def _locked(
    dsn: str, application_name: str, lock: str, of: Mapping[str, str] | None, *, taken: str, lost: str
) -> Iterator[Callable[[], None]]:
    """Hold a lock in a transaction of a connection's own until the block ends; what is yielded raises where that is lost."""
    with contextlib.ExitStack() as open_:
        try:
            conn = open_.enter_context(connect(dsn, application_name=application_name))
            open_.enter_context(conn.transaction())
            conn.execute(f"SET LOCAL lock_timeout = '{_WAIT}'")
            conn.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            notice_this_machine(conn)  # else files are kept for hours after it is gone
            conn.execute(lock, of)
        except psycopg.errors.LockNotAvailable:
            raise IllegalMove(taken) from None
        except (psycopg.OperationalError, psycopg.InterfaceError) as problem:
            raise Unavailable(f"The catalog database cannot be used now: {problem}") from problem

        def check() -> None:
            try:
                conn.execute("SELECT 1")
            except psycopg.Error as problem:
                raise Unavailable(lost) from problem

        yield check
        with contextlib.suppress(psycopg.Error):  # all is done, and what was held has ended with the connection
            open_.close()
