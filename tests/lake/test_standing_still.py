"""A server that stands still, or is gone, inside a transaction keeps others waiting for seconds, not for as long as it does."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import pytest

from catalog import CatalogStore, CatalogTransaction, connection
from catalog.backup.holds import holding
from catalog.backup.restoring import restoring, starting
from lake import Lake
from model.errors import Unavailable
from tests.fix_postgres_proxy import PostgresProxy
from tests.lake.test_commit import T, append, names
from tests.lake.test_commit import table as table

WAITED = 120


class StandsStill:
    """A claim of a server that stops between two statements of the transaction that decides its commit."""

    order = ("", "")

    def __init__(self) -> None:
        self.stands, self.goes_on = threading.Event(), threading.Event()
        self.told: list[BaseException] = []

    def begin(self, tx: CatalogTransaction) -> None:
        """It holds nothing of its own."""

    def finish(self, tx: CatalogTransaction, answer: Mapping[str, Any]) -> None:
        """The table's pointer is held by now."""
        self.stands.set()
        assert self.goes_on.wait(WAITED)


@pytest.mark.parametrize("later", [False, True], ids=["", "with-what-was-put-off"])
@pytest.mark.usefixtures("table")
def test_a_commit_of_a_server_that_stands_still_keeps_nobody_from_committing(
    lake: Lake, dsn: str, monkeypatch: pytest.MonkeyPatch, *, later: bool
) -> None:
    monkeypatch.setattr(connection, "BRIEF_SILENCE_MILLIS", 3_000)
    claim, other = StandsStill(), Lake(CatalogStore(dsn), lake.warehouse)
    if later:
        held = claim.finish

        def finish(tx: CatalogTransaction, answer: Mapping[str, Any]) -> None:
            held(tx, answer)
            tx.leases._conn.later("SELECT 1")

        monkeypatch.setattr(claim, "finish", finish)

    def commit() -> None:
        try:
            lake.commit(lake.open(T), append("lost"), claim=claim)
        except Unavailable as problem:
            claim.told.append(problem)

    still = threading.Thread(target=commit)
    still.start()
    try:
        assert claim.stands.wait(WAITED)
        other.commit(other.open(T), append("landed"))
    finally:
        claim.goes_on.set()
        still.join(WAITED)
        other.close()
        other.catalog.close()
    (problem,) = claim.told
    assert re.search(r"silent for too long \(25P03\).* Nothing was changed; try again", str(problem))
    assert names(lake.open(T)) == ["landed"]


def test_a_lease_that_ran_out_and_is_held_by_another_keeps_nobody_from_renewing(catalog: CatalogStore) -> None:
    gone, mine = uuid4(), uuid4()
    with catalog.transaction() as tx:
        tx.leases.renew(gone, "gone", 0.0)
    with catalog.transaction() as still:
        still.leases.renew(gone, "gone", 0.0)
        with catalog.transaction() as tx:
            tx.leases._conn.execute("SET LOCAL lock_timeout = '2s'")
            assert not tx.leases.renew(mine, "mine")
            assert tx.leases.renew(mine, "mine")


def test_postgres_notices_a_machine_that_is_gone(catalog: CatalogStore, postgres_proxy: PostgresProxy) -> None:
    """It keeps what it holds, of a backup all files, of a restore all servers from starting, for as long as it does not."""
    limits = {"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3", "tcp_user_timeout": "20000"}
    names = [*limits, connection.SILENCE]
    wanted = "SELECT name, setting, source FROM pg_settings WHERE name = ANY(%s)"
    with catalog.reading() as tx:
        found = {name: source for name, _, source in tx.databases._conn.execute(wanted, (names,))}
        silence = tx.databases._conn.execute(f"SHOW {connection.SILENCE}".encode()).fetchone()
    assert found == dict.fromkeys(names, "client"), "sockets of one machine have no such limits, so that their values are told as 0"
    assert silence == ("5min",)
    for holds in (holding, restoring, starting):
        postgres_proxy.trips.clear()
        with holds(postgres_proxy.dsn):
            assert any(all(f"'{name}', '{value}'" in trip for name, value in limits.items()) for trip in postgres_proxy.trips)
