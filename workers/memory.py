"""How much address space a process may take: what would take more fails there, and not the machine."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator


def limit_memory(memory: int) -> None:
    """Let this process have so much more address space than it has now, for good."""
    if (limit := _limit(memory)) is not None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


@contextlib.contextmanager
def limited(memory: int) -> Iterator[None]:
    """The same as long as the block lasts."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    if (limit := _limit(memory)) is None:
        yield
        return
    bounds = [bound for bound in (limit, *before) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(bounds), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def _limit(memory: int) -> int | None:
    try:
        with open("/proc/self/statm") as statm:
            pages = int(statm.read().split()[0])
    except FileNotFoundError:  # not Linux
        return None
    return pages * resource.getpagesize() + memory
