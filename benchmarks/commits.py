"""``python -m benchmarks.commits``: how many commits a second clients of the REST catalog get, and how long lists and loads take.

The clients are processes on the same machine; each keeps one connection and what it last saw of its table, as a writer does.
"""

from __future__ import annotations

import http.client
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import orjson

from benchmarks import peers
from benchmarks.server import SCRATCH, BenchServer

SECONDS = float(os.environ.get("BENCH_SECONDS", "8"))
PREFIX = "/v1/sluice"
WRITERS = (1, 4, 16)


class Client:
    """One connection to the server, as a client's pool keeps it."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port)

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON of an answer."""
        data = orjson.dumps(body) if body is not None else None
        self._connection.request(method, PREFIX + path, data)
        response = self._connection.getresponse()
        answer = response.read()
        return response.status, orjson.loads(answer) if answer else None


class Committer:
    """A writer whose files are always the same two: what is measured is the commit endpoint."""

    def __init__(self, url: str, table: str) -> None:
        self._client = Client(url)
        self._path = f"/databases/default/tables/{table}"
        self._id = self._client.call("GET", self._path)[1]["id"]
        self._look()

    def _look(self) -> None:
        status, answer = self._client.call("GET", f"{self._path}/snapshot")
        self._head: dict[str, Any] = answer["snapshot"]["snapshot"] if status == 200 else {"id": 0, "uuid": None}

    def commit(self) -> int:
        """Commit once; returns how many attempts it took."""
        attempts = 0
        while True:
            attempts += 1
            uuid = str(uuid4())
            snapshot = {
                "version": 3, "uuid": uuid, "id": self._head["id"] + 1, "schemaId": 0, "baseManifestList": "manifest-list-0",
                "deltaManifestList": "manifest-list-1", "commitUser": uuid, "commitIdentifier": 2**63 - 1, "commitKind": "APPEND",
                "timeMillis": time.time_ns() // 1_000_000, "totalRecordCount": 0, "deltaRecordCount": 0,
            }  # fmt: skip
            one = {"spec": {}, "recordCount": 1, "fileSizeInBytes": 900, "fileCount": 1, "lastFileCreationTime": 1, "totalBuckets": 1}
            body = {"tableId": self._id, "baseSnapshotUuid": self._head["uuid"], "snapshot": snapshot, "statistics": [one]}
            status, answer = self._client.call("POST", f"{self._path}/commit", body)
            assert status == 200, answer
            if answer["success"]:
                self._head = {"id": snapshot["id"], "uuid": uuid}
                return attempts
            self._look()


def _work(url: str, table: str, start: float, results: Any) -> None:
    writer = Committer(url, table)
    time.sleep(max(0.0, start - time.time()))
    done, attempts, until = 0, 0, time.time() + SECONDS
    while time.time() < until:
        attempts += writer.commit()
        done += 1
    results.put((done, attempts))


def throughput(url: str, tables: list[str], writers: int) -> tuple[float, float]:
    """Commits a second of so many writers over the tables, and attempts per commit."""
    results: Any = multiprocessing.Queue()
    start = time.time() + 1.0
    processes = [multiprocessing.Process(target=_work, args=(url, tables[at % len(tables)], start, results)) for at in range(writers)]
    for process in processes:
        process.start()
    found = [results.get() for _ in processes]
    for process in processes:
        process.join()
    commits, attempts = sum(done for done, _ in found), sum(tried for _, tried in found)
    return commits / SECONDS, attempts / max(commits, 1)


def make_table(client: Client, warehouse: Path, name: str, columns: int = 2) -> None:
    """A table and the two manifest lists its commits name."""
    fields = [{"id": at, "name": f"c{at}", "type": "BIGINT"} for at in range(columns)]
    schema = {"fields": fields, "partitionKeys": [], "primaryKeys": [], "options": {}}
    status, answer = client.call(
        "POST", "/databases/default/tables", {"identifier": {"database": "default", "object": name}, "schema": schema}
    )
    assert status == 200, answer
    directory = warehouse / "default.db" / name / "manifest"
    directory.mkdir(parents=True)
    for at in range(2):
        (directory / f"manifest-list-{at}").write_bytes(b"")


def flatness(url: str, table: str, commits: int) -> tuple[float, float]:
    """Median milliseconds of the first and the last hundred of so many commits of one writer."""
    writer = Committer(url, table)
    times = [_timed(writer.commit) for _ in range(commits)]
    return statistics.median(times[:100]) * 1000, statistics.median(times[-100:]) * 1000


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def rows(url: str, warehouse: Path, scratch: Path, *, tables: int, commits: int) -> list[str]:
    """Lines of Markdown: the endpoint alone, then pypaimon on it beside pypaimon on files, in the same run."""
    return [*endpoint(url, warehouse, tables=tables, commits=commits), "", *peers.rows(url, scratch, tables=tables, seconds=SECONDS)]


def endpoint(url: str, warehouse: Path, *, tables: int, commits: int) -> list[str]:
    """What clients that do nothing else get from the server."""
    client = Client(url)
    make_table(client, warehouse, "hot")
    for at in range(16):
        make_table(client, warehouse, f"own{at}")
    lines = ["| writers | one table: commits/s | attempts per commit | 16 tables: commits/s |", "|---|---|---|---|"]
    for writers in WRITERS:
        hot, attempts = throughput(url, ["hot"], writers)
        own, _ = throughput(url, [f"own{at}" for at in range(16)], writers)
        lines.append(f"| {writers} | {hot:.0f} | {attempts:.2f} | {own:.0f} |")
    make_table(client, warehouse, "long")
    first, last = flatness(url, "long", commits)
    lines += [
        "",
        f"One writer, median of the first 100 of {commits} commits {first:.2f} ms, of the last 100 {last:.2f} ms ({last / first:.2f}×).",
    ]
    make_table(client, warehouse, "wide", columns=500)
    wide = statistics.median(_timed(lambda: client.call("GET", "/databases/default/tables/wide")) for _ in range(200)) * 1000
    for at in range(tables):
        schema = {"fields": [{"id": 0, "name": "a", "type": "INT"}]}
        client.call(
            "POST", "/databases/default/tables", {"identifier": {"database": "default", "object": f"many{at:06d}"}, "schema": schema}
        )
    lines += ["", f"Load of a table of 500 columns {wide:.2f} ms; list of {tables} tables {_timed(lambda: _list(client)) * 1000:.0f} ms."]
    return lines


def _list(client: Client) -> int:
    seen, token = 0, ""
    while True:
        _, page = client.call("GET", f"/databases/default/tables?pageToken={token}")
        seen += len(page["tables"])
        token = page["nextPageToken"]
        if token is None:
            return seen


def main() -> None:
    """Measure a server of one's own and print the report."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
        data = Path(directory) / "data"
        server = BenchServer(data, Path(directory))
        try:
            wanted = [int(argument) for argument in sys.argv[1:]] or [10_000, 10_000]
            print("\n".join(rows(server.url, data / "warehouse", Path(directory), tables=wanted[0], commits=wanted[1])))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
