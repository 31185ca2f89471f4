"""What tells whether a path on a disk is still the file that was looked at: size and time alone are those of many.

Files that one statement writes have one time, as the system's clock ticks, and a rename takes it along.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from table.format.io.file_io import FileIO
from table.format.io.storage_errors import translating


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDisk:
    """A file as it lies there now."""

    size: int
    version: str
    """Changes with what lies there: number of the file on its disk, and when it and its name were changed."""


def on_disk(io: FileIO, path: str) -> OnDisk | None:
    """The file as it lies; None where no file is. Raises what the disk says otherwise."""
    with translating(path):
        try:
            status = os.stat(io.arrow_path(path))
        except FileNotFoundError:
            return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return OnDisk(size=status.st_size, version=f"{status.st_ino} {status.st_mtime_ns} {status.st_ctime_ns}")
