"""The disks that fail and die in tests leave out nothing that a disk does."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from model.errors import LakeError
from table.format.io.file_io import FileIO, LocalFileIO
from tests.faults.failing_io import FailingFileIO, Faults
from tests.lake.commit.failing import FailingIO
from tests.lake.mortal import Killed, MortalIO

Call = Callable[[LocalFileIO, str], object]


def _open(io: LocalFileIO, path: str) -> None:
    with io.directory(path.rpartition("/")[0]):
        pass


LOOKS: dict[str, Call] = {
    "read": lambda io, path: io.read(path),
    "exists": lambda io, path: io.exists(path),
    "file_exists": lambda io, path: io.file_exists(path),
    "size": lambda io, path: io.size(path),
    "status": lambda io, path: io.status(path),
    "list": lambda io, path: io.list(path),
    "sync": lambda io, path: io.sync([path]),
    "directory": _open,
}
CHANGES: dict[str, Call] = {
    "write": lambda io, path: io.write(path, b"x"),
    "add": lambda io, path: io.add(f"{path}-new", b"x"),
    "create": lambda io, path: io.create(f"{path}-new", b"x"),
    "replace_end": lambda io, path: io.replace_end(path, 1, b"x"),
    "delete": lambda io, path: io.delete(path),
    "delete_tree": lambda io, path: io.delete_tree(path),
    "remove_empty": lambda io, path: io.remove_empty(path),
    "rename": lambda io, path: io.rename(path, f"{path}-new"),
    "mkdirs": lambda io, path: io.mkdirs(f"{path}-new"),
    "arrow": lambda io, path: io.arrow(),
    "open_input": lambda io, path: io.open_input(path).close(),
    "open_output": lambda io, path: io.open_output(f"{path}-new").close(),
}
CALLS = LOOKS | CHANGES
ONLY_NAMES = {"arrow_path"}
"""Methods that touch no disk."""


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "file").write_bytes(b"old")
    return str(tmp_path / "file")


def test_every_method_of_the_file_layer_is_known_here() -> None:
    methods = {name for name, member in vars(FileIO).items() if callable(member) and not name.startswith("_")}
    assert methods == set(CALLS) | ONLY_NAMES


@pytest.mark.parametrize("name", CALLS)
def test_the_failing_disk_counts_and_fails_it(path: str, name: str) -> None:
    faults = Faults()
    io = FailingFileIO(faults)
    faults.arm(1, errno.EIO)
    with pytest.raises(LakeError):
        CALLS[name](io, path)
    assert (faults.calls, faults.faults) == (1, 1)


@pytest.mark.parametrize("name", CHANGES)
def test_the_disk_that_breaks_counts_and_fails_it(path: str, name: str) -> None:
    io = FailingIO()
    io.broken(0, OSError(errno.EIO, "broken"))
    with pytest.raises(OSError, match="broken"):
        CHANGES[name](io, path)
    assert len(io.calls) == 1


@pytest.mark.parametrize("name", CALLS)
def test_the_disk_that_dies_does_it_no_more(path: str, name: str) -> None:
    io = MortalIO()
    io.changes_left = 0
    with pytest.raises(Killed) if name in CHANGES else contextlib.nullcontext():
        CALLS[name](io, path)
    assert io.dead == (name in CHANGES)
    io.dead = True
    with pytest.raises(Killed):
        CALLS[name](io, path)
    assert Path(path).read_bytes() == b"old"
