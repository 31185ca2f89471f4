"""Where bytes lie: a local disk or an object store, behind one small protocol."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import pyarrow.fs as pafs

from model.errors import InvalidOption, LakeError, StorageFull, Unavailable
from table.directory import Directory, LocalDirectory, NamedDirectory, write_new


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """One entry of a directory; times are milliseconds since the epoch."""

    path: str
    size: int
    mtime_millis: int
    is_dir: bool


class FileIO(Protocol):
    """Reads and writes whole small files and names of large ones; paths are absolute or URIs.

    All methods raise `StorageFull` where there is no room and `Unavailable` naming the path where the store fails.
    A missing file to read is a `FileNotFoundError`.
    """

    atomic_rename: bool
    """Whether ``rename`` of a file appears at once and whole, so that writers may publish by it."""

    def read(self, path: str) -> bytes: ...
    def write(self, path: str, data: bytes) -> None: ...
    def add(self, path: str, data: bytes) -> None: ...
    def create(self, path: str, data: bytes) -> bool: ...
    def exists(self, path: str) -> bool: ...
    def size(self, path: str) -> int: ...
    def delete(self, path: str) -> None: ...
    def delete_tree(self, path: str) -> None: ...
    def rename(self, source: str, target: str) -> None: ...
    def list(self, path: str) -> list[FileStatus]: ...
    def mkdirs(self, path: str) -> None: ...
    def directory(self, path: str, *, make: bool = True) -> AbstractContextManager[Directory]: ...
    def arrow(self) -> pafs.FileSystem: ...
    def arrow_path(self, path: str) -> str: ...


def storage_error(problem: OSError, path: str) -> LakeError:
    """Translate an operating system's error about a path."""
    if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return StorageFull(f"No room left to write {path}. Nothing was committed; make room and repeat the statement.")
    reason = problem.strerror or str(problem)
    return Unavailable(f"The warehouse cannot be used at {path}: {reason}.")


def local_path(location: str) -> str:
    """A local location without its scheme: ``/x``, ``file:/x`` and ``file:///x`` are one place. Nothing is unquoted, as in Hadoop.

    Raises `InvalidOption` for a URI that names another host.
    """
    if not location.startswith("file:"):
        return location
    rest = location.removeprefix("file:")
    if not rest.startswith("//"):
        return rest
    host, slash, path = rest[2:].partition("/")
    if host not in ("", "localhost") or not slash:
        raise InvalidOption(f"The location {location} names a host or no path; a local one is written as /path or file:///path.")
    return f"/{path}"


@contextlib.contextmanager
def _translating(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise storage_error(problem, path) from problem


class LocalFileIO:
    """Files of this machine (or a shared mount), by path or ``file:`` URI: other clients' manifests and catalogs hold URIs."""

    atomic_rename = True

    def __init__(self) -> None:
        self._arrow = pafs.LocalFileSystem()

    def read(self, path: str) -> bytes:
        """The whole file."""
        path = local_path(path)
        with _translating(path), open(path, "rb") as file:
            return file.read()

    def write(self, path: str, data: bytes) -> None:
        """Put the file there, replacing what was; readers see the old or the new, never a part."""
        directory, name = os.path.split(path)
        with self.directory(directory) as place, _translating(local_path(path)):
            place.write(name, data)

    def add(self, path: str, data: bytes) -> None:
        """Put a file there under a name that is nobody else's, and that nobody is told of before: what readers see needs no care."""
        path = local_path(path)
        with _translating(path):
            try:
                write_new(path, data)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                write_new(path, data)

    def create(self, path: str, data: bytes) -> bool:
        """Put the file there unless one exists; whole or not at all."""
        directory, name = os.path.split(path)
        with self.directory(directory) as place, _translating(local_path(path)):
            return place.create(name, data)

    @contextlib.contextmanager
    def directory(self, path: str, *, make: bool = True) -> Iterator[Directory]:
        """The directory itself, open; made where there is none, or with ``make`` off a `FileNotFoundError`."""
        path = local_path(path)
        with _translating(path):
            place = LocalDirectory(path, make=make)
            try:
                yield place
            finally:
                place.close()

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""
        path = local_path(path)
        return os.path.exists(path)

    def size(self, path: str) -> int:
        """Bytes of the file."""
        path = local_path(path)
        with _translating(path):
            return os.stat(path).st_size

    def delete(self, path: str) -> None:
        """Remove the file; none there is fine."""
        path = local_path(path)
        with _translating(path), contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def delete_tree(self, path: str) -> None:
        """Remove the directory and all in it; none there is fine."""
        path = local_path(path)
        with _translating(path), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory, making the target's parent where needed."""
        source, target = local_path(source), local_path(target)
        with _translating(target):
            try:
                os.rename(source, target)
            except FileNotFoundError:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                os.rename(source, target)

    def list(self, path: str) -> list[FileStatus]:
        """What the directory holds, by name; nothing where there is no directory."""
        path = local_path(path)
        found = []
        with _translating(path):
            try:
                entries = list(os.scandir(path))
            except (FileNotFoundError, NotADirectoryError):
                return []
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    stat = entry.stat()
                    found.append(
                        FileStatus(path=entry.path, size=stat.st_size, mtime_millis=stat.st_mtime_ns // 1_000_000, is_dir=entry.is_dir())
                    )
        return sorted(found, key=lambda status: status.path)

    def mkdirs(self, path: str) -> None:
        """Make the directory and its parents."""
        path = local_path(path)
        with _translating(path):
            os.makedirs(path, exist_ok=True)

    def arrow(self) -> pafs.FileSystem:
        """The file system as pyarrow knows it."""
        return self._arrow

    def arrow_path(self, path: str) -> str:
        """The path as pyarrow's file system wants it."""
        return local_path(path)


class ArrowFileIO:
    """An object store or HDFS through pyarrow; ``create`` is check-then-write.

    That is enough here: which snapshot gets an id is decided in Postgres before its file is written, so two
    writers of one name write the same bytes.
    """

    atomic_rename = False

    def __init__(self, filesystem: pafs.FileSystem, scheme: str) -> None:
        self._fs = filesystem
        self._scheme = scheme

    def arrow(self) -> pafs.FileSystem:
        """The file system as pyarrow knows it."""
        return self._fs

    def arrow_path(self, path: str) -> str:
        """The path without its scheme."""
        return path.removeprefix(f"{self._scheme}://")

    def _uri(self, path: str) -> str:
        return f"{self._scheme}://{path}"

    def read(self, path: str) -> bytes:
        """The whole file."""
        with _translating(path), self._fs.open_input_stream(self.arrow_path(path)) as stream:
            return bytes(stream.read())

    def write(self, path: str, data: bytes) -> None:
        """Put the object, replacing what was."""
        with _translating(path), self._fs.open_output_stream(self.arrow_path(path)) as stream:
            stream.write(data)

    def add(self, path: str, data: bytes) -> None:
        """Put an object of a name that is nobody else's."""
        self.write(path, data)

    @contextlib.contextmanager
    def directory(self, path: str, *, make: bool = True) -> Iterator[Directory]:
        """The directory by its name: stores have no others."""
        yield NamedDirectory(self, path)

    def create(self, path: str, data: bytes) -> bool:
        """Put the object unless one exists."""
        if self.exists(path):
            return False
        self.write(path, data)
        return True

    def _info(self, path: str) -> pafs.FileInfo:
        with _translating(path):
            return self._fs.get_file_info(self.arrow_path(path))

    def exists(self, path: str) -> bool:
        """Whether an object or directory is there."""
        return bool(self._info(path).type != pafs.FileType.NotFound)

    def size(self, path: str) -> int:
        """Bytes of the object."""
        info = self._info(path)
        if info.type == pafs.FileType.NotFound:
            raise FileNotFoundError(path)
        return int(info.size)

    def delete(self, path: str) -> None:
        """Remove the object; none there is fine."""
        with _translating(path), contextlib.suppress(FileNotFoundError):
            self._fs.delete_file(self.arrow_path(path))

    def delete_tree(self, path: str) -> None:
        """Remove all below the path; nothing there is fine."""
        with _translating(path), contextlib.suppress(FileNotFoundError):
            self._fs.delete_dir(self.arrow_path(path))

    def rename(self, source: str, target: str) -> None:
        """Move an object; on most stores a copy and a delete."""
        with _translating(target):
            self._fs.move(self.arrow_path(source), self.arrow_path(target))

    def list(self, path: str) -> list[FileStatus]:
        """What lies directly below the path, by name."""
        with _translating(path):
            infos = self._fs.get_file_info(pafs.FileSelector(self.arrow_path(path), allow_not_found=True))
        found = [
            FileStatus(
                path=self._uri(info.path),
                size=int(info.size or 0),
                mtime_millis=(info.mtime_ns or 0) // 1_000_000,
                is_dir=info.type == pafs.FileType.Directory,
            )
            for info in infos
        ]
        return sorted(found, key=lambda status: status.path)

    def mkdirs(self, path: str) -> None:
        """Make the directory where the store has any."""
        with _translating(path):
            self._fs.create_dir(self.arrow_path(path), recursive=True)


def file_io_for(location: str) -> FileIO:
    """The `FileIO` of a warehouse location: a path, ``file:`` or any scheme pyarrow knows (s3, gs, hdfs, abfs)."""
    scheme, separator, _ = location.partition("://")
    if not separator or scheme == "file":
        return LocalFileIO()
    filesystem, _ = pafs.FileSystem.from_uri(location)
    return ArrowFileIO(filesystem, scheme)
