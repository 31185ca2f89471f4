"""Turns of writers that are slow, stand still, or hold a version of the table that an ALTER has overtaken."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog import CatalogStore
from catalog.commits import reservations
from catalog.commits.reservations import Client
from lake import Lake, LakeTable
from lake.commit import turns
from model.catalog_errors import TurnLost
from model.errors import Unavailable
from model.identifier import MAIN_BRANCH
from model.schema.change import AddColumn
from model.schema.schema import column, new_schema
from model.schema.types import IntType
from model.snapshot import CommitKind
from table.write.writer import write_batches
from tests.fix_postgres import ADVISORY_LOCKS
from tests.lake.commit.test_faults import T, batch, insert
from tests.lake.commit.test_turns import waiters
from tests.waiting import eventually


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


def count(lake: Lake) -> int:
    latest = lake.open(T).latest()
    assert latest is not None
    return latest.total_record_count or 0


def holders(catalog: CatalogStore) -> int:
    """How many have a turn."""
    with catalog._pool.connection() as conn:
        row = conn.execute(f"SELECT count(*) {ADVISORY_LOCKS} AND granted").fetchone()
    assert row is not None
    return int(row[0])


def once(step: str, do: Callable[[], None]) -> Callable[[str], None]:
    left = [step]

    def hook(name: str) -> None:
        if name in left:
            left.remove(name)
            do()

    return hook


def insert_under_key(lake: Lake, number: int) -> None:
    table = lake.open(T)
    with table.write() as write:
        write.add(write_batches(table.files, table.schema, [batch(number)]))
        lake.commit(table, write.request(CommitKind.APPEND), claim=lake.idempotency.later("key", scope="scope", body_hash="body"))


def is_over(catalog: CatalogStore) -> None:
    assert eventually(lambda: holders(catalog) == 0, pause=0.02)


def stands_in_line(lake: Lake, table: LakeTable) -> None:
    """Another server has written the table just now."""
    lake._committer._turns.met((table.table_id, MAIN_BRANCH))


def test_a_turn_is_kept_while_its_writer_is_slow(
    catalog: CatalogStore, lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reservations, "HELD_SECONDS", 2.0)
    monkeypatch.setattr(reservations, "HEARD_SECONDS", 0.05)
    stands_in_line(lake, table)
    held: list[int] = []

    def slow() -> None:
        threading.Event().wait(3.0)
        held.append(holders(catalog))

    monkeypatch.setattr(lake._core, "_hook", once("built", slow))
    insert(lake, 1)
    assert held == [1]
    assert count(lake) == 2


@pytest.mark.parametrize("keyed", [False, True], ids=["plain", "under a key"])
def test_a_writer_that_stood_still_in_its_turn_stands_in_line_anew(
    catalog: CatalogStore, lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch, *, keyed: bool
) -> None:
    usual = reservations.HELD_SECONDS

    def stand_still() -> None:
        is_over(catalog)
        monkeypatch.setattr(reservations, "HELD_SECONDS", usual)

    monkeypatch.setattr(reservations, "HELD_SECONDS", 0.1)  # of which it is not heard before it is over
    stands_in_line(lake, table)
    monkeypatch.setattr(lake._core, "_hook", once("built", stand_still))
    if keyed:
        insert_under_key(lake, 1)
    else:
        insert(lake, 1)
    assert count(lake) == 2


def test_a_change_of_several_steps_stands_in_line_anew_too(
    catalog: CatalogStore, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reservations, "HELD_SECONDS", 0.1)
    place = (table.table_id, MAIN_BRANCH)
    for use in (
        lambda turn: turn.reserve(Client("principal", "client"), 1.0),
        lambda turn: catalog.transaction(turn=turn).__enter__(),
        lambda turn: catalog.deciding(turn).__enter__(),
        lambda turn: turn.look(),
    ):
        with catalog.turn([place], seconds=30) as turn:
            assert turn is not None
            is_over(catalog)
            with pytest.raises(TurnLost):
                use(turn)


@pytest.mark.parametrize("at", ["built", "building"])
def test_a_writer_that_is_always_too_slow_is_refused(
    catalog: CatalogStore, lake: Lake, other: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    gone_on: list[str] = []

    def wait_and_let_others_go_on(step: str) -> None:
        if step == at:
            is_over(catalog)
            insert(other, 1)
            gone_on.append(step)

    def build(*args: Any) -> Any:
        made = building(*args)
        wait_and_let_others_go_on("building")
        return made

    building = lake._committer._build
    monkeypatch.setattr(turns, "BUILT_SECONDS", 0.2)
    stands_in_line(lake, table)
    monkeypatch.setattr(lake._committer, "_build", build)
    monkeypatch.setattr(lake._core, "_hook", wait_and_let_others_go_on)
    with pytest.raises(Unavailable, match=r"default\.t is written by several servers.*3 times.*Nothing was committed; repeat it"):
        insert(lake, 2)
    assert 0 < len(gone_on) <= turns.MOST_TURNS_LOST, "on a busy machine a turn may be over before it comes so far"
    assert count(other) == 1 + len(gone_on)


def test_a_long_write_that_an_alter_overtook_commits_in_its_turn_though_others_wait(
    catalog: CatalogStore, lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The single statement takes the table's version for granted, and ends the turn also where that has changed."""
    place, done = (table.table_id, MAIN_BRANCH), threading.Event()
    attempts: list[threading.Thread] = []

    def write_behind() -> None:
        with catalog.turn([place], seconds=30):
            eventually(lambda: done.is_set() or waiters(catalog) > 0, pause=0.01)

    def somebody_waits(step: str) -> None:
        if step == "built" and len(attempts) < 5:
            attempts.append(threading.Thread(target=write_behind))
            attempts[-1].start()
            assert eventually(lambda: waiters(catalog) == 1, pause=0.01)

    with table.write() as write:
        write.add(write_batches(table.files, table.schema, [batch(1)]))
        lake.alter_table(T, [AddColumn(name="c", type=IntType())])
        stands_in_line(lake, table)
        monkeypatch.setattr(lake._core, "_hook", somebody_waits)
        lake.commit(table, write.request(CommitKind.APPEND))
    done.set()
    for one in attempts:
        one.join(120)
    assert len(attempts) == 2
    assert count(lake) == 2
