"""The spool: results too large for memory lie here as files until they are read, under a cap."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from lake import Caller, StorageReserve
from lake.access.quotas import Quotas
from lake.process_name import is_dead, process_space
from model.errors import LakeError, QuotaExceeded, ResultTooLarge
from model.work.quota import QUOTAS, RESULT, SPOOL
from sql.execution.cancellation import Cancellation
from table.format.io.file_io import FileIO

_log = logging.getLogger(__name__)
_ALIVE = ".alive"
_OWNER = re.compile(r"^(?P<space>.+)-(?P<pid>\d+)-[0-9a-f]{8}$")
_LIVING: set[str] = set()
"""The owners this process is: tests and embedders run several gateways in one."""
BEAT_SECONDS = 60.0
ABANDONED_SECONDS = 15 * 60.0
"""A gateway whose sign of life has not changed for so long, as this one saw, is taken for dead: no clock of another host is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolLimits:
    """Bytes of files one result, and all results of this gateway together, may hold."""

    per_result: int
    overall: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Suspect:
    """A gateway elsewhere that may be dead: its sign of life, and when that was first seen."""

    sign: bytes
    since: float


class SpoolEntry:
    """The directory of one result."""

    def __init__(self, spool: Spool, path: str, cancellation: Cancellation | None, caller: Caller | None) -> None:
        self._spool = spool
        self.caller = caller
        """Whose quotas it counts for; None for nobody's."""
        self.path = path
        """Where the files go; the writer makes the directory."""
        self.bytes = 0
        self.cancellation = cancellation
        self.growing = True

    def measure(self) -> int:
        """Count the bytes there now; raise `ResultTooLarge` where a cap is passed, and `QuotaExceeded`."""
        self.bytes = _bytes_under(self._spool.file_io, self.path)
        self._spool.check(self)
        return self.bytes

    def finish(self) -> int:
        """Count the bytes once more when the writer is done; raises `ResultTooLarge` and `QuotaExceeded`."""
        self.growing = False
        return self.measure()

    def remove(self) -> None:
        """Delete the files; safe to call twice."""
        self._spool.forget(self)


class Spool:
    """Hands out directories under ``<warehouse>/.sluice/spool``, counts their bytes and clears what the dead left."""

    def __init__(
        self,
        file_io: FileIO,
        warehouse: str,
        limits: SpoolLimits,
        reserve: StorageReserve | None = None,
        quotas: Quotas | None = None,
        *,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._elapsed = elapsed
        self._quotas = quotas
        self.file_io = file_io
        self.limits = limits
        self._reserve = reserve or StorageReserve()
        self._base = f"{warehouse.rstrip('/')}/.sluice/spool"
        self._owner = f"{process_space()}-{os.getpid()}-{uuid4().hex[:8]}"
        self._root = f"{self._base}/{self._owner}"
        self._lock = threading.Lock()
        self._entries: dict[str, SpoolEntry] = {}
        self._used = False
        self._beats = 0
        self._beaten = 0.0
        self._suspects: dict[str, _Suspect] = {}
        self._watched = 0.0
        _LIVING.add(self._owner)

    def new(self, cancellation: Cancellation | None = None, *, caller: Caller | None = None) -> SpoolEntry:
        """A fresh directory for one result; a result that outgrows a cap while it is written is canceled.

        Raises `StorageFull` where the disk is nearly full, and `QuotaExceeded` for a caller whose results hold as much as they may.
        """
        self._reserve.require()
        self._beat()
        entry = SpoolEntry(self, f"{self._root}/{uuid4().hex}", cancellation, caller)
        self._check_quota(entry)
        with self._lock:
            self._entries[entry.path] = entry
        return entry

    def total(self) -> int:
        """Bytes all results hold, as last counted."""
        with self._lock:
            return sum(entry.bytes for entry in self._entries.values())

    def usage(self) -> dict[tuple[str, str], int]:
        """Bytes the results of each principal hold, by (principal, quota)."""
        usage: Counter[tuple[str, str]] = Counter()
        with self._lock:
            for entry in self._entries.values():
                if entry.caller is not None:
                    usage[(entry.caller.principal, SPOOL)] += entry.bytes
        return usage

    def _check_quota(self, entry: SpoolEntry) -> None:
        if self._quotas is None or entry.caller is None:
            return
        most = self._quotas.limit(entry.caller, RESULT)
        if most is not None and entry.bytes > most:
            raise ResultTooLarge(
                f"The result has grown past the quota {RESULT} = {QUOTAS[RESULT].parser.show(most)} of {entry.caller.principal}. "
                "Add a LIMIT, or write it to a table with INSERT."
            )
        self.check_principal(entry.caller.principal)

    def check_principal(self, principal: str) -> None:
        """Raise `QuotaExceeded` where a principal's results, here and in what else keeps some, hold as much as they may."""
        if self._quotas is not None:
            self._quotas.check_spooled(principal)

    def check(self, entry: SpoolEntry) -> None:
        """Raise `ResultTooLarge` where the entry, or all together, hold more than they may; `QuotaExceeded` for its caller's results."""
        self._check_quota(entry)
        if entry.bytes > self.limits.per_result:
            raise ResultTooLarge(
                f"The result has grown past {self.limits.per_result} bytes, the most one result may hold. "
                "Add a LIMIT, or write it to a table with INSERT."
            )
        if self.total() > self.limits.overall:
            raise ResultTooLarge(
                f"The results waiting to be read hold more than {self.limits.overall} bytes together. Read or close some, then try again."
            )

    def forget(self, entry: SpoolEntry) -> None:
        """Delete an entry's files."""
        with self._lock:
            self._entries.pop(entry.path, None)
        entry.growing = False
        self.file_io.delete_tree(entry.path)

    def tend(self) -> None:
        """Count what grows, cancel what outgrew a cap, say that this gateway is alive, watch whether others are; call it every second."""
        with self._lock:
            growing = [entry for entry in self._entries.values() if entry.growing]
        try:
            if self._used:
                self._beat()
            self._watch()
        except LakeError as problem:  # the store is away: it is tried again a minute later
            _log.warning("This gateway's sign of life, or another's, is out of reach: %s", problem)
        for entry in growing:
            try:
                entry.measure()
            except (ResultTooLarge, QuotaExceeded) as too_large:
                if entry.cancellation is not None:
                    entry.cancellation.cancel(too_large)
            except LakeError:  # the store is away: the writer itself will say so
                _log.warning("The size of a result could not be counted", exc_info=True)

    def clean(self) -> None:
        """Delete what gateways that ran here and are gone left behind, and begin to watch those elsewhere; call it at start."""
        self._watched = self._elapsed()
        for status in self.file_io.list(self._base):
            name = status.path.rstrip("/").rsplit("/", 1)[-1]
            if name in _LIVING:
                continue
            if _died_here(name):
                self._remove(status.path)
            else:
                self._suspects[status.path] = _Suspect(sign=self._sign_of(status.path), since=self._watched)

    def close(self) -> None:
        """Delete all this gateway put there."""
        with self._lock:
            self._entries.clear()
        _LIVING.discard(self._owner)
        self.file_io.delete_tree(self._root)

    def _watch(self) -> None:
        """Delete what gateways elsewhere left whose signs of life have not changed for long enough."""
        now = self._elapsed()
        if not self._suspects or now - self._watched < BEAT_SECONDS:
            return
        self._watched = now
        for path, suspect in list(self._suspects.items()):
            if self._sign_of(path) != suspect.sign:
                del self._suspects[path]
            elif now - suspect.since > ABANDONED_SECONDS:
                self._remove(path)
                del self._suspects[path]

    def _sign_of(self, path: str) -> bytes:
        """What a gateway wrote last to say that it is alive; empty for one that never did."""
        try:
            return self.file_io.read(f"{path}/{_ALIVE}")
        except FileNotFoundError:
            return b""

    def _remove(self, path: str) -> None:
        _log.info("Removing results a gateway left behind: %s", path)
        self.file_io.delete_tree(path)

    def _beat(self) -> None:
        now = self._elapsed()
        if self._used and now - self._beaten < BEAT_SECONDS:
            return
        self._used, self._beaten = True, now
        self._beats += 1  # others only look whether it changes
        self.file_io.write(f"{self._root}/{_ALIVE}", str(self._beats).encode())


def _died_here(owner: str) -> bool:
    """Whether a gateway of that name ran here and runs no more."""
    match = _OWNER.match(owner)
    return match is not None and is_dead(match["space"], int(match["pid"]))


def _bytes_under(file_io: FileIO, path: str) -> int:
    total = 0
    with contextlib.suppress(FileNotFoundError):  # a writer's temporary directory may go between two lists
        for status in file_io.list(path):
            total += _bytes_under(file_io, status.path) if status.is_dir else status.size
    return total
