"""A rolling restart under load: two servers on one Postgres, one is told to stop, and no client's request fails."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.fix_server import StartServer
from tests.running import RunningServer
from tests.waiting import eventually

pytestmark = pytest.mark.slow
CLIENTS = 4
DELAY_SECONDS = 10
"""Longer than the balancer needs to hear of it on a busy machine."""


class Balancer:
    """Sends requests to servers that are not stopping, as their last probe said; counts what fails."""

    def __init__(self, servers: list[RunningServer]) -> None:
        self.urls = [server.url for server in servers]
        self.ready = list(self.urls)
        self.stop = threading.Event()
        self.done: list[str] = []
        self.failed: list[str] = []

    def probe(self) -> None:
        while not self.stop.wait(0.2):
            self.ready = [url for url in self.urls if self._takes(url)] or self.ready

    def _takes(self, url: str) -> bool:
        try:
            return bool(httpx.get(f"{url}/readyz", timeout=30).json()["status"] != "stopping")  # Spark is not needed here
        except httpx.HTTPError:
            return False

    def load(self, number: int) -> None:
        turn = number
        with httpx.Client(timeout=60) as client:
            while not self.stop.is_set():
                ready = self.ready
                url = ready[turn % len(ready)]
                turn += 1
                try:
                    answer = client.post(f"{url}/sql", content="INSERT INTO t VALUES (1)", headers={"Idempotency-Key": uuid4().hex})
                    (self.done if answer.status_code == 200 else self.failed).append(f"{url} {answer.text}")
                except httpx.HTTPError as problem:
                    self.failed.append(f"{url} {problem!r}")


def test_no_request_fails_while_one_of_two_servers_stops(start_server: StartServer, dsn: str, tmp_path: Path) -> None:
    shared = {"SLUICE_CATALOG_DSN": dsn, "SLUICE_WAREHOUSE": str(tmp_path / "warehouse")}
    servers = [start_server("one", **shared, SLUICE_DRAIN_DELAY_SECONDS=str(DELAY_SECONDS)), start_server("two", **shared)]
    servers[0].sql("CREATE TABLE t (id INT)")
    balancer = Balancer(servers)
    threads = [threading.Thread(target=balancer.probe)]
    threads += [threading.Thread(target=balancer.load, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        assert eventually(lambda: all(any(one.startswith(url) for one in list(balancer.done)) for url in balancer.urls))
        began = time.monotonic()
        assert servers[0].terminate() == 0
        assert time.monotonic() - began >= DELAY_SECONDS
        after = len(balancer.done)
        assert eventually(lambda: len(balancer.done) > after + 5), "the other one goes on"
    finally:
        balancer.stop.set()
        for thread in threads:
            thread.join()
    assert balancer.failed == []
    assert len(servers[1].sql("SELECT id FROM t")) == len(balancer.done)
