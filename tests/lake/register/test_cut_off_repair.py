"""A repair that was cut off while it moved snapshots out of the way: the next one decides as it would have."""

from __future__ import annotations

import contextlib
import errno
import time
from pathlib import Path

import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.register.looks.faults import Fault
from lake.register.restored.after_restore import differences
from model.errors import Unavailable
from model.snapshot import Snapshot
from tests.faults.failing_io import FailingFileIO, Faults
from tests.lake.register.damage import wait_for_notes
from tests.lake.register.test_repair import write_beside, write_past
from tests.lake.test_commit import T, append, names, snapshot_file
from tests.lake.test_commit import table as table
from tests.short import one_in

CALLS = 150
"""More than such a repair makes to its files."""


def three_beside(lake: Lake, table: LakeTable) -> Snapshot:
    """Snapshots 3 to 5 of somebody else, on nothing of what is there; returns the last."""
    lake.commit(table, append("ours"))
    lake.commit(table, append("ours too"))
    write_beside(table, "theirs")
    write_past(table, "theirs too")
    write_past(table, "theirs as well")
    newest = table.files.read_snapshot(5)
    assert newest is not None
    return newest


def check_ours_are_left(lake: Lake, table: LakeTable, theirs: Snapshot) -> None:
    assert names(lake.open(T)) == ["ours", "ours too"]
    kept = {tag.name: tag.snapshot["uuid"] for tag in lake.tags.all(lake.open(T))}
    assert kept.pop("before-repair-5") == theirs.uuid
    assert set(kept) <= {"before-repair-4", "before-repair-3"}, "what was left in place was kept by a tag, too"
    lake.commit(table, append("b"))
    assert names(lake.open(T)) == ["ours", "ours too", "b"]


@pytest.mark.parametrize("cut_off", one_in(4, range(1, CALLS + 1, 3)))
def test_the_next_repair_keeps_our_line_wherever_one_is_cut_off(
    catalog: CatalogStore, lake: Lake, table: LakeTable, warehouse: Path, cut_off: int
) -> None:
    """What it had not moved yet seemed to lie behind snapshots that expired, and became the table's in place of ours."""
    theirs = three_beside(lake, table)
    faults = Faults()
    dying = Lake(catalog, str(warehouse), file_io=FailingFileIO(faults))
    with contextlib.suppress(Unavailable):
        faults.arm(cut_off, errno.EIO)
        dying.repair_table(T)
    dying.close()
    assert cut_off < CALLS - 3 or not faults.faults, "there are more calls to cut off"
    lake.recover()
    lake.repair_table(T)
    check_ours_are_left(lake, table, theirs)


def moved_before(table: LakeTable, warehouse: Path, *ids: int) -> Path:
    """As a repair of an earlier version left it, which moved the oldest first and was killed."""
    directory = warehouse / "default.db/t/_diverged" / str(time.time_ns() // 1_000_000)
    directory.mkdir(parents=True)
    for snapshot_id in ids:
        snapshot_file(warehouse, snapshot_id).rename(directory / f"snapshot-{snapshot_id}")
    return directory


def check(lake: Lake, table: LakeTable) -> list[Fault]:
    return list(lake.check_table(lake.open(T), deep=False, threads=1, checked=lambda *_: None))


@pytest.mark.parametrize("moved", [(3,), (3, 4)])
def test_what_an_earlier_versions_repair_had_moved_is_found(
    catalog: CatalogStore, lake: Lake, table: LakeTable, warehouse: Path, moved: tuple[int, ...]
) -> None:
    theirs = three_beside(lake, table)
    directory = moved_before(table, warehouse, *moved)
    told = [one for one in differences(catalog, str(warehouse)) if one.table == "default.t"]
    assert [str(directory) in one.what for one in told] == [True]
    faults = check(lake, table)
    assert [fault.file for fault in faults if "cut off" in fault.problem] == [str(directory / f"snapshot-{number}") for number in moved]
    done = lake.repair_table(T, dry_run=True)
    assert (done.registered, done.set_aside, done.back_from) == ((), tuple(range(moved[-1] + 1, 6)), None)
    lake.repair_table(T)
    assert not [fault for fault in check(lake, table) if "cut off" in fault.problem]
    check_ours_are_left(lake, table, theirs)
    assert {path.name for path in directory.parent.rglob("snapshot-*")} == {"snapshot-3", "snapshot-4", "snapshot-5"}


def test_what_was_moved_and_goes_on_from_ours_comes_back(lake: Lake, table: LakeTable, warehouse: Path) -> None:
    """As where a manifest was missing when it was set aside, and is there again."""
    lake.commit(table, append("ours"))
    for name in ("b", "c", "d"):
        write_past(table, name)
    directory = moved_before(table, warehouse, 2, 3)
    assert lake.repair_table(T, dry_run=True).registered == (2, 3, 4)
    assert (directory / "snapshot-2").exists()
    done = lake.repair_table(T)
    assert (done.registered, done.set_aside, done.back_from) == ((2, 3, 4), (), None)
    assert names(lake.open(T)) == ["ours", "b", "c", "d"]
    assert [snapshot_file(warehouse, number).exists() for number in (2, 3, 4)] == [True] * 3
    assert list(directory.iterdir()) == []
    lake.commit(lake.open(T), append("e"))


@pytest.mark.parametrize("why", ["another line", "before"])
def test_what_a_repair_that_ended_has_set_aside_stays_there(lake: Lake, table: LakeTable, warehouse: Path, why: str) -> None:
    """The snapshots of a gap that have expired are not those."""
    lake.commit(table, append("ours"))
    if why == "another line":
        write_beside(table, "theirs", at=2)
        assert lake.repair_table(T).set_aside == (2,)
        for name in ("b", "c"):
            write_past(table, name)
        wait_for_notes(lake)
        snapshot_file(warehouse, 2).unlink()
    else:
        for name in ("b", "c"):
            write_past(table, name)
        directory = moved_before(table, warehouse, 2)
        directory.rename(directory.with_name("0"))
    done = lake.repair_table(T)
    assert (done.registered, done.set_aside) == ((3,), ())
    assert names(lake.open(T)) == ["ours", "b", "c"]
