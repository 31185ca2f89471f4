"""Files for what is too large for memory: where they lie, and what is told where there is no space."""

from __future__ import annotations

import errno
import io
import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from model.errors import StorageFull
from tests.disks import MEGABYTE, mounted
from workers.spool import MEMORY_BYTES, BodyFiles


def test_a_large_body_lies_in_the_directory_and_is_gone_when_it_is_closed(tmp_path: Path) -> None:
    where = tmp_path / "bodies"
    with BodyFiles(where).spooled(io.BytesIO(b"x" * (MEMORY_BYTES + 1))) as held:
        assert os.readlink(f"/proc/self/fd/{held.fileno()}").startswith(f"{where}/")
        assert where.stat().st_mode & 0o077 == 0, "nobody else may look"
    assert list(where.iterdir()) == []


def test_each_byte_on_disk_is_asked_for_and_a_small_body_asks_for_none(tmp_path: Path) -> None:
    asked: list[int] = []

    def space(size: int) -> AbstractContextManager[object]:
        asked.append(size)
        return nullcontext()

    files = BodyFiles(tmp_path, space=space)
    files.spooled(io.BytesIO(b"x" * MEMORY_BYTES)).close()
    assert asked == []
    files.spooled(io.BytesIO(b"x" * (9 * MEGABYTE))).close()
    assert sum(asked) == 9 * MEGABYTE
    assert max(asked) <= MEGABYTE


def test_who_has_no_room_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", megabytes=8) as disk:
        with pytest.raises(StorageFull, match="No space left") as refused:
            BodyFiles(disk / "bodies").spooled(io.BytesIO(b"x" * (9 * MEGABYTE)))
        assert isinstance(refused.value.__cause__, OSError)
        assert refused.value.__cause__.errno == errno.ENOSPC
        BodyFiles(disk / "bodies").spooled(io.BytesIO(b"x" * (7 * MEGABYTE))).close()
