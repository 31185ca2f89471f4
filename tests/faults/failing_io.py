"""A local disk that fails one call of many, as the storage seam tells it."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import pyarrow.fs as pafs

from table.format.io.directory import Directory
from table.format.io.file_io import FileStatus, LocalFileIO
from table.format.io.storage_errors import translating

SHORT_WRITE = -1
"""Half of the bytes are written, then there is no more space."""


@dataclass
class Faults:
    """Which call fails, and how."""

    calls: int = 0
    fail_at: int = 0
    error: int = 0
    faults: int = 0
    armed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def arm(self, fail_at: int = 0, error: int = 0) -> None:
        """Count from now on, and let the n-th call fail."""
        self.calls = self.faults = 0
        self.fail_at, self.error, self.armed = fail_at, error, True

    def disarm(self) -> None:
        """Count and fail nothing."""
        self.armed = False

    def come(self, path: str, data: bytes | None = None) -> None:
        """One call; raises what the seam raises where it is the one to fail, after half of the bytes where that is asked for."""
        if not self.armed:
            return
        with self._lock:
            self.calls += 1
            if self.calls != self.fail_at:
                return
            self.faults += 1
        if self.error != SHORT_WRITE:
            self._fail(self.error, path)
        if data is not None:
            with contextlib.suppress(OSError), open(path, "xb") as file:
                file.write(data[: len(data) // 2])
        self._fail(errno.ENOSPC, path)

    def _fail(self, number: int, path: str) -> None:
        with translating(path):
            raise OSError(number, os.strerror(number))


class _FailingDirectory:
    """A directory handle whose calls count, too."""

    def __init__(self, inner: Directory, path: str, faults: Faults) -> None:
        self._inner, self._path, self._faults = inner, path, faults
        self.follows = inner.follows

    def exists(self, name: str) -> bool:
        self._come(name)
        return self._inner.exists(name)

    def read(self, name: str) -> bytes:
        self._come(name)
        return self._inner.read(name)

    def create(self, name: str, data: bytes) -> bool:
        self._come(name)
        return self._inner.create(name, data)

    def update(self, name: str, data: bytes) -> None:
        self._come(name)
        self._inner.update(name, data)

    def write(self, name: str, data: bytes) -> None:
        self._come(name)
        self._inner.write(name, data)

    def delete(self, name: str) -> None:
        self._come(name)
        self._inner.delete(name)

    def _come(self, name: str) -> None:
        self._faults.come(f"{self._path}/{name}")


class FailingFileIO(LocalFileIO):
    """Fails the call that its faults name; a failed call has changed nothing, or has written a part where it is a short write."""

    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self.faults = faults

    def read(self, path: str) -> bytes:
        self.faults.come(path)
        return super().read(path)

    def write(self, path: str, data: bytes) -> None:
        self.faults.come(path)
        super().write(path, data)

    def add(self, path: str, data: bytes) -> None:
        self.faults.come(path, data)
        super().add(path, data)

    def create(self, path: str, data: bytes) -> bool:
        self.faults.come(path)
        return super().create(path, data)

    def replace_end(self, path: str, at: int, data: bytes) -> None:
        self.faults.come(path)
        super().replace_end(path, at, data)

    def exists(self, path: str) -> bool:
        self.faults.come(path)
        return super().exists(path)

    def status(self, path: str) -> FileStatus:
        self.faults.come(path)
        return super().status(path)

    def delete(self, path: str) -> None:
        self.faults.come(path)
        super().delete(path)

    def delete_tree(self, path: str) -> None:
        self.faults.come(path)
        super().delete_tree(path)

    def remove_empty(self, path: str) -> bool:
        self.faults.come(path)
        return super().remove_empty(path)

    def rename(self, source: str, target: str) -> None:
        self.faults.come(target)
        super().rename(source, target)

    def list(self, path: str) -> list[FileStatus]:
        self.faults.come(path)
        return super().list(path)

    def mkdirs(self, path: str) -> None:
        self.faults.come(path)
        super().mkdirs(path)

    def sync(self, paths: Collection[str]) -> None:
        self.faults.come(next(iter(paths), ""))
        super().sync(paths)

    def directory(self, path: str, *, make: bool = True) -> AbstractContextManager[Directory]:
        self.faults.come(path)
        return self._failing(path, make)

    @contextlib.contextmanager
    def _failing(self, path: str, make: bool) -> Iterator[Directory]:
        with super().directory(path, make=make) as inner:
            yield _FailingDirectory(inner, path, self.faults)

    def arrow(self) -> pafs.FileSystem:
        self.faults.come("a data file")
        return super().arrow()
