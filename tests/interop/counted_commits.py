"""How often commits of clients of the REST catalog had to be built anew, as a server between them sees it, whatever the clients tell."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.balancer import Balancer
from tests.running import RunningServer

MOST_RETRIES, ENOUGH = 5, 100
"""Retries that 99 of 100 commits may take, where so many were made; a client gives up after ten."""


class CountedCommits:
    """What clients were answered, by the address that each was given."""

    def __init__(self) -> None:
        self.retries: dict[str, list[int]] = defaultdict(list)
        """By client: how many answers each commit got before the one that said it is in."""
        self._lost: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def between(self, server: RunningServer, client: str) -> Iterator[str]:
        """The address at which a client finds the server and is counted."""

        def heard(path: str, body: bytes, status: int, answer: bytes) -> None:
            if not path.partition("?")[0].endswith("/commit"):
                return
            writer = client, str(json.loads(body)["snapshot"]["commitUser"])
            with self._lock:
                if status == 200 and json.loads(answer)["success"]:
                    self.retries[client].append(self._lost.pop(writer, 0))
                else:
                    self._lost[writer] += 1

        balancer = Balancer([server.url], heard=heard)
        try:
            yield balancer.url
        finally:
            balancer.close()

    def check(self, clients: set[str]) -> str:
        """Each of these clients committed, none has one that is not in, and 99 of 100 took few retries; what was counted, as a text."""
        assert set(self.retries) == clients
        assert not self._lost, f"given up: {self._lost}"
        ordered = sorted(count for counts in self.retries.values() for count in counts)
        p99 = ordered[int(len(ordered) * 0.99)]
        told = {client: sorted(Counter(counts).items()) for client, counts in sorted(self.retries.items())}
        assert p99 <= MOST_RETRIES or len(ordered) < ENOUGH, told
        return f"retries of {len(ordered)} commits: p99 {p99}, {told}"
