"""A local disk whose n-th change fails, and all after it while it stays broken."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Collection, Iterator
from typing import Any

import pyarrow.fs as pafs

from table.format.io.directory import Directory
from table.format.io.file_io import LocalFileIO


class FailingIO(LocalFileIO):
    """Counts every change below it, a flush among them; from the chosen one on, ``length`` of them raise the bare error."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.fail_at: int | None = None
        self.length = 10_000
        self.error: Exception = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def broken(self, at: int, error: Exception, *, length: int = 10_000) -> None:
        """Fail from so many changes on."""
        self.calls, self.fail_at, self.error, self.length = [], at, error, length

    def whole(self) -> None:
        """Work again."""
        self.calls, self.fail_at = [], None

    def change(self, what: str) -> None:
        """Called before each change."""
        self.calls.append(what)
        if self.fail_at is not None and self.fail_at < len(self.calls) <= self.fail_at + self.length:
            raise self.error

    def write(self, path: str, data: bytes) -> None:
        self.change(f"write {path}")
        super().write(path, data)

    def add(self, path: str, data: bytes) -> None:
        self.change(f"add {path}")
        super().add(path, data)

    def create(self, path: str, data: bytes) -> bool:
        self.change(f"create {path}")
        return super().create(path, data)

    def replace_end(self, path: str, at: int, data: bytes) -> None:
        self.change(f"replace the end of {path}")
        super().replace_end(path, at, data)

    def delete(self, path: str) -> None:
        self.change(f"delete {path}")
        super().delete(path)

    def delete_tree(self, path: str) -> None:
        self.change(f"delete {path}")
        super().delete_tree(path)

    def remove_empty(self, path: str) -> bool:
        self.change(f"delete {path}")
        return super().remove_empty(path)

    def rename(self, source: str, target: str) -> None:
        self.change(f"rename {target}")
        super().rename(source, target)

    def mkdirs(self, path: str) -> None:
        self.change(f"mkdirs {path}")
        super().mkdirs(path)

    def sync(self, paths: Collection[str]) -> None:
        self.change(f"sync {len(paths)}")
        super().sync(paths)

    def arrow(self) -> pafs.FileSystem:
        self.change("a data file")
        return super().arrow()

    @contextlib.contextmanager
    def directory(self, path: str, *, make: bool = True) -> Iterator[Directory]:
        self.change(f"open {path}")
        with super().directory(path, make=make) as place:
            yield _Place(self, place)
        self.change(f"close {path}")


class _Place:
    """A directory whose changes count too."""

    def __init__(self, io: FailingIO, place: Directory) -> None:
        self._io, self._place = io, place

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._place, name)
        if name not in ("create", "write", "update", "delete"):
            return found

        def call(*arguments: Any) -> Any:
            self._io.change(f"{name} {arguments[0]}")
            return found(*arguments)

        return call
