"""Space that is kept free on the server's disks, so that what must go on can: Postgres, drops, expiry, logs.

What is free now says little where several write at once: each would be let in by the same space. So work that adds to the warehouse
promises how much (`StorageReserve.promise`), and what it promised counts as taken until it has ended. Postgres's write-ahead log, which
grows by whole segments, has a promise that stands.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from model.errors import StorageFull

SHARE, MOST_BYTES = 0.05, 2 << 30
"""Of a disk, and of any disk at most, where the setting does not say."""
MOST_FILES = 1000
"""Of the files (inodes) that a disk has for all, where space is kept free: the same share, and so many at most."""
COMMIT_BYTES = 64 << 10
"""What a commit adds besides its rows: manifests, lists, a snapshot, rows in Postgres, each rounded up to pages."""
_LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpace:
    """One directory's disk: bytes an unprivileged process may still write, those that are promised, and those that are kept free."""

    directory: str
    free: int
    reserved: int
    promised: int = 0
    free_files: int | None = None
    """How many files and directories may still be made; None where the file system has no such number."""
    reserved_files: int = 0

    @property
    def short(self) -> bool:
        """Whether the reserve is being used, or nothing is left where none is kept."""
        return self.left < self.reserved or not self.free or self.few_files

    @property
    def few_files(self) -> bool:
        """Whether no more files can be made than those kept for what must go on, or none."""
        return self.free_files is not None and (self.free_files < self.reserved_files or not self.free_files)

    @property
    def left(self) -> int:
        """Free bytes that nobody was promised."""
        return self.free - self.promised

    @property
    def nearly_gone(self) -> bool:
        """Whether less than half of the reserve is free."""
        return self.free < self.reserved / 2 or (self.free_files is not None and self.free_files < self.reserved_files / 2)

    def __str__(self) -> str:
        if self.few_files:
            return f"{self.free_files:,} files can still be made at {self.directory}, and {self.reserved_files:,} are kept free there"
        promised = f", {self.promised >> 20:,} MiB of them promised to what is under way" if self.promised >> 20 else ""
        return f"{self.free >> 20:,} MiB are free at {self.directory}{promised}, and {self.reserved >> 20:,} MiB are kept free there"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSpace:
    """Where a log grows by itself, up to a size, and how large it is now."""

    directory: str
    most: Callable[[], int]
    """Bytes it may still grow by."""


class StorageReserve:
    """Refuses what would add to full disks before it begins; without directories it refuses nothing."""

    def __init__(
        self, directories: Iterable[str] = (), *, reserved: int | None = None, warehouse: str | None = None, log: LogSpace | None = None
    ) -> None:
        """``reserved``: bytes of each disk; None for 5 % of it, at most 2 GiB. ``warehouse``: the directory that promises are made for."""
        self._directories = tuple(dict.fromkeys([*directories, *([warehouse] if warehouse else [])]))
        self._warehouse = warehouse
        self._log = log
        self._reserved = reserved
        self._lock = threading.Lock()
        self._looked = 0.0
        self._spaces: tuple[DiskSpace, ...] = ()
        self._devices: Mapping[str, int | None] = {}
        self._under_way: Counter[str] = Counter()
        """Bytes of promises, by the directory they were made for."""
        self._ended: Counter[str] = Counter()
        """Of promises that ended since the disks were looked at: what they wrote is not seen yet."""

    def spaces(self) -> tuple[DiskSpace, ...]:
        """Each directory's disk, with space as of the last quarter of a second and promises as of now."""
        with self._lock:
            spaces = tuple(self._with_promises(space, 0) for space in self._spaces)
            # One that is short is looked at each time: whoever freed space goes on at once, and what an ended promise wrote counts once.
            if not self._looked or time.monotonic() - self._looked >= _LOOK_SECONDS or any(space.short for space in spaces):
                self._look()
                spaces = tuple(self._with_promises(space, 0) for space in self._spaces)
            return spaces

    def _look(self) -> None:
        self._spaces = tuple(space for directory in self._directories if (space := self._space(directory)) is not None)
        self._devices = {directory: _device(directory) for directory in self._directories}
        self._looked = time.monotonic()
        self._ended.clear()

    def _with_promises(self, space: DiskSpace, more: int) -> DiskSpace:
        """A disk with what was promised on it, and with so many bytes more."""
        beside = [directory for directory in self._directories if self._beside(directory, space)]
        promises = [self._under_way[directory] + self._ended[directory] for directory in beside]
        if not space.reserved or not (more or any(promises)):
            return space  # where nothing is to be kept free, the disk itself says what there is
        promised = space.promised + sum(promises) + more
        return replace(space, promised=promised)

    def _space(self, directory: str) -> DiskSpace | None:
        try:
            disk = os.statvfs(_existing(directory))
        except OSError:  # a disk that cannot be asked is told of by whoever writes to it
            return None
        whole = disk.f_blocks * disk.f_frsize
        reserved = min(MOST_BYTES, int(whole * SHARE)) if self._reserved is None else self._reserved
        log = self._log
        grows = log.most() if log is not None and reserved and _device(log.directory) == _device(directory) else 0
        return DiskSpace(
            directory=directory,
            free=disk.f_bavail * disk.f_frsize,
            reserved=reserved,
            promised=grows,
            free_files=disk.f_favail if disk.f_files else None,  # some make inodes as they are needed, and tell of none
            reserved_files=min(MOST_FILES, int(disk.f_files * SHARE)) if reserved else 0,
        )

    def short(self) -> DiskSpace | None:
        """A disk whose reserve is being used; None where all have space."""
        return next((space for space in self.spaces() if space.short), None)

    def nearly_gone(self) -> DiskSpace | None:
        """A disk of whose reserve less than half is left; None where there is none."""
        return next((space for space in self.spaces() if space.nearly_gone), None)

    def require(self) -> None:
        """Raise `StorageFull` where a disk's reserve is being used."""
        if (space := self.short()) is not None:
            raise _full(space)

    @contextlib.contextmanager
    def promise(self, size: int, beside: int = 0, *, at: str | None = None) -> Iterator[None]:
        """A block that adds so many bytes to a directory that is watched; without ``at`` to the warehouse, and a commit as well.

        Raises `StorageFull` where they would use a reserve, or would with as many more as ``beside`` says: who has so many there is to
        leave as much to others.
        """
        directory = at or self._warehouse or ""
        size += COMMIT_BYTES if at is None else 0
        self.require()
        with self._lock:
            if (space := self._refusing(size + beside, directory)) is not None:
                self._look()
                space = self._refusing(size + beside, directory)
            if space is not None:
                raise _full(self._with_promises(space, 0), size, beside)
            self._under_way[directory] += size
        try:
            yield
        finally:
            with self._lock:
                self._under_way[directory] -= size
                self._ended[directory] += size

    def fits(self, size: int) -> bool:
        """Whether so many bytes could be promised now, and as many more: what can wait leaves the space to what cannot."""
        self.spaces()
        with self._lock:
            return self._refusing(2 * (size + COMMIT_BYTES), self._warehouse or "") is None

    def _refusing(self, size: int, directory: str) -> DiskSpace | None:
        """The disk of a directory, where so many bytes more would use its reserve."""
        return next((space for space in self._spaces if self._beside(directory, space) and self._with_promises(space, size).short), None)

    def _beside(self, directory: str, space: DiskSpace) -> bool:
        """Whether a directory is watched and lies on a disk."""
        return directory in self._devices and self._devices[directory] == self._devices.get(space.directory)


def _existing(directory: str) -> str:
    """The directory, or the nearest one above it that exists: it will be made there."""
    at = directory
    while not os.path.exists(at) and at != os.path.dirname(at):
        at = os.path.dirname(at)
    return at


def _device(directory: str) -> int | None:
    try:
        return os.stat(_existing(directory)).st_dev
    except OSError:
        return None


def _full(space: DiskSpace, size: int = 0, beside: int = 0) -> StorageFull:
    needs = f" This needs up to {size >> 20:,} MiB." if size >> 20 else ""
    if beside >> 20:
        needs = f" What one sends takes half of the space at most, and these are {(size + beside) >> 20:,} MiB by now."
    return StorageFull(
        f"Nothing new is written while the disk is nearly full: {space} (SLUICE_STORAGE_RESERVE).{needs} Nothing was changed. Free space: "
        "drop tables, expire snapshots, or enlarge the disk; writing goes on by itself then."
    )
