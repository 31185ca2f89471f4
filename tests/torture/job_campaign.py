"""A table → table job under kills: whatever dies, each row of the source arrives once."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import httpx

from tests.following import patiently
from tests.running import Refused, RunningServer

STREAM = {
    "execution.runtime-mode": "streaming",
    # What came is committed at once, and what failed begins again soon: by themselves jobs wait 10 s for the one and 1 s for the other.
    "execution.checkpointing.interval": "200 ms",
    "restart-strategy.exponential-delay.initial-backoff": "200 ms",
}


def start_job(server: RunningServer, statement: str, *, database: str = "default", **settings: str) -> str:
    """The id of a new job."""
    asked = STREAM | {key.replace("__", "."): value for key, value in settings.items()}
    body = {"statement": statement, "database": database, "settings": asked}
    answer = patiently(lambda: httpx.post(f"{server.url}/sql", json=body, headers={"Accept": "application/json"}, timeout=300))
    assert answer.status_code == 200, answer.text
    return str(answer.json()["rows"][0][0])


def job(server: RunningServer, job_id: str) -> dict[str, Any]:
    """What a server tells of a job."""
    answer = httpx.get(f"{server.url}/jobs/{job_id}", timeout=60)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def until(holds: Callable[[], bool], *, seconds: float = 600, what: Callable[[], object] = lambda: "", pause: float = 0.2) -> None:
    """Wait for something, looking every ``pause`` seconds; a server that is away meanwhile is waited for as well."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(httpx.TransportError, Refused):
            if holds():
                return
        assert time.monotonic() < end, what()
        time.sleep(pause)


class Feeder:
    """Inserts numbers, one commit after another, into whichever server answers; what nobody acknowledged is sent again under its key."""

    def __init__(self, servers: Sequence[RunningServer], table: str, *, pause: float = 0.02) -> None:
        self._servers = list(servers)
        self._table = table
        self._pause = pause
        self.sent = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(120)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            rows = ", ".join(f"({self.sent * 10 + at}, {self.sent})" for at in range(10))
            self._insert(f"INSERT INTO {self._table} VALUES {rows}", f"feed-{self.sent}")
            self.sent += 1
            time.sleep(self._pause)

    def _insert(self, text: str, key: str) -> None:
        while True:
            try:
                answer = self._servers[0].post(text, timeout=60, Idempotency_Key=key)
                if answer.status_code == 200:
                    return
            except httpx.TransportError:
                pass
            self._servers.append(self._servers.pop(0))
            time.sleep(0.1)


def check_arrived(server: RunningServer, job_id: str, source: str, target: str) -> None:
    """Wait until the job has caught up; then each row of the source is in the target, once, in order."""
    wanted = count(server, source)
    until(
        lambda: server.value(f"SELECT COUNT(*) FROM {target}") >= wanted,
        what=lambda: (job(server, job_id), server.words()),
    )
    rows = server.arrow(f"SELECT n FROM {target}").column("n").to_pylist()
    assert len(rows) == wanted, f"{len(rows)} rows of {wanted}: {len(rows) - len(set(rows))} doubled"
    assert sorted(rows) == list(range(wanted))
    assert rows == sorted(rows), "one bucket is one queue"


def count(server: RunningServer, table: str) -> int:
    """Rows of a table, once the server tells them: what was killed last may still be away."""
    while True:
        with contextlib.suppress(httpx.TransportError, Refused):
            return int(server.value(f"SELECT COUNT(*) FROM {table}"))
        time.sleep(0.2)


def run(server: RunningServer, kill: Callable[[int], None], *, kills: int, seed: int, longest: float, pause: float = 0.02) -> None:
    """``kills`` times: let the job work for a random moment, kill, and see it go on."""
    moments = random.Random(seed)
    server.sql("CREATE TABLE src (n BIGINT, batch BIGINT)")
    server.sql("CREATE TABLE dst (n BIGINT, batch BIGINT)")
    server.wait_for_spark()
    job_id = start_job(server, "INSERT INTO dst SELECT n, batch FROM src WHERE n >= 0")
    with Feeder([server], "src", pause=pause):
        for number in range(kills):
            before = count(server, "dst")
            until(lambda before=before: server.value("SELECT COUNT(*) FROM dst") > before, what=lambda: job(server, job_id))  # type: ignore[misc]
            time.sleep(moments.uniform(0.0, longest))
            kill(number)
    check_arrived(server, job_id, "src", "dst")
    found = job(server, job_id)
    assert (found["state"], found["rows"]) == ("RUNNING", server.value("SELECT COUNT(*) FROM dst")), found
