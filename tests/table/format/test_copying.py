"""Files copied from one place to another: what has its name there is whole, also after a kill and a power cut."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from table.format.io.copying import Copied, Copy, copy_files, digest_of
from table.format.io.file_io import LocalFileIO
from table.format.io.object_store import ArrowFileIO, StoreClients


class Killed(BaseException):
    """The process ends here."""


class RecordingIO(LocalFileIO):
    """Notes what is flushed and named, and ends the process before so many have their name."""

    def __init__(self, *, names: int) -> None:
        super().__init__()
        self.steps: list[str] = []
        self._names = names

    def sync(self, paths: Collection[str]) -> None:
        super().sync(paths)
        self.steps += paths

    def rename(self, source: str, target: str) -> None:
        if not self._names:
            raise Killed
        self._names -= 1
        super().rename(source, target)
        self.steps.append(target)


def test_what_a_killed_copy_left_is_durable_once_the_next_has_ended(tmp_path: Path) -> None:
    """It counted as there by its size, and its bytes or its name could go with the power, though the record said that all is there."""
    copies = []
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(name)
        copies.append(Copy(str(tmp_path / name), str(tmp_path / "copy" / name / "f")))
    killed = RecordingIO(names=2)
    with pytest.raises(Killed):
        copy_files(copies, source=LocalFileIO(), target=killed, threads=1)
    targets = [copy.target for copy in copies]
    assert killed.steps == [step for target in targets[:2] for step in (f"{target}.part", target)] + [f"{targets[2]}.part"]
    again = RecordingIO(names=3)
    done = copy_files(copies, source=LocalFileIO(), target=again, threads=1)
    assert (done.there, done.files) == (2, 1)
    assert {str(tmp_path / "copy/a"), str(tmp_path / "copy/b"), targets[2]} <= set(again.steps)


def test_only_the_bytes_that_are_told_are_copied(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one" * 7_000_000)
    digest, size = digest_of(LocalFileIO(), str(tmp_path / "a"))
    assert (digest, size) == (hashlib.sha256(b"one" * 7_000_000).hexdigest(), 21_000_000)

    def copied() -> Copied:
        copy = Copy(str(tmp_path / "a"), str(tmp_path / "copy"), content=(digest, size))
        return copy_files([copy], source=LocalFileIO(), target=LocalFileIO(), threads=1)

    (tmp_path / "a").write_bytes(b"two")
    assert copied().other == [str(tmp_path / "a")]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    (tmp_path / "a").write_bytes(b"one" * 7_000_000)
    assert copied().size == size


@pytest.mark.parametrize("now", [b"longer than it was", b"two"])
def test_what_another_backup_has_is_not_written_over(tmp_path: Path, now: bytes) -> None:
    """On a store without renames a source that came to hold other bytes took the place of the content, which was removed then."""
    store = ArrowFileIO(StoreClients.all_one(pafs.LocalFileSystem()), "file")
    (tmp_path / "a").write_bytes(b"one")
    copy = Copy(str(tmp_path / "a"), str(tmp_path / "copy" / "a"), content=digest_of(store, str(tmp_path / "a")))
    assert copy_files([copy], source=store, target=store, threads=1).size == 3
    (tmp_path / "a").write_bytes(now)
    assert copy_files([copy], source=store, target=store, threads=1).there == 1
    assert (tmp_path / "copy/a").read_bytes() == b"one"
    (tmp_path / "copy/a").unlink()
    assert copy_files([copy], source=store, target=store, threads=1).other == [str(tmp_path / "a")]
    assert not (tmp_path / "copy/a").exists()


class DyingStore(ArrowFileIO):
    """Ends the process before anything is removed."""

    def delete(self, path: str) -> None:
        raise Killed


def test_other_bytes_of_the_same_length_are_never_whole_in_a_store(tmp_path: Path) -> None:
    """A source that changed while it was copied, and a kill before the copy was removed: the next copy took it for what it must be."""
    clients = StoreClients.all_one(pafs.LocalFileSystem())
    store, source, target = ArrowFileIO(clients, "file"), tmp_path / "a", tmp_path / "copy" / "a"
    for data, changed in ((b"one", b"two"), (b"one" * 7_000_000, b"one" * 6_999_999 + b"two")):
        source.write_bytes(data)
        copy = Copy(str(source), str(target), content=digest_of(store, str(source)))
        source.write_bytes(changed)
        with pytest.raises(Killed):
            copy_files([copy], source=store, target=DyingStore(clients, "file"), threads=1)
        assert target.stat().st_size < len(data)
        source.write_bytes(data)
        assert copy_files([copy], source=store, target=store, threads=1).files == 1
        assert target.read_bytes() == data
        target.write_bytes(changed)  # as an earlier version left it
        assert copy_files([copy], source=store, target=store, threads=1).files == 1
        assert target.read_bytes() == data
        assert copy_files([copy], source=store, target=store, threads=1).there == 1


def test_a_source_that_became_empty_is_other_bytes(tmp_path: Path) -> None:
    store = ArrowFileIO(StoreClients.all_one(pafs.LocalFileSystem()), "file")
    (tmp_path / "a").write_bytes(b"")
    empty = Copy(str(tmp_path / "a"), str(tmp_path / "copy" / "a"), content=digest_of(store, str(tmp_path / "a")))
    assert copy_files([empty], source=store, target=store, threads=1).files == 1
    assert (tmp_path / "copy/a").read_bytes() == b""
    told = Copy(str(tmp_path / "a"), str(tmp_path / "copy" / "b"), content=(hashlib.sha256(b"one").hexdigest(), 0))
    assert copy_files([told], source=store, target=store, threads=1).other == [str(tmp_path / "a")]
