"""The files of one table behind the store's own interface: each path is checked at the moment it is used.

On this machine's disks it is checked twice: before, as a path, and once the file or its directory is open, so that whoever swaps a link
in between gains nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager

import pyarrow as pa
import pyarrow.fs as pafs

from table.format.io.directory import Directory, TooLarge
from table.format.io.file_io import FileIO, FileStatus, LocalFileIO
from table.format.io.reach import Reach


class GuardedFileIO:
    """A `FileIO` that reaches only a table's own places; everything else raises `TableDamaged`."""

    def __init__(self, io: FileIO, reach: Reach) -> None:
        self._io = io.held_to(reach.check_opened) if isinstance(io, LocalFileIO) else io
        self._reach = reach
        self.atomic_rename = io.atomic_rename

    def read(self, path: str) -> bytes:
        """The whole file; one too large for that is damage."""
        self._reach.check(path, to_read=True)
        try:
            return self._io.read(path)
        except TooLarge as problem:
            raise self._reach.foreign(path, str(problem)) from problem

    def write(self, path: str, data: bytes) -> None:
        """Put the file there, replacing what was."""
        self._reach.check(path)
        self._io.write(path, data)

    def add(self, path: str, data: bytes) -> None:
        """Put a file there under a name that is nobody else's."""
        self._reach.check(path)
        self._io.add(path, data)

    def create(self, path: str, data: bytes) -> bool:
        """Put the file there unless one exists."""
        self._reach.check(path)
        return self._io.create(path, data)

    def replace_end(self, path: str, at: int, data: bytes) -> None:
        """Put other bytes in place of the file's last ones."""
        self._reach.check(path)
        self._io.replace_end(path, at, data)

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""
        self._reach.check(path)
        return self._io.exists(path)

    def file_exists(self, path: str) -> bool:
        """Whether a file is there, for names that are no directories."""
        self._reach.check(path)
        return self._io.file_exists(path)

    def size(self, path: str) -> int:
        """Bytes of the file."""
        self._reach.check(path, to_read=True)
        return self._io.size(path)

    def status(self, path: str) -> FileStatus:
        """What the store tells of the file."""
        self._reach.check(path, to_read=True)
        return self._io.status(path)

    def delete(self, path: str) -> None:
        """Remove the file."""
        self._reach.check(path)
        self._io.delete(path)

    def delete_tree(self, path: str) -> None:
        """Remove the directory and all in it."""
        self._reach.check(path)
        self._io.delete_tree(path)

    def remove_empty(self, path: str) -> bool:
        """Remove the directory if it holds nothing."""
        self._reach.check_directory(path)
        return self._io.remove_empty(path)

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory."""
        self._reach.check(source)
        self._reach.check(target)
        self._io.rename(source, target)

    def list(self, path: str) -> list[FileStatus]:
        """What the directory holds."""
        self._reach.check_directory(path)
        return self._io.list(path)

    def mkdirs(self, path: str) -> None:
        """Make the directory and its parents."""
        self._reach.check_directory(path)
        self._io.mkdirs(path)

    def directory(self, path: str, *, make: bool = True) -> AbstractContextManager[Directory]:
        """The directory itself, open."""
        self._reach.check_directory(path)
        return self._io.directory(path, make=make)

    def sync(self, paths: Collection[str]) -> None:
        """Make files durable, and the entries that name them."""
        self._io.sync(paths)

    def arrow(self) -> pafs.FileSystem:
        """The file system as pyarrow knows it, for a path that `arrow_path` gave."""
        return self._io.arrow()

    def arrow_path(self, path: str) -> str:
        """The path as pyarrow's file system wants it."""
        self._reach.check(path, to_read=True)
        return self._io.arrow_path(path)

    def open_input(self, path: str) -> pa.NativeFile:
        """The file, open for reading at any place."""
        self._reach.check(path, to_read=True)
        return self._io.open_input(path)

    def open_output(self, path: str) -> pa.NativeFile:
        """A file to write, under a name that is nobody else's."""
        self._reach.check(path)
        return self._io.open_output(path)
