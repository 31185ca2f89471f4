"""The file that a backup makes: by one backup at a time, also where two catalogs are backed up to one name."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

from model.errors import IllegalMove


@contextlib.contextmanager
def being_made(path: Path) -> Iterator[Path]:
    """Where what is to be put at ``path`` is written until then; removed where it is still there when the block ends.

    Where the file system keeps no locks, the name is one that nobody else has. Raises `IllegalMove` where another backup writes the file.
    """
    lock = path.with_name(f".{path.name}.lock")
    try:
        handle = _locked(lock)
    except BlockingIOError:
        raise IllegalMove(f"Another backup, of another catalog, is being written to {path}: give each catalog a file of its own.") from None
    except OSError as problem:
        if problem.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            raise
        handle = None
    fresh = path.with_name(f".{path.name}.making" if handle is not None else f".{path.name}.{uuid4().hex}.making")
    try:
        yield fresh
    finally:
        fresh.unlink(missing_ok=True)
        if handle is not None:
            lock.unlink(missing_ok=True)  # who opened it by now sees that it has no name any more
            os.close(handle)


def _locked(lock: Path) -> int:
    """A descriptor that holds the lock, which goes with the process; raises `OSError` where it is taken, or cannot be."""
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same(handle, lock):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # of a backup that has ended in this moment


def _same(handle: int, lock: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), lock.stat())
    except FileNotFoundError:
        return False
