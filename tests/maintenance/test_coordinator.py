"""Tables that look after themselves: each by one server, taken over when that dies, and nobody waits for it."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from catalog import CatalogStore
from catalog.records import CompactionRunRow
from catalog.work.maintenance import LeaseRepository
from gateway.gateway import Gateway
from lake import Lake, LakeTable
from lake.rewrite.compaction import plan
from maintenance.coordinator import Coordinator
from maintenance.records import RunNote
from maintenance.retention import Retention
from maintenance.runner import MaintenanceRunner
from model.errors import InvalidOption, OutcomeUnknown, Unavailable
from model.identifier import Identifier
from model.options.option import Option
from model.schema.change import SetOption
from model.snapshot import CommitKind
from model.work.work_limits import MaintenanceLimits, hours
from tests.lake.kept import history
from tests.lake.rewrite.test_compaction import append, ids, live
from tests.sql.statements.test_deletions import delete
from tests.sql.tables import make_table

LIMITS = MaintenanceLimits(interval=0.1, patience=0.5)
WHOLE_DAY = (dt.time(0), dt.time(23, 59, 59, 999999))
QUEUE = {"bucket": "1", "bucket-key": "id", "compaction.max.file-num": "5"}
LOOSE = {"bucket": "-1"}
Start = Callable[..., Coordinator]


def until(what: Callable[[], object], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def rounds_of(coordinator: Coordinator, count: int) -> None:
    """Wait until the coordinator's own thread has made so many whole rounds from now on."""
    done: list[None] = []
    round_ = coordinator.round

    def counted() -> None:
        round_()
        done.append(None)

    coordinator.round = counted  # type: ignore[method-assign]
    until(lambda: len(done) >= count)
    coordinator.round = round_  # type: ignore[method-assign]


@pytest.fixture
def start(lake: Lake) -> Iterator[Start]:
    made: list[Coordinator] = []

    def begin(on: Lake | None = None, limits: MaintenanceLimits = LIMITS, **more: Any) -> Coordinator:
        coordinator = Coordinator(on or lake, limits, **more)
        made.append(coordinator)
        coordinator.start()
        return coordinator

    yield begin
    for coordinator in made:
        coordinator.close()


@pytest.fixture
def unsettled(monkeypatch: pytest.MonkeyPatch, start: Start) -> Iterator[threading.Event]:
    """While it is not set there is always something of a table left to let go: no server gives a table up."""
    done = threading.Event()
    let_go = Retention.work

    def work(self: Retention, identifier: Identifier, seen: str | None) -> None:
        done.wait()
        let_go(self, identifier, seen)

    monkeypatch.setattr(Retention, "work", work)
    yield done
    done.set()


def test_a_queue_is_merged_in_order(lake: Lake, start: Start) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    start()
    for n in range(23):
        append(lake, table, [n])
    until(lambda: len(live(table)) < 9)
    assert ids(table) == list(range(23))


def test_files_there_before_the_start_are_found(lake: Lake, start: Start) -> None:
    table = make_table(lake, options=LOOSE, partition="p", id="INT", p="INT")
    for n in range(6):
        append(lake, table, [n, n], p=[0, 1])
    start()
    until(lambda: len(live(table)) == 2)
    assert sorted(ids(table)) == sorted([*range(6), *range(6)])


def runs_of(lake: Lake, table: LakeTable) -> Sequence[CompactionRunRow]:
    with lake.catalog.reading() as tx:
        return tx.compactions.of(table.table_id)


def test_a_running_compaction_is_shown_and_closed_by_whoever_comes_after(lake: Lake) -> None:
    table = make_table(lake, options=LOOSE, id="INT")
    for n in range(5):
        append(lake, table, [n])
    note = RunNote(lake, table.table_id, reason="files", server="a")
    note.running(plan(table, full=False))
    (run,) = runs_of(lake, table)
    assert (run.outcome, run.tasks, run.files_before, run.files_after) == ("running", 0, 5, 0)
    another = Coordinator(lake, replace(LIMITS, quiet=WHOLE_DAY))  # the server died
    another.round()
    another.close()
    assert [run.outcome for run in runs_of(lake, table)] == ["interrupted"]
    note.ended()  # nothing was merged after all
    assert runs_of(lake, table) == []


def test_the_last_few_files_are_merged_when_nothing_comes_any_more(lake: Lake, start: Start) -> None:
    table = make_table(lake, options=LOOSE, id="INT")
    start()
    append(lake, table, [1])
    append(lake, table, [2])
    until(lambda: [run.outcome for run in runs_of(lake, table)] == ["done"])
    (run,) = runs_of(lake, table)
    assert (run.reason, run.outcome, run.files_before, run.files_after, run.row_count) == ("age", "done", 2, 1, 2)


def test_files_with_many_deleted_rows_are_rewritten_without_them(lake: Lake, start: Start, gateway: Gateway) -> None:
    """By `compaction.delete-ratio-threshold`, however large they are, also where nothing but the deletions was committed."""
    options = {"bucket": "-1", "compaction.small-file-ratio": "0"}
    table = make_table(lake, options=options, id="INT")
    append(lake, table, [0, 1, 2, 3])
    append(lake, table, [4, 5, 6, 7])
    start()
    delete(gateway, 0, 1, 2)
    until(lambda: table.latest().index_manifest is None)  # type: ignore[union-attr]
    assert sorted(ids(table)) == [3, 4, 5, 6, 7]
    assert [snapshot.commit_kind for snapshot in [table.latest()] if snapshot] == [CommitKind.COMPACT]


def test_every_so_many_commits_a_bucket_is_merged_whole(lake: Lake, start: Start) -> None:
    table = make_table(lake, options={"bucket": "1", "bucket-key": "id", "full-compaction.delta-commits": "4"}, id="INT")
    running = start()
    append(lake, table, [0])
    until(lambda: running.looks_after(table.table_id))
    for n in range(1, 14):
        append(lake, table, [n])
        time.sleep(0.05)
    until(lambda: len(live(table)) <= 5)
    assert ids(table) == list(range(14))


def test_write_only_tables_are_left_alone(lake: Lake, start: Start) -> None:
    table = make_table(lake, options={**QUEUE, "write-only": "true"}, id="INT")
    other = make_table(lake, "other", options=QUEUE, id="INT")
    start()
    for n in range(12):
        append(lake, table, [n])
        append(lake, other, [n])
    until(lambda: len(live(other)) < 8)
    assert len(live(table)) == 12
    lake.alter_table(table.identifier, [SetOption(key="write-only", value="false")])
    append(lake, lake.open(table.identifier), [12])
    until(lambda: len(live(table)) < 9)


def test_snapshots_go_by_the_options(lake: Lake, start: Start) -> None:
    options = {**QUEUE, "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3"}
    table = make_table(lake, options=options, id="INT")
    for n in range(8):
        append(lake, table, [n])
    start()
    until(lambda: len(history(lake, table)) == 3)
    assert ids(table) == list(range(8))


@pytest.mark.usefixtures("unsettled")
def test_one_server_looks_after_a_table_and_another_takes_over(
    catalog: CatalogStore, lake: Lake, dsn: str, warehouse: Path, start: Start
) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    append(lake, table, [0])
    first = start(lease_seconds=3600.0)
    until(lambda: first.looks_after(table.table_id))
    elsewhere = Lake(catalog, str(warehouse))
    second = start(elsewhere, lease_seconds=3.0)  # it looks for leases that ran out as often as it renews its own
    for n in range(1, 8):
        append(lake, table, [n])
    until(lambda: len(live(table)) < 8)
    assert not second.looks_after(table.table_id)
    first._stop.set()  # killed: it renews nothing and gives nothing up
    first._wake.set()
    first._thread.join()
    append(lake, table, [8])  # there is something to look after
    with psycopg.connect(dsn) as conn:  # the hour is over
        conn.execute("UPDATE maintenance_owner SET lease_until = now() WHERE owner = %s", (first.owner,))
    until(lambda: second.looks_after(table.table_id))
    first._leases._renewed = 0.0
    first._renew()  # as it would after some minutes
    assert not first.looks_after(table.table_id)
    for n in range(9, 15):
        append(lake, table, [n])
    until(lambda: len(live(table)) < 8)
    assert ids(table) == list(range(15))


@pytest.mark.usefixtures("unsettled")
def test_one_that_is_back_under_its_name_need_not_wait(lake: Lake, start: Start) -> None:
    """A server with an embedded Postgres knows that who bore its name before is dead."""
    table = make_table(lake, options=QUEUE, id="INT")
    append(lake, table, [0])
    owner = uuid4()
    first = start(owner=owner, lease_seconds=3600.0)
    until(lambda: first.looks_after(table.table_id))
    first._stop.set()  # killed: the lease is good for an hour yet
    first._wake.set()
    first._thread.join()
    append(lake, table, [1])
    again = start(owner=owner)
    until(lambda: again.looks_after(table.table_id))


@pytest.mark.usefixtures("unsettled")
def test_a_server_that_cannot_renew_stops_by_itself(lake: Lake, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    append(lake, table, [0])
    only = start(lease_seconds=1.0)
    until(lambda: only.looks_after(table.table_id))
    monkeypatch.setattr(only, "_renew", lambda: None)
    until(lambda: not only.looks_after(table.table_id))


def test_leases_given_up_are_free_at_once(lake: Lake, start: Start, unsettled: threading.Event) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    append(lake, table, [0])
    first = start()
    until(lambda: first.looks_after(table.table_id))
    unsettled.set()
    first.close()
    unsettled.clear()
    append(lake, table, [1])
    second = start()
    until(lambda: second.looks_after(table.table_id))


def test_nothing_begins_in_quiet_hours(lake: Lake, start: Start) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    start(limits=replace(LIMITS, quiet=WHOLE_DAY))
    for n in range(8):
        append(lake, table, [n])
    time.sleep(1)
    assert len(live(table)) == 8


def test_switched_off_is_off(lake: Lake, start: Start) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    off = start(limits=replace(LIMITS, enabled=False))
    append(lake, table, [0])
    time.sleep(0.5)
    assert not off.looks_after(table.table_id)


def test_hours_are_read() -> None:
    option = Option("quiet", hours(), (dt.time(0), dt.time(0)), "")
    day = MaintenanceLimits(quiet=option.parse("08:00-20:00"))
    night = MaintenanceLimits(quiet=option.parse("22:00-06:00"))
    assert [day.quiet_now(dt.time(h)) for h in (7, 8, 19, 20)] == [False, True, True, False]
    assert [night.quiet_now(dt.time(h)) for h in (21, 22, 3, 6)] == [False, True, True, False]
    with pytest.raises(InvalidOption):
        option.parse("late")


def test_writers_go_on_at_full_speed_and_nothing_is_lost(lake: Lake, start: Start) -> None:
    """Eight writers on one queue, merged meanwhile: every row once, each writer's rows in its order, few files."""
    table = make_table(lake, options={"bucket": "1", "bucket-key": "id"}, id="INT", w="INT")
    start()
    failures: list[BaseException] = []
    sent = [0] * 8
    merged = threading.Event()

    def write(writer: int) -> None:
        try:
            end = time.monotonic() + 400
            while sent[writer] < 40 or not (merged.is_set() or failures):  # on a busy machine the merging begins late
                append(lake, lake.open(table.identifier), [sent[writer]], w=[writer])
                sent[writer] += 1
                assert time.monotonic() < end, "nothing was merged while they wrote"
        except BaseException as failure:
            failures.append(failure)

    def watch(done: threading.Event) -> None:
        before = 0
        while not done.wait(0.05):
            now = len(live(table))
            if now < before:  # nobody else takes files away
                merged.set()
            before = now

    done = threading.Event()
    watcher = threading.Thread(target=watch, args=(done,))
    writers = [threading.Thread(target=write, args=(w,)) for w in range(8)]
    for thread in (watcher, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    watcher.join()
    assert not failures
    rows = [(row["w"], row["id"]) for row in all_rows(table)]
    assert sorted(rows) == [(w, n) for w in range(8) for n in range(sent[w])]
    for w in range(8):
        assert [n for writer, n in rows if writer == w] == list(range(sent[w]))
    # How few there are meanwhile is the load test's to say.
    until(lambda: len(live(table)) < 60)


def all_rows(table: LakeTable) -> list[dict[str, int]]:
    from tests.lake.rewrite.test_compaction import rows

    return rows(table)


def test_what_was_done_and_what_is_left_can_be_asked(lake: Lake, start: Start, gateway: Gateway) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    for n in range(6):
        append(lake, table, [n])

    def ask(text: str) -> list[tuple[object, ...]]:
        with gateway.run(text) as result:
            return result.collect()

    assert ask("SELECT file_count, small_file_count, mergeable_file_count, write_only FROM t$debt") == [(6, 6, 6, False)]
    start()
    until(lambda: len(live(table)) == 1)
    until(lambda: ask("SELECT outcome FROM t$compaction") == [("done",)])  # its row is there while it runs
    assert ask("SELECT reason, outcome, files_before, files_after, record_count FROM t$compaction") == [("files", "done", 6, 1, 6)]
    assert ask("SELECT mergeable_file_count FROM t$debt") == [(0,)]


def due(lake: Lake) -> list[str]:
    """Tables that may want work, as a server sees it that has none."""
    with lake.catalog.reading() as tx:
        return sorted(table.name for table in tx.leases.due("main", uuid4()))


def left_alone(lake: Lake) -> list[str]:
    """Tables that have been looked at and want nothing."""
    query = "SELECT t.name FROM maintenance_mark m JOIN sluice_table t USING (table_id) WHERE m.due_at > now() ORDER BY 1"
    with lake.catalog.reading() as tx:
        return [name for (name,) in tx.leases._conn.execute(query)]


def test_tables_that_want_nothing_cost_nothing(lake: Lake, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = make_table(lake, "queue", options=QUEUE, id="INT")
    loose = make_table(lake, "loose", options=LOOSE, id="INT")
    for table in (queue, loose):
        append(lake, table, [0])
    assert due(lake) == ["loose", "queue"]
    first = start()
    until(lambda: left_alone(lake) == ["loose", "queue"])
    first.close()
    assert due(lake) == []
    opened: list[str] = []
    open_ = Lake.open

    def counted(self: Lake, table: Identifier) -> LakeTable:
        if self.catalog is lake.catalog:  # and not what another test left behind
            opened.append(table.table)
        return open_(self, table)

    monkeypatch.setattr(Lake, "open", counted)
    second = start()
    rounds_of(second, 5)
    assert opened == [], "no table is opened for which there is nothing to do"
    append(lake, queue, [1])
    until(lambda: second.looks_after(queue.table_id) and left_alone(lake) == ["loose", "queue"] and "queue" in opened)
    assert "loose" not in opened
    lake.alter_table(loose.identifier, [SetOption(key="snapshot.num-retained.max", value="10")])
    until(lambda: "loose" in opened and due(lake) == [])


def test_files_that_lie_long_enough_fall_due_by_time(lake: Lake, start: Start) -> None:
    """A server that was started anew knows when, and no commit is needed."""
    table = make_table(lake, options=LOOSE, id="INT")
    append(lake, table, [0])
    append(lake, table, [1])
    first = start(limits=replace(LIMITS, patience=3600.0))
    until(lambda: left_alone(lake) == [table.identifier.table])
    first.close()
    assert len(live(table)) == 2
    assert due(lake) == []
    with lake.catalog.transaction() as tx:
        tx.leases._conn.execute("UPDATE maintenance_mark SET due_at = due_at - interval '1 hour'")
    assert due(lake) == [table.identifier.table]
    start()
    until(lambda: len(live(table)) == 1)


@pytest.mark.parametrize("step", ["maintenance.runner.check_mergeable", "maintenance.retention.maintain"])
def test_a_table_that_makes_trouble_is_not_taken_for_one_that_wants_nothing(
    lake: Lake, start: Start, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    append(lake, table, [0])

    def fail(*_: object, **__: object) -> None:
        raise Unavailable("the disk is away")

    monkeypatch.setattr("maintenance.coordinator._FIRST_PAUSE", 0.2)
    monkeypatch.setattr("maintenance.retention._PAUSE_SECONDS", 0.2)
    with monkeypatch.context() as broken:
        broken.setattr(step, fail)
        only = start()
        until(lambda: bool(only.failing()))
        rounds_of(only, 3)
        assert left_alone(lake) == []
    until(lambda: left_alone(lake) == [table.identifier.table])


@pytest.mark.parametrize("lost", ["answer", "nothing"])
def test_a_table_that_another_took_is_not_believed_to_be_held_again(lake: Lake, monkeypatch: pytest.MonkeyPatch, lost: str) -> None:
    """Also where the answer to the renewal that would have told is lost, and the next one finds the owner there."""
    taken, kept = (make_table(lake, name, options=QUEUE, id="INT") for name in ("taken", "kept"))
    for table in (taken, kept):
        append(lake, table, [0])
    coordinator, other = Coordinator(lake, replace(LIMITS, patience=3600.0)), uuid4()
    coordinator.round()
    assert all(coordinator.looks_after(table.table_id) for table in (taken, kept))
    with lake.catalog.transaction() as tx:
        tx.leases._conn.execute("DELETE FROM maintenance_owner WHERE owner = %s", (coordinator.owner,))
        assert not tx.leases.renew(other, "other", 3600)
        assert tx.leases.take([taken.table_id], other)
    monkeypatch.setattr(coordinator._leases, "due", lambda: True)
    if lost == "answer":
        whole = lake.catalog.own

        @contextlib.contextmanager
        def unanswered() -> Iterator[Any]:
            with whole() as tx:
                yield tx
            raise OutcomeUnknown("The answer is lost.")

        with monkeypatch.context() as broken:
            broken.setattr(lake.catalog, "own", unanswered)
            with pytest.raises(OutcomeUnknown):
                coordinator._renew()
    coordinator._renew()
    assert not coordinator.looks_after(taken.table_id)
    assert not coordinator.looks_after(kept.table_id), "it is taken anew"
    for table in (taken, kept):
        append(lake, table, [1])

    def takes_it_again() -> bool:
        coordinator.round()
        return coordinator.looks_after(kept.table_id)

    until(takes_it_again)
    assert not coordinator.looks_after(taken.table_id)
    coordinator.close()


def test_a_lease_that_ran_out_takes_all_tables_with_it(lake: Lake) -> None:
    tables = [make_table(lake, name, id="INT") for name in ("a", "b")]
    first, second = uuid4(), uuid4()
    with lake.catalog.transaction() as tx:
        assert not tx.leases.take([tables[0].table_id], first), "without a lease nobody takes anything"
        assert not tx.leases.renew(first, "first", 600)
        assert not tx.leases.renew(second, "second", 600)
        assert len(tx.leases.take([table.table_id for table in tables], first)) == 2
        assert all(tx.leases.renew(one, "", 600) for one in (first, second))
        assert not tx.leases.take([tables[0].table_id], second)
    with lake.catalog.transaction() as tx:
        tx.leases._conn.execute("UPDATE maintenance_owner SET lease_until = now() WHERE owner = %s", (first,))
    with lake.catalog.transaction() as tx:
        assert not tx.leases.take([tables[0].table_id], second), "it is removed before it is taken"
        assert tx.leases.renew(second, "second", 600)
        assert tx.leases.take([tables[0].table_id], second)
    with lake.catalog.transaction() as tx:
        assert not tx.leases.renew(first, "first", 600), "it learns that it has lost them"
        assert not tx.leases.take([tables[0].table_id], first)
        assert tx.leases.take([tables[1].table_id], first)


def transactions(catalog: CatalogStore, monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows by one with each transaction this thread begins."""
    begun: list[None] = []
    here = threading.current_thread()
    for kind in ("transaction", "reading", "own"):
        begin = getattr(catalog, kind)

        def counted(*given: Any, begin: Callable[..., Any] = begin, **more: Any) -> Any:
            if threading.current_thread() is here:
                begun.append(None)
            return begin(*given, **more)

        monkeypatch.setattr(catalog, kind, counted)
    return begun


def test_a_round_asks_postgres_no_oftener_for_many_tables(catalog: CatalogStore, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Postgres far away a transaction for each table took longer than the lease lasts."""
    tables = [make_table(lake, f"t{n}", options=LOOSE, id="INT") for n in range(8)]
    for table in tables:
        append(lake, table, [0])
    coordinator = Coordinator(lake, replace(LIMITS, patience=3600.0))
    begun = transactions(catalog, monkeypatch)
    coordinator.round()
    assert len(begun) <= 4, "renewed, asked, asked for names, taken"
    assert all(coordinator.looks_after(table.table_id) for table in tables)

    def all_settled() -> bool:
        coordinator.round()
        return len(left_alone(lake)) == 8

    until(all_settled)
    begun.clear()
    coordinator.round()
    assert len(begun) <= 2
    coordinator.close()


def test_a_round_that_takes_long_loses_no_lease(lake: Lake, start: Start) -> None:
    coordinator = start(lease_seconds=2.0)
    going_on, stuck = threading.Event(), threading.Event()

    def round_() -> None:
        stuck.set()
        going_on.wait()

    coordinator.round = round_  # type: ignore[method-assign]
    stuck.wait()

    def held_until() -> dt.datetime:
        with lake.catalog.reading() as tx:
            row = tx.leases._conn.execute("SELECT max(lease_until) FROM maintenance_owner").fetchone()
        assert row is not None
        assert isinstance(row[0], dt.datetime)
        return row[0]

    before = held_until()
    until(lambda: held_until() > before + dt.timedelta(seconds=2))
    going_on.set()


def test_what_is_settled_is_given_up_and_another_server_may_go_on(lake: Lake, start: Start) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    append(lake, table, [0])
    first = start(lease_seconds=3600.0)
    until(lambda: left_alone(lake) == [table.identifier.table])
    until(lambda: not first.looks_after(table.table_id))
    first._stop.set()  # it stands still: for an hour its lease holds
    first._wake.set()
    first._thread.join()
    for n in range(1, 8):
        append(lake, table, [n])
    start()
    until(lambda: len(live(table)) < 8)


def test_where_a_server_fails_again_and_again_another_takes_the_table(lake: Lake, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be its own disk that is full, or its Spark that is away."""
    table = make_table(lake, options=QUEUE, id="INT")
    for n in range(8):
        append(lake, table, [n])
    monkeypatch.setattr("maintenance.coordinator._FIRST_PAUSE", 0.1)
    work = MaintenanceRunner.work
    with monkeypatch.context() as broken:
        first: list[Coordinator] = []

        def fail(self: MaintenanceRunner) -> None:
            if self._context.check == first[0]._check:
                raise Unavailable("Spark is away")
            work(self)

        first.append(Coordinator(lake, LIMITS, lease_seconds=3600.0))
        broken.setattr(MaintenanceRunner, "work", fail)
        first[0].start()
        until(lambda: bool(first[0].failing()))
        start()
        until(lambda: len(live(table)) < 8)
        first[0].close()


def test_busy_tables_do_not_keep_others_waiting(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one place, and two tables of more files always have something to do."""
    monkeypatch.setattr("maintenance.coordinator._IN_HAND", 2)
    busy = [make_table(lake, f"busy{n}", options=LOOSE, id="INT") for n in range(3)]
    for table in busy:
        append(lake, table, [0])
        append(lake, table, [1])
    small = make_table(lake, "small", options=LOOSE, id="INT")
    append(lake, small, [0])
    coordinator = Coordinator(lake, replace(LIMITS, patience=3600.0))

    def looked_after_small() -> bool:
        coordinator.round()
        for table in busy:
            append(lake, table, [0])
        return coordinator.looks_after(small.table_id)

    until(looked_after_small)
    coordinator.close()


def test_a_retention_that_fails_is_not_tried_again_at_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    retention = Retention(lake, table.table_id, table.identifier)
    assert retention.due(time.monotonic(), "a snapshot")

    def fail(*_: object, **__: object) -> None:
        raise Unavailable("the disk is away")

    monkeypatch.setattr("maintenance.retention.maintain", fail)
    before = time.monotonic()
    with pytest.raises(Unavailable):
        retention.work(table.identifier, "a snapshot")
    assert not retention.due(before + 9, "a snapshot")
    assert retention.due(time.monotonic() + 10, "a snapshot")


def test_commits_wake_a_server_for_its_own_tables_alone(lake: Lake) -> None:
    ours, theirs = (make_table(lake, name, options=QUEUE, id="INT") for name in ("ours", "theirs"))
    for table in (ours, theirs):
        append(lake, table, [0])
    other = uuid4()
    with lake.catalog.transaction() as tx:
        assert not tx.leases.renew(other, "other", 3600)
        assert tx.leases.take([theirs.table_id], other)
    coordinator = Coordinator(lake, replace(LIMITS, patience=3600.0))

    def wakes(table: LakeTable, files: int) -> bool:
        until(lambda: not any(coordinator._busy_with(one.table_id) for one in (ours, theirs)))  # what ends wakes it, too
        coordinator._wake.clear()
        for _ in range(files):
            append(lake, table, [1])
            coordinator._heard(table.table_id, 1)
        return coordinator._wake.is_set()

    try:
        assert wakes(theirs, 16), "it may be nobody's"
        coordinator.round()
        assert not wakes(theirs, 17)
        coordinator.round()
        assert not wakes(theirs, 17)
        assert not wakes(ours, 15)
        assert wakes(ours, 1)
        assert not wakes(ours, 1), "it is awake"
        with lake.catalog.transaction() as tx:
            tx.leases.release(other)
        coordinator.round()
        assert wakes(theirs, 16)
        coordinator.round()
        coordinator._heard(uuid4(), 1)
        coordinator.round()
        assert coordinator._added == {}, "what was written once is not kept in mind"
    finally:
        coordinator.close()


def test_what_was_dropped_long_ago_is_swept(catalog: CatalogStore, warehouse: Path, start: Start) -> None:
    lake = Lake(catalog, str(warehouse), drop_retention=dt.timedelta(milliseconds=1))
    table = make_table(lake, options=LOOSE, id="INT")
    lake.drop_table(table.identifier)
    assert Path(table.location).exists()
    start(lake)
    until(lambda: not Path(table.location).exists())
    assert lake.dropped_tables() == []
    lake.close()


def test_nothing_is_merged_while_changes_of_rows_stand_in_line(lake: Lake, start: Start) -> None:
    """Each merging would make them lose again."""
    table = make_table(lake, options=QUEUE, id="INT")
    with lake.changing_rows.turn((table.table_id, "main"), lambda: None):
        coordinator = start()
        for n in range(8):
            append(lake, table, [n])
        rounds_of(coordinator, 5)
        assert len(live(table)) == 8
    until(lambda: len(live(table)) < 8)
    assert ids(table) == list(range(8))


def own(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What maintenance said, and not what ends late of another test."""
    return [record for record in caplog.records if record.name.split(".")[0] == "maintenance"]


@pytest.mark.parametrize("is_over", [True, False], ids=["dropped", "being dropped"])
def test_a_table_that_is_dropped_before_it_is_taken_keeps_no_other_waiting(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_over: bool
) -> None:
    """The round has seen it, and a lease names a table that is there: the one that is not aborted the leases of all."""
    gone, other = (make_table(lake, called, options=LOOSE, id="INT") for called in ("gone", "other"))
    for table in (gone, other):
        for n in range(6):
            append(lake, table, [n])
    take = LeaseRepository.take
    asked: list[UUID] = []
    with contextlib.ExitStack() as dropping:

        def too_late(self: LeaseRepository, tables: Sequence[UUID], owner: UUID) -> list[UUID]:
            if gone.table_id in tables and not asked:
                tx = dropping.enter_context(lake.catalog.transaction())
                tx.tables.lock(gone.identifier)
                tx.tables.drop(gone.table_id, None)
                if is_over:
                    dropping.close()
            asked.extend(tables)
            return take(self, tables, owner)

        monkeypatch.setattr(LeaseRepository, "take", too_late)
        coordinator = Coordinator(lake, LIMITS)
        coordinator.round()
        assert {gone.table_id, other.table_id} <= set(asked)
        assert not coordinator.looks_after(gone.table_id)
        assert coordinator.looks_after(other.table_id)
        until(lambda: len(live(other)) == 1)
    coordinator.round()
    assert not coordinator.looks_after(gone.table_id)
    coordinator.close()
    assert ids(other) == list(range(6))
    assert [record for record in own(caplog) if record.exc_info] == []


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_stop_before_any_piece_of_work_begins_is_no_error(lake: Lake, caplog: pytest.LogCaptureFixture, number: int) -> None:
    """It left a traceback in the log, at the level that wakes people."""
    table = make_table(lake, options=QUEUE, id="INT")
    for n in range(6):
        append(lake, table, [n])
    coordinator = Coordinator(lake, LIMITS)
    begun: list[object] = []

    def stopped_before(real: Callable[..., Any]) -> Callable[..., Any]:
        def submit(*work: Any) -> Any:
            begun.append(work)
            if len(begun) == number + 1:
                coordinator._stop.set()
                coordinator._wake.set()
                for pool in (coordinator._workers, coordinator._retainers):
                    pool.shutdown(wait=False, cancel_futures=True)
            return real(*work)

        return submit

    for pool in (coordinator._workers, coordinator._retainers):
        pool.submit = stopped_before(pool.submit)  # type: ignore[method-assign]
    coordinator._run()
    coordinator.close()
    assert len(begun) > number
    assert [record.getMessage() for record in own(caplog) if record.levelname == "ERROR"] == []
