"""What is too large for memory as a file without a name: bodies that another process is given, results that are read again."""

from __future__ import annotations

import contextlib
import copy
import io
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from model.errors import TooManyStatements
from table.format.io.storage_errors import making, translating

MEMORY_BYTES = 4 << 20
"""A body or a result up to this size stays in memory."""
_CHUNK_BYTES = 1 << 20
_MOST_FILES = 1024
"""Open at once, of which one owner has three quarters: tables, Postgres and Spark need those of the process, too."""
_MOST_KEPT = 256
"""The same of those that are kept for long."""


def owner_of(principal: str) -> str:
    """The owner of what a principal sends, by whichever protocol and at whichever stage."""
    return f"principal {principal}"


class _Held:
    """What the open files of each owner hold."""

    def __init__(self, most: int, what: str, so: str, *, beside: _Held | None = None) -> None:
        """``so`` says what follows where there are too many; ``beside`` counts other files, whose bytes are counted together with these."""
        self._most, self._what, self._so = most, what, so
        self._lock: threading.Lock = threading.Lock() if beside is None else beside._lock
        self._files = Counter[str]()
        self._bytes: Counter[str] = Counter() if beside is None else beside._bytes

    def open(self, owner: str, *, comes: bool) -> None:
        """Count one more; raises `TooManyStatements` where that is too many, for one that comes a quarter sooner."""
        with self._lock:
            most = self._most * 3 // 4
            all_of_one = bool(owner) and self._files[owner] >= (most * 3 // 4 if comes else most)
            if all_of_one or self._files.total() >= self._most:
                whose = f"{owner[0].upper()}{owner[1:]} has" if all_of_one else "All together have"
                raise TooManyStatements(f"{whose} as many {self._what} as the server keeps on its disk at once. {self._so}")
            self._files[owner] += 1

    def add(self, owner: str, size: int) -> None:
        with self._lock:
            self._bytes[owner] += size

    def of(self, owner: str) -> int:
        return self._bytes[owner] if owner else 0

    def close(self, owner: str, size: int) -> None:
        with self._lock:
            self._files[owner] -= 1
            self._bytes[owner] -= size
            for counter in (self._files, self._bytes):
                if not counter[owner]:
                    del counter[owner]


class _BodyFile(io.BufferedRandom):
    """A file that is counted until it is closed."""

    def __init__(self, raw: io.FileIO, held: _Held, owner: str) -> None:
        super().__init__(raw)
        self._held, self._owner = held, owner
        self._size = 0
        self._counted = True

    def grown(self, size: int) -> None:
        """So much more lies in it."""
        self._size += size
        self._held.add(self._owner, size)

    def close(self) -> None:
        counted, self._counted = getattr(self, "_counted", False), False
        try:
            super().close()
        finally:
            if counted:
                self._held.close(self._owner, self._size)


class BodyFiles:
    """Files of one directory, each gone when it is closed; whatever is written to them asks for space first.

    What one owner has in them takes half of the space there is, at most.
    """

    def __init__(self, directory: Path | None = None, *, space: Callable[[int, int], AbstractContextManager[object]] | None = None) -> None:
        """``directory`` is made when it is needed; None for the system's own for temporary files.

        ``space`` holds so many bytes while they are written, and raises what is told where there is no space for them and for as many
        more as its second argument says.
        """
        self._directory = directory
        self._space = space or (lambda size, beside: contextlib.nullcontext())
        self._owner, self._comes = "", False
        self._held = _Held(_MOST_FILES, "large bodies under way", "Nothing was done; try again soon.")

    def of(self, owner: str, *, comes: bool = False) -> BodyFiles:
        """The same, whose new files are an owner's; without one none is bounded but by the space there is.

        ``comes`` is said of what waits to be asked for: it leaves files of the owner's to what is taken in, which is read from it.
        """
        files = copy.copy(self)
        files._owner, files._comes = owner, comes
        return files

    def kept(self) -> BodyFiles:
        """The same for files that stay for long: those take no places of bodies under way."""
        files = copy.copy(self)
        so = "The statement is done; let the results of others go (DELETE /statements/{id}), then ask for this one again."
        files._held = _Held(_MOST_KEPT, "large results of kept statements", so, beside=self._held)
        return files

    def new(self) -> IO[bytes]:
        """An empty file. Raises `StorageFull` or `Unavailable`, and `TooManyStatements` where too many are open."""
        self._held.open(self._owner, comes=self._comes)
        try:
            with making(self._place):
                if self._directory is not None:
                    self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                return _BodyFile(tempfile.TemporaryFile(buffering=0, dir=self._directory, prefix="body-"), self._held, self._owner)
        except BaseException:
            self._held.close(self._owner, 0)
            raise

    def add(self, file: IO[bytes], part: bytes, *, in_memory: int = MEMORY_BYTES) -> IO[bytes]:
        """Add a part to a file in memory or to what became of it; returns where all of it lies: here, once it is larger than memory takes.

        Raises `StorageFull` or `Unavailable`; one in memory is then as it was, one of this directory of no use.
        """
        size = file.seek(0, os.SEEK_END)
        if isinstance(file, _BodyFile):
            self.write(file, [part])
            return file
        if size + len(part) <= in_memory:
            file.write(part)
            return file
        made = self.new()
        try:
            file.seek(0)
            while chunk := file.read(_CHUNK_BYTES):
                self.write(made, [chunk])
            self.write(made, [part])
        except BaseException:
            made.close()
            raise
        file.close()
        return made

    def write(self, file: IO[bytes], parts: Sequence[bytes]) -> None:
        """Add parts to a file of this directory. Raises `StorageFull` or `Unavailable`; the file is of no use then."""
        size = sum(map(len, parts))
        with self._space(size, self._held.of(self._owner)), translating(self._place):
            if isinstance(file, _BodyFile):
                file.grown(size)
            file.writelines(parts)
            file.flush()

    def spooled(self, body: IO[bytes], *, begin: bytes = b"", seen: Callable[[bytes], object] = lambda chunk: None) -> IO[bytes]:
        """Read a body to its end, behind what was read of it already; returns a file at its beginning, in memory where it is small.

        ``seen`` is called with each part.
        """

        def parts() -> Iterator[bytes]:
            chunk = begin or body.read(_CHUNK_BYTES)
            while chunk:
                seen(chunk)
                yield chunk
                chunk = body.read(_CHUNK_BYTES)

        return self.spooled_parts(parts())

    def spooled_parts(self, parts: Iterable[bytes]) -> IO[bytes]:
        """The same of a body that comes in parts."""
        buffer = in_memory()
        try:
            for part in parts:
                buffer = self.add(buffer, part)
            buffer.flush()
            buffer.seek(0)
        except BaseException:
            buffer.close()
            raise
        return buffer

    @property
    def _place(self) -> str:
        return str(self._directory or tempfile.gettempdir())


def first_bytes(body: IO[bytes], size: int) -> bytes:
    """The first bytes of a body, fewer only where it ends."""
    parts = []
    while size and (part := body.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def size_of(body: IO[bytes]) -> int:
    """Bytes of a body that lies in a file; its place there stays."""
    at = body.tell()
    try:
        return body.seek(0, os.SEEK_END)
    finally:
        body.seek(at)


def in_memory() -> IO[bytes]:
    """A file without a name or a disk; where the system has none, a temporary one."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("sluice-body"), "w+b")
    return tempfile.TemporaryFile()
