"""Timing pieces of work side by side, so that a slow minute of the machine hits all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def seconds(work: Callable[[], object]) -> float:
    """How long the work took."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turns(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each work, all of them run once per round after one round to warm up."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            spent = seconds(work)
            if number:
                taken[name].append(spent)
    return {name: statistics.median(values) for name, values in taken.items()}


def median_millis(work: Callable[[], object], times: int) -> float:
    """Median milliseconds of many short runs."""
    return 1000 * statistics.median(seconds(work) for _ in range(times))
