"""What automatic compaction costs writers: eight of them on one table, with `write-only` and without."""

from __future__ import annotations

import threading
import time

import httpx

from benchmarks.harness.page import Table
from benchmarks.harness.run import Run
from benchmarks.harness.server import BenchServer
from benchmarks.harness.timing import at_once, percentile

WRITERS = 8
LONGER = 3
"""Compaction begins after a while, so that these loops go on for so many times a loop's seconds."""


def measure(run: Run) -> list[Table]:
    """A queue and a table without order, each with and without compaction."""
    duration = LONGER * run.seconds
    rows = []
    with run.server(spark=True) as server:
        for name, bucket in (("queue", "1"), ("scalable", "-1")):
            key = ", 'bucket-key' = 'w'" if bucket == "1" else ""
            for write_only in ("true", "false"):
                table = f"{name}_{write_only}"
                server.sql(f"CREATE TABLE {table} (w INT, n INT) WITH ('bucket' = '{bucket}'{key}, 'write-only' = '{write_only}')")
                millis, most = load(server, table, duration)
                p50, p99 = percentile(millis, 0.5), percentile(millis, 0.99)
                label = f"{name}, write-only {write_only}"
                rows.append((label, f"{len(millis) / duration:.0f}", f"{p50:.1f} ms", f"{p99:.1f} ms", f"{most}"))
    note = f"{WRITERS} writers, one row an INSERT, {duration:.0f} s each; every row was there once afterwards."
    return [Table(head=("table", "commits/s", "p50", "p99", "most files a bucket"), rows=rows, note=note)]


def load(server: BenchServer, table: str, seconds: float) -> tuple[list[float], int]:
    """Milliseconds of each insert of one row, and the most files a bucket had meanwhile."""
    taken: list[list[float]] = [[] for _ in range(WRITERS)]
    until = time.monotonic() + seconds
    most = 0

    def write(number: int) -> None:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            n = 0
            while time.monotonic() < until:
                begin = time.perf_counter()
                server.sql(f"INSERT INTO {table} VALUES ({number}, {n})", client)
                taken[number].append((time.perf_counter() - begin) * 1000)
                n += 1

    def look() -> None:
        nonlocal most
        while time.monotonic() < until:
            counts = server.sql(f"SELECT file_count FROM {table}$buckets")
            most = max([most, *(row[0] for row in counts)])
            time.sleep(0.5)

    watcher = threading.Thread(target=look)
    watcher.start()
    at_once(write, WRITERS)
    watcher.join()
    check(server, table, [len(writer) for writer in taken])
    return [ms for writer in taken for ms in writer], most


def check(server: BenchServer, table: str, sent: list[int]) -> None:
    """Every row once."""
    rows = server.sql(f"SELECT w, n FROM {table}")
    for writer, count in enumerate(sent):
        numbers = [n for w, n in rows if w == writer]
        assert sorted(numbers) == list(range(count)), f"rows of writer {writer} of {table} are lost or doubled"
