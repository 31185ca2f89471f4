"""Connections that die: told as Unavailable at worst, and replaced without anybody's help."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool

from catalog import CatalogStore
from catalog.store import HOPELESS_SECONDS, WAIT_SECONDS
from model.catalog_errors import CatalogFull
from model.errors import Unavailable
from tests.waiting import eventually

PLACE = (UUID(int=1), "main")

Change = Callable[[CatalogStore], object]


def kill_all(dsn: str) -> None:
    """End every connection to the database but our own, as a restart of Postgres does; all are gone then."""
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid = ANY(%s)"
    with psycopg.connect(dsn, autocommit=True) as conn:
        found = conn.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()").fetchall()
        pids = [pid for (pid,) in found]
        conn.execute(f"SELECT pg_terminate_backend(pid) {others}", (pids,))
        # Told to wait for each, Postgres looks every tenth of a second.
        assert eventually(lambda: conn.execute(f"SELECT count(*) {others}", (pids,)).fetchone() == (0,))


def test_a_connection_that_died_long_after_it_worked_is_noticed_before_use(
    dsn: str, catalog: CatalogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Again and again within a second, as where Postgres crashes as soon as it is up: none of the dead costs the pool's growing pauses."""
    monkeypatch.setattr("catalog.store.TRUSTED_SECONDS", -1.0)
    pauses: list[float] = []

    def paused(seconds: float) -> None:
        if threading.current_thread() is threading.main_thread():
            pauses.append(seconds)
        else:  # somebody else's pool
            time.sleep(seconds)

    monkeypatch.setattr("psycopg_pool.pool.sleep", paused)
    for _ in range(6):
        with catalog.transaction() as tx:
            assert tx.databases.names() == ["default"]
        kill_all(dsn)
    assert sum(pauses) < 2, "one at most may have been made while the others were let go of"


def test_where_one_connection_died_the_others_are_not_tried(dsn: str, catalog: CatalogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool tries one after the other, after longer and longer pauses: of four that a restart left behind it had no time to find one."""
    with contextlib.ExitStack() as opened:
        for _ in range(6):
            opened.enter_context(catalog.transaction()).databases.names()
    kill_all(dsn)
    dead: list[object] = []
    check = ConnectionPool.check_connection
    own = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]

    def counted(conn: psycopg.Connection) -> None:
        of_this_test = conn.info.dbname == own  # what other tests left behind may look at its own
        try:
            check(conn)
        except psycopg.Error:
            if of_this_test:
                dead.append(conn)
            raise

    monkeypatch.setattr(ConnectionPool, "check_connection", staticmethod(counted))
    with catalog.transaction() as tx:
        assert tx.databases.names() == ["default"]
    assert len(dead) == 1


def test_where_a_statements_connection_died_the_servers_own_live_on(dsn: str, catalog: CatalogStore) -> None:
    """Where Postgres has none free, its leases and signs of life would be lost with them."""
    with catalog.own() as tx:
        own = tx.databases._conn.info.backend_pid
    with catalog.transaction() as tx:
        pid = tx.databases._conn.info.backend_pid
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("SELECT pg_terminate_backend(%s, 30000)", (pid,))
    for _ in range(3):
        with catalog.transaction() as tx:
            assert tx.databases.names() == ["default"]
    with catalog.own() as tx:
        assert tx.databases._conn.info.backend_pid == own


def test_a_connection_that_died_while_it_was_trusted_fails_once_and_is_replaced(dsn: str, catalog: CatalogStore) -> None:
    with catalog.reading() as tx:
        tx.databases.names()
    kill_all(dsn)
    failures = 0
    for _ in range(5):
        try:
            with catalog.transaction() as tx:
                tx.databases.names()
        except Unavailable:
            failures += 1
    assert failures <= 2  # one for each connection the pool held
    catalog.ping()


def test_who_asks_several_times_waits_once_for_a_postgres_that_lets_nobody_in(
    dsn: str, server_dsn: str, catalog: CatalogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    connection = ConnectionPool.connection
    pools = (catalog._pool, catalog._turn_pool, catalog._own_pool)

    def noted(pool: ConnectionPool[Any], timeout: float) -> AbstractContextManager[Any]:
        if pool not in pools:  # what another test left behind
            return connection(pool, timeout)
        waits.append(timeout)
        return connection(pool, min(timeout, 0.5))

    monkeypatch.setattr(ConnectionPool, "connection", noted)
    catalog.ping()
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        name = sql.Identifier(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"])  # type: ignore[arg-type]
        conn.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
        conn.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name.as_string().strip('"'),))
        assert eventually(lambda: not _answers(catalog) and catalog._refusals.failing)  # those it had are found dead
        catalog._in_vain = False
        waits.clear()
        for _ in range(3):
            with pytest.raises(Unavailable), catalog.reading() as tx:
                tx.databases.names()
        with pytest.raises(Unavailable):
            catalog.ping()
        assert waits == [WAIT_SECONDS, *[HOPELESS_SECONDS] * 4]
        conn.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))
    assert eventually(lambda: _answers(catalog))
    waits.clear()
    with contextlib.suppress(Unavailable), catalog.reading():
        """Its connection may be one that is still being made."""
    assert waits == [WAIT_SECONDS]


def _answers(catalog: CatalogStore) -> bool:
    with contextlib.suppress(Unavailable):
        catalog.ping()
        return True
    return False


def test_a_postgres_that_can_only_be_read_says_so(dsn: str) -> None:
    """A standby, as after a failover to another machine."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(sql.Identifier(conn.info.dbname)))
    catalog = CatalogStore(dsn)
    try:
        with catalog.reading() as tx:
            assert tx.databases.names() == ["default"]
        with pytest.raises(Unavailable, match="can only be read"):
            catalog.ping()
        with pytest.raises(Unavailable, match="can only be read"), catalog.transaction() as tx:
            tx.state.note_run()
        with pytest.raises(Unavailable, match="can only be read"), catalog.deciding() as tx:
            tx.state.note_run()
    finally:
        catalog.close()


@contextlib.contextmanager
def on_a_reader(dsn: str) -> Iterator[CatalogStore]:
    """A store whose connections lead to a Postgres that can only be read, and live on there; later ones lead to one that can be written."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        name = sql.Identifier(conn.info.dbname)
        conn.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name))
        catalog = CatalogStore(dsn, max_connections=4)
        try:
            with catalog.reading(), catalog.reading(), catalog.turn([PLACE], seconds=20) as turn:
                assert turn is not None
                conn.execute(sql.SQL("ALTER DATABASE {} RESET default_transaction_read_only").format(name))
            yield catalog
        finally:
            catalog.close()


def decided(catalog: CatalogStore) -> None:
    with catalog.deciding() as tx:
        tx.state.note_run()


def committed(catalog: CatalogStore) -> None:
    with catalog.transaction() as tx:
        tx.state.note_run()


def decided_in_turn(catalog: CatalogStore) -> None:
    with catalog.turn([PLACE], seconds=5) as turn:
        assert turn is not None
        with catalog.transaction(turn=turn) as tx:
            tx.state.note_run()


def repeated(catalog: CatalogStore, change: Change) -> None:
    """Over all connections: on a busy machine one of them comes late, and leads to where it can be written."""
    for _ in range(8):
        change(catalog)


def goes(catalog: CatalogStore, change: Change) -> bool:
    with contextlib.suppress(Unavailable):
        change(catalog)
        return True
    return False


@pytest.mark.parametrize("change", [decided, committed, decided_in_turn, CatalogStore.ping])
def test_connections_that_stayed_on_a_standby_after_a_failover_are_let_go(dsn: str, change: Change) -> None:
    with on_a_reader(dsn) as catalog:
        with pytest.raises(Unavailable, match="can only be read"):
            repeated(catalog, change)
        assert eventually(lambda: all(goes(catalog, one) for one in (change, decided, committed) for _ in range(8)))
        with catalog.reading() as first, catalog.reading() as second, catalog.reading() as third:
            assert [tx.state.is_writable() for tx in (first, second, third)] == [True] * 3


@pytest.mark.parametrize("said", ["dsn", "environment"])
def test_start_up_options_of_the_dsn_hold_and_go_before_the_servers(dsn: str, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """``synchronous_commit`` says which standby has a commit that is acknowledged, ``search_path`` where the catalog lies."""
    options = "-c synchronous_commit=remote_apply -c search_path=sluice,pg_catalog -c lock_timeout=7s"
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("ALTER SCHEMA public RENAME TO sluice")
    if said == "environment":
        monkeypatch.setenv("PGOPTIONS", options)
    own = make_conninfo(dsn, options=options) if said == "dsn" else dsn
    catalog = CatalogStore(own)
    try:
        with catalog.transaction() as tx:
            row = tx.state._conn.execute(
                "SELECT current_setting('synchronous_commit'), current_setting('lock_timeout'), current_setting('statement_timeout'), "
                "'catalog_state'::regclass = 'sluice.catalog_state'::regclass"
            ).fetchone()
        assert row == ("remote_apply", "7s", "1min", True)
    finally:
        catalog.close()


def test_a_postgres_without_room_says_so(catalog: CatalogStore) -> None:
    full = "DO $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$"
    with pytest.raises(CatalogFull, match="no space left") as raised, catalog.transaction() as tx:
        tx.databases._conn.execute(full)
    assert raised.value.status == 507
    assert isinstance(raised.value, Unavailable), "whoever lives on without Postgres lives on without its space"
