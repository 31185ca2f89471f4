"""What a server knows of the others while Postgres is away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from catalog import CatalogStore
from lake import peers as module
from lake.peers import Peers
from model.errors import Unavailable
from tests.fix_postgres_proxy import PostgresProxy
from tests.waiting import eventually


@pytest.fixture
def here(postgres_proxy: PostgresProxy) -> Iterator[Peers]:
    store = CatalogStore(postgres_proxy.dsn)
    made = Peers(store, "here.0/1")
    made.announce("http://127.0.0.1:1")
    yield made
    made.leave()
    store.close()


def test_one_thread_asks_for_all_that_wait(here: Peers, postgres_proxy: PostgresProxy) -> None:
    postgres_proxy.seconds = 0.2
    postgres_proxy.reset()
    ready = threading.Barrier(6)

    def find(_: int) -> object:
        ready.wait(120)
        return here.find(here.number)

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(find, range(6)))
    assert len([trip for trip in postgres_proxy.asked() if "FROM server" in trip]) == 1


def test_who_could_not_tell_where_it_is_tells_again_soon(postgres_proxy: PostgresProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two failures in a row and the others took it for gone."""
    monkeypatch.setattr(module, "_TELL_SECONDS", 3600.0)
    monkeypatch.setattr(module, "_TELL_AGAIN_SECONDS", 0.05)
    store = CatalogStore(postgres_proxy.dsn)
    made = Peers(store, "here.0/1")
    postgres_proxy.away_after(0)
    made.announce("http://127.0.0.1:1")
    postgres_proxy.back()

    def is_told() -> bool:
        try:
            row = made.find(made.number)
        except Unavailable:  # the connections are made anew after a pause
            return False
        return row is not None and row.url is not None

    assert eventually(is_told)
    made.leave()
    store.close()


def test_the_others_are_known_while_postgres_is_away(here: Peers, postgres_proxy: PostgresProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FRESH_SECONDS", 0.0)
    assert here.find(here.number) is not None
    postgres_proxy.away_after(0)
    known = here.find(here.number)
    assert known is not None
    assert known.alive
    with pytest.raises(Unavailable):
        here.find(here.number + 1)
    postgres_proxy.back()


def test_who_was_silent_is_gone_only_once_this_server_could_tell_of_itself_for_as_long(
    here: Peers, catalog: CatalogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Peers(catalog, "here.0/2")
    other._url = "http://127.0.0.1:9"
    other._tell()
    with catalog.transaction() as tx:
        tx.servers._conn.execute("UPDATE server SET seen_at = now() - interval '1 hour' WHERE number = %s", (other.number,))
    row = here.find(other.number)
    assert row is not None
    assert not here.asked_in_vain(row), "Postgres may have been away until a moment ago"
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.0)
    assert not here.is_gone(row)
    assert here.asked_in_vain(row)
    assert here.is_gone(row)
    monkeypatch.setattr(module, "_FRESH_SECONDS", 0.0)
    other._tell()
    row = here.find(other.number)
    assert row is not None
    assert not here.is_gone(row)
    other._url = None
    other._tell()
    row = here.find(other.number)
    assert row is not None
    assert here.is_gone(row), "it said so itself"


def test_after_an_outage_the_others_live_that_did_before(here: Peers, catalog: CatalogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a second or ten nobody was seen lately: a statement's name was asked of no other server, and told as not running (404)."""
    monkeypatch.setattr(module, "_FRESH_SECONDS", 0.0)
    others = [Peers(catalog, f"here.0/{number}") for number in (2, 3, 4)]
    for number, other in enumerate(others):
        other._url = f"http://127.0.0.1:{number + 2}"
        other._tell()
    stopped, living, dead = others
    stopped.leave()

    def seen(ago: str, *numbers: int) -> None:
        with catalog.transaction() as tx:
            tx._conn.execute("UPDATE server SET seen_at = now() - %s::interval WHERE number = ANY(%s)", (ago, list(numbers)))

    seen("4 minutes", dead.number)
    assert [row.number for row in here.others()] == [living.number]
    seen("3 minutes", here.number, living.number, stopped.number)
    assert [row.number for row in here.others()] == [living.number], "before this server has told of itself"
    here._tell()
    assert [row.number for row in here.others()] == [living.number], "before that one has"
    seen("1 hour", living.number)
    assert here.others() == []
    living._tell()
    assert [row.number for row in here.others()] == [living.number]
