"""A catalog behind PgBouncer in transaction mode: limits hold, nothing is prepared, and streams hear of commits."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import psycopg
import pytest

from catalog import CatalogStore
from catalog.connection import LOCK_TIMEOUT_MILLIS, STATEMENT_TIMEOUT_MILLIS, PooledConnection
from gateway.gateway import Gateway
from lake import EVERYBODY, Lake
from model.errors import OutcomeUnknown, Unavailable
from model.identifier import Identifier
from tests.fix_gateway import NoSpark
from tests.fix_pgbouncer import leading_to, through_pgbouncer
from tests.fix_postgres_proxy import PostgresProxy, before_postgres
from tests.waiting import eventually

_LIMITS = "SELECT current_setting('statement_timeout'), current_setting('lock_timeout')"
_IN_FORCE = (f"{STATEMENT_TIMEOUT_MILLIS // 60_000}min", f"{LOCK_TIMEOUT_MILLIS // 1000}s")

_ROWS = 60


@pytest.fixture
def pooled(pooled_dsn: str) -> Iterator[CatalogStore]:
    store = CatalogStore(pooled_dsn, pooled=True)
    yield store
    store.close()


def test_a_store_that_does_not_know_of_the_pooler_does_not_come_in(pooled_dsn: str) -> None:
    """So that these tests would notice a PgBouncer that is none."""
    store = CatalogStore(pooled_dsn)
    try:
        with pytest.raises(Unavailable):
            store.ping()
    finally:
        store.close()


def test_limits_hold_in_every_kind_of_transaction_and_are_nobody_elses(pooled: CatalogStore, pooled_dsn: str) -> None:
    with pooled.reading() as tx:
        assert tx.databases._conn.execute(_LIMITS).fetchone() == _IN_FORCE
        assert tx.databases._conn.execute(_LIMITS).fetchone() == _IN_FORCE
    with pooled.deciding() as tx:
        assert tx.databases._conn.execute(_LIMITS).fetchone() == _IN_FORCE
    with pooled.transaction() as tx:
        assert tx.databases._conn.execute(_LIMITS).fetchone() == _IN_FORCE
    with pooled.consistent() as tx:
        assert tx.databases._conn.execute(_LIMITS).fetchone() == _IN_FORCE
    with pooled.reading() as tx, tx.databases._conn.transaction():
        assert tx.databases._conn.execute(_LIMITS).fetchone() == _IN_FORCE
    with pooled.turn([(UUID(int=1), "main")], seconds=7) as turn:
        assert turn is not None
        with pooled.transaction(turn=turn) as tx:
            assert tx.databases._conn.execute(_LIMITS).fetchone() == (_IN_FORCE[0], "7s")
    for _ in range(8):
        with psycopg.connect(pooled_dsn, autocommit=True, prepare_threshold=None) as other:
            assert other.execute(_LIMITS).fetchone() == ("0", "0")


def test_what_is_kept_is_seen_at_one_moment(pooled: CatalogStore, catalog: CatalogStore) -> None:
    for store in (pooled, catalog):
        with store.consistent() as tx:
            before = tx.databases.names()
            with catalog.transaction() as other:
                other.databases.create(f"d{len(before)}", comment=None, options={})
            assert tx.databases.names() == before
            with pytest.raises(psycopg.Error, match="read-only"):
                tx.databases._conn.execute("UPDATE sluice_database SET comment = 'x'")
        with store.transaction() as tx:
            assert tx.databases.names() != before
            tx.databases._conn.execute("UPDATE sluice_database SET comment = 'x'")


def test_a_statement_and_a_lock_that_last_too_long_end(pooled: CatalogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    short = "SELECT set_config('statement_timeout', '{}', true), set_config('lock_timeout', '{}', true)"
    lock = "SELECT pg_advisory_xact_lock(1)"
    monkeypatch.setattr(PooledConnection, "opening", ((short.format(200, 0), None),))
    for way in (pooled.reading, pooled.deciding, pooled.transaction):
        with pytest.raises(Unavailable, match="57014"), way() as tx:
            tx.databases._conn.execute("SELECT pg_sleep(60)")
    monkeypatch.setattr(PooledConnection, "opening", ((short.format(0, 200), None),))
    with pooled.transaction() as holder:
        holder.databases._conn.execute(lock)
        for way in (pooled.reading, pooled.deciding, pooled.transaction):
            with pytest.raises(Unavailable, match="55P03"), way() as tx:
                tx.databases._conn.execute(lock)
    pooled.ping()


def _fail_after_a_change(catalog: CatalogStore, name: str) -> None:
    with catalog.transaction() as tx:
        tx.databases.create(name, comment=None, options={}, by=None)
        tx.databases._conn.execute("SELECT 1 / 0")


def test_what_fails_leaves_nothing_behind_for_the_next_client(pooled: CatalogStore) -> None:
    for number in range(20):
        with pytest.raises(psycopg.errors.DivisionByZero):
            _fail_after_a_change(pooled, f"d{number}")
        with pytest.raises(psycopg.errors.DivisionByZero), pooled.reading() as tx:
            tx.databases._conn.execute("SELECT 1 / 0")
        with pooled.reading() as tx:
            assert tx.databases.names() == ["default"]


def _insert_all(lake: Lake, name: str) -> None:
    """Each row twice under its key, by many threads."""
    gateway = Gateway(lake, NoSpark())

    def insert(number: int) -> None:
        for _ in range(2):
            gateway.run(f"INSERT INTO t VALUES ({number}, {number % 3})", idempotency_key=f"{name} {number}", caller=EVERYBODY).close()

    try:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(insert, range(_ROWS)))
    finally:
        gateway.close()


def test_two_servers_write_one_table_through_few_connections(pooled_dsn: str, tmp_path: Path) -> None:
    """Keys, partitions, turns and DDL; more clients than connections to Postgres."""
    stores = [CatalogStore(pooled_dsn, pooled=True) for _ in range(2)]
    lakes = [Lake(store, str(tmp_path / "warehouse")) for store in stores]
    try:
        first = Gateway(lakes[0], NoSpark())
        first.run("CREATE TABLE t (id INT, part INT) PARTITIONED BY (part)").close()
        with ThreadPoolExecutor(2) as servers:
            list(servers.map(_insert_all, lakes, ("first", "second")))
        with first.run("SELECT id FROM t") as rows:
            assert sorted(number for (number,) in rows.collect()) == sorted(2 * list(range(_ROWS)))
        first.close()
    finally:
        for lake, store in zip(lakes, stores, strict=True):
            lake.close()
            store.close()


def test_a_pooler_costs_no_round_trip(postgres_proxy: PostgresProxy) -> None:
    counts: list[list[str]] = []
    for pooled in (False, True):
        store = CatalogStore(postgres_proxy.dsn, pooled=pooled)
        try:
            store.ping()
            postgres_proxy.reset()
            with store.reading() as tx:
                tx.databases.names()
            with store.transaction() as tx:
                tx.databases.names()
                tx.databases.names()
            counts.append(postgres_proxy.asked(without=r"^\(prepares\)$|^SELECT set_config[^;]*(; )?$"))  # a look at a new connection
        finally:
            store.close()
    assert [len(trips) for trips in counts] == [4, 4], counts
    assert not postgres_proxy.prepared


@pytest.mark.parametrize("direct", [True, False])
def test_streams_hear_of_commits(pooled_dsn: str, dsn: str, tmp_path: Path, direct: bool) -> None:
    store = CatalogStore(pooled_dsn, pooled=True, direct_dsn=dsn if direct else None)
    lake = Lake(store, str(tmp_path / "warehouse"))
    gateway = Gateway(lake, NoSpark())
    try:
        gateway.run("CREATE TABLE t (id INT)").close()
        table = lake.open(Identifier("default", "t"))
        heard = threading.Semaphore(0)
        unsubscribe = store.notices.subscribe(table.table_id, "main", heard.release)
        assert heard.acquire(timeout=60)  # as of its beginning
        for number in range(3):
            gateway.run(f"INSERT INTO t VALUES ({number})").close()
            assert heard.acquire(timeout=60)
        unsubscribe()
    finally:
        gateway.close()
        lake.close()
        store.close()


def test_what_waits_in_the_pooler_for_a_postgres_that_is_away_ends_with_its_query_wait_timeout(dsn: str) -> None:
    """The pooler lets clients in and keeps their statements: whoever waits hears of it from the pooler alone."""
    with before_postgres(dsn) as proxy, leading_to(proxy.dsn, waits=1) as port:
        store = CatalogStore(through_pgbouncer(port, proxy.dsn), pooled=True)
        try:
            with store.reading() as first, store.reading() as second:  # two connections that are trusted
                assert first.state.is_writable()
                assert second.state.is_writable()
            proxy.away_after(0)
            for connection in proxy.clients:
                with contextlib.suppress(OSError):  # the pooler has left it
                    connection.shutdown(socket.SHUT_RDWR)
            with pytest.raises(Unavailable):
                store.ping()
            with pytest.raises((Unavailable, OutcomeUnknown)), store.deciding() as tx:
                tx.state.note_run()
            proxy.back()
            assert eventually(lambda: _answers(store))
        finally:
            store.close()


def _answers(store: CatalogStore) -> bool:
    with contextlib.suppress(Unavailable):
        store.ping()
        return True
    return False
