"""A process that dies between two steps: its disk does nothing more."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Collection, Iterator

import pyarrow.fs as pafs

from table.format.io.directory import Directory, NamedDirectory
from table.format.io.file_io import FileStatus, LocalFileIO


class Killed(BaseException):
    """The process ends here."""


class MortalIO(LocalFileIO):
    """A local disk that ends its process before one of its changes; from then on nothing works."""

    def __init__(self) -> None:
        super().__init__()
        self.changes_left: int | None = None
        self.dead = False
        self._thread = threading.get_ident()

    def change(self, _: object = None) -> None:
        """One step that a kill may come before; those of threads in the background do not count, or a seed would mean no one history."""
        if threading.get_ident() != self._thread:
            return
        self._alive()
        if self.changes_left is not None:
            self.changes_left -= 1
            if self.changes_left < 0:
                self.dead = True
                raise Killed

    def _alive(self) -> None:
        if self.dead:
            raise Killed

    def read(self, path: str) -> bytes:
        self._alive()
        return super().read(path)

    def list(self, path: str) -> list[FileStatus]:
        self._alive()
        return super().list(path)

    def write(self, path: str, data: bytes) -> None:
        self.change()
        with super().directory(os.path.dirname(path)) as place:
            place.write(os.path.basename(path), data)

    def add(self, path: str, data: bytes) -> None:
        self.change()
        super().add(path, data)

    def create(self, path: str, data: bytes) -> bool:
        self.change()
        with super().directory(os.path.dirname(path)) as place:
            return place.create(os.path.basename(path), data)

    @contextlib.contextmanager
    def directory(self, path: str, *, make: bool = True) -> Iterator[Directory]:
        """Like the store's whose directories have names only, so that every change comes by here."""
        if not self.exists(path):
            if make:
                self.mkdirs(path)
            else:
                raise FileNotFoundError(path)
        yield NamedDirectory(self, path)

    def exists(self, path: str) -> bool:
        self._alive()
        return super().exists(path)

    def status(self, path: str) -> FileStatus:
        self._alive()
        return super().status(path)

    def replace_end(self, path: str, at: int, data: bytes) -> None:
        self.change()
        super().replace_end(path, at, data)

    def mkdirs(self, path: str) -> None:
        self.change()
        super().mkdirs(path)

    def sync(self, paths: Collection[str]) -> None:
        self._alive()
        super().sync(paths)

    def delete(self, path: str) -> None:
        self.change()
        super().delete(path)

    def delete_tree(self, path: str) -> None:
        self.change()
        super().delete_tree(path)

    def remove_empty(self, path: str) -> bool:
        self.change()
        return super().remove_empty(path)

    def rename(self, source: str, target: str) -> None:
        self.change()
        super().rename(source, target)

    def arrow(self) -> pafs.FileSystem:
        self.change()
        return super().arrow()
