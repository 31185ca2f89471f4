"""What time it is by the clock of a store, which tells when its files were written: a server of files may have one that is behind."""

from __future__ import annotations

import logging
import time

from lake.clock import APART
from lake.commit.decided import probe_in
from model.errors import StorageFull
from model.repeats import REPEATS
from table.format.io.file_io import FileIO

_log = logging.getLogger(__name__)


def behind_millis(io: FileIO, directory: str) -> int | None:
    """How far it is behind this machine's clock; 0 where they agree within minutes, or it is ahead: files seem younger then, not older.

    A small file is put into the directory, which is there, and removed. None where the store does not show it: nothing there may go by
    its age. Where the store is full that is not known and 0: what removes files goes on there.
    """
    path = probe_in(directory)
    try:
        io.add(path, b"")
        behind = time.time_ns() // 1_000_000 - io.status(path).mtime_millis
    except StorageFull:
        return 0
    except FileNotFoundError:
        _log.warning(
            "The store of %s does not show a file that was just put there, so how old others are is unknown", directory, extra=REPEATS
        )
        return None
    finally:
        io.delete(path)
    if behind <= APART.total_seconds() * 1000:
        return 0
    seconds = behind // 1000
    _log.warning(
        "The store of %s is %d s behind this machine: its files are as old as its own clock says", directory, seconds, extra=REPEATS
    )
    return behind
