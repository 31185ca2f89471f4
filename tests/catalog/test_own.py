"""What a server tells of itself does not wait for its slow statements, however many connections they hold."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import cast

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from catalog import CatalogStore
from jobs.run import MakeQueries
from jobs.runner import JobRunner
from lake import Lake
from lake.peers import Peers
from maintenance.coordinator import Coordinator
from model.errors import Unavailable
from model.work.work_limits import JobLimits, MaintenanceLimits
from tests.catalog.test_store import kill_all
from tests.waiting import eventually

_MOST = 2


@pytest.fixture
def full(dsn: str) -> Iterator[CatalogStore]:
    """A catalog whose connections are all held by statements."""
    store = CatalogStore(dsn, max_connections=_MOST)
    try:
        store.ping()  # its own connection is there: on a busy machine making one takes longer than is waited for it
        yield store
    finally:
        store.close()


@contextlib.contextmanager
def _held(store: CatalogStore) -> Iterator[None]:
    with contextlib.ExitStack() as statements:
        for _ in range(_MOST):
            statements.enter_context(store.transaction()).databases.names()
        queued = store.pool_totals()["requests_queued"]
        yield
        assert store.pool_totals()["requests_queued"] == queued, "nothing waited for a connection"
        with pytest.raises(Unavailable), store.reading(seconds=0.1) as tx:
            tx.databases.names()


def test_readiness_asks_postgres(full: CatalogStore) -> None:
    with _held(full):
        full.ping()


def test_a_server_tells_that_it_lives(full: CatalogStore) -> None:
    peers = Peers(full, "space/1")
    with _held(full):
        peers._url = "http://127.0.0.1:1"
        peers._tell()
        assert peers._telling_since is not None
    assert full.pool_stats()["size"] == _MOST
    (row,) = peers._rows().values()
    assert (row.url, row.alive) == ("http://127.0.0.1:1", True)
    peers.leave()


def test_leases_on_tables_are_renewed(full: CatalogStore, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "catalog", full)
    coordinator = Coordinator(lake, MaintenanceLimits(), lease_seconds=30.0)
    with _held(full):
        coordinator._renew()
        assert coordinator._leases.trusted()
    coordinator.close()


def test_leases_on_jobs_are_renewed(full: CatalogStore, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake, "catalog", full)
    runner = JobRunner(lake, JobLimits(most=1), cast(MakeQueries, None))  # it is not started
    with _held(full):
        runner._renew()
        assert runner._leases.trusted()


def test_its_connection_is_made_anew_when_it_is_lost(dsn: str, full: CatalogStore) -> None:
    for _ in range(3):
        full.ping()
        kill_all(dsn)
        with contextlib.suppress(Unavailable):  # it was trusted, and is replaced
            full.ping()
        with full.own() as tx:
            assert tx.databases.names() == ["default"]


@pytest.fixture
def crowded(dsn: str, server_dsn: str) -> Iterator[CatalogStore]:
    """A catalog whose Postgres lets nobody in beside the statements' connections, which work."""
    store = CatalogStore(dsn, max_connections=_MOST)
    try:
        assert eventually(lambda: store.pool_stats()["available"] == _MOST)
        with psycopg.connect(server_dsn, autocommit=True) as conn:
            conn.execute(f"ALTER DATABASE {conninfo_to_dict(dsn)['dbname']} ALLOW_CONNECTIONS false".encode())
        yield store
    finally:
        store.close()


def test_where_postgres_is_full_the_statements_connections_do(crowded: CatalogStore) -> None:
    crowded.ping()
    peers = Peers(crowded, "space/1")
    peers._url = "http://127.0.0.1:1"
    peers._tell()
    assert peers._telling_since is not None
    with crowded.own() as tx:
        assert tx.databases.names() == ["default"]
    peers.leave()


def test_own_connections_that_cannot_be_made_let_no_statement_give_up_early(crowded: CatalogStore) -> None:
    with contextlib.ExitStack() as statements:
        for _ in range(_MOST):
            statements.enter_context(crowded.transaction()).databases.names()
        with pytest.raises(Unavailable):
            crowded.ping()
        threading.Timer(1.0, statements.close).start()
        with crowded.reading() as tx:
            assert tx.databases.names() == ["default"]
