"""A clock that stands while this machine keeps Spark waiting for a processor.

Whoever judges a task by how long it takes would otherwise judge the machine: at a load of 40 on two cores a task that is told to end
may not run at all for seconds.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

Times = dict[int, tuple[int, int]]
"""By thread: the time it ran, and the time it waited for a processor; both in nanoseconds."""
_ENOUGH = 0.5
"""Who gets so much of what it asks for is not kept waiting: its own threads want the same cores."""


class SchedulingClock:
    """Seconds, of which each counts as much as Spark got of the processor time it asked for in it.

    Not for several threads at once. Where the system does not tell (it is not Linux, or the process is gone), every second counts.
    """

    def __init__(
        self,
        process: Callable[[], int | None],
        *,
        clock: Callable[[], float] = time.monotonic,
        times_of: Callable[[int], Times] | None = None,
    ) -> None:
        self._process = process
        self._clock = clock
        self._times_of = times_of or scheduled
        self._at = clock()
        self._counted = 0.0
        self._last: tuple[int | None, Times] = None, {}

    def __call__(self) -> float:
        """The seconds since the first call or before; never less than at the last call."""
        now, process = self._clock(), self._process()
        times = {} if process is None else self._times_of(process)
        share = 1.0 if process is None or process != self._last[0] else _share(self._last[1], times)
        self._counted += (now - self._at) * min(1.0, share / _ENOUGH)
        self._at, self._last = now, (process, times)
        return self._counted


def _share(before: Times, after: Times) -> float:
    """How much of the time that threads could have run they did; those that ended meanwhile are not known any more."""
    ran = waited = 0
    for thread, (running, waiting) in after.items():
        earlier = before.get(thread, (0, 0))
        ran += running - earlier[0]
        waited += waiting - earlier[1]
    return 1.0 if waited <= 0 else max(ran, 0) / (max(ran, 0) + waited)


def scheduled(process: int) -> Times:
    """What the kernel counted for each thread of a process and of its descendants (`proc_pid_schedstat` of Linux)."""
    return dict(_counted([process, *_descendants(process)]))


def _descendants(process: int) -> list[int]:
    with contextlib.suppress(psutil.Error):
        return [child.pid for child in psutil.Process(process).children(recursive=True)]
    return []


def _counted(processes: list[int]) -> Iterator[tuple[int, tuple[int, int]]]:
    for process in processes:
        for file in _files_of_threads(process):
            with contextlib.suppress(OSError, ValueError):  # the thread may have ended
                ran, waited, _ = file.read_text().split()
                yield int(file.parent.name), (int(ran), int(waited))


def _files_of_threads(process: int) -> list[Path]:
    with contextlib.suppress(OSError):  # the process may end while its threads are listed
        return list(Path(f"/proc/{process}/task").glob("*/schedstat"))
    return []
