"""Who lost a race is next: servers and clients of one table, none of which starves."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from model.errors import RewriteConflict
from model.identifier import MAIN_BRANCH
from model.schema import column, new_schema
from model.snapshot import CommitKind
from table.commit import everything
from tests.lake.commit.test_faults import T, insert
from tests.lake.test_guesses import client_commit


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    lake.create_table(T, new_schema([column("id", "BIGINT")], options={"bucket": "-1"}))
    insert(lake, 0)
    return lake.open(T)


@pytest.fixture
def other(catalog: CatalogStore, warehouse: Path) -> Iterator[Lake]:
    made = Lake(catalog, str(warehouse))
    yield made
    made.close()


def test_a_reservation_keeps_others_from_deciding_until_it_is_used(catalog: CatalogStore, lake: Lake, table: LakeTable) -> None:
    place = (table.table_id, MAIN_BRANCH)
    with catalog.reading() as tx:
        assert tx.reservations.ask(*place, "a", seconds=30).mine
        assert tx.reservations.ask(*place, "b", seconds=30).others_seconds > 20
        assert not tx.reservations.ask(*place, "b", seconds=30).mine
    decided = threading.Event()

    def write() -> None:
        insert(lake, 1)
        decided.set()

    writer = threading.Thread(target=write)
    writer.start()
    assert not decided.wait(0.5)
    with catalog.reading() as tx:
        tx.reservations.release(*place, "a")
    writer.join(30)
    assert decided.is_set()


def test_a_reservation_nobody_uses_ends_and_is_not_had_again_at_once(catalog: CatalogStore, lake: Lake, table: LakeTable) -> None:
    place = (table.table_id, MAIN_BRANCH)
    with catalog.reading() as tx:
        assert tx.reservations.ask(*place, "a", seconds=0.3).mine
        time.sleep(0.35)
        assert not tx.reservations.ask(*place, "a", seconds=30).mine, "it was not used"
        assert tx.reservations.ask(*place, "a").others_seconds == 0
    insert(lake, 1)


def test_a_rewrite_that_fails_gives_its_reservation_up(
    catalog: CatalogStore, lake: Lake, other: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = tuple(table.files.live_entries(table.latest()))
    turns = iter(["built"])

    def overwritten(step: str) -> None:
        if step == next(turns, None):
            with other.open(T).write() as write:
                other.commit(other.open(T), write.request(CommitKind.OVERWRITE, overwrite=everything))

    monkeypatch.setattr(lake._core, "_hook", overwritten)
    with table.write() as write, pytest.raises(RewriteConflict):
        lake.commit(table, write.request(CommitKind.COMPACT, deletes=entries))
    with catalog.reading() as tx:
        assert tx.reservations.ask(table.table_id, MAIN_BRANCH, "x", seconds=1).mine


@pytest.mark.parametrize(("pause", "commits", "most"), [(0.03, 5, 4), (0.8, 1, 7)], ids=["quick", "slow"])
def test_a_client_that_lost_twice_is_next(lake: Lake, other: Lake, table: LakeTable, pause: float, commits: int, most: int) -> None:
    """Two writers of another server never pause; the client tries again a while after each loss, and clients wait longer and longer."""
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            insert(other, 1)

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(commits):
            user, losses = str(uuid4()), 0
            while losses <= most:
                base = lake.open(T).latest()
                time.sleep(pause)
                commit = client_commit(table, base, user=user)
                if lake.client_commit(T, commit):
                    break
                losses += 1
            assert losses <= most
    finally:
        stop.set()
        for writer in writers:
            writer.join()


def test_two_servers_on_one_table_get_their_share(lake: Lake, other: Lake, table: LakeTable) -> None:
    stop = threading.Event()
    done = {"lake": 0, "other": 0}

    def write(name: str, on: Lake) -> None:
        while not stop.is_set():
            insert(on, 1)
            done[name] += 1

    writers = [threading.Thread(target=write, args=one) for one in (("lake", lake), ("other", other)) for _ in range(3)]
    for writer in writers:
        writer.start()
    while sum(done.values()) < 150:
        time.sleep(0.05)
    stop.set()
    for writer in writers:
        writer.join()
    assert min(done.values()) >= 0.3 * sum(done.values()), done
