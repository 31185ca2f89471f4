"""How many commits a second clients of the REST catalog get, and how long lists and loads take.

The clients are processes on the same machine; each keeps one connection and what it last saw of its table, as a writer does.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness.page import Table
from benchmarks.harness.rest_client import Client, Committer
from benchmarks.harness.run import Run
from benchmarks.harness.server import ROOT, BenchServer, free_port
from benchmarks.harness.timing import median_millis, seconds
from table.format.manifests.codec import encode_manifest_list

WRITERS = (1, 4, 16)
TABLES = 16
LIMIT_SECONDS = 60.0
"""How long a writer may take to end once its time is over."""


def measure(run: Run) -> list[Table]:
    """The commit endpoint under 1, 4 and 16 writers beside the least a server could do, and what lists and loads cost."""
    with run.server(spark=True) as server, _stub(run) as bare:
        return [_throughput(run, server, bare), _latencies(run, server)]


@contextlib.contextmanager
def _stub(run: Run) -> Iterator[str]:
    """The URL of `benchmarks.harness.stub`, running."""
    directory = run.scratch / "stub"
    directory.mkdir()
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.harness.stub", str(directory), str(port)], stdin=subprocess.PIPE, cwd=ROOT
    )
    try:
        until = time.monotonic() + LIMIT_SECONDS
        while True:
            try:
                Client(f"http://127.0.0.1:{port}")
                break
            except ConnectionError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.communicate(b"\n", timeout=LIMIT_SECONDS)


def _throughput(run: Run, server: BenchServer, bare: str) -> Table:
    client = Client(server.url)
    own = [f"own{at}" for at in range(TABLES)]
    for name in ("hot", *own):
        make_table(client, server.warehouse, name)
    rows = []
    for tables in (["hot"], own):
        for writers in WRITERS:
            before = server.cpu_seconds()
            ours, attempts = throughput(server.url, tables, writers, run.seconds)
            used = [1000 * (now - then) / (ours * run.seconds) for now, then in zip(server.cpu_seconds(), before, strict=True)]
            least, _ = throughput(bare, tables, writers, run.seconds)
            what = f"{writers} writer{'s' * (writers > 1)}, {'one table' if len(tables) == 1 else f'{TABLES} tables'}"
            cells = (f"{ours:.0f}/s", f"{attempts:.2f}", f"{used[0]:.2f} + {used[1]:.2f} ms", f"{least:.0f}/s", f"{ours / least:.2f}")
            rows.append((what, *cells, "≥ 1,000/s" if len(tables) == 1 else ""))
    head = ("commits", "measured", "attempts per commit", "processor time per commit: Python + Postgres", "bare stub", "ratio", "goal")
    note = (
        "The stub is Flask on the same HTTP server, one guarded UPDATE with an INSERT in an embedded Postgres of its own, and one file; it "
        "checks nothing and publishes nothing. The clients run on the same cores. A commit is on disk before it is answered, and the next "
        "one of its table is built on it, so that no server can take more of them one after the other than the disk can flush: "
        f"here {flushes(run):.0f} a second, measured right after with nothing else to write."
    )
    return Table(head=head, rows=rows, note=note)


def flushes(run: Run) -> float:
    """How often a second this disk makes 8 KB last, as Postgres asks it to."""
    block, done = bytes(8192), 0
    with (run.scratch / "flushed").open("wb") as file:
        file.write(block * 512)
        os.fsync(file.fileno())
        until = time.monotonic() + min(run.seconds, 3.0)
        while time.monotonic() < until:
            os.pwrite(file.fileno(), block, 8192 * (done % 512))
            os.fdatasync(file.fileno())
            done += 1
    return done / min(run.seconds, 3.0)


def _latencies(run: Run, server: BenchServer) -> Table:
    client = Client(server.url)
    make_table(client, server.warehouse, "long")
    commits = flatness(run, server.url, "long", run.size(10_000, 500))
    first, last = statistics.median(commits[:100]) * 1000, statistics.median(commits[-100:]) * 1000
    make_table(client, server.warehouse, "wide", columns=500)
    wide = median_millis(lambda: client.call("GET", "/databases/default/tables/wide"), 200, most_seconds=run.seconds)
    tables = make_tables(run, client, run.size(10_000, 200))
    listed = median_millis(lambda: list_tables(client), 5, most_seconds=run.seconds)
    rows = [
        ("one writer, median of the first 100 commits", f"{first:.2f} ms", ""),
        (f"the same, the last 100 of {len(commits):,}", f"{last:.2f} ms ({last / first:.2f} ×)", "≤ 1.2 ×"),
        ("load of a table of 500 columns", f"{wide:.2f} ms", ""),
        (f"list of {tables:,} tables", f"{listed:.0f} ms", ""),
    ]
    return Table(head=("work", "measured", "goal"), rows=rows)


def throughput(url: str, tables: list[str], writers: int, duration: float) -> tuple[float, float]:
    """Commits a second of so many writers over the tables, and attempts per commit."""
    results: Any = multiprocessing.Queue()
    start = time.time() + 0.5 + 0.1 * writers
    processes = [
        multiprocessing.Process(target=_work, args=(url, tables[at % len(tables)], start, duration, results), daemon=True)
        for at in range(writers)
    ]
    for process in processes:
        process.start()
    counts = [results.get(timeout=duration + LIMIT_SECONDS) for _ in processes]
    for process in processes:
        process.join()
    commits, attempts = sum(done for done, _ in counts), sum(tried for _, tried in counts)
    return commits / duration, attempts / max(commits, 1)


def _work(url: str, table: str, start: float, duration: float, results: Any) -> None:
    writer = Committer(url, table)
    time.sleep(max(0.0, start - time.time()))
    done, attempts, until = 0, 0, start + duration
    while time.time() < until:
        attempts += writer.commit()
        done += 1
    results.put((done, attempts))


def make_table(client: Client, warehouse: Path, name: str, columns: int = 2) -> None:
    """A table and the two manifest lists its commits name."""
    fields = [{"id": at, "name": f"c{at}", "type": "BIGINT"} for at in range(columns)]
    schema = {"fields": fields, "partitionKeys": [], "primaryKeys": [], "options": {}}
    body = {"identifier": {"database": "default", "object": name}, "schema": schema}
    status, answer = client.call("POST", "/databases/default/tables", body)
    assert status == 200, answer
    directory = warehouse / "default.db" / name / "manifest"
    directory.mkdir(parents=True)
    for at in range(2):
        (directory / f"manifest-list-{at}").write_bytes(encode_manifest_list([], name=""))


def make_tables(run: Run, client: Client, count: int) -> int:
    """So many tables of one column, or as many as there was time for."""
    schema = {"fields": [{"id": 0, "name": "a", "type": "INT"}]}
    until = run.patience()
    for at in range(count):
        if time.monotonic() > until:
            return at
        body = {"identifier": {"database": "default", "object": f"many{at:06d}"}, "schema": schema}
        client.call("POST", "/databases/default/tables", body)
    return count


def list_tables(client: Client) -> int:
    """Read every page of the list."""
    seen, token = 0, ""
    while token is not None:
        _, page = client.call("GET", f"/databases/default/tables?pageToken={token}")
        seen += len(page["tables"])
        token = page["nextPageToken"]
    return seen


def flatness(run: Run, url: str, table: str, commits: int) -> list[float]:
    """Seconds of so many commits of one writer, one after the other, or of as many as there was time for."""
    writer = Committer(url, table)
    until = run.patience()
    millis: list[float] = []
    while len(millis) < commits and time.monotonic() < until:
        millis.append(seconds(writer.commit))
    return millis
