"""Work whose size nobody knows before it has ended: it is stopped where it uses up the space that is kept free."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator

from lake.reserve import DiskSpace, StorageReserve
from model.errors import LakeError, StorageFull

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.1
Stop = Callable[[LakeError], object]


class GrowingWork:
    """Queries on Spark: their rows, results and scratch files are written until they end.

    They begin where there is space. Where less than half of a disk's reserve is left, and it shrinks, they are told to stop; what does
    not shrink it, as reads with small results, goes on.
    """

    def __init__(self, reserve: StorageReserve, *, seconds: float = _LOOK_SECONDS) -> None:
        self._reserve = reserve
        self._seconds = seconds
        self._woken = threading.Condition()
        self._running: dict[object, Stop] = {}
        self._free: int | None = None
        """What was free at the last look, where less than half of the reserve was left."""
        self._began = False
        """Whether work has begun while there was none: what others took before is not held against it."""

    @contextlib.contextmanager
    def running(self, stop: Stop) -> Iterator[None]:
        """A block of such work; ``stop`` is called with the reason where it must end."""
        key = object()
        with self._woken:
            self._began |= not self._running
            self._running[key] = stop
            self._woken.notify_all()
        try:
            yield
        finally:
            with self._woken:
                del self._running[key]

    def watch(self) -> Callable[[], None]:
        """Look again and again while such work runs, in a thread of its own; what is returned ends that."""
        ended = threading.Event()
        thread = threading.Thread(target=self._watch, args=(ended,), name="sluice-space", daemon=True)
        thread.start()

        def end() -> None:
            ended.set()
            with self._woken:
                self._woken.notify_all()
            thread.join()

        return end

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(self._seconds):
            with self._woken:
                self._woken.wait_for(lambda: self._running or ended.is_set())
                began, self._began = self._began, False
            try:
                self.look(stop=not began)
            except Exception:  # the watch goes on as long as the server lives
                _log.exception("Watching the space on disk failed")

    def look(self, *, stop: bool = True) -> None:
        """Stop what runs where the space is nearly gone and shrinks; without ``stop`` see what is free, for the next look."""
        space = self._reserve.nearly_gone()
        before, self._free = self._free, None if space is None else space.free
        if not stop or space is None or (before is not None and space.free >= before):
            return
        with self._woken:
            running = list(self._running.values())
        if running:
            _log.warning("%d queries on Spark are stopped, since the disk is nearly full: %s", len(running), space)
        for end in running:
            end(_stopped(space))


def _stopped(space: DiskSpace) -> StorageFull:
    return StorageFull(
        f"The statement was stopped, since the disk fills up while it runs: {space} (SLUICE_STORAGE_RESERVE). Nothing of it was committed. "
        "Free space: drop tables, expire snapshots, or enlarge the disk; then send it again."
    )
