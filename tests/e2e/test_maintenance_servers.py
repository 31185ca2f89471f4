"""Two servers on one Postgres: each table is merged by one of them, and by the other within half a minute of its end.

Their coordinators alone, in one process: `tests/maintenance/test_coordinator.py`.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import threading
import time
from itertools import pairwise
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fix_server import StartServer
from tests.running import RunningServer

FILES, ROWS = 12, 250_000
TAKEN_OVER_SECONDS, MERGED_SECONDS = 30.0, 180.0
Holder = tuple[dt.datetime, str | None]


class Leases:
    """Who looks after the only table, asked twenty times a second of Postgres, whose clock is also the servers'."""

    def __init__(self, dsn: str) -> None:
        self.seen: list[Holder] = []
        self._conn = psycopg.connect(dsn, autocommit=True)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        held = "SELECT server FROM maintenance_lease JOIN maintenance_owner USING (owner) WHERE lease_until > clock_timestamp()"
        query = f"SELECT clock_timestamp(), ({held})"
        while not self._stop.wait(0.05):
            row = self._conn.execute(query).fetchone()
            assert row is not None
            self.seen.append((row[0], row[1]))

    def holder(self) -> str | None:
        return self.seen[-1][1] if self.seen else None

    def between(self, start: dt.datetime, end: dt.datetime) -> set[str | None]:
        return {server for at, server in self.seen if start <= at <= end}

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._conn.close()


def begin(start_server: StartServer, dsn: str, directory: Path) -> tuple[list[RunningServer], Path]:
    """Two servers and a queue whose merging takes a while; nobody may merge it yet. Also the bucket's directory."""
    shared = {"SLUICE_CATALOG_DSN": dsn, "SLUICE_WAREHOUSE": str(directory / "warehouse"), "SLUICE_COMPACTION_INTERVAL_SECONDS": "0.5"}
    servers = [start_server(name, **shared) for name in ("first", "second")]
    servers[0].sql(f"CREATE TABLE t (n BIGINT, s STRING) WITH ('write-only' = 'true', 'compaction.max.file-num' = '{FILES}')")
    for at in range(FILES):
        numbers = pa.array(range(at * ROWS, (at + 1) * ROWS))
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"n": numbers, "s": pa.array([os.urandom(16).hex() for _ in range(1000)] * (ROWS // 1000))}), sink)
        servers[0].append("default.t", sink.getvalue().to_pybytes())
    return servers, servers[0].table_path("default.t") / "bucket-0"


def caught_merging(servers: list[RunningServer], leases: Leases, bucket: Path) -> tuple[RunningServer, RunningServer]:
    """Let the table be merged; the server that does, at a moment when it writes, and the other."""
    servers[0].sql("ALTER TABLE t SET ('write-only' = 'false')")
    servers[0].append("default.t", b'{"n": -1}', "application/x-ndjson")
    until = time.monotonic() + MERGED_SECONDS
    while len(list(bucket.iterdir())) <= FILES + 1:
        assert time.monotonic() < until, "nobody merges"
        time.sleep(0.005)
    name = leases.holder()
    busy = next(server for server in servers if name is not None and name.endswith(f":{server.process.pid}"))
    return busy, next(server for server in servers if server is not busy)


def merges(server: RunningServer) -> list[tuple[dt.datetime, dt.datetime, str]]:
    """Begin, end and server of each automatic compaction that was committed."""
    rows = server.arrow("SELECT started_at, ended_at, server FROM t$compaction WHERE outcome = 'done' ORDER BY started_at").to_pylist()
    return [(row["started_at"].replace(tzinfo=dt.UTC), row["ended_at"].replace(tzinfo=dt.UTC), row["server"]) for row in rows]


def check(server: RunningServer, leases: Leases) -> None:
    """The rows are there in order, and every merge was done by the holder of the lease and by nobody else at that time."""
    assert server.arrow("SELECT n FROM t").column("n").to_pylist() == [*range(FILES * ROWS), -1]
    done = merges(server)
    # A merge that is overtaken by an append is followed by a snapshot that puts the manifests in order.
    assert len(done) <= server.value("SELECT COUNT(*) FROM t$snapshots WHERE commit_kind = 'COMPACT'") <= 2 * len(done)
    for start, end, name in done:
        assert leases.between(start, end) <= {name}, f"{name} merged from {start} to {end} while another held the lease"
    for (_, before, one), (after, _, other) in pairwise(done):
        assert before <= after, f"{one} and {other} merged at the same time"


def until_merged(server: RunningServer, leases: Leases) -> float:
    """Seconds until the server has the lease of another, which it merges under in the time that takes."""
    begin = time.monotonic()
    while not str(leases.holder()).endswith(f":{server.process.pid}"):
        assert time.monotonic() - begin < TAKEN_OVER_SECONDS, f"not taken over: {server.words()}"
        time.sleep(0.05)
    taken = time.monotonic() - begin
    while not merges(server):
        assert time.monotonic() - begin < MERGED_SECONDS, f"not merged: {server.words()}"
        time.sleep(0.2)
    return taken


@pytest.mark.torture
def test_the_other_takes_over_from_a_killed_one(start_server: StartServer, dsn: str, tmp_path: Path) -> None:
    servers, bucket = begin(start_server, dsn, tmp_path)
    leases = Leases(dsn)
    try:
        busy, other = caught_merging(servers, leases, bucket)
        name = leases.holder()
        busy.kill()
        print(f"taken over {until_merged(other, leases):.1f} s after the kill")
        check(other, leases)
        assert other.sql("SELECT server FROM t$compaction WHERE outcome = 'interrupted'") == [[name]]
    finally:
        leases.stop()


@pytest.mark.torture
def test_one_that_stood_still_gives_way(start_server: StartServer, dsn: str, tmp_path: Path) -> None:
    """A server that is paused in a merge loses its lease; when it goes on it neither commits the merge nor begins another."""
    servers, bucket = begin(start_server, dsn, tmp_path)
    leases = Leases(dsn)
    try:
        busy, other = caught_merging(servers, leases, bucket)
        busy.process.send_signal(signal.SIGSTOP)
        until_merged(other, leases)
        busy.process.send_signal(signal.SIGCONT)
        time.sleep(5)
        check(other, leases)
        assert busy.value("SELECT COUNT(*) FROM t") == FILES * ROWS + 1
    finally:
        busy.process.send_signal(signal.SIGCONT)
        leases.stop()
