"""Space kept free: what is refused below it, and by what it is measured."""

from __future__ import annotations

import queue
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lake.growing import GrowingWork
from lake.reserve import COMMIT_BYTES, MOST_BYTES, SHARE, DiskSpace, LogSpace, StorageReserve
from model.errors import LakeError, StorageFull
from tests.disks import MEGABYTE, fill, mounted, with_inodes
from tests.waiting import eventually


def test_without_directories_nothing_is_refused() -> None:
    StorageReserve(reserved=1 << 60).require()


def test_a_disk_below_its_reserve_refuses_and_says_where(tmp_path: Path) -> None:
    there = tmp_path / "not" / "made" / "yet"
    with pytest.raises(StorageFull, match=f"free at {there}, and .* MiB are kept free") as refused:
        StorageReserve([str(there)], reserved=1 << 60).require()
    assert refused.value.status == 507
    StorageReserve([str(there)], reserved=0).require()


def test_the_reserve_is_a_share_of_the_disk_and_bounded(tmp_path: Path) -> None:
    (space,) = StorageReserve([str(tmp_path), str(tmp_path)]).spaces()
    assert space.reserved == min(MOST_BYTES, int(shutil.disk_usage(tmp_path).total * SHARE))


def test_a_disk_without_a_byte_left_is_short_whatever_is_kept_free() -> None:
    assert DiskSpace(directory="/x", free=0, reserved=0).short
    assert not DiskSpace(directory="/x", free=1, reserved=0).short


def test_a_disk_that_can_hold_no_more_files_is_short_though_it_has_bytes(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake.reserve._LOOK_SECONDS", 0)
    kept, nothing_kept = (StorageReserve([str(disk)], reserved=reserved, warehouse=str(disk)) for reserved in (4 * MEGABYTE, 0))
    with_inodes(disk, 200)
    made = [disk / str(number) for number in range(200)]
    for left, path in zip(range(199, -1, -1), made, strict=True):
        path.touch()
        assert (kept.short() is not None, nothing_kept.short() is not None) == (left < 10, left == 0), left
        assert (kept.nearly_gone() is not None) == (left < 5)
    with pytest.raises(StorageFull, match=r"0 files can still be made at .*, and 10 are kept"), kept.promise(MEGABYTE):
        pass
    for path in made:
        path.unlink()
    nothing_kept.require()
    with kept.promise(MEGABYTE):
        pass


def test_a_disk_without_a_number_of_files_is_not_short_of_them() -> None:
    assert not DiskSpace(directory="/x", free=1, reserved=0, free_files=None).short


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 MB."""
    with mounted(tmp_path / "disk", megabytes=64) as directory:
        yield directory


def test_space_that_is_promised_to_work_under_way_is_nobody_elses(disk: Path) -> None:
    reserve = StorageReserve([str(disk)], reserved=4 * MEGABYTE, warehouse=str(disk / "warehouse"))
    with reserve.promise(40 * MEGABYTE):
        (space, warehouse) = reserve.spaces()
        assert space.promised == warehouse.promised == 40 * MEGABYTE + COMMIT_BYTES
        with (
            pytest.raises(StorageFull, match=r"40 MiB of them promised to what is under way.* needs up to 21 MiB"),
            reserve.promise(21 * MEGABYTE),
        ):
            pass
        with reserve.promise(15 * MEGABYTE):
            reserve.require()
    with reserve.promise(50 * MEGABYTE):
        pass


def test_what_a_promise_wrote_counts_until_the_disk_shows_it(disk: Path) -> None:
    reserve = StorageReserve(reserved=4 * MEGABYTE, warehouse=str(disk))
    for number in range(8):
        try:
            with reserve.promise(9 * MEGABYTE):
                (disk / str(number)).write_bytes(b"x" * (9 * MEGABYTE))
        except StorageFull:
            break
    else:
        pytest.fail("the disk was filled")
    assert shutil.disk_usage(disk).free >= 4 * MEGABYTE


def test_what_a_promise_wrote_counts_once(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk was looked at after the file was written and before its promise ended: both must not be taken from what is left."""
    reserve = StorageReserve(reserved=4 * MEGABYTE, warehouse=str(disk))
    monkeypatch.setattr("lake.reserve._LOOK_SECONDS", 0)
    with reserve.promise(32 * MEGABYTE):
        (disk / "written").write_bytes(b"x" * (32 * MEGABYTE))
        assert reserve.short() is not None, "the promise still stands"
        monkeypatch.setattr("lake.reserve._LOOK_SECONDS", 3600)
    reserve.require()


def test_promises_of_another_disk_are_its_own(disk: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    with mounted(elsewhere, megabytes=8):
        reserve = StorageReserve([str(elsewhere)], reserved=MEGABYTE, warehouse=str(disk))
        with reserve.promise(40 * MEGABYTE):
            (other, warehouse) = reserve.spaces()
            assert (other.promised, other.short, warehouse.promised > 0) == (0, False, True)
            reserve.require()


def test_a_log_that_grows_by_itself_has_a_promise_that_stands(disk: Path) -> None:
    left = [50 * MEGABYTE]
    reserve = StorageReserve([str(disk)], reserved=4 * MEGABYTE, log=LogSpace(directory=str(disk / "log"), most=lambda: left[0]))
    reserve.require()
    left[0] = 61 * MEGABYTE
    assert eventually(lambda: reserve.short() is not None)
    with pytest.raises(StorageFull, match="61 MiB of them promised"):
        reserve.require()


def test_where_nothing_is_kept_free_nothing_is_promised(disk: Path) -> None:
    with StorageReserve(reserved=0, warehouse=str(disk)).promise(1 << 40):
        pass


def test_what_can_wait_begins_only_where_as_much_is_left_to_others(disk: Path) -> None:
    reserve = StorageReserve(reserved=4 * MEGABYTE, warehouse=str(disk))
    assert reserve.fits(29 * MEGABYTE)
    assert not reserve.fits(31 * MEGABYTE)


@pytest.mark.timeout(300)
def test_work_without_a_known_end_is_stopped_where_it_uses_up_the_reserve(disk: Path) -> None:
    growing = GrowingWork(StorageReserve(reserved=8 * MEGABYTE, warehouse=str(disk)), seconds=0.01)
    stopped: queue.Queue[LakeError] = queue.Queue()
    end = growing.watch()
    try:
        with growing.running(stopped.put):
            fill(disk / "ballast", leave=5 * MEGABYTE)
            time.sleep(0.5)
            assert stopped.empty(), "more than half of the reserve is left"
            fill(disk / "ballast", leave=3 * MEGABYTE)
            problem = stopped.get(timeout=120)
            assert (problem.status, "disk fills up while it runs" in problem.message) == (507, True)
        fill(disk / "ballast", leave=2 * MEGABYTE)  # before the next work begins
        shrunk: queue.Queue[LakeError] = queue.Queue()
        with growing.running(shrunk.put):  # it shrinks nothing
            time.sleep(0.5)
            assert shrunk.empty()
    finally:
        end()


def test_what_is_spooled_elsewhere_than_the_warehouse_is_promised_on_its_own_disk(disk: Path, tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    reserve = StorageReserve([str(disk)], reserved=4 * MEGABYTE, warehouse=str(warehouse))
    with reserve.promise(40 * MEGABYTE, at=str(disk)):
        with pytest.raises(StorageFull, match=f"free at {disk}, 40 MiB of them promised"), reserve.promise(21 * MEGABYTE, at=str(disk)):
            pass
        with reserve.promise(200 * MEGABYTE):
            pass
    with reserve.promise(50 * MEGABYTE, at=str(disk)):
        pass
    with reserve.promise(9 * MEGABYTE, 40 * MEGABYTE, at=str(disk)), reserve.promise(9 * MEGABYTE, 31 * MEGABYTE, at=str(disk)):
        pass  # what must be left beside it is no promise
    with pytest.raises(StorageFull, match="What one sends takes half of the space"), reserve.promise(1, 60 * MEGABYTE, at=str(disk)):
        pass
