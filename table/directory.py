"""A hand on one directory: what is put there lands in this very directory, also when it was moved meanwhile."""

from __future__ import annotations

import contextlib
import os
from itertools import count
from typing import Protocol
from uuid import uuid4

_MINE, _NUMBER = uuid4(), count()
"""With the process's number, which forks do not share, names nobody else uses; random bytes for each would cost more."""


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

    def exists(self, path: str) -> bool: ...
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
        return self._store.exists(f"{self._path}/{name}")

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
    """An open directory of this machine; raises `OSError`, and `FileNotFoundError` also once the directory has been removed."""

    follows = True

    def __init__(self, path: str, *, make: bool) -> None:
        try:
            self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            if not make:
                raise
            os.makedirs(path, exist_ok=True)
            self._handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._handle)

    def exists(self, name: str) -> bool:
        """Whether a file is there."""
        try:
            os.stat(name, dir_fd=self._handle)
        except FileNotFoundError:
            return False
        return True

    def read(self, name: str) -> bytes:
        """The whole file."""
        with open(os.open(name, os.O_RDONLY, dir_fd=self._handle), "rb") as file:
            return file.read()

    def create(self, name: str, data: bytes) -> bool:
        """Put the file there unless one exists; whole or not at all. A rename would replace silently, a link cannot."""
        temporary = self._temporary(name, data)
        try:
            os.link(temporary, name, src_dir_fd=self._handle, dst_dir_fd=self._handle)
        except FileExistsError:
            return False
        finally:
            os.unlink(temporary, dir_fd=self._handle)
        return True

    def write(self, name: str, data: bytes) -> None:
        """Put the file there, replacing what was; readers see the old or the new, never a part."""
        os.replace(self._temporary(name, data), name, src_dir_fd=self._handle, dst_dir_fd=self._handle)

    def update(self, name: str, data: bytes) -> None:
        """Put a few bytes there, which readers check before they believe them: in place where they cover what was.

        Replacing a file makes ext4 flush the new one, which cost a small commit more than everything else it does to files (measured).
        """
        try:
            handle = os.open(name, os.O_WRONLY, dir_fd=self._handle)
        except FileNotFoundError:
            return self.write(name, data)
        try:
            covered = os.fstat(handle).st_size <= len(data)
            if covered:
                os.pwrite(handle, data, 0)
        finally:
            os.close(handle)
        return None if covered else self.write(name, data)

    def delete(self, name: str) -> None:
        """Remove the file; none there is fine."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._handle)

    def _temporary(self, name: str, data: bytes) -> str:
        temporary = f".{name}.{_MINE}-{os.getpid()}-{next(_NUMBER)}.tmp"
        write_new(temporary, data, directory=self._handle)
        return temporary


def write_new(path: str, data: bytes, *, directory: int | None = None) -> None:
    """Make a file that is not there yet; raises `OSError`, after taking away what was written of it."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=directory)
    try:
        with open(handle, "wb", buffering=0) as file:
            left = memoryview(data)
            while left:  # a disk that fills up takes a part of it
                left = left[file.write(left) :]
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path, dir_fd=directory)
        raise
