"""A restore and the start of a server keep out of each other's way: each holds a lock that the other asks for.

A server holds it, together with others that start, until its connections can be seen; it goes with the connection however that ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg

from catalog.away import away
from catalog.connection import connect, notice_this_machine
from model.errors import IllegalMove

_NAME = "sluice-restore"
"""What whoever holds the lock calls the connection."""
_KEY = "hashtextextended('sluice restore', 0)"


@contextlib.contextmanager
def restoring(dsn: str) -> Iterator[None]:
    """Let no server start until the block ends; raises `IllegalMove` where one starts now, or another restore runs."""
    with _locked(dsn, f"pg_advisory_xact_lock({_KEY})", "A server starts on this catalog, or another restore of it runs: stop it first."):
        yield


@contextlib.contextmanager
def starting(dsn: str) -> Iterator[None]:
    """Let no restore begin until the block ends; raises `IllegalMove` where one runs."""
    taking = f"pg_advisory_xact_lock_shared({_KEY})"
    with _locked(dsn, taking, "`sluice restore` is at work on this catalog: start the server once that has ended."):
        yield


@contextlib.contextmanager
def _locked(dsn: str, taking: str, refusal: str) -> Iterator[None]:
    """Hold a lock in a transaction, as a pooler may be there; one that is lost meanwhile is no failure of what was done under it."""
    conn = connect(dsn, application_name=_NAME)  # whose failure says to the operator what is wrong with the DSN
    try:
        try:
            conn.execute("BEGIN")
            conn.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            conn.execute("SET LOCAL lock_timeout = '2s'")
            notice_this_machine(conn)  # else nobody else gets the lock for hours after it is gone
            try:
                conn.execute(f"SELECT {taking}")
            except psycopg.errors.LockNotAvailable:
                conn.execute("ROLLBACK")
                raise IllegalMove(refusal + _holders(conn)) from None
        except (psycopg.OperationalError, psycopg.InterfaceError) as problem:
            raise away(problem) from problem
        yield
    finally:
        with contextlib.suppress(psycopg.Error):
            conn.close()


def _holders(conn: psycopg.Connection) -> str:
    """Who holds the lock, and the way out where a machine is gone and Postgres has not noticed."""
    query = f"""
        SELECT a.pid, coalesce(host(a.client_addr), 'Postgres''s own machine'), to_char(a.xact_start, 'YYYY-MM-DD HH24:MI:SS TZ')
        FROM pg_locks l JOIN pg_stat_activity a USING (pid)
        WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND a.datname = current_database()
        AND l.database = a.datid AND (l.classid::bigint << 32 | l.objid::bigint) = {_KEY}
        ORDER BY 1
    """  # noqa: S608 - the key is a literal of this module
    holders = conn.execute(query).fetchall()
    if not holders:
        return ""
    processes = "; ".join(f"Postgres's process {pid}, of {address}, since {since}" for pid, address, since in holders)
    ends = " and ".join(f"`SELECT pg_terminate_backend({pid})`" for pid, _, _ in holders)
    return f" The lock is held by {processes}. Where no such command lives there any more, {ends} in Postgres lets it go."
