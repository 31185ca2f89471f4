"""Commits of these tests name data files nobody wrote; they are made, empty, at the moment they are flushed."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from table.file_io import LocalFileIO


def flush_made(io: LocalFileIO, paths: Collection[str]) -> None:
    """`LocalFileIO.sync` of files that need not be there before."""
    for path in map(Path, paths):
        if "bucket-" in path.parent.name and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    _flush(io, paths)


_flush = LocalFileIO.sync


@pytest.fixture(autouse=True)
def named_files_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalFileIO, "sync", flush_made)
