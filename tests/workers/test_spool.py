"""Files for what is too large for memory: where they lie, and what is told where there is no space."""

from __future__ import annotations

import errno
import io
import os
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

import pytest

from model.errors import StorageFull, TooManyStatements
from tests.disks import MEGABYTE, mounted
from workers import spool
from workers.spool import MEMORY_BYTES, BodyFiles, owner_of


def test_a_large_body_lies_in_the_directory_and_is_gone_when_it_is_closed(tmp_path: Path) -> None:
    where = tmp_path / "bodies"
    with BodyFiles(where).spooled(io.BytesIO(b"x" * (MEMORY_BYTES + 1))) as held:
        assert os.readlink(f"/proc/self/fd/{held.fileno()}").startswith(f"{where}/")
        assert where.stat().st_mode & 0o077 == 0, "nobody else may look"
    assert list(where.iterdir()) == []


def test_each_byte_on_disk_is_asked_for_and_a_small_body_asks_for_none(tmp_path: Path) -> None:
    asked: list[int] = []

    def space(size: int, beside: int) -> AbstractContextManager[object]:
        asked.append(size)
        return nullcontext()

    files = BodyFiles(tmp_path, space=space)
    files.spooled(io.BytesIO(b"x" * MEMORY_BYTES)).close()
    assert asked == []
    files.spooled(io.BytesIO(b"x" * (9 * MEGABYTE))).close()
    assert sum(asked) == 9 * MEGABYTE
    assert max(asked) <= MEGABYTE


def test_one_owner_takes_half_of_the_space_and_leaves_files_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "_MOST_FILES", 4)
    free = [10 * MEGABYTE]

    def space(size: int, beside: int) -> AbstractContextManager[object]:
        if size + beside > free[0]:
            raise StorageFull("no space")
        free[0] -= size
        return nullcontext()

    files = BodyFiles(tmp_path, space=space)
    ada, bob = files.of(owner_of("ada")), files.of(owner_of("bob"))
    first = ada.new()
    ada.write(first, [b"x" * (5 * MEGABYTE)])
    with pytest.raises(StorageFull):
        ada.write(first, [b"x"])
    with bob.new() as other:
        bob.write(other, [b"x" * (2 * MEGABYTE)])
    free[0] += 2 * MEGABYTE
    first.close()
    first.close()
    free[0] += 5 * MEGABYTE
    held = [ada.new() for _ in range(3)]
    with pytest.raises(TooManyStatements, match=r"^Principal ada has as many large bodies under way"):
        ada.new()
    last = bob.new()
    with pytest.raises(TooManyStatements, match=r"^All together have"):
        files.of("eve").new()
    for file in (*held, last):
        file.close()
    with ada.new() as again:
        ada.write(again, [b"x" * (5 * MEGABYTE)])


def test_what_comes_leaves_files_to_what_is_taken_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are read from what came with them, into one file more."""
    monkeypatch.setattr(spool, "_MOST_FILES", 8)
    files = BodyFiles(tmp_path)
    coming, taken = files.of("ada", comes=True), files.of("ada")
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(coming.new())
        with pytest.raises(TooManyStatements, match=r"^Ada has"):
            coming.new()
        for _ in range(2):
            held.enter_context(taken.new())
        with pytest.raises(TooManyStatements, match=r"^Ada has"):
            taken.new()


def test_who_has_no_room_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", megabytes=8) as disk:
        with pytest.raises(StorageFull, match="No space left") as refused:
            BodyFiles(disk / "bodies").spooled(io.BytesIO(b"x" * (9 * MEGABYTE)))
        assert isinstance(refused.value.__cause__, OSError)
        assert refused.value.__cause__.errno == errno.ENOSPC
        BodyFiles(disk / "bodies").spooled(io.BytesIO(b"x" * (7 * MEGABYTE))).close()
