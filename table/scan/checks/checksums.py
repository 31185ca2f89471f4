"""ORC files held against the checksum they were written with, before their rows are believed: the format has none of its own."""

from __future__ import annotations

import hashlib
import threading

import pyarrow as pa
from cachetools import LRUCache

from model.errors import LakeError
from table.format.formats import format_of
from table.format.io.file_io import FileIO
from table.format.io.on_disk import on_disk
from table.format.io.storage_errors import translating
from table.format.manifests.entries import DataFile
from table.format.store import TableFiles
from table.index.checksum import Checksum, checksum_of, sum_of
from table.scan.planning.plan import PlannedFile

EACH_TIME_BYTES = 8 << 20
"""Smaller files are looked at whenever they are read, larger ones once for as long as their size and time stay as they were."""
_MOST_REMEMBERED = 100_000

_lock = threading.Lock()
_seen: LRUCache[bytes, None] = LRUCache(_MOST_REMEMBERED)


def recorded(io: FileIO, path: str, file: DataFile) -> Checksum | None:
    """The checksum an ORC file was written with; None for one that has none, as files of other writers, and for other formats."""
    if format_of(file.file_name) != "orc":
        return None

    def read(beside: str) -> bytes | None:
        try:
            return io.read(beside)
        except (LakeError, FileNotFoundError):  # an index that is gone costs the checksum, not the rows
            return None

    return checksum_of(file, path, read)


def bytes_fault(source: pa.NativeFile, checksum: Checksum) -> str | None:
    """What is wrong with an open file that has other bytes than were written."""
    return None if sum_of(source) == checksum else "has other bytes than were written (its checksum differs)"


def check_bytes(files: TableFiles, planned: PlannedFile) -> None:
    """Raise `TableDamaged` where an ORC file on a disk has other bytes than were written; stores keep checksums of what they hold."""
    if not files.io.atomic_rename or (checksum := recorded(files.io, planned.path, planned.file)) is None:
        return
    info = on_disk(files.io, planned.path)
    if info is None:
        raise FileNotFoundError(planned.path)
    key = hashlib.blake2b(f"{info.size} {info.version} {checksum.hex()} {planned.path}".encode(), digest_size=16).digest()
    with _lock:
        if key in _seen:
            return
    with translating(planned.path), files.io.open_input(planned.path) as source:
        fault = bytes_fault(source, checksum)
    if fault is not None:
        raise files.damaged(planned.path, fault)
    if info.size > EACH_TIME_BYTES:
        with _lock:
            _seen[key] = None
