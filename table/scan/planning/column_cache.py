"""Decoded manifests as columns, kept in memory and, where a directory is given, on its disk.

A manifest never changes and its name is never given twice, so what is kept can only be missing, or be damaged by its disk, which the
digest at a file's end shows: what a plan or a commit goes by is as it was written. Several processes may share a directory: a file appears
there whole, by a rename, and one that is gone or damaged is made anew. Files are read and not mapped: one that is cut off while it is
mapped kills the process.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import threading
import time
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import pyarrow as pa
import xxhash

from model.repeats import REPEATS
from table.format.cache import ByteCache
from table.format.manifests.columns import ManifestColumns

_log = logging.getLogger(__name__)
_HELD_BYTES = 512 << 20
_FORMAT = "2"
"""Part of each file's name; files of another format are let go as the oldest."""
_SUFFIX = ".manifest"
_DIGEST_BYTES = 16
_ABANDONED_SECONDS = 3600.0
_LOADING = 16
"""Manifests that may be decoded at once."""
_SHARE_KEPT = 0.9
"""Share of the bytes allowed that is left once files had to go."""


class ColumnCache:
    """Columns of manifests by path and size."""

    def __init__(self) -> None:
        self._held: ByteCache[str, ManifestColumns] = ByteCache(_HELD_BYTES, lambda columns: columns.nbytes)
        self._lock = threading.Lock()
        self._loading = [threading.Lock() for _ in range(_LOADING)]
        self._directory: Path | None = None
        self._most_bytes = 0
        self._space: Callable[[], bool] = lambda: True
        self._bytes = 0

    def keep_in(self, directory: Path | None, most_bytes: int, *, space: Callable[[], bool] = lambda: True) -> None:
        """Keep columns in this directory too, up to so many bytes; the files used longest ago go first. None or 0: in memory only.

        While ``space`` says no nothing new is kept there: reads go on when a disk is nearly full, and must not fill it.
        """
        with self._lock:
            self._directory, self._most_bytes, self._space = None, most_bytes, space
            if directory is None or most_bytes <= 0:
                return
            try:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as problem:
                _log.warning("Decoded manifests are kept in memory only: %s", problem)
                return
            self._directory = directory
            self._shrink()

    def columns(self, path: str, size: int, load: Callable[[], ManifestColumns], *, persist: bool) -> ManifestColumns:
        """The columns of a manifest, loaded where they are not kept; ``persist`` puts them on disk as well."""
        name = blake2b(f"{_FORMAT} {size} {path}".encode(), digest_size=20).hexdigest() + _SUFFIX
        columns = self._held.get(name)
        if columns is not None:
            return columns
        with self._loading[hash(name) % _LOADING]:  # decoding takes a second for a large one: who else wants it waits for it
            return self._held.or_load(name, lambda: self._load(name, load) if persist else load())

    def forget(self) -> None:
        """Forget what is in memory, as a restart does."""
        self._held.clear()

    def _load(self, name: str, load: Callable[[], ManifestColumns]) -> ManifestColumns:
        directory = self._directory
        if directory is None:
            return load()
        columns = _stored(directory / name)
        if columns is None:
            columns = load()
            if self._space():
                self._write(directory, name, columns)
        return columns

    def _write(self, directory: Path, name: str, columns: ManifestColumns) -> None:
        temporary = directory / f"{uuid4().hex}.tmp"
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # whoever wants its space may have deleted it
            with open(temporary, "xb") as file:
                table = columns.to_table()
                sink = _Digesting(file, name)
                with pa.ipc.new_file(pa.PythonFile(sink, "w"), table.schema) as writer:
                    writer.write_table(table)
                file.write(sink.digest())
                file.flush()
                os.fsync(file.fileno())
                size = file.tell()
            os.replace(temporary, directory / name)
        except OSError as problem:
            _log.warning("A decoded manifest could not be kept in %s: %s", directory, problem, extra=REPEATS)
            with contextlib.suppress(OSError):
                temporary.unlink()
            return
        with self._lock:
            self._bytes += size
            if self._bytes > self._most_bytes:
                self._shrink()

    def _shrink(self) -> None:
        """Let the files used longest ago go until the bytes are within bounds, and what a crash left half written."""
        assert self._directory is not None
        entries = []
        for entry in self._directory.iterdir():
            with contextlib.suppress(OSError):  # another process lets go of files, too
                status = entry.stat()
                if entry.name.endswith(".tmp") and time.time() - status.st_mtime > _ABANDONED_SECONDS:
                    entry.unlink()
                elif entry.name.endswith(_SUFFIX):
                    entries.append((status.st_mtime, status.st_size, entry))
        self._bytes = sum(size for _, size, _ in entries)
        if self._bytes <= self._most_bytes:
            return
        for _, size, path in sorted(entries):
            if self._bytes <= self._most_bytes * _SHARE_KEPT:
                return
            with contextlib.suppress(OSError):
                path.unlink()
            self._bytes -= size


class _Digesting(io.RawIOBase):
    """Passes on what is written and keeps its digest; the name is in it, so that no file is taken for another."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        super().__init__()
        self._file = file
        self._hash = xxhash.xxh3_128(name.encode())

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._hash.update(data)
        return self._file.write(data)

    def digest(self) -> bytes:
        return self._hash.digest()


def _stored(path: Path) -> ManifestColumns | None:
    """The columns a file holds; None where there is none, or one that is not as it was written."""
    try:
        os.utime(path)
        with open(path, "rb") as file:
            buffer = pa.allocate_buffer(os.fstat(file.fileno()).st_size)
            view = memoryview(buffer).cast("B")
            whole = file.readinto(view) == len(view)
        digest = xxhash.xxh3_128(path.name.encode())
        digest.update(view[:-_DIGEST_BYTES])
        if not whole or len(view) <= _DIGEST_BYTES or digest.digest() != bytes(view[-_DIGEST_BYTES:]):
            raise ValueError("its bytes are not those that were written")
        return ManifestColumns(pa.ipc.open_file(buffer[:-_DIGEST_BYTES]).read_all())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, pa.ArrowException) as problem:
        _log.warning("The decoded manifest %s is damaged and made anew: %s", path, problem)
        return None


COLUMNS = ColumnCache()
"""One for all tables of the process, so that the bounds hold however many are open."""
