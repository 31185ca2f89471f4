"""What time it is by the clock of a store, which tells when its files were written: a server of files may have one that is behind."""

from __future__ import annotations

import contextlib
import logging
import time
from uuid import uuid4

from lake.clock import APART
from model.errors import StorageFull
from model.repeats import REPEATS
from table.format.io.file_io import FileIO

_log = logging.getLogger(__name__)


def behind_millis(io: FileIO, directory: str) -> int:
    """How far it is behind this machine's clock; 0 where they agree within minutes, or it is ahead: files seem younger then, not older.

    A small file is put into the directory, which is there, and removed. Where the store is full that is not known and 0: what removes
    files goes on there.
    """
    name = f".probe.{uuid4()}.tmp"
    path = f"{directory}/{name}"
    written = None
    try:
        with contextlib.suppress(StorageFull):
            io.add(path, b"")
            written = next((status.mtime_millis for status in io.list(directory) if status.path.rpartition("/")[2] == name), None)
    finally:
        io.delete(path)
    behind = 0 if written is None else time.time_ns() // 1_000_000 - written
    if behind <= APART.total_seconds() * 1000:
        return 0
    seconds = behind // 1000
    _log.warning(
        "The store of %s is %d s behind this machine: its files are as old as its own clock says", directory, seconds, extra=REPEATS
    )
    return behind
