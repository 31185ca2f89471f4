"""Room that is kept free on the server's disks, so that what must go on can: Postgres, drops, expiry, logs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass

from model.errors import StorageFull

SHARE, MOST_BYTES = 0.05, 2 << 30
"""Of a disk, and of any disk at most, where the setting does not say."""
_LOOK_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRoom:
    """One directory's disk: bytes an unprivileged process may still write, and bytes that are kept free."""

    directory: str
    free: int
    reserved: int

    @property
    def short(self) -> bool:
        """Whether the reserve is being used, or nothing is left where none is kept."""
        return self.free < self.reserved or not self.free

    def __str__(self) -> str:
        return f"{self.free >> 20:,} MiB are free at {self.directory}, and {self.reserved >> 20:,} MiB are kept free there"


class StorageReserve:
    """Refuses what would add to full disks before it begins; without directories it refuses nothing."""

    def __init__(self, directories: Iterable[str] = (), *, reserved: int | None = None) -> None:
        """``reserved``: bytes of each disk; None for 5 % of it, at most 2 GiB."""
        self._directories = tuple(dict.fromkeys(directories))
        self._reserved = reserved
        self._lock = threading.Lock()
        self._looked = 0.0
        self._rooms: tuple[DiskRoom, ...] = ()

    def rooms(self) -> tuple[DiskRoom, ...]:
        """Each directory's disk, with room as of the last quarter of a second."""
        now = time.monotonic()
        with self._lock:
            # One that is short is looked at each time: whoever made room goes on at once.
            if not self._looked or now - self._looked >= _LOOK_SECONDS or any(room.short for room in self._rooms):
                self._rooms = tuple(room for directory in self._directories if (room := self._room(directory)) is not None)
                self._looked = now
            return self._rooms

    def _room(self, directory: str) -> DiskRoom | None:
        at = directory
        while not os.path.exists(at) and at != os.path.dirname(at):  # it will be made there
            at = os.path.dirname(at)
        try:
            disk = os.statvfs(at)
        except OSError:  # a disk that cannot be asked is told of by whoever writes to it
            return None
        whole = disk.f_blocks * disk.f_frsize
        reserved = min(MOST_BYTES, int(whole * SHARE)) if self._reserved is None else self._reserved
        return DiskRoom(directory=directory, free=disk.f_bavail * disk.f_frsize, reserved=reserved)

    def short(self) -> DiskRoom | None:
        """A disk whose reserve is being used; None where all have room."""
        return next((room for room in self.rooms() if room.short), None)

    def require(self) -> None:
        """Raise `StorageFull` where a disk's reserve is being used."""
        if (room := self.short()) is not None:
            raise StorageFull(
                f"Nothing new is written while the disk is nearly full: {room} (SLUICE_STORAGE_RESERVE). Nothing was changed. Make room: "
                "drop tables, expire snapshots, or enlarge the disk; writing goes on by itself then."
            )
