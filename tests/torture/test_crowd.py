"""Thousands of connections and streams at once leave the server to those who have something to ask."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from benchmarks.harness.timing import percentile
from tests.fix_server import StartServer
from tests.running import RunningServer
from tests.waiting import eventually


class _Crowd:
    """The process of `tests.torture.crowd`, and what it told last."""

    def __init__(self, server: RunningServer, idle: int, half: int, slow: int, streams: int, tables: int) -> None:
        at = urlsplit(server.url)
        numbers = [str(number) for number in (at.port, idle, half, slow, streams, tables)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.torture.crowd", str(at.hostname), *numbers],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.told: dict[str, int] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.told = json.loads(line)

    def stands(self, **wanted: int) -> bool:
        """Whether so many are there; of those that the server ends again and again, nearly so many."""
        return all(self.told.get(kind, 0) >= count * (1.0 if kind in ("streams", "rows") else 0.9) for kind, count in wanted.items())

    def go(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(300)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            assert self._process.stdout is not None
            self._process.stdout.close()


def _millis(asked: Callable[[], Any], seconds: float) -> list[float]:
    """How long each of many took, which all succeed."""
    found: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until or len(found) < 20:
        began = time.perf_counter()
        asked()
        found.append(1000 * (time.perf_counter() - began))
        time.sleep(0.02)
    return found


def _measured(server: RunningServer, seconds: float) -> dict[str, list[float]]:
    with httpx.Client(base_url=server.url, timeout=120) as client:

        def sql(text: str) -> None:
            client.post("/sql", content=text).raise_for_status()

        return {
            "/livez": _millis(lambda: client.get("/livez").raise_for_status(), seconds),
            "SHOW TABLES": _millis(lambda: sql("SHOW TABLES LIKE 'own%'"), seconds),
            "INSERT": _millis(lambda: sql("INSERT INTO own VALUES (1)"), seconds),
            "SELECT": _millis(lambda: sql("SELECT id FROM own LIMIT 1"), seconds),
        }


def _stands(server: RunningServer) -> str:
    process = server.process
    return f"{process.memory_info().rss >> 20} MB, {process.num_threads()} threads, {process.num_fds()} files"


def _campaign(
    server: RunningServer, *, idle: int, half: int, slow: int, streams: int, tables: int, seconds: float
) -> dict[str, list[float]]:
    server.sql("CREATE TABLE own (id BIGINT)" + "".join(f"; CREATE TABLE crowd{number} (id BIGINT)" for number in range(tables)))
    alone = _measured(server, seconds)
    threads, files = server.process.num_threads(), server.process.num_fds()
    print("alone:", _stands(server))
    crowd = _Crowd(server, idle, half, slow, streams, tables)
    try:
        assert eventually(lambda: crowd.stands(idle=idle, half=half, slow=slow, streams=streams), 300), crowd.told
        among = _measured(server, seconds)
        print("among them:", _stands(server), crowd.told)
        assert server.process.num_threads() < threads + 128, "none of them costs a thread"
        before = crowd.told["rows"]
        for number in range(tables):
            server.sql(f"INSERT INTO crowd{number} VALUES ({number})")
        assert eventually(lambda: crowd.stands(rows=before + streams), 300), crowd.told
        assert crowd.told["failures"] == 0, crowd.told
    finally:
        crowd.go()
    for name, found in among.items():
        told = (f"p50 {percentile(one, 0.5):.1f} ms, p99 {percentile(one, 0.99):.1f} ms" for one in (alone[name], found))
        print(f"{name}: alone {next(told)}; among them {next(told)}")
    assert eventually(lambda: server.process.num_fds() <= files + 32, 120), "nothing of them is left"
    assert eventually(lambda: server.process.num_threads() <= threads + 16, 120)
    metrics = httpx.get(f"{server.url}/metrics", timeout=60).text
    assert "\nsluice_streams 0.0\n" in metrics
    print("after:", _stands(server))
    return among


@pytest.mark.torture
@pytest.mark.slow
def test_a_small_crowd_costs_no_thread_and_leaves_nothing(start_server: StartServer) -> None:
    """Each kind of them alone is in `tests/server/http/test_connections.py` and `tests/server/streams/test_streams.py`."""
    _campaign(start_server(), idle=100, half=40, slow=10, streams=30, tables=6, seconds=0.2)


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_nine_thousand_connections_and_streams(start_server: StartServer) -> None:
    server = start_server(SLUICE_HTTP_CONNECTIONS="16000", SLUICE_HTTP_CONNECTIONS_OF_ONE="12000")
    server.wait_for_spark()
    seconds = float(os.environ.get("SLUICE_TEST_CROWD_SECONDS", "20"))
    among = _campaign(server, idle=5000, half=2000, slow=500, streams=2000, tables=200, seconds=seconds)
    assert percentile(among["/livez"], 0.99) <= 1000
