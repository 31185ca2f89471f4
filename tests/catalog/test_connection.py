"""Statements that travel together: one round trip, in their order, with the error of the one that failed."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from catalog import CatalogStore, connection
from catalog.connection import CatalogConnection
from model.errors import Unavailable
from tests.fix_postgres_proxy import PostgresProxy
from tests.waiting import eventually

Rows = list[tuple[int]]


@pytest.fixture
def conn(postgres_proxy: PostgresProxy) -> Iterator[CatalogConnection]:
    with CatalogConnection.connect(postgres_proxy.dsn, autocommit=True) as made:
        made.execute("CREATE TABLE numbers (n int PRIMARY KEY)")
        postgres_proxy.reset()
        yield made


def kept(proxy: PostgresProxy) -> Rows:
    with psycopg.connect(proxy.dsn) as other:
        return other.execute("SELECT n FROM numbers ORDER BY n").fetchall()


def test_begin_goes_with_the_first_statement_and_what_is_sent_later_with_commit(
    conn: CatalogConnection, postgres_proxy: PostgresProxy
) -> None:
    conn.begin()
    conn.later("INSERT INTO numbers VALUES (1)")
    assert conn.execute("SELECT count(*) FROM numbers").fetchone() == (1,)
    conn.later("INSERT INTO numbers VALUES (%s)", (2,))
    conn.finish()
    assert postgres_proxy.asked() == [
        "BEGIN; INSERT INTO numbers VALUES (1); SELECT count(*) FROM numbers",
        "INSERT INTO numbers VALUES ($1); COMMIT",
    ]
    assert kept(postgres_proxy) == [(1,), (2,)]


def test_a_transaction_without_a_statement_costs_nothing(conn: CatalogConnection, postgres_proxy: PostgresProxy) -> None:
    conn.begin()
    conn.finish()
    conn.begin()
    conn.forsake()
    assert postgres_proxy.asked() == []


def test_what_is_sent_later_outside_a_transaction_is_sent_now(conn: CatalogConnection, postgres_proxy: PostgresProxy) -> None:
    conn.later("INSERT INTO numbers VALUES (1)")
    assert kept(postgres_proxy) == [(1,)]


def test_what_was_put_off_and_fails_undoes_the_transaction_with_its_own_error(
    conn: CatalogConnection, postgres_proxy: PostgresProxy
) -> None:
    conn.begin()
    conn.execute("INSERT INTO numbers VALUES (1)")
    conn.later("INSERT INTO numbers VALUES (1)")
    conn.later("INSERT INTO numbers VALUES (3)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        conn.finish()
    conn.forsake()
    assert kept(postgres_proxy) == []
    assert conn.execute("SELECT 1").fetchone() == (1,)


def test_an_error_before_what_is_waited_for_is_told_there(conn: CatalogConnection) -> None:
    conn.begin()
    conn.later("SELECT 1 / 0")
    with pytest.raises(psycopg.errors.DivisionByZero):
        conn.execute("SELECT 1")
    conn.forsake()


def test_a_part_that_fails_undoes_itself_alone(conn: CatalogConnection, postgres_proxy: PostgresProxy) -> None:
    conn.begin()
    conn.execute("INSERT INTO numbers VALUES (1)")
    conn.later("INSERT INTO numbers VALUES (2)")
    with pytest.raises(psycopg.errors.UniqueViolation), conn.transaction():
        conn.execute("INSERT INTO numbers VALUES (4), (1)")
    with pytest.raises(KeyError), conn.transaction():  # before anything of it was sent
        raise KeyError
    with conn.transaction():
        conn.execute("INSERT INTO numbers VALUES (3)")
    conn.finish()
    assert kept(postgres_proxy) == [(1,), (2,), (3,)]
    assert "RELEASE SAVEPOINT part_3; COMMIT" in postgres_proxy.asked()


def test_an_error_that_somebody_swallowed_is_no_commit(conn: CatalogConnection) -> None:
    conn.begin()
    with pytest.raises(psycopg.errors.DivisionByZero):
        conn.execute("SELECT 1 / 0")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        conn.finish()


def test_a_copy_comes_behind_what_is_owed(conn: CatalogConnection, postgres_proxy: PostgresProxy) -> None:
    conn.begin()
    conn.later("INSERT INTO numbers VALUES (1)")
    with conn.cursor() as cursor, cursor.copy("COPY numbers FROM STDIN") as copy:
        copy.write_row((2,))
    conn.cursor().executemany("INSERT INTO numbers VALUES (%s)", [(3,), (4,)])
    conn.finish()
    assert kept(postgres_proxy) == [(1,), (2,), (3,), (4,)]


def test_what_postgres_refuses_at_the_commit_is_known_to_have_changed_nothing(dsn: str, catalog: CatalogStore) -> None:
    """Not an unknown outcome: the connection lives, and Postgres has said no."""

    def discard() -> None:
        with catalog.transaction() as tx:
            tx.databases._conn.execute("SET LOCAL lock_timeout = 1")
            tx.directories.discard("/nowhere")

    with psycopg.connect(dsn) as other:
        other.execute("LOCK TABLE dropped_directory")
        with pytest.raises(Unavailable, match="55P03"):
            discard()
        other.rollback()
    discard()


QUICK = {"keepalives_idle": 1, "keepalives_interval": 1, "keepalives_count": 1, "tcp_user_timeout": 500}
"""Milliseconds for the last one, seconds for the others."""


def test_a_machine_that_is_gone_without_a_word_is_noticed(postgres_proxy: PostgresProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_NOTICED", QUICK)
    store = CatalogStore(postgres_proxy.dsn)
    try:
        answered = [threading.Event(), threading.Event()]

        def asks_for_long() -> None:  # its question arrived, and is answered by nobody
            with pytest.raises(Unavailable), store.reading() as tx:
                tx.databases._conn.execute("SELECT pg_sleep(50)")
            answered[0].set()

        def asks_again() -> None:
            while True:
                with contextlib.suppress(Unavailable):
                    store.ping()
                    break
            answered[1].set()

        store.ping()
        threading.Thread(target=asks_for_long, daemon=True).start()
        assert eventually(lambda: any("pg_sleep" in trip for trip in postgres_proxy.trips), pause=0.01)
        time.sleep(0.05)  # until it is acknowledged
        postgres_proxy.vanish()
        threading.Thread(target=asks_again, daemon=True).start()
        for one in answered:
            assert one.wait(120)
    finally:
        store.close()


def test_what_a_dsn_says_of_lost_connections_counts(dsn: str) -> None:
    mine = make_conninfo(dsn, keepalives_idle=7, tcp_user_timeout=7000, connect_timeout=17)
    wanted = ["keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout", "connect_timeout"]
    with connection.connect(mine) as conn, psycopg.connect(connection.noticing_dsn(mine)) as past:
        for said in (conn.info.get_parameters(), past.info.get_parameters()):
            assert [said[name] for name in wanted] == ["7", "5", "3", "7000", "17"]
    store = CatalogStore(mine)
    try:
        with store.reading() as tx:
            said = tx.databases._conn.info.get_parameters()
            assert (said["keepalives_count"], said["connect_timeout"]) == ("3", "17")
    finally:
        store.close()
