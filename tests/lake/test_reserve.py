"""Room kept free: what is refused below it, and by what it is measured."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lake.reserve import MOST_BYTES, SHARE, DiskRoom, StorageReserve
from model.errors import StorageFull


def test_without_directories_nothing_is_refused() -> None:
    StorageReserve(reserved=1 << 60).require()


def test_a_disk_below_its_reserve_refuses_and_says_where(tmp_path: Path) -> None:
    there = tmp_path / "not" / "made" / "yet"
    with pytest.raises(StorageFull, match=f"free at {there}, and .* MiB are kept free") as refused:
        StorageReserve([str(there)], reserved=1 << 60).require()
    assert refused.value.status == 507
    StorageReserve([str(there)], reserved=0).require()


def test_the_reserve_is_a_share_of_the_disk_and_bounded(tmp_path: Path) -> None:
    (room,) = StorageReserve([str(tmp_path), str(tmp_path)]).rooms()
    assert room.reserved == min(MOST_BYTES, int(shutil.disk_usage(tmp_path).total * SHARE))


def test_a_disk_without_a_byte_left_is_short_whatever_is_kept_free() -> None:
    assert DiskRoom(directory="/x", free=0, reserved=0).short
    assert not DiskRoom(directory="/x", free=1, reserved=0).short
