"""Commits of these tests name data files nobody wrote; they are made, of the one byte they tell, at the moment they are flushed."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from table.format.io.file_io import LocalFileIO
from tests.lake.mortal import Killed


def flush_made(io: LocalFileIO, paths: Collection[str]) -> None:
    """`LocalFileIO.sync` of files that need not be there before."""
    for path in map(Path, paths):
        if "bucket-" in path.parent.name and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
    _flush(io, paths)


_flush = LocalFileIO.sync


@pytest.fixture(scope="session", autouse=True)
def threads_end_with_their_process() -> Iterator[None]:
    """Threads of a process that was killed (`tests.lake.mortal`) say nothing more."""
    hook = threading.excepthook

    def passed_on(ended: threading.ExceptHookArgs) -> None:
        if ended.exc_type is not Killed:
            hook(ended)

    threading.excepthook = passed_on
    yield
    threading.excepthook = hook


@pytest.fixture(autouse=True)
def named_files_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalFileIO, "sync", flush_made)
