"""The server's data directory: nobody else's to read, and one server's at a time."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
import time
from pathlib import Path

import psutil

from model.errors import Unavailable

_log = logging.getLogger(__name__)

WAIT_SECONDS = 60.0
"""How long a server waits for the guard of a killed one, which is stopping Postgres."""
_LOOK_SECONDS = 0.05
_OWN_PARTS = ("bodies", "cache", "logs", "spark", "spool", "warehouse")


def make_private(data: Path) -> None:
    """Make the directory where there is none, and let no other user of the machine read what lies there.

    A server of root's lets Postgres, which runs as another user, pass through to its own part; the other parts are closed instead.
    A warehouse for several users lies outside of it (`SLUICE_WAREHOUSE`). Raises `Unavailable` where it cannot be made.
    """
    root = os.geteuid() == 0
    try:
        data.mkdir(mode=0o711 if root else 0o700, parents=True, exist_ok=True)
        _close(data, stat.S_IRWXG | stat.S_IRWXO if not root else stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH)
        for part in _OWN_PARTS if root else ():
            (data / part).mkdir(mode=0o700, exist_ok=True)
            _close(data / part, stat.S_IRWXG | stat.S_IRWXO)
    except OSError as problem:
        raise Unavailable(f"The data directory {data} cannot be used: {problem.strerror}. Mend that, or set SLUICE_DATA.") from problem


def _close(directory: Path, bits: int) -> None:
    status = directory.stat()
    if status.st_mode & bits and status.st_uid == os.geteuid():
        directory.chmod(stat.S_IMODE(status.st_mode) & ~bits)


class DataDirectoryLock:
    """Held while a server, or its guard, uses a data directory; the kernel lets go of it however the processes end.

    The directory itself is locked besides the file in it that names the holder: whoever removes the file removes no lock.
    """

    def __init__(self, data: Path, *, wait: float = WAIT_SECONDS, needed: bool = True) -> None:
        """Raises `Unavailable` where another holds it, and where files cannot be locked there, unless it is not ``needed``."""
        self._directory = os.open(data, os.O_RDONLY | os.O_DIRECTORY)
        self._file = os.open(data / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        self.files = (self._directory, self._file)
        """Descriptors that hold the lock in whichever process has them."""
        until = time.monotonic() + wait
        while not self._is_locked(data, needed=needed):
            holder = os.pread(self._file, 32, 0).decode(errors="replace").strip()
            if not _gone(holder) or time.monotonic() > until:
                self.release()
                raise Unavailable(
                    f"{data} is in use by another server{f' (process {holder})' if holder else ''}: "
                    "stop it, or set SLUICE_DATA; servers that share a catalog need SLUICE_CATALOG_DSN."
                ) from None
            time.sleep(_LOOK_SECONDS)  # the server was killed, and its guard is stopping Postgres
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def _is_locked(self, data: Path, *, needed: bool) -> bool:
        for file in self.files:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as problem:
                if problem.errno in (errno.EWOULDBLOCK, errno.EACCES):
                    return False
                if file == self._directory:  # some network file systems lock no directories; there the file alone must do
                    continue
                unlocked = f"Files in the data directory {data} cannot be locked ({problem.strerror})"
                if needed:
                    self.release()
                    raise Unavailable(f"{unlocked}: set SLUICE_DATA to a directory on a disk of this machine.") from problem
                _log.warning("%s: nothing keeps a second server out of it.", unlocked)
        return True

    def release(self) -> None:
        """Let the next server in."""
        for file in self.files:
            os.close(file)


def _gone(holder: str) -> bool:
    """Whether the process that a lock names has ended; one that nobody has buried yet has."""
    if not holder.isdecimal():
        return False
    try:
        return psutil.Process(int(holder)).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False
