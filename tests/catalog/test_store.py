"""Connections that die: told as Unavailable at worst, and replaced without anybody's help."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql

from catalog import CatalogStore
from model.catalog_errors import CatalogFull
from model.errors import Unavailable


def kill_all(dsn: str) -> None:
    """End every connection to the database but our own, as a restart of Postgres does."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_a_connection_that_died_long_after_it_worked_is_noticed_before_use(
    dsn: str, catalog: CatalogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catalog.store.TRUSTED_SECONDS", -1.0)
    for _ in range(3):
        with catalog.transaction() as tx:
            assert tx.databases.names() == ["default"]
        kill_all(dsn)


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


def test_a_postgres_that_can_only_be_read_says_so(dsn: str) -> None:
    """A standby, as after a failover to another machine."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(sql.Identifier(conn.info.dbname)))
    catalog = CatalogStore(dsn)
    try:
        with catalog.reading() as tx:
            assert tx.databases.names() == ["default"]
        with pytest.raises(Unavailable, match="can only be read"), catalog.transaction() as tx:
            tx.state.note_run()
        with pytest.raises(Unavailable, match="can only be read"), catalog.deciding() as tx:
            tx.state.note_run()
    finally:
        catalog.close()


def test_a_postgres_without_room_says_so(catalog: CatalogStore) -> None:
    full = "DO $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full'; END $$"
    with pytest.raises(CatalogFull, match="no room left") as raised, catalog.transaction() as tx:
        tx.databases._conn.execute(full)
    assert raised.value.status == 507
    assert isinstance(raised.value, Unavailable), "whoever lives on without Postgres lives on without its room"
