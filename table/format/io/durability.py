"""Making files and the directory entries that lead to them survive a power cut."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar
from uuid import uuid4

from model.errors import LakeError, Unavailable
from table.format.io.storage_errors import translating

_THREADS = 16
"""Files flushed at the same time: a file system writes many of them in one go."""
_MOST_KNOWN = 50_000
_TRIES = 10
"""How often a directory is made that somebody removes meanwhile, since it is empty."""
_FEW = 2
"""Files that are flushed sooner by the caller than by threads."""

T = TypeVar("T")
_Inode = tuple[int, int, int]
"""Which directory one is, and when the entries of its parent changed: one that another process makes in its place may get its number."""


class _Pool:
    """Threads that flush, shared by the whole process; a forked child makes its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    def threads(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="sync")
            return self._threads


_pool = _Pool()


def _after_fork() -> None:
    global _pool
    _pool = _Pool()


os.register_at_fork(after_in_child=_after_fork)


class Durability:
    """Flushes files of local disks, and every directory that names one of them up to the root of the disk, once each.

    A directory whose own entry was flushed by this process is not flushed for it again, as long as it is the same directory.

    Linux tells of a failed flush once: it takes what it could not write for clean, and the next flush of a directory that nobody has
    changed since writes nothing and succeeds. So whoever flushes a directory, also as the parent of what it was asked for, first makes
    an entry there and takes it away where the last flush of it failed, until one has succeeded; nothing named there counts as durable
    before. A flush during which another's failed counts as failed, too: which of the two was told is chance.
    """

    def __init__(self, *, enabled: bool = True) -> None:
        self.enabled = enabled
        self._lock = threading.Lock()
        self._named: dict[str, _Inode] = {}
        """Directories whose entry in their parent is durable, and so are their parents'."""
        self._failed: dict[str, None] = {}
        self._failed_directories: dict[str, int] = {}
        """Directories whose last flush failed, with how many did so far in this process."""
        self._failures = 0
        self._changes = 0

    def __reduce__(self) -> tuple[object, ...]:
        """A worker process begins with what is known to nobody."""
        return _made, (self.enabled,)

    def sync(self, paths: Collection[str]) -> None:
        """Make these files and all that leads to them durable; a directory among them with the entries it has and has no more.

        Raises `StorageFull`, `Unavailable`, or `FileNotFoundError` where one of them is gone. A file that could not be flushed never
        can be: the kernel drops what it failed to write and then reports success, so it must be written anew under another name.
        A directory that could not be flushed is changed once more before the next attempt, whoever makes it.
        """
        if not self.enabled or not paths:
            return
        with self._lock:
            if broken := next((path for path in paths if path in self._failed), None):
                raise Unavailable(f"{broken} could not be flushed to disk before; what it holds must be written anew.")
        try:
            self._sync(sorted(set(paths)), {os.path.dirname(path) for path in paths})
        except LakeError:
            self._failing(paths)
            raise

    def sync_above(self, directory: str) -> None:
        """Make all that leads to a directory durable, but not what it holds."""
        if self.enabled:
            self._sync([], {directory}, itself=False)

    def made(self, directory: str, then: Callable[[], T]) -> T:
        """Make a directory and its parents and do what needs it, also while others remove what is empty; raises `OSError`."""
        for left in reversed(range(_TRIES)):
            missing = directory
            while missing and not os.path.lexists(missing):
                self._forget(missing)
                missing = os.path.dirname(missing)
            try:
                os.makedirs(directory, exist_ok=True)
                return then()
            except (FileNotFoundError, FileExistsError):  # removed between two looks at it
                if not left:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def moved(self, path: str) -> None:
        """Forget a directory that is no longer where it was, and all below it."""
        with self._lock:
            self._changes += 1
            below = f"{path}/"
            for known in [known for known in self._named if known == path or known.startswith(below)]:
                del self._named[known]
            for known in [known for known in self._failed_directories if known == path or known.startswith(below)]:
                del self._failed_directories[known]

    def removed(self, directory: str, remove: Callable[[], None]) -> None:
        """Remove a directory; nobody takes one that is made anew for it meanwhile, were it to have the same number. Raises `OSError`."""
        with self._lock:
            remove()
            self._changes += 1
            self._named.pop(directory, None)

    def _forget(self, directory: str) -> None:
        with self._lock:
            self._changes += 1
            self._named.pop(directory, None)

    def _failing(self, paths: Collection[str]) -> None:
        directories = {path for path in paths if os.path.isdir(path)}
        with self._lock:
            self._failed.update(dict.fromkeys(path for path in paths if path not in directories))
            while len(self._failed) > _MOST_KNOWN:
                del self._failed[next(iter(self._failed))]

    def _sync(self, files: Sequence[str], directories: Collection[str], *, itself: bool = True) -> None:
        with self._lock:
            changes = self._changes
        parents: dict[str, _Inode] = {}
        above: set[str] = set()
        for directory in directories:
            above |= self._unnamed(directory, parents)
        # A file's bytes and its name may reach the disk in any order: nobody is told of the file before both did.
        certain = [*files, *sorted(directories)] if itself else []
        self._each([*((path, False) for path in certain), *((path, True) for path in sorted(above - set(directories)))])
        with self._lock:
            if changes == self._changes:
                if len(self._named) > _MOST_KNOWN:
                    self._named.clear()
                self._named.update(parents)

    def _unnamed(self, directory: str, inodes: dict[str, _Inode]) -> set[str]:
        """The parents to flush so that a directory is found; ``found`` takes the directories they name."""
        above: set[str] = set()
        while True:
            with translating(directory):
                status, parent = os.stat(directory), os.path.dirname(directory)
                named_in = os.stat(parent)
                inode = (status.st_dev, status.st_ino, named_in.st_mtime_ns)
                with self._lock:
                    known = self._named.get(directory) == inode
                if known or directory in inodes or parent == directory:
                    return above
                inodes[directory] = inode
                if named_in.st_dev != status.st_dev:  # a mount point is not an entry of its parent's disk
                    return above
            above.add(parent)
            directory = parent

    def _each(self, paths: Sequence[tuple[str, bool]]) -> None:
        if len(paths) <= _FEW:
            for path, lenient in paths:
                self._flush(path, lenient)
            return
        running = [_pool.threads().submit(self._flush, path, lenient) for path, lenient in paths]
        wait(running)
        for future in running:
            future.result()

    def _flush(self, path: str, lenient: bool) -> None:
        """Flush a file or directory; a lenient flush passes over a directory that this process may not read, which it has not changed."""
        with translating(path):
            try:
                handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # nobody waits for the other end of a pipe
            except PermissionError:
                if lenient:
                    return
                raise
            try:
                if stat.S_ISDIR(os.fstat(handle).st_mode):
                    self.flush_directory(handle, path)
                else:
                    flush(handle)
            finally:
                os.close(handle)

    def flush_directory(self, handle: int, path: str) -> None:
        """Flush an open directory, changed once more where the last flush of it failed; raises `OSError`."""
        while True:
            with self._lock:
                failed = self._failed_directories.get(path)
            if failed is not None:
                _change(handle)
            try:
                flush(handle)
            except OSError:
                with self._lock:
                    self._failures += 1
                    self._failed_directories[path] = self._failures
                raise
            with self._lock:
                if self._failed_directories.get(path) == failed:
                    self._failed_directories.pop(path, None)
                    return


def _change(directory: int) -> None:
    """Make an entry in an open directory and take it away; one in which this process may make none has none of its."""
    name = f".sync-{uuid4()}"
    try:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600, dir_fd=directory))
    except PermissionError:
        return
    os.unlink(name, dir_fd=directory)


def _made(enabled: bool) -> Durability:
    return Durability(enabled=enabled)


def flush(handle: int) -> None:
    """Flush an open file or directory; raises `OSError`. Some mounts know no flushing of directories, and have no need of it."""
    try:
        os.fsync(handle)
    except OSError as problem:
        if problem.errno not in (errno.EINVAL, errno.ENOTSUP) or not stat.S_ISDIR(os.fstat(handle).st_mode):
            raise
