"""What is flushed to disk: each file, and every directory entry that leads to it, once."""

from __future__ import annotations

import errno
import os
import pickle
import time
from pathlib import Path

import pytest

from model.errors import StorageFull, Unavailable
from model.schema.schema import column, new_schema
from table.format.io.file_io import LocalFileIO, file_io_for
from table.format.store import Published, TableFiles

_TICK_SECONDS = 0.02
"""Longer than a tick of the clock that files are stamped by."""


class Flushed:
    """Names of the files and directories that were flushed, in order; fails where it is told to."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.failing: dict[str, int] = {}

    def fsync(self, handle: int) -> None:
        path = os.readlink(f"/proc/self/fd/{handle}")
        if path in self.failing:
            raise OSError(self.failing.pop(path), "told to")
        self.names.append(path)

    def take(self, below: Path) -> list[str]:
        """What was flushed below a directory and that directory, sorted; each time it is asked anew."""
        names, self.names = self.names, []
        return sorted(os.path.relpath(name, below) for name in names if Path(name).is_relative_to(below))


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> Flushed:
    """All that is flushed in this process."""
    recorded = Flushed()
    monkeypatch.setattr("os.fsync", recorded.fsync)
    return recorded


@pytest.fixture
def io() -> LocalFileIO:
    """Files of this machine."""
    return LocalFileIO()


def test_a_new_file_and_every_new_directory_above_it_are_flushed_once(tmp_path: Path, io: LocalFileIO, flushed: Flushed) -> None:
    one, two = f"{tmp_path}/w/t/bucket-0/a", f"file:{tmp_path}/w/t/bucket-0/b"
    io.add(one, b"1")
    io.add(two, b"2")
    io.add(f"{tmp_path}/w/t/manifest/m", b"3")
    assert flushed.take(tmp_path) == []
    io.sync([one, two, one, f"{tmp_path}/w/t/manifest/m"])
    assert flushed.take(tmp_path) == [".", "w", "w/t", "w/t/bucket-0", "w/t/bucket-0/a", "w/t/bucket-0/b", "w/t/manifest", "w/t/manifest/m"]
    io.add(f"{tmp_path}/w/t/bucket-0/c", b"4")
    io.sync([f"{tmp_path}/w/t/bucket-0/c"])
    assert flushed.take(tmp_path) == ["w/t/bucket-0", "w/t/bucket-0/c"]


def test_a_directory_that_another_made_is_flushed_too(tmp_path: Path, io: LocalFileIO, flushed: Flushed) -> None:
    io.add(f"{tmp_path}/t/a", b"1")
    io.sync([f"{tmp_path}/t/a"])
    flushed.take(tmp_path)
    (tmp_path / "t" / "k=1").mkdir()  # Spark, or another server
    (tmp_path / "t" / "k=1" / "b").write_bytes(b"2")
    io.sync([f"{tmp_path}/t/k=1/b"])
    assert flushed.take(tmp_path) == ["t", "t/k=1", "t/k=1/b"]


@pytest.mark.parametrize("how", ["delete_tree", "rename"])
def test_a_directory_made_anew_is_flushed_anew(tmp_path: Path, io: LocalFileIO, flushed: Flushed, how: str) -> None:
    path = f"{tmp_path}/d/t/deep/a"
    io.add(path, b"1")
    io.sync([path])
    if how == "rename":
        io.rename(f"{tmp_path}/d/t", f"{tmp_path}/d/u")
    else:
        io.delete_tree(f"{tmp_path}/d/t")
    io.add(path, b"2")
    flushed.take(tmp_path)
    io.sync([path])
    assert flushed.take(tmp_path) == ["d", "d/t", "d/t/deep", "d/t/deep/a"]


def test_what_is_published_by_name_is_flushed_before_its_name_is_there(tmp_path: Path, io: LocalFileIO, flushed: Flushed) -> None:
    assert io.create(f"{tmp_path}/t/schema/schema-0", b"{}")
    names = [os.path.relpath(name, tmp_path) for name in flushed.names]
    assert names[0].startswith("t/schema/.schema-0.")
    assert names[1] == "t/schema"
    assert {".", "t"} <= set(names)
    flushed.take(tmp_path)
    assert not io.create(f"{tmp_path}/t/schema/schema-0", b"other")
    assert "t/schema" in flushed.take(tmp_path), "who is told that it is there relies on it"
    io.write(f"{tmp_path}/t/schema/schema-0", b"new")
    assert [name.split("/")[-1][:9] for name in flushed.take(tmp_path)] == ["schema", ".schema-0"]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_file_that_could_not_be_flushed_never_can_be(tmp_path: Path, io: LocalFileIO, flushed: Flushed, number: int) -> None:
    paths = [f"{tmp_path}/t/{name}" for name in "abc"]
    for path in paths:
        io.add(path, b"1")
    flushed.failing[paths[1]] = number
    with pytest.raises(StorageFull if number == errno.ENOSPC else Unavailable, match=r"(at|write) b\b"):
        io.sync(paths)
    with pytest.raises(Unavailable, match="written anew"):  # the kernel would say yes now, and the bytes are gone
        io.sync(paths)
    io.add(f"{tmp_path}/t/d", b"1")
    io.sync([f"{tmp_path}/t/d"])


def test_a_failed_flush_of_what_is_published_leaves_nothing_under_its_name(
    tmp_path: Path, io: LocalFileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(handle: int) -> None:
        raise OSError(errno.EIO, "told to")

    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", failing)
        with pytest.raises(Unavailable, match="schema-0"):
            io.create(f"{tmp_path}/schema-0", b"{}")
        with pytest.raises(Unavailable, match="schema-0"):
            io.write(f"{tmp_path}/schema-0", b"{}")
    assert list(tmp_path.iterdir()) == []
    assert io.create(f"{tmp_path}/schema-0", b"{}")


def test_a_directory_whose_flush_failed_is_changed_and_flushed_again(
    tmp_path: Path, io: LocalFileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A removal can be flushed later; a directory that counted as lost forever kept its table from being read until a restart."""
    place = tmp_path / "t"
    place.mkdir()

    def failing(handle: int) -> None:
        raise OSError(errno.EIO, "told to")

    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", failing)
        for _ in range(2):
            with pytest.raises(Unavailable, match="at t:"):
                io.sync([str(place)])
    before = place.stat().st_mtime_ns
    time.sleep(_TICK_SECONDS)
    io.sync([str(place)])
    changed = place.stat().st_mtime_ns
    assert changed > before, "there is something to write"
    assert list(place.iterdir()) == []
    io.sync([str(place)])
    assert place.stat().st_mtime_ns == changed


class ForgettingDisk:
    """Flushes directories as Linux does: a failed one is told once, and the next writes what has changed since, if anything has."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failing: set[str] = set()
        self.dropped: dict[str, int] = {}
        self.unsafe: set[str] = set()
        """Directories whose flush has succeeded and written nothing since one failed."""
        monkeypatch.setattr("os.fsync", self._fsync)

    def _fsync(self, handle: int) -> None:
        path, changed = os.readlink(f"/proc/self/fd/{handle}"), os.fstat(handle).st_mtime_ns
        if path in self.failing:
            self.failing.discard(path)
            self.dropped[path] = changed
            time.sleep(_TICK_SECONDS)
            raise OSError(errno.EIO, "told to")
        if self.dropped.pop(path, None) == changed:
            self.unsafe.add(path)


@pytest.mark.parametrize("failing", ["w", "w/t", "w/t/bucket-0"])
@pytest.mark.parametrize("publish", [False, True])
def test_a_directory_above_whose_flush_failed_is_changed_before_the_next(
    tmp_path: Path, io: LocalFileIO, monkeypatch: pytest.MonkeyPatch, failing: str, publish: bool
) -> None:
    """The next file lies in a directory that is there already: what leads to it is the same unchanged directory."""
    disk = ForgettingDisk(monkeypatch)
    disk.failing.add(f"{tmp_path}/{failing}")
    io.add(f"{tmp_path}/w/t/bucket-0/a", b"1")
    with pytest.raises(Unavailable):
        io.sync([f"{tmp_path}/w/t/bucket-0/a"])
    if publish:
        io.create(f"{tmp_path}/w/t/bucket-0/b", b"2")
    else:
        io.add(f"{tmp_path}/w/t/bucket-0/b", b"2")
        if failing == "w/t/bucket-0":
            disk.dropped[f"{tmp_path}/{failing}"] = Path(tmp_path, failing).stat().st_mtime_ns  # as if the clock stood still
        io.sync([f"{tmp_path}/w/t/bucket-0/b"])
    assert disk.unsafe == set()
    assert disk.dropped == {}
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "bucket-0", "t", "w"]


def test_a_directory_whose_flush_fails_as_it_is_published_in_is_changed_before_the_next(
    tmp_path: Path, io: LocalFileIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, place = ForgettingDisk(monkeypatch), f"{tmp_path}/t"
    disk.failing.add(place)
    with pytest.raises(Unavailable):
        io.create(f"{place}/schema-0", b"{}")
    io.sync([place])
    assert disk.unsafe == set()


def test_a_flush_beside_one_that_fails_is_repeated(tmp_path: Path, io: LocalFileIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two who flush a directory at the same time one is told of the failure, and neither's entry is there."""
    place, flushes = f"{tmp_path}/t", []
    os.mkdir(place)

    def fsync(handle: int) -> None:
        if os.readlink(f"/proc/self/fd/{handle}") != place:
            return
        flushes.append(os.fstat(handle).st_mtime_ns)
        if len(flushes) == 1:
            with pytest.raises(Unavailable):
                io.sync([place])
        elif len(flushes) == 2:
            time.sleep(_TICK_SECONDS)
            raise OSError(errno.EIO, "told to")

    monkeypatch.setattr("os.fsync", fsync)
    io.sync([place])
    assert len(flushes) == 3
    assert flushes[2] > flushes[1]


def test_a_file_that_is_gone_is_told_as_such(tmp_path: Path, io: LocalFileIO) -> None:
    with pytest.raises(FileNotFoundError):
        io.sync([f"{tmp_path}/t/a"])


def test_nothing_is_flushed_where_it_is_switched_off(tmp_path: Path, flushed: Flushed) -> None:
    io = file_io_for(str(tmp_path), sync=False)
    io.create(f"{tmp_path}/t/a", b"1")
    io.write(f"{tmp_path}/t/a", b"2")
    io.sync([f"{tmp_path}/t/a"])
    assert flushed.names == []
    assert pickle.loads(pickle.dumps(io))._durability.enabled is False


def test_a_torn_schema_file_is_replaced(tmp_path: Path, io: LocalFileIO) -> None:
    files = TableFiles(io, str(tmp_path))
    schema = new_schema([column("id", "BIGINT")], options={})
    assert files.write_schema(schema) is Published.WRITTEN
    assert files.write_schema(schema) is Published.THERE
    (tmp_path / "schema" / "schema-0").write_bytes(b"")
    assert files.write_schema(schema) is Published.WRITTEN
    assert TableFiles(io, str(tmp_path)).read_schema(0).fields == schema.fields


def test_what_cannot_be_looked_at_is_not_told_as_missing(tmp_path: Path, io: LocalFileIO, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"1")
    assert io.exists(f"{tmp_path}/a")
    assert not io.exists(f"{tmp_path}/b")
    assert not io.exists(f"{tmp_path}/a/b")
    assert not io.exists(f"{tmp_path}/{'n' * 300}")
    assert not io.exists(f"{tmp_path}/\0")

    def failing(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "told to")

    monkeypatch.setattr("os.stat", failing)
    with pytest.raises(Unavailable, match="at a:"):
        io.exists(f"{tmp_path}/a")


def test_a_directory_that_was_removed_is_flushed_anew_where_it_is_made_again(tmp_path: Path, flushed: Flushed) -> None:
    io = LocalFileIO()
    place = f"{tmp_path}/p=1/bucket-0"
    io.add(f"{place}/a", b"1")
    io.sync([f"{place}/a"])
    assert not io.remove_empty(place), "a file lies in it"
    assert not io.remove_empty(f"{tmp_path}/p=1")
    io.delete(f"{place}/a")
    assert io.remove_empty(place)
    assert io.remove_empty(f"{tmp_path}/p=1")
    assert io.remove_empty(place), "it is gone already"
    flushed.take(tmp_path)
    io.add(f"{place}/b", b"2")
    io.sync([f"{place}/b"])
    assert flushed.take(tmp_path) == [".", "p=1", "p=1/bucket-0", "p=1/bucket-0/b"]
