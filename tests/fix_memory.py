"""Where tests write: in memory where there is space.

Each file of a table is flushed to its disk, and on a disk most of an INSERT is waiting for that.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

_MEMORY, _ROOM_BYTES = Path("/dev/shm"), 4 << 30
"""Where it is, and what is to be free of it for all that the tests write at once; other things there need less."""
_KEPT_SECONDS = 20
"""How long the directory of a test that has ended stays, for a process or thread that has not: they find it as on a disk."""
_ON_A_DISK = ("slow", "torture")
"""Marks of tests that may write much."""
_BREAKING = ("tests/lake/", "tests/sql/statements/", "tests/server/commands/", "tests/faults/")
"""Tests that break files just written: in memory commits are so quick that the catalog knows of the last files only a moment later."""

LastingPath = Callable[[str], Path]
"""Makes a directory by a name, for what many tests share."""


def writes_much(tests: Sequence[pytest.Item]) -> bool:
    """Whether what tests share may come to hold much: in campaigns, and where nothing but tests that write much run.

    In a run of all tests the slow ones are few. A server whose disk is nearly full refuses rows of every test that comes after.
    """
    if any(test.get_closest_marker("torture") is not None for test in tests):
        return True
    return all(any(test.get_closest_marker(mark) is not None for mark in _ON_A_DISK) for test in tests)


def memory(room_bytes: int = _ROOM_BYTES) -> Path | None:
    """A file system in memory, where this machine has one with so much free."""
    return _MEMORY if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= room_bytes else None


class _Places:
    """Directories of tests: in memory, from where they go some time after the tests have ended, or where pytest makes them."""

    def __init__(self, base: Path | None, factory: pytest.TempPathFactory, *, share_much: bool) -> None:
        self._base = base
        self._share_much = share_much
        self._factory = factory
        self._made = 0
        self._ended: deque[tuple[float, Path]] = deque()

    @contextmanager
    def place(self, node: pytest.Item | pytest.Collector) -> Iterator[Path]:
        """A directory for a test, or those of a module."""
        while self._ended and self._ended[0][0] < time.monotonic() - _KEPT_SECONDS:
            shutil.rmtree(self._ended.popleft()[1], ignore_errors=True)
        name = re.sub(r"\W", "_", node.name)[:30]
        if (
            self._base is None
            or memory() is None
            or node.nodeid.startswith(_BREAKING)
            or any(node.get_closest_marker(mark) is not None for mark in _ON_A_DISK)
        ):
            yield self._factory.mktemp(name)
            return
        self._made += 1
        made = self._base / f"{name}-{self._made}"  # no name ends so: test_1 and 2 are not test_ and 12
        made.mkdir(mode=0o700)
        yield made
        self._ended.append((time.monotonic(), made))

    def lasting(self, name: str) -> Path:
        """A directory for what many tests share, which goes as the run ends."""
        if self._base is None or memory() is None or self._share_much:
            return self._factory.mktemp(name)
        self._made += 1
        made = self._base / f"{name}-{self._made}"
        made.mkdir(mode=0o700)
        return made


@pytest.fixture(scope="session")
def _places(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Places]:
    much = writes_much(request.session.items)
    if (directory := memory()) is None or os.statvfs(directory).f_flag & os.ST_NOEXEC:  # as in containers: some tests run what they write
        yield _Places(None, tmp_path_factory, share_much=much)
        return
    with tempfile.TemporaryDirectory(prefix="sluice-tests-", dir=directory, ignore_cleanup_errors=True) as base:
        yield _Places(Path(base), tmp_path_factory, share_much=much)


@pytest.fixture(scope="session")
def lasting_path(_places: _Places) -> LastingPath:
    """Makes directories for servers that tests share: what a statement waits for on a disk, each of them would."""
    return _places.lasting


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, _places: _Places) -> Iterator[Path]:
    """A directory of the test's own."""
    with _places.place(request.node) as place:
        yield place


@pytest.fixture(scope="module")
def module_path(request: pytest.FixtureRequest, _places: _Places) -> Iterator[Path]:
    """A directory that the tests of a module share."""
    with _places.place(request.node) as place:
        yield place
