"""Who lost a race is next: servers and clients of one table, none of which starves."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from catalog import CatalogStore
from catalog.commits import reservations as turns
from catalog.commits.reservations import Client, Place
from lake import Lake, LakeTable
from lake.commit.turns import ClientTurns, _reserved_seconds
from lake.waiting_places import WaitingPlaces
from model.errors import RewriteConflict
from model.identifier import MAIN_BRANCH, Identifier
from model.schema.schema import column, new_schema
from model.snapshot import CommitKind
from table.format.io.patience import patient_for, present_patience
from table.write.snapshot_builder import everything
from table.write.writer import write_batches
from tests.fix_postgres import ADVISORY_LOCKS
from tests.lake.commit.test_faults import T, batch, insert
from tests.lake.test_guesses import client_commit
from tests.waiting import eventually


def waiters(catalog: CatalogStore) -> int:
    """How many wait for a turn."""
    with catalog._pool.connection() as conn:
        row = conn.execute(f"SELECT count(*) {ADVISORY_LOCKS} AND NOT granted").fetchone()
    assert row is not None
    return int(row[0])


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


def test_turns_come_in_the_order_in_which_writers_came_for_them(catalog: CatalogStore, table: LakeTable) -> None:
    place = (table.table_id, MAIN_BRANCH)
    came: list[int] = []

    def write(number: int) -> None:
        with catalog.turn([place], seconds=120) as turn:
            assert turn is not None
            came.append(number)

    writers = []
    with catalog.turn([place], seconds=30):
        for number in range(5):
            writers.append(threading.Thread(target=write, args=(number,)))
            writers[-1].start()
            assert eventually(lambda wanted=number + 1: waiters(catalog) == wanted, pause=0.01)  # type: ignore[misc]
        with catalog.turn([place], seconds=0.01) as turn:
            assert turn is None, "another has it"
    for writer in writers:
        writer.join(120)
    assert came == list(range(5))


def test_who_decides_without_a_turn_waits_for_one_that_is_taken(catalog: CatalogStore, lake: Lake, table: LakeTable) -> None:
    decided = threading.Event()

    def write() -> None:
        insert(lake, 1)
        decided.set()

    writer = threading.Thread(target=write)
    with catalog.turn([(table.table_id, MAIN_BRANCH)], seconds=30):
        writer.start()
        assert eventually(lambda: waiters(catalog) == 1, pause=0.01)
        assert not decided.is_set()
    writer.join(120)
    assert decided.is_set()


def test_who_gets_the_turn_commits_for_all_that_wait_by_then(catalog: CatalogStore, lake: Lake, other: Lake, table: LakeTable) -> None:
    insert(other, 1)
    insert(lake, 2)  # its guess is wrong: from now on it stands in line
    begin, queues = lake.open(T).latest(), lake._committer._groups._queues
    assert begin is not None
    assert queues == {}, "there is none where nobody waits: a process may write to any number of tables"
    with catalog.turn([(table.table_id, MAIN_BRANCH)], seconds=30):
        writers = [threading.Thread(target=insert, args=(lake, number)) for number in range(3, 8)]
        for writer in writers:
            writer.start()
        assert eventually(lambda: sum(len(queue.waiting) for queue in [*queues.values()]) == 5 and waiters(catalog) == 1, pause=0.01)
    for writer in writers:
        writer.join(120)
    assert queues == {}
    end = lake.open(T).latest()
    assert end is not None
    assert end.id == begin.id + 1
    assert (end.total_record_count or 0) == (begin.total_record_count or 0) + 5


def test_a_group_has_the_budget_of_the_one_that_waited_least_for_stores(
    catalog: CatalogStore, lake: Lake, other: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(other, 1)
    insert(lake, 2)  # its guess is wrong: from now on it stands in line
    queues, left = lake._committer._groups._queues, list[float]()

    def told(step: str) -> None:
        budget = present_patience()
        assert budget is not None
        left.append(budget.left())

    def write(number: int, lost_seconds: float) -> None:
        with patient_for(20.0):
            budget = present_patience()
            assert budget is not None
            budget.lose(time.monotonic() - lost_seconds, time.monotonic())
            insert(lake, number)
            assert budget is present_patience()

    monkeypatch.setattr(lake._core, "_hook", told)
    with catalog.turn([(table.table_id, MAIN_BRANCH)], seconds=30):
        writers = [threading.Thread(target=write, args=(3, 19.5)), threading.Thread(target=write, args=(4, 2.0))]
        for came, writer in enumerate(writers, 1):
            writer.start()  # the first leads
            assert eventually(lambda came=came: sum(len(queue.waiting) for queue in [*queues.values()]) == came, pause=0.01)  # type: ignore[misc]
            assert eventually(lambda: waiters(catalog) == 1, pause=0.01)
    for writer in writers:
        writer.join(120)
    assert len(left) == 3, "the steps of one commit"
    assert min(left) > 17


def test_a_snapshots_file_is_not_written_before_that_of_another_servers_before_it(
    lake: Lake, other: Lake, table: LakeTable, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put_off(*_: object, **__: object) -> None:
        raise OSError("the store is away")

    with monkeypatch.context() as away:
        away.setattr(other._publisher, "publish_next", put_off)
        insert(other, 1)
    snapshots = warehouse / "default.db" / "t" / "snapshot"
    assert not (snapshots / "snapshot-2").exists()
    seen: list[bool] = []
    publish = lake._publisher.publish

    def look(*args: Any, **kwargs: Any) -> bool:
        seen.append((snapshots / "snapshot-2").exists())
        return publish(*args, **kwargs)

    monkeypatch.setattr(lake._publisher, "publish", look)
    lake._committer._turns.met((table.table_id, MAIN_BRANCH))
    insert(lake, 2)
    assert seen == [False, True], "first the other's, then its own"
    assert (snapshots / "snapshot-3").exists()


def test_a_reservation_keeps_others_from_deciding_until_it_is_over(catalog: CatalogStore, lake: Lake, table: LakeTable) -> None:
    place = (table.table_id, MAIN_BRANCH)
    with catalog.turn([place], seconds=120) as turn:
        assert turn is not None
        turn.reserve(Client("principal", "client"), 2.0)
    with catalog.reading() as tx:
        assert tx.turns.line(*place).reserved_seconds > 0
    insert(lake, 1)
    with catalog.reading() as tx:
        assert tx.turns.line(*place).reserved_seconds == 0


def test_a_turn_whose_server_stands_still_ends(catalog: CatalogStore, table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "HELD_SECONDS", 0.2)
    with catalog.turn([(table.table_id, MAIN_BRANCH)], seconds=30), catalog.turn([(table.table_id, MAIN_BRANCH)], seconds=30) as turn:
        assert turn is not None


def reserved(catalog: CatalogStore, place: Place, client: Client, seconds: float) -> bool:
    """Whether a client that has the turn gets a reservation."""
    with catalog.turn([place], seconds=120) as turn:
        assert turn is not None
        turn.reserve(client, seconds)
    with catalog.reading() as tx:
        return tx.turns.line(*place).reserved_seconds > 0


def goes_by(catalog: CatalogStore, seconds: float) -> None:
    """What clients did lies so much further back."""
    with catalog._pool.connection() as conn:
        reservations = ("snapshot_pointer", "client_reservation_of_branch")
        for name, column in (*((name, "reserved_until") for name in reservations), ("client_loss", "told_at")):
            conn.execute(f"UPDATE {name} SET {column} = {column} - make_interval(secs => %s)", (seconds,))


def test_a_principal_whose_clients_do_not_come_reserves_less_and_less(lake: Lake, catalog: CatalogStore, table: LakeTable) -> None:
    """The first that does not come keeps nobody but itself from it: the others of its principal may be quick."""
    place = (table.table_id, MAIN_BRANCH)
    assert reserved(catalog, place, Client("anonymous", "1"), 7.0)
    goes_by(catalog, 7.0 + 3.5)
    assert not reserved(catalog, place, Client("anonymous", "1"), 7.0)
    assert reserved(catalog, place, Client("anonymous", "2"), 7.0)
    for number, rest in enumerate((14, 28, 30), 3):
        goes_by(catalog, 7.0 + rest / 2)
        assert not reserved(catalog, place, Client("anonymous", str(number)), 7.0)
        goes_by(catalog, rest / 2)
        assert reserved(catalog, place, Client("anonymous", str(number)), 7.0)
    assert lake.client_commit(T, client_commit(table, table.latest(), user="5"))
    assert reserved(catalog, place, Client("anonymous", "6"), 7.0)


def test_clients_of_one_principal_reserve_on_several_tables_at_once(lake: Lake, catalog: CatalogStore, table: LakeTable) -> None:
    """Writers of two tables by one token gave up after ten retries: one had the reservation of all."""
    other = Identifier(T.database, "other")
    lake.create_table(other, new_schema([column("id", "BIGINT")], options={"bucket": "-1"}))
    places = [(table.table_id, MAIN_BRANCH), (lake.open(other).table_id, MAIN_BRANCH)]
    with (made := lake.open(other)).write() as write:
        write.add(write_batches(made.files, made.schema, [batch(1)]))
        lake.commit(made, write.request(CommitKind.APPEND))
    assert [reserved(catalog, place, Client("anonymous", "client"), 7.0) for place in places] == [True, True]
    goes_by(catalog, 100)
    with catalog._pool.connection() as conn:
        conn.execute("UPDATE client_reservation_of_branch SET reserved_until = now() - interval '1 day'")
    assert reserved(catalog, places[0], Client("anonymous", "client"), 7.0)
    with catalog._pool.connection() as conn:
        rows = conn.execute("SELECT table_id FROM client_reservation_of_branch").fetchall()
    assert rows == [(table.table_id,)], "old ones of other tables are forgotten"


@pytest.mark.parametrize("wins", [False, True])
def test_a_client_whose_tries_come_to_several_servers_is_next(
    catalog: CatalogStore, lake: Lake, other: Lake, table: LakeTable, *, wins: bool
) -> None:
    def tries(server: Lake) -> bool:
        return server.client_commit(T, client_commit(table, base, user="client")) is not None

    for server in (lake, other):
        base = table.latest()
        insert(lake, 1)
        assert not tries(server)
        if wins:
            base = table.latest()
            assert tries(server), "so that it has lost nothing"
    with catalog.reading() as tx:
        assert (tx.turns.line(table.table_id, MAIN_BRANCH).reserved_seconds > 0) is not wins
    base = table.latest()
    assert tries(lake)


def test_a_rewrite_that_fails_gives_its_turn_up(
    catalog: CatalogStore, lake: Lake, other: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = tuple(table.files.live_entries(table.latest()))
    steps = iter(["built"])

    def overwritten(step: str) -> None:
        if step == next(steps, None):
            with other.open(T).write() as write:
                other.commit(other.open(T), write.request(CommitKind.OVERWRITE, overwrite=everything))

    monkeypatch.setattr(lake._core, "_hook", overwritten)
    with table.write() as write, pytest.raises(RewriteConflict):
        lake.commit(table, write.request(CommitKind.COMPACT, deletes=entries))
    with catalog.turn([(table.table_id, MAIN_BRANCH)], seconds=turns.HELD_SECONDS / 2) as turn:
        assert turn is not None


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


@pytest.mark.parametrize(
    ("again", "seconds"), [(None, 0.5), (0.0, 0.1), (0.04, 0.1), (0.06, 0.12), (1.0, 2.0), (1.6, 3.0), (3.0, 3.0), (3.1, 0.0)]
)
def test_the_next_decision_is_kept_for_twice_what_a_client_took_within_bounds(again: float | None, seconds: float) -> None:
    """As docs/reliability.md says: 0.1 to 3 seconds, 0.5 for one that lost nothing lately, none for one that takes longer."""
    assert _reserved_seconds(again) == pytest.approx(seconds)


def test_a_quick_client_keeps_others_for_a_moment(catalog: CatalogStore, table: LakeTable) -> None:
    """One that came again at once, of which nobody knows whether it comes a third time; a slow one for longer."""
    asked, place = ClientTurns(catalog), (table.table_id, MAIN_BRANCH)
    numbers, told = itertools.count(), list[float]()

    def kept(pause: float, least: float, most: float) -> bool:
        user = str(next(numbers))  # each has lost nothing before; on a busy machine the moment may be over by the look
        asked.lost(place, Client(user, user), lambda: nullcontext(True))
        goes_by(catalog, pause)
        asked.lost(place, Client(user, user), lambda: nullcontext(True))
        with catalog.reading() as tx:
            told.append(tx.turns.line(*place).reserved_seconds)
        goes_by(catalog, 10.0)
        return least < told[-1] <= most

    for bounds in ((0.0, 0.0, 1.0), (1.0, 1.0, 3.0)):
        assert eventually(lambda bounds=bounds: kept(*bounds), 60), told  # type: ignore[misc]


def test_losers_beyond_their_places_hear_at_once(catalog: CatalogStore, lake: Lake, other: Lake, table: LakeTable) -> None:
    places = WaitingPlaces()

    def lose(number: int) -> bool:
        commit = client_commit(table, base, user=f"u{number}")
        return lake.client_commit(T, replace(commit, waiting=lambda: places.place("p", 2))) is not None

    base = table.latest()
    insert(other, 1)
    with ThreadPoolExecutor() as pool, catalog.turn([(table.table_id, MAIN_BRANCH)], seconds=120) as turn:
        assert turn is not None
        with turn.kept():
            first = pool.submit(lose, 1)
            assert eventually(lambda: waiters(catalog) == 1)
            assert pool.submit(lose, 2).result(timeout=120) is False
            assert not first.done()
    assert first.result() is False


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
