"""What is too large for memory as a file without a name: bodies that another process is given, results that are read again."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from table.format.io.storage_errors import making, translating

MEMORY_BYTES = 4 << 20
"""A body or a result up to this size stays in memory."""
_CHUNK_BYTES = 1 << 20


class BodyFiles:
    """Files of one directory, each gone when it is closed; whatever is written to them asks for space first."""

    def __init__(self, directory: Path | None = None, *, space: Callable[[int], AbstractContextManager[object]] | None = None) -> None:
        """``directory`` is made when it is needed; None for the system's own for temporary files.

        ``space`` holds so many bytes while they are written, and raises what is told where there is no space for them.
        """
        self._directory = directory
        self._space = space or (lambda size: contextlib.nullcontext())

    def new(self) -> IO[bytes]:
        """An empty file. Raises `StorageFull` or `Unavailable`."""
        with making(self._place):
            if self._directory is not None:
                self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            return tempfile.TemporaryFile(dir=self._directory, prefix="body-")

    def add(self, file: IO[bytes], part: bytes) -> IO[bytes]:
        """Add a part to a file in memory or to what became of it; returns where all of it lies: here, once it is larger than memory takes.

        Raises `StorageFull` or `Unavailable`; one in memory is then as it was, one of this directory of no use.
        """
        size = file.seek(0, os.SEEK_END)
        if size + len(part) <= MEMORY_BYTES:
            file.write(part)
            return file
        if size > MEMORY_BYTES:
            self.write(file, [part])
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
        with self._space(sum(map(len, parts))), translating(self._place):
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
