"""A light user beside one that runs as many heavy statements as it can."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from benchmarks.harness.page import Table
from benchmarks.harness.run import Run
from benchmarks.harness.server import ROOT
from benchmarks.harness.timing import percentile, seconds

_ROOT = "root"
_HEAVY = "SELECT sum(sqrt(id)), count(DISTINCT id % 100003) FROM range(20000000)"
"""One to two seconds of all cores where nothing else runs."""
_VALUES = ", ".join(f"({number}, 'text {number}')" for number in range(10))
_ON_SPARK = "a short SELECT on Spark"
WORKS = {
    "`/livez`": "",
    "`SHOW TABLES`": "SHOW TABLES",
    "`DESCRIBE`": "DESCRIBE light",
    "`INSERT … VALUES`, 10 rows": f"INSERT INTO light VALUES {_VALUES}",
    "plain scan, `LIMIT 10`": "SELECT id, s FROM light LIMIT 10",
    _ON_SPARK: "SELECT sum(id * 2) FROM range(10)",
}


def measure(run: Run) -> list[Table]:
    """What a light user waits for, alone and beside 200 heavy statements of somebody else."""
    count = run.size(200, 20)
    with run.server(SLUICE_TOKEN=_ROOT) as server:
        heavy, light = (client_of(server.url, name) for name in ("heavy", "light"))
        with light, heavy:
            ask(light, "CREATE TABLE light (id BIGINT, s STRING)")
            ask(light, WORKS[_ON_SPARK])  # waits until Spark runs
            for text in WORKS.values():
                _millis(light, text, run.seconds / 10)
            alone = {name: _millis(light, text, run.seconds) for name, text in WORKS.items()}
            took = seconds(lambda: ask(heavy, _HEAVY))
            with crowd(heavy, count) as crowded:
                beside = {name: _millis(light, text, run.seconds) for name, text in WORKS.items()}
    rows = [(name, *_cells(alone[name], beside[name]), "" if name == _ON_SPARK else "≤ 3 ×") for name in WORKS]
    head = ("the light user asks", "alone, p50", "p99", f"beside {count}, p50", "p99", "p99, times", "goal")
    note = (
        f"{count} connections of another user, each sending one statement after another (`{_HEAVY}`, {took:.1f} s alone on the server); "
        f"{crowded.done} ended meanwhile and {crowded.refused} were refused with 429 and sent again when the answer said. "
        f"One client, {run.seconds:g} s each; clients and server on the same cores."
    )
    return [Table(head=head, rows=rows, note=note)]


def _cells(alone: list[float], beside: list[float]) -> Iterator[str]:
    for millis in (alone, beside):
        yield from (f"{percentile(millis, part):.1f} ms" for part in (0.5, 0.99))
    yield f"{percentile(beside, 0.99) / percentile(alone, 0.99):.1f} ×"


def client_of(url: str, name: str) -> httpx.Client:
    """Connections of a user of this name, who may do everything in the one database."""
    root = {"Authorization": f"Bearer {_ROOT}"}
    made = httpx.post(f"{url}/tokens", json={"name": name}, headers=root, timeout=60).raise_for_status()
    grants = f"GRANT CREATETABLE, LIST ON DATABASE `default` TO {name}; GRANT ALL ON ALL IN DATABASE `default` TO {name}"
    httpx.post(f"{url}/sql", content=grants, headers=root, timeout=60).raise_for_status()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx.Client(base_url=url, timeout=600, limits=limits, headers={"Authorization": f"Bearer {made.json()['token']}"})


def ask(client: httpx.Client, text: str) -> httpx.Response:
    """The answer to a statement, or without one whether the server lives."""
    return (client.post("/sql", content=text) if text else client.get("/livez")).raise_for_status()


def _millis(client: httpx.Client, text: str, duration: float) -> list[float]:
    """How long each of many took."""
    millis: list[float] = []
    until = time.monotonic() + duration
    while time.monotonic() < until or len(millis) < 3:
        millis.append(1000 * seconds(lambda: ask(client, text)))
    return millis


@contextmanager
def crowd(client: httpx.Client, count: int) -> Iterator[Crowd]:
    """So many connections that send heavy statements, from a process of their own: in ours they would take its interpreter."""
    words = [str(client.base_url), client.headers["Authorization"], str(count), _HEAVY]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.light_crowd", *words], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    made = Crowd()
    try:
        time.sleep(3)  # until Spark and its queue are full of them
        yield made
        output, _ = process.communicate("", timeout=60)
        made.done, made.refused = json.loads(output)
    finally:
        process.kill()
        process.wait()


@dataclass
class Crowd:
    """What became of the heavy statements, once the block has ended."""

    done: int = 0
    refused: int = 0
