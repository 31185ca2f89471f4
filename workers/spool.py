"""A body as a file that another process can be given: in memory where it is small, on disk where not."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO

_MEMORY_BYTES = 4 << 20
_CHUNK_BYTES = 1 << 20


def spooled(body: IO[bytes], *, begin: bytes = b"", seen: Callable[[bytes], object] = lambda chunk: None) -> IO[bytes]:
    """Read a body to its end, behind what was read of it already; returns a file at its beginning, which is gone when it is closed.

    ``seen`` is called with each part.
    """

    def parts() -> Iterator[bytes]:
        chunk = begin or body.read(_CHUNK_BYTES)
        while chunk:
            seen(chunk)
            yield chunk
            chunk = body.read(_CHUNK_BYTES)

    return spooled_parts(parts())


def spooled_parts(parts: Iterable[bytes]) -> IO[bytes]:
    """The same of a body that comes in parts."""
    buffer = in_memory()
    size, small = 0, True
    try:
        for part in parts:
            size += len(part)
            if small and size > _MEMORY_BYTES:
                buffer, small = _moved(buffer), False
            buffer.write(part)
        buffer.flush()
        buffer.seek(0)
    except BaseException:
        buffer.close()
        raise
    return buffer


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


def _moved(buffer: IO[bytes]) -> IO[bytes]:
    """The same bytes in a temporary file."""
    made = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        buffer.seek(0)
        while chunk := buffer.read(_CHUNK_BYTES):
            made.write(chunk)
    except BaseException:
        made.close()
        raise
    buffer.close()
    return made
