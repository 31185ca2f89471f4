"""Timing pieces of work side by side, so that a slow minute of the machine hits all of them."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Mapping


def seconds(work: Callable[[], object]) -> float:
    """How long the work took."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turns(works: Mapping[str, Callable[[], object]], rounds: int, *, most_seconds: float) -> dict[str, float]:
    """Median seconds of each work, all of them run once per round after one round to warm up; no round begins after ``most_seconds``."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    until = time.monotonic() + most_seconds
    for number in range(rounds + 1):
        if number > 1 and time.monotonic() > until:
            break
        for name, work in works.items():
            spent = seconds(work)
            if number:
                taken[name].append(spent)
    return {name: statistics.median(values) for name, values in taken.items()}


def median_millis(work: Callable[[], object], times: int, *, most_seconds: float = 10.0) -> float:
    """Median milliseconds of many short runs."""
    millis: list[float] = []
    until = time.monotonic() + most_seconds
    while not millis or (len(millis) < times and time.monotonic() < until):
        millis.append(seconds(work))
    return 1000 * statistics.median(millis)


def percentile(values: list[float], part: float) -> float:
    """The value below which that part of them lies."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def at_once(work: Callable[[int], object], count: int) -> None:
    """Run the work in so many threads, each given its number; the first failure is raised when all have ended."""
    failures: list[BaseException] = []

    def one(number: int) -> None:
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
