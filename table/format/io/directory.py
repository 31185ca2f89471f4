"""A directory handle: what is put there lands in this very directory, also when it was moved meanwhile."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count
from typing import Protocol
from uuid import uuid4

from table.format.io.durability import Durability, flush
from table.format.io.storage_errors import making, no_circles, translating

Opened = Callable[[int, str], None]
"""Raises for an open file or directory that lies elsewhere than its path may lead; nothing is done with it before."""
_MOST_BYTES = 512 << 20
"""What may be read at once: manifests, indexes and all else that is no data file takes a few megabytes."""
_NO_FILE_OF_OURS = (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.EISDIR)
"""What opening says of nothing, a link, a pipe nobody reads, and a directory."""
_MINE, _NUMBER = uuid4(), count()
"""With the process's number, which forks do not share, names nobody else uses; random bytes for each would cost more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """One entry of a directory; times are milliseconds since the epoch."""

    path: str
    size: int
    mtime_millis: int
    is_dir: bool


class Directory(Protocol):
    """Small files of one directory, by their bare names."""

    follows: bool
    """Whether it is the directory itself that is held, whatever its name is by now; otherwise only the name is known."""

    def exists(self, name: str) -> bool: ...
    def read(self, name: str) -> bytes: ...
    def create(self, name: str, data: bytes) -> bool: ...
    def update(self, name: str, data: bytes) -> None: ...
    def write(self, name: str, data: bytes) -> None: ...
    def delete(self, name: str) -> None: ...


class _Store(Protocol):
    """What `NamedDirectory` needs of a `FileIO`."""

    def file_exists(self, path: str) -> bool: ...
    def read(self, path: str) -> bytes: ...
    def create(self, path: str, data: bytes) -> bool: ...
    def write(self, path: str, data: bytes) -> None: ...
    def delete(self, path: str) -> None: ...


class NamedDirectory:
    """A directory of a store that knows names only."""

    follows = False

    def __init__(self, store: _Store, path: str) -> None:
        self._store = store
        self._path = path

    def exists(self, name: str) -> bool:
        """Whether a file is there."""
        return self._store.file_exists(f"{self._path}/{name}")

    def read(self, name: str) -> bytes:
        """The whole file."""
        return self._store.read(f"{self._path}/{name}")

    def create(self, name: str, data: bytes) -> bool:
        """Put a file there unless one exists."""
        return self._store.create(f"{self._path}/{name}", data)

    def update(self, name: str, data: bytes) -> None:
        """Put a few bytes there that readers check before they believe them."""
        self._store.write(f"{self._path}/{name}", data)

    def write(self, name: str, data: bytes) -> None:
        """Put a file there, replacing what was."""
        self._store.write(f"{self._path}/{name}", data)

    def delete(self, name: str) -> None:
        """Remove a file; none there is fine."""
        self._store.delete(f"{self._path}/{name}")


class LocalDirectory:
    """An open directory of this machine; a `FileNotFoundError` also means that the directory has been removed.

    What is put there is durable only with ``durable``, or once it was given to `FileIO.sync`.
    """

    follows = True

    def __init__(self, path: str, durability: Durability, *, make: bool, durable: bool = False, opened: Opened | None = None) -> None:
        self._path = path
        self._durability = durability
        self._durable = durable and durability.enabled
        self._opened = opened
        with translating(path):
            try:
                self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                if not make:
                    raise
                with making(path):
                    self._handle = durability.made(path, then=lambda: os.open(path, os.O_RDONLY | os.O_DIRECTORY))
        if opened is not None:
            try:
                opened(self._handle, path)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Let go of it; it was opened for names only, so nothing written is lost where that fails."""
        with contextlib.suppress(OSError):
            os.close(self._handle)

    def _naming(self, name: str) -> AbstractContextManager[None]:
        return translating(f"{self._path}/{name}")

    def exists(self, name: str) -> bool:
        """Whether a file is there."""
        with self._naming(name):
            try:
                with no_circles():
                    os.stat(name, dir_fd=self._handle)
            except FileNotFoundError:
                return False
            return True

    def read(self, name: str) -> bytes:
        """The whole file."""
        with self._naming(name), no_circles():
            return read_whole(name, directory=self._handle, opened=self._opened)

    def create(self, name: str, data: bytes) -> bool:
        """Put the file there unless one exists; whole or not at all. A rename would replace silently, a link cannot."""
        with self._naming(name):
            temporary = self._temporary(name, data)
            try:
                os.link(temporary, name, src_dir_fd=self._handle, dst_dir_fd=self._handle)
            except FileExistsError:
                there = True
            else:
                there = False
            finally:
                self._drop(temporary)
        self._named()  # also of another's: who is told that it is there relies on it
        return not there

    def write(self, name: str, data: bytes) -> None:
        """Put the file there, replacing what was; readers see the old or the new, never a part."""
        with self._naming(name):
            temporary = self._temporary(name, data)
            try:
                os.replace(temporary, name, src_dir_fd=self._handle, dst_dir_fd=self._handle)
            except OSError:
                self._drop(temporary)
                raise
        self._named()

    def update(self, name: str, data: bytes) -> None:
        """Put a few bytes there, which readers check before they believe them: in place where they cover what was.

        Replacing a file makes ext4 flush the new one, which cost a small commit more than everything else it does to files (measured).
        What is a link, has a second name or is no file is replaced: its bytes may be somebody else's.
        """
        with self._naming(name):
            try:
                handle = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._handle)
            except OSError as problem:
                if problem.errno not in _NO_FILE_OF_OURS:
                    raise
                return self.write(name, data)
            try:
                covered = _is_one_file(os.fstat(handle), at_most=len(data)) and os.pwrite(handle, data, 0) == len(data)
            finally:
                os.close(handle)
        return None if covered else self.write(name, data)

    def delete(self, name: str) -> None:
        """Remove a file; none there is fine."""
        with self._naming(name), contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._handle)

    def _named(self) -> None:
        """Make what the directory holds survive, and the directory."""
        if self._durable:
            with translating(self._path):
                self._durability.flush_directory(self._handle, self._path)
            self._durability.sync_above(self._path)

    def _drop(self, temporary: str) -> None:
        # A temporary file that stays is in nobody's way; it is removed as an orphan. What it was for has failed or succeeded by itself.
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=self._handle)

    def _temporary(self, name: str, data: bytes) -> str:
        temporary = f".{name}.{_MINE}-{os.getpid()}-{next(_NUMBER)}.tmp"
        write_new(temporary, data, directory=self._handle, durable=self._durable)
        return temporary


def _is_one_file(status: os.stat_result, *, at_most: int) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_size <= at_most


class TooLarge(ValueError):
    """A file that would fill the process: holes make one of a terabyte out of nothing."""

    def __init__(self, size: int) -> None:
        super().__init__(f"has {size:,} bytes, of which at most {_MOST_BYTES:,} are read at once")

    @classmethod
    def check(cls, size: int) -> None:
        """Raise it for a file of so many bytes, where that is too large."""
        if size > _MOST_BYTES:
            raise cls(size)


def read_whole(path: str, *, directory: int | None = None, opened: Opened | None = None) -> bytes:
    """All bytes of a file; raises `FileNotFoundError` also where something else lies there: a pipe would make its reader wait forever.

    Raises `TooLarge`.
    """
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK, dir_fd=directory), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if opened is not None:
            opened(file.fileno(), path)
        TooLarge.check(status.st_size)
        return file.readall()


def write_new(path: str, data: bytes, *, directory: int | None = None, durable: bool = False) -> None:
    """Make a file that is not there yet; raises `OSError`, after taking away what was written of it."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=directory)
    try:
        with open(handle, "wb", buffering=0) as file:
            left = memoryview(data)
            while left:  # a disk that fills up takes a part of it
                left = left[file.write(left) :]
            if durable:
                flush(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path, dir_fd=directory)
        raise
