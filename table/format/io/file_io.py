"""Where bytes lie: a local disk or an object store, behind one small protocol."""

from __future__ import annotations

import contextlib
import copy
import errno
import os
import shutil
import stat
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

import pyarrow as pa
import pyarrow.fs as pafs

from model.location import Location
from table.format.io.directory import Directory, LocalDirectory, Opened, read_whole, write_new
from table.format.io.directory import FileStatus as FileStatus
from table.format.io.durability import Durability
from table.format.io.object_store import ArrowFileIO, object_store
from table.format.io.storage_errors import making, no_circles, translating


class FileIO(Protocol):
    """Reads and writes whole small files and names of large ones; paths are absolute or URIs.

    All methods raise `StorageFull` where there is no space and `Unavailable` naming the path where the store fails.
    A missing file to read is a `FileNotFoundError`. What ``write`` and ``create`` put there is durable when they return; what was
    added, renamed or put through a directory handle is so once ``sync`` was given its path.
    """

    atomic_rename: bool
    """Whether ``rename`` of a file appears at once and whole, so that writers may publish by it."""

    def read(self, path: str) -> bytes: ...
    def write(self, path: str, data: bytes) -> None: ...
    def add(self, path: str, data: bytes) -> None: ...
    def create(self, path: str, data: bytes) -> bool: ...
    def replace_end(self, path: str, at: int, data: bytes) -> None: ...
    def exists(self, path: str) -> bool: ...
    def file_exists(self, path: str) -> bool: ...
    def size(self, path: str) -> int: ...
    def status(self, path: str) -> FileStatus: ...
    def delete(self, path: str) -> None: ...
    def delete_tree(self, path: str) -> None: ...
    def remove_empty(self, path: str) -> bool: ...
    def rename(self, source: str, target: str) -> None: ...
    def list(self, path: str) -> list[FileStatus]: ...
    def mkdirs(self, path: str) -> None: ...
    def sync(self, paths: Collection[str]) -> None: ...
    def directory(self, path: str, *, make: bool = True) -> AbstractContextManager[Directory]: ...
    def arrow(self) -> pafs.FileSystem: ...
    def arrow_path(self, path: str) -> str: ...
    def open_input(self, path: str) -> pa.NativeFile: ...
    def open_output(self, path: str) -> pa.NativeFile: ...


_TRIES = 10
"""How often a directory is removed that others put files into at that moment."""
_TELLS_WHERE = os.path.exists("/proc/self/fd") and hasattr(os, "O_PATH")
"""Whether this system says where an open file lies; elsewhere paths are looked at before they are opened."""


def local_path(location: str) -> str:
    """A local location without its scheme: ``/x``, ``file:/x`` and ``file:///x`` are one place. Nothing is unquoted, as in Hadoop.

    Raises `InvalidOption` for a URI that names another host.
    """
    return str(Location.parse(location)) if location[:5].lower() == "file:" else location


class LocalFileIO:
    """Files of this machine (or a shared mount), by path or ``file:`` URI: other clients' manifests and catalogs hold URIs."""

    atomic_rename = True

    def __init__(self, *, sync: bool = True) -> None:
        self._arrow = pafs.LocalFileSystem()
        self._durability = Durability(enabled=sync)
        self._held: Opened | None = None

    def held_to(self, opened: Opened) -> LocalFileIO:
        """The same for one table, whose files and directories are asked where they lie once they are open: links may be swapped before."""
        if type(self) is not LocalFileIO or not _TELLS_WHERE:
            return self
        in_directory = copy.copy(self)
        in_directory._held = opened
        return in_directory

    @contextlib.contextmanager
    def _parent(self, path: str) -> Iterator[tuple[str, int | None]]:
        """A path by which its entry is renamed or removed: where it is held, the name in its directory, which is open."""
        if self._held is None:
            yield path, None
            return
        directory, _, name = path.rpartition("/")
        handle = os.open(directory or "/", os.O_PATH | os.O_DIRECTORY)
        try:
            self._held(handle, directory)
            yield name, handle
        finally:
            os.close(handle)

    def read(self, path: str) -> bytes:
        """The whole file; raises `FileNotFoundError` also where something else lies in its place."""
        path = local_path(path)
        with translating(path), no_circles():
            try:
                return read_whole(path, opened=self._held)
            except IsADirectoryError as problem:  # no disk is away: something else lies there
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from problem

    def write(self, path: str, data: bytes) -> None:
        """Put the file there, replacing what was; readers see the old or the new, never a part."""
        path = local_path(path)
        directory, name = os.path.split(path)
        with making(path), self._opened(directory, durable=True) as place:
            place.write(name, data)

    def add(self, path: str, data: bytes) -> None:
        """Put a file there under a name that is nobody else's, and that nobody is told of before: what readers see needs no care."""
        path = local_path(path)
        with translating(path):
            try:
                self._write_new(path, data)
            except FileNotFoundError:
                with making(path):
                    self._durability.made(os.path.dirname(path), then=lambda: self._write_new(path, data))

    def _write_new(self, path: str, data: bytes) -> None:
        with self._parent(path) as (name, directory):
            write_new(name, data, directory=directory)

    def create(self, path: str, data: bytes) -> bool:
        """Put the file there unless one exists; whole or not at all."""
        directory, name = os.path.split(path)
        with self._opened(directory, durable=True) as place:
            return place.create(name, data)

    def replace_end(self, path: str, at: int, data: bytes) -> None:
        """Put these bytes in place of the file's last ones, from a place on; only for a file that nobody reads yet."""
        path = local_path(path)
        with translating(path), open(os.open(path, os.O_RDWR | os.O_NOFOLLOW), "r+b") as file:
            if self._held is not None:
                self._held(file.fileno(), path)
            file.seek(at)
            file.write(data)
            file.truncate()

    def directory(self, path: str, *, make: bool = True) -> AbstractContextManager[Directory]:
        """The directory itself, open; made where there is none, or with ``make`` off a `FileNotFoundError`."""
        return self._opened(path, make=make)

    @contextlib.contextmanager
    def _opened(self, path: str, *, make: bool = True, durable: bool = False) -> Iterator[Directory]:
        place = LocalDirectory(local_path(path), self._durability, make=make, durable=durable, opened=self._held)
        try:
            yield place
        finally:
            place.close()

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""
        path = local_path(path)
        with translating(path):
            try:
                os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
            except ValueError:  # a NUL, which no name has
                return False
            except OSError as problem:  # anything else does not say that nothing is there
                if problem.errno in (errno.ENAMETOOLONG, errno.ELOOP):
                    return False
                raise
            return True

    def file_exists(self, path: str) -> bool:
        """Whether a file is there, for names that are no directories: stores are asked less than by `exists`."""
        return self.exists(path)

    def size(self, path: str) -> int:
        """Bytes of the file; raises `FileNotFoundError` also where a directory lies in its place."""
        return self.status(path).size

    def status(self, path: str) -> FileStatus:
        """What `list` tells of the file, which is asked for by itself; raises `FileNotFoundError` as `size` does."""
        path = local_path(path)
        with translating(path), no_circles():
            status = os.stat(path)
            if stat.S_ISDIR(status.st_mode):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            return FileStatus(path=path, size=status.st_size, mtime_millis=status.st_mtime_ns // 1_000_000, is_dir=False)

    def delete(self, path: str) -> None:
        """Remove the file; none there is fine."""
        path = local_path(path)
        with translating(path), contextlib.suppress(FileNotFoundError), self._parent(path) as (name, directory):
            os.unlink(name, dir_fd=directory)

    def delete_tree(self, path: str) -> None:
        """Remove the directory and all in it; none there is fine."""
        path = local_path(path)
        with translating(path):
            self._durability.moved(path)
            with contextlib.suppress(FileNotFoundError), self._parent(path) as (name, directory):
                _remove_tree(name, directory)
        with contextlib.suppress(FileNotFoundError):  # else a power cut brings back what the catalog takes for gone
            self.sync([os.path.dirname(path)])

    def remove_empty(self, path: str) -> bool:
        """Remove a directory that holds nothing; False where it holds something, also what came at this very moment."""
        path = local_path(path)
        with translating(path), contextlib.suppress(FileNotFoundError):
            try:
                with self._parent(path) as (name, directory):
                    self._durability.removed(path, lambda: os.rmdir(name, dir_fd=directory))
            except OSError as problem:
                if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                return False
        return True

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory, making the target's parent where needed."""
        source, target = local_path(source), local_path(target)
        with translating(target):
            try:
                self._moved(source, target)
            except FileNotFoundError:
                self._durability.made(os.path.dirname(target), then=lambda: self._moved(source, target))
            if os.path.isdir(target):
                self._durability.moved(source)
                self._durability.moved(target)

    def _moved(self, source: str, target: str) -> None:
        with self._parent(source) as (old, old_directory), self._parent(target) as (new, new_directory):
            os.rename(old, new, src_dir_fd=old_directory, dst_dir_fd=new_directory)

    def list(self, path: str) -> list[FileStatus]:
        """What the directory holds, by name; nothing where there is no directory."""
        path = local_path(path)
        statuses = []
        with translating(path):
            try:
                handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            except (FileNotFoundError, NotADirectoryError):
                return []
            try:
                if self._held is not None:
                    self._held(handle, path)
                path = path.rstrip("/")
                with os.scandir(handle) as entries:
                    for entry in entries:
                        with contextlib.suppress(FileNotFoundError), no_circles():
                            status, place = entry.stat(), f"{path}/{entry.name}"
                            millis = status.st_mtime_ns // 1_000_000
                            statuses.append(FileStatus(path=place, size=status.st_size, mtime_millis=millis, is_dir=entry.is_dir()))
            finally:
                os.close(handle)
        return sorted(statuses, key=lambda status: status.path)

    def mkdirs(self, path: str) -> None:
        """Make the directory and its parents."""
        path = local_path(path)
        with making(path):
            self._durability.made(path, then=lambda: None)

    def sync(self, paths: Collection[str]) -> None:
        """Make these files, and every directory entry that leads to them, durable; see `Durability.sync`."""
        self._durability.sync([local_path(path) for path in paths])

    def arrow(self) -> pafs.FileSystem:
        """The file system as pyarrow knows it."""
        return self._arrow

    def arrow_path(self, path: str) -> str:
        """The path as pyarrow's file system wants it."""
        return local_path(path)

    def open_input(self, path: str) -> pa.NativeFile:
        """The file, open for reading at any place; raises `FileNotFoundError` also where something else lies in its place."""
        path = local_path(path)
        if self._held is None:
            return self.arrow().open_input_file(path)
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            self._held(handle, path)
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            return self.arrow().open_input_file(f"/proc/self/fd/{handle}")
        finally:
            os.close(handle)

    def open_output(self, path: str) -> pa.NativeFile:
        """A file to write, under a name that is nobody else's; raises `FileExistsError` where one of a table's has that name."""
        path = local_path(path)
        if self._held is None:
            return self.arrow().open_output_stream(path)
        with self._parent(path) as (name, directory):
            handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=directory)
        try:
            return self.arrow().open_output_stream(f"/proc/self/fd/{handle}")
        except OSError:
            with contextlib.suppress(Exception):  # an empty file that nobody names, and that is found later as an orphan
                self.delete(path)
            raise
        finally:
            os.close(handle)


def _remove_tree(name: str, parent: int | None) -> None:
    """Remove a directory and what late writers put into it meanwhile, but no other one that has its name by then.

    Who was held up so long that its lock is over may find another table there; the number of what is held open is nobody else's.
    """
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        for left in reversed(range(_TRIES)):
            try:
                shutil.rmtree(name, onerror=_passing_over_what_is_gone, dir_fd=parent)
                return
            except OSError as problem:
                if problem.errno != errno.ENOTEMPTY or not left:
                    raise
            if not os.path.samestat(os.fstat(descriptor), os.stat(name, dir_fd=parent, follow_symlinks=False)):
                return
    finally:
        os.close(descriptor)


def _passing_over_what_is_gone(_: object, __: str, failure: tuple[type[BaseException], BaseException, object]) -> None:
    if not isinstance(failure[1], FileNotFoundError):  # another removes the same tree
        raise failure[1]


def file_io_for(location: str, *, sync: bool = True) -> FileIO:
    """The `FileIO` of a warehouse location: a path, ``file:`` or any scheme pyarrow knows (s3, gs, hdfs, abfs).

    Without ``sync`` nothing on local disks is flushed: a power cut may lose it.
    """
    scheme, separator, _ = location.partition("://")
    if not separator or scheme == "file":
        return LocalFileIO(sync=sync)
    return ArrowFileIO(object_store(location), scheme)
