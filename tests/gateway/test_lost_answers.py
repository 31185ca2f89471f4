"""Answers of Postgres that are lost on the way: what was decided counts once, with a key and without, and into partitions."""

from __future__ import annotations

import contextlib
import time

import psycopg
import pytest

from catalog.commits.idempotency import LEASE
from gateway.gateway import Gateway
from lake import EVERYBODY
from lake.commit.idempotency import IdempotencyClaim
from model.errors import DatabaseNotExist, IdempotencyInProgress, Unavailable
from tests.fix_postgres_proxy import Lost, PostgresProxy
from tests.waiting import eventually

_DECIDES = "INSERT INTO table_snapshot"


@pytest.mark.parametrize("key", [None, "k"])
@pytest.mark.parametrize("partitions", ["", " PARTITIONED BY (d)"])
@pytest.mark.parametrize("lost", Lost)
def test_an_insert_lands_once_whatever_of_its_decision_is_lost(
    far: Gateway, postgres_proxy: PostgresProxy, lost: Lost, partitions: str, key: str | None
) -> None:
    far.run(f"CREATE TABLE t (id INT, d INT){partitions}").close()
    far.run("INSERT INTO t VALUES (0, 0)").close()
    postgres_proxy.lose(_DECIDES, lost)
    text = "INSERT INTO t VALUES (1, 1), (2, 2)"
    answer = far.run(text, idempotency_key=key, caller=EVERYBODY).collect()
    assert answer == [(2, 2)]
    assert postgres_proxy.loss is not None
    assert postgres_proxy.loss.begun
    if lost is not Lost.QUESTION:
        assert postgres_proxy.loss.answered.is_set(), "Postgres never did what was lost"
    if key:
        assert far.run(text, idempotency_key=key, caller=EVERYBODY).collect() == answer
    assert sorted(far.run("SELECT id FROM t").collect()) == [(0,), (1,), (2,)]
    assert far.run("SELECT COUNT(*) FROM t").collect() == [(3,)]


@pytest.mark.parametrize("lost", Lost)
def test_a_key_is_its_owners_whatever_of_its_claim_is_lost(far: Gateway, postgres_proxy: PostgresProxy, lost: Lost) -> None:
    """Nobody knew of a change that nobody had begun, and the key was nobody's until it ran out."""
    postgres_proxy.lose("INSERT INTO idempotency_key", lost)
    for _ in range(2):
        assert far.run("CREATE DATABASE d", idempotency_key="k", caller=EVERYBODY).collect() == [("OK",)]
    assert postgres_proxy.loss is not None
    assert postgres_proxy.loss.begun
    assert ("d",) in far.run("SHOW DATABASES").collect()


def _run_once_there(far: Gateway, text: str, key: str) -> list[tuple[object, ...]]:
    """Run a statement again as long as Postgres is told to be away: connections are made anew one after the other once it is back."""
    until = time.monotonic() + 60
    while True:
        try:
            return far.run(text, idempotency_key=key, caller=EVERYBODY).collect()
        except Unavailable:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def _claim_lost(far: Gateway, postgres_proxy: PostgresProxy) -> None:
    """A key is claimed, and its server does not hear of it before Postgres is back."""
    postgres_proxy.lose("INSERT INTO idempotency_key", Lost.ANSWER, away=True)
    with pytest.raises(Unavailable, match="until this server has reached the database again, or for 30 seconds"):
        far.run("CREATE DATABASE d", idempotency_key="k", caller=EVERYBODY)
    assert postgres_proxy.back()


def test_a_key_whose_claim_nobody_could_look_for_is_its_servers_to_give_again(far: Gateway, postgres_proxy: PostgresProxy) -> None:
    """The work under it, which nobody had begun, was told as still running until the claim ran out."""
    _claim_lost(far, postgres_proxy)
    assert _run_once_there(far, "CREATE DATABASE d", "k") == [("OK",)]


def test_a_key_whose_claim_nobody_could_look_for_is_soon_free_for_other_servers(
    far: Gateway, gateway: Gateway, postgres_proxy: PostgresProxy
) -> None:
    _claim_lost(far, postgres_proxy)

    def done() -> bool:
        with contextlib.suppress(IdempotencyInProgress):
            return gateway.run("CREATE DATABASE d", idempotency_key="k", caller=EVERYBODY).collect() == [("OK",)]
        return False

    assert eventually(done, LEASE.total_seconds() * 0.6)


def test_no_other_key_waits_for_one_that_a_dead_connection_holds(far: Gateway, postgres_proxy: PostgresProxy, dsn: str) -> None:
    """Each claim of the server waited for the lock, and was refused; keys of work that went on were not renewed meanwhile."""
    running = far.lake.idempotency.claim("long", scope="test", body_hash="")
    assert isinstance(running, IdempotencyClaim)
    _claim_lost(far, postgres_proxy)
    left = "SELECT extract(epoch FROM lease_until - now()) FROM idempotency_key WHERE key = 'long'"
    with psycopg.connect(dsn, autocommit=True) as conn, psycopg.connect(dsn) as dead:
        dead.execute("SELECT 1 FROM idempotency_key WHERE key = 'k' FOR UPDATE")
        begun = time.monotonic()
        assert _run_once_there(far, "CREATE DATABASE e", "k2") == [("OK",)]
        conn.execute("UPDATE idempotency_key SET lease_until = now() + interval '5 seconds' WHERE key = 'long'")
        assert eventually(lambda: conn.execute(left).fetchall()[0][0] > 20, 10)
        assert time.monotonic() - begun < 15
    far.lake.idempotency.abandon(running)
    assert far.run("CREATE DATABASE d", idempotency_key="k", caller=EVERYBODY).collect() == [("OK",)]


def test_a_key_that_could_not_be_given_back_is_its_servers_to_give_again(far: Gateway, postgres_proxy: PostgresProxy) -> None:
    postgres_proxy.lose("DELETE FROM idempotency_key WHERE scope", Lost.QUESTION, away=True)
    with pytest.raises(DatabaseNotExist):
        far.run("CREATE TABLE nowhere.t (id INT)", idempotency_key="k", caller=EVERYBODY)
    assert postgres_proxy.back()
    with pytest.raises(DatabaseNotExist):
        _run_once_there(far, "CREATE TABLE nowhere.t (id INT)", "k")


@pytest.mark.parametrize("lost", [Lost.QUESTION, Lost.ANSWER])
def test_a_key_under_which_nothing_was_done_is_free_though_its_release_is_lost(
    far: Gateway, postgres_proxy: PostgresProxy, lost: Lost
) -> None:
    """The work under it was told as still running until the claim ran out."""
    postgres_proxy.lose("DELETE FROM idempotency_key WHERE scope", lost)
    for _ in range(2):
        with pytest.raises(DatabaseNotExist):
            far.run("CREATE TABLE nowhere.t (id INT)", idempotency_key="k", caller=EVERYBODY)
    assert postgres_proxy.loss is not None
    assert postgres_proxy.loss.begun
