"""Spark's cores in fair shares: a scheduler pool for each user whose statements run, and one below them for the server's own work."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator

_COUNT = 64
"""More users than this at once share pools; no more statements than the Spark lane's threads, and jobs, run at once."""
BACKGROUND = "background"


def allocations() -> str:
    """Spark's allocation file. A pool with a weight must stand there: one that is made up later has the background's."""
    user = "<schedulingMode>FAIR</schedulingMode><weight>10</weight><minShare>1</minShare>"
    pools = "".join(f'  <pool name="{_name(at)}">{user}</pool>\n' for at in range(_COUNT))
    below = f'  <pool name="{BACKGROUND}"><schedulingMode>FAIR</schedulingMode><weight>1</weight><minShare>0</minShare></pool>\n'
    return f'<?xml version="1.0"?>\n<allocations>\n{pools}{below}</allocations>\n'


def _name(at: int) -> str:
    return f"user-{at}"


class Shares:
    """Which pool is whose now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, str] = {}
        self._running: Counter[str] = Counter()

    @contextlib.contextmanager
    def pool_of(self, principal: str) -> Iterator[str]:
        """The name of a user's pool, the same for all it runs at once."""
        with self._lock:
            if principal not in self._of:
                taken = Counter(self._of.values())
                self._of[principal] = min(map(_name, range(_COUNT)), key=lambda name: taken[name])
            self._running[principal] += 1
            name = self._of[principal]
        try:
            yield name
        finally:
            with self._lock:
                self._running[principal] -= 1
                if not self._running[principal]:
                    del self._running[principal], self._of[principal]
