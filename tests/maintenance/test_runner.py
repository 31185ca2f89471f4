"""One table's runner: what fails is tried again, and what it knows of the small files stays true."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from uuid import UUID

import pytest

from catalog.objects.snapshots import SnapshotRepository
from lake import Lake, LakeTable
from maintenance.coordinator import Coordinator
from maintenance.runner import MaintenanceRunner, RunnerContext
from model.errors import Unavailable
from model.schema.change import SetOption
from model.snapshot import Snapshot
from model.work.work_limits import MaintenanceLimits
from table.format.manifests.entries import ManifestEntry
from table.format.store import TableFiles
from tests.lake.rewrite.test_compaction import append, live, merge
from tests.maintenance.test_coordinator import LIMITS, LOOSE, QUEUE, WHOLE_DAY, until
from tests.sql.tables import make_table

FULL = {"bucket": "1", "bucket-key": "id", "full-compaction.delta-commits": "3"}


def runner_of(lake: Lake, table: LakeTable, limits: MaintenanceLimits = LIMITS) -> MaintenanceRunner:
    def check(_: UUID) -> None:
        pass

    context = RunnerContext(lake=lake, limits=limits, server="a", background=None, check=check)
    return MaintenanceRunner(context, table.table_id, table.identifier)


def fails(*_: object, **__: object) -> None:
    raise Unavailable("the store is away")


def test_a_merge_that_failed_is_tried_again_though_nothing_is_committed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    for n in range(8):
        append(lake, table, [n])
    monkeypatch.setattr("maintenance.coordinator._FIRST_PAUSE", 0.1)
    coordinator = Coordinator(lake, LIMITS)

    def rounds(what: Callable[[], object]) -> None:
        def one() -> bool:
            coordinator.round()
            return bool(what())

        until(one)

    try:
        with monkeypatch.context() as broken:
            broken.setattr("maintenance.runner.compact", fails)
            rounds(coordinator.failing)
        assert len(live(table)) == 8
        rounds(lambda: len(live(table)) == 1)
        rounds(lambda: not coordinator.failing())
    finally:
        coordinator.close()


def test_a_full_compaction_that_failed_is_still_to_be_done(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(lake, options=FULL, id="INT")
    append(lake, table, [0])
    runner = runner_of(lake, table)
    runner.work()
    for n in range(1, 4):
        append(lake, table, [n])
    with monkeypatch.context() as broken:
        broken.setattr("maintenance.runner.compact", fails)
        with pytest.raises(Unavailable):
            runner.work()
    assert len(live(table)) == 4
    runner.work()
    assert len(live(table)) == 1


def test_a_full_compaction_waits_for_space(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(lake, options=FULL, id="INT")
    append(lake, table, [0])
    runner = runner_of(lake, table)
    runner.work()
    for n in range(1, 4):
        append(lake, table, [n])
    with monkeypatch.context() as full:
        full.setattr(lake.reserve, "fits", lambda size: False)
        runner.work()
    assert len(live(table)) == 4
    assert runner.wants_time(runner.looked + LIMITS.patience), "it is looked at again, though nothing is committed"
    runner.work()
    assert len(live(table)) == 1
    assert not runner.wants_time(runner.looked + 3600.0)


def test_a_look_that_broke_off_counts_no_files_twice(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    append(lake, table, [0])
    runner = runner_of(lake, table)
    runner.work()
    for n in range(1, 4):
        append(lake, table, [n])
    read, left = TableFiles.delta_entries, [2]

    def third_fails(self: TableFiles, snapshot: Snapshot) -> Iterator[ManifestEntry]:
        if not left[0]:
            raise Unavailable("the store is away")
        left[0] -= 1
        return read(self, snapshot)

    with monkeypatch.context() as broken:
        broken.setattr(TableFiles, "delta_entries", third_fails)
        with pytest.raises(Unavailable):
            runner.work()
    runner.work()
    assert runner.debt.files == len(live(table)) == 4


def test_a_table_that_could_not_be_read_anew_is_not_taken_for_one_without_small_files(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    for n in range(4):
        append(lake, table, [n])
    runner = runner_of(lake, table)
    runner.work()
    lake.alter_table(table.identifier, [SetOption(key="snapshot.num-retained.max", value="10")])
    with monkeypatch.context() as broken:
        broken.setattr(TableFiles, "live", fails)
        with pytest.raises(Unavailable):
            runner.work()
    runner.work()
    assert runner.debt.files == 4


def test_commits_of_others_are_looked_up_at_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    append(lake, table, [0])
    runner = runner_of(lake, table, replace(LIMITS, quiet=WHOLE_DAY))
    runner.work()
    before = runner.seen
    for n in range(1, 10):
        append(lake, table, [n])
    looked: list[object] = []
    monkeypatch.setattr(SnapshotRepository, "get", lambda *given: looked.append(given))
    runner.work()
    assert runner.seen != before
    assert runner.debt.files == 10
    assert looked == []


def test_a_table_without_full_compactions_remembers_no_bucket(lake: Lake) -> None:
    table = make_table(lake, options=LOOSE, partition="p", id="INT", p="INT")
    append(lake, table, [0], p=[0])
    runner = runner_of(lake, table)
    runner.work()
    for n in range(4):
        append(lake, table, [n, n], p=[n, n + 1])
    runner.work()
    assert runner._written == set()
    merge(lake, table, all_of_them=True)
    runner.work()
    left = runner.debt.files
    assert left, "single files are left"
    lake.alter_table(table.identifier, [SetOption(key="compaction.small-file-ratio", value="0")])
    runner.work()
    assert runner.idle
