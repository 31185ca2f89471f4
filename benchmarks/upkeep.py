"""What automatic compaction costs writers: eight of them on one table, with `write-only` and without, in turns."""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

import httpx

from benchmarks.server import BenchServer

WRITERS = 8


def measure(server: BenchServer, table: str, seconds: float) -> tuple[list[float], int]:
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

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    while time.monotonic() < until:
        counts = server.sql(f"SELECT file_count FROM {table}$buckets")
        most = max([most, *(row[0] for row in counts)])
        time.sleep(0.5)
    for thread in threads:
        thread.join()
    check(server, table, [len(one) for one in taken])
    return sorted(ms for one in taken for ms in one), most


def check(server: BenchServer, table: str, sent: list[int]) -> None:
    """Every row once, each writer's rows in its order."""
    rows = server.sql(f"SELECT w, n FROM {table}")
    for writer, count in enumerate(sent):
        numbers = [n for w, n in rows if w == writer]
        assert sorted(numbers) == list(range(count)), f"rows of writer {writer} of {table} are lost or doubled"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.upkeep")
    parser.add_argument("--seconds", type=float, default=180.0)
    options = parser.parse_args()
    print("| table | commits/s | p50 | p99 | most files a bucket |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as made:
        server = BenchServer(Path(made) / "data", Path(made))
        try:
            for name, bucket in (("queue", "1"), ("scalable", "-1")):
                key = ", 'bucket-key' = 'w'" if bucket == "1" else ""
                for write_only in ("true", "false"):
                    table = f"{name}_{write_only}"
                    server.sql(f"CREATE TABLE {table} (w INT, n INT) WITH ('bucket' = '{bucket}'{key}, 'write-only' = '{write_only}')")
                    found, most = measure(server, table, options.seconds)
                    p50, p99 = found[len(found) // 2], found[int(len(found) * 0.99)]
                    rate = len(found) / options.seconds
                    print(f"| {name}, write-only {write_only} | {rate:.0f} | {p50:.1f} ms | {p99:.1f} ms | {most} |", flush=True)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
