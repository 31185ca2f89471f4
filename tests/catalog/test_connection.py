"""Statements that travel together: one round trip, in their order, with the error of the one that failed."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from catalog import CatalogStore
from catalog.connection import CatalogConnection
from model.errors import Unavailable
from tests.fix_postgres_proxy import PostgresProxy

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
            tx.tables.discard("/nowhere")

    with psycopg.connect(dsn) as other:
        other.execute("LOCK TABLE dropped_directory")
        with pytest.raises(Unavailable, match="55P03"):
            discard()
        other.rollback()
    discard()
