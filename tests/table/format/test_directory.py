"""A hand on a directory: files land in the directory itself, wherever it is by now."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from model.errors import Unavailable
from table.format.io.file_io import LocalFileIO


def test_what_is_updated_is_never_longer_than_what_was_written(tmp_path: Path) -> None:
    with LocalFileIO().directory(str(tmp_path / "deep")) as place:
        for text in (b"9", b"10", b"99", b"100", b"7", b"8"):  # 7: a rollback
            place.update("LATEST", text)
            assert place.read("LATEST") == text
    assert [found.name for found in (tmp_path / "deep").iterdir()] == ["LATEST"]


@pytest.mark.parametrize("lie", ["link", "second name", "pipe", "directory link"])
def test_an_update_never_writes_into_what_is_not_the_directorys_own(tmp_path: Path, lie: str) -> None:
    inside, others = tmp_path / "in", tmp_path / "others"
    inside.mkdir()
    others.write_bytes(b"1")
    match lie:
        case "link":
            (inside / "LATEST").symlink_to(others)
        case "second name":
            (inside / "LATEST").hardlink_to(others)
        case "pipe":
            os.mkfifo(inside / "LATEST")
        case _:
            (inside / "LATEST").symlink_to(tmp_path)
    with LocalFileIO().directory(str(inside)) as place:
        place.update("LATEST", b"3")
        assert place.read("LATEST") == b"3"
    assert not (inside / "LATEST").is_symlink()
    assert others.read_bytes() == b"1"


def test_a_pipe_is_no_file_to_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "snapshot-1")
    with pytest.raises(FileNotFoundError):
        LocalFileIO().read(str(tmp_path / "snapshot-1"))
    with pytest.raises(Unavailable):  # and none to flush: who does must not wait forever
        LocalFileIO().sync([str(tmp_path / "snapshot-1")])
    with LocalFileIO().directory(str(tmp_path)) as place, pytest.raises(FileNotFoundError):
        place.read("snapshot-1")


def test_a_held_directory_is_followed_where_it_moves_and_never_made_anew(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with LocalFileIO().directory(str(old)) as place:
        assert place.create("snapshot-1", b"one")
        old.rename(new)
        old.mkdir()  # somebody else's, under the old name
        assert place.create("snapshot-2", b"two")
        assert not place.create("snapshot-1", b"another")
        place.update("LATEST", b"2")
        assert sorted(path.name for path in new.iterdir()) == ["LATEST", "snapshot-1", "snapshot-2"]
        assert place.read("snapshot-1") == b"one"
        assert list(old.iterdir()) == []
        for path in new.iterdir():
            path.unlink()
        new.rmdir()
        with pytest.raises(FileNotFoundError):
            place.create("snapshot-3", b"three")
    with pytest.raises(FileNotFoundError), LocalFileIO().directory(str(new), make=False):
        pass


@pytest.mark.parametrize(
    "make",
    [
        lambda io, place: io.mkdirs(place),
        lambda io, place: io.add(f"{place}/file", b"one"),
        lambda io, place: io.write(f"{place}/file", b"one"),
        lambda io, place: io.directory(place).__enter__(),
    ],
    ids=["mkdirs", "add", "write", "directory"],
)
def test_a_directory_that_cannot_be_made_because_its_parent_is_removed_is_told_as_such(
    tmp_path: Path, make: Callable[[LocalFileIO, str], object]
) -> None:
    parent = tmp_path / "dropped"
    parent.mkdir()
    handle = os.open(parent, os.O_RDONLY)
    parent.rmdir()
    try:
        with pytest.raises(Unavailable, match="was removed while a file was put into it"):
            make(LocalFileIO(), f"/proc/self/fd/{handle}/snapshot")
    finally:
        os.close(handle)
