"""Two servers whose writers share one table, beside one server with all of them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from psycopg.conninfo import conninfo_to_dict

from benchmarks.harness.page import Table
from benchmarks.harness.relay import far_away, to_socket, to_tcp
from benchmarks.harness.run import Run
from benchmarks.harness.server import BenchServer, free_port
from benchmarks.harness.timing import at_once, percentile

WRITERS = 8
"""On each of two servers; one server has all sixteen."""
ROUNDS = 2
POSTGRES_AWAY, S3_AWAY = 0.020, 0.025


@dataclass(slots=True, kw_only=True)
class _Found:
    """What the writers of a table have seen: seconds of each INSERT, by server."""

    duration: float
    taken: list[list[float]] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return sum(map(len, self.taken)) / self.duration

    @property
    def all(self) -> list[float]:
        return [millis for of_server in self.taken for millis in of_server]


def measure(run: Run) -> list[Table]:
    """On this disk; with Postgres 20 ms away; with an object store 25 ms away."""
    rows = []
    with _on_this_disk(run) as servers:
        rows.append(_row(run, "local disk", servers))
    with _postgres_away(run) as servers:
        rows.append(_row(run, f"local disk, Postgres {1000 * POSTGRES_AWAY:.0f} ms away", servers))
    with contextlib.ExitStack() as running:
        if (command := shutil.which("moto_server", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")) is not None:
            servers = running.enter_context(_objects_away(run, command))
            rows.append(_row(run, f"S3 (moto) {1000 * S3_AWAY:.0f} ms away", servers))
    head = ("where", f"one server, {2 * WRITERS} writers", f"two servers, {WRITERS} + {WRITERS}", "ratio", "goal",
            "share of the first", "median INSERT of two", "the longest")  # fmt: skip
    note = (
        f"One row an INSERT, no compaction, {run.seconds:.0f} s each, {ROUNDS} rounds in turns; every row was there once afterwards. "
        "Servers, Postgres, store and writers run on the same cores."
    )
    return [Table(head=head, rows=rows, note=note)]


def _row(run: Run, where: str, servers: list[BenchServer]) -> tuple[str, ...]:
    alone, two = _Found(duration=0.0), _Found(duration=0.0)
    alone.taken, two.taken = [[]], [[], []]
    for number in range(ROUNDS):
        for measured, used in ((alone, servers[:1]), (two, servers)):
            shares = _load(run, used, f"t{number}_{len(used)}")
            for millis, new in zip(measured.taken, shares.taken, strict=True):
                millis += new
            measured.duration += shares.duration
    share = len(two.taken[0]) / len(two.all)
    median, longest = percentile(two.all, 0.5), max(two.all)
    cells = (f"{alone.rate:.0f}/s", f"{two.rate:.0f}/s", f"{two.rate / alone.rate:.2f}", "≥ 0.9", f"{share:.0%}")
    return (where, *cells, f"{1000 * median:.0f} ms", f"{1000 * longest:.0f} ms ({longest / median:.1f} ×)")


def _load(run: Run, servers: list[BenchServer], table: str) -> _Found:
    """The same writers, spread over the servers, each inserting row after row for a while."""
    servers[0].sql(f"CREATE TABLE {table} (w INT, n INT) WITH ('bucket' = '-1', 'write-only' = 'true')")
    measured = _Found(duration=run.seconds, taken=[[] for _ in servers])
    sent = [0] * 2 * WRITERS
    until = time.monotonic() + 1.0 + run.seconds  # connections and statements are warm after the first second

    def write(number: int) -> None:
        at = number % len(servers)
        with httpx.Client(base_url=servers[at].url, timeout=120) as client:
            while (began := time.monotonic()) < until:
                servers[at].sql(f"INSERT INTO {table} VALUES ({number}, {sent[number]})", client)
                sent[number] += 1
                if began > until - run.seconds:
                    measured.taken[at].append(time.monotonic() - began)

    at_once(write, 2 * WRITERS)
    rows = servers[-1].sql(f"SELECT w, n FROM {table}")
    assert sorted(map(tuple, rows)) == [(w, n) for w, count in enumerate(sent) for n in range(count)], (
        f"rows of {table} are lost or doubled"
    )
    return measured


@contextlib.contextmanager
def _two(run: Run, settings: Mapping[str, str]) -> Iterator[list[BenchServer]]:
    with run.server(spark=True, **settings) as first, run.server(spark=True, **settings) as second:
        yield [first, second]


@contextlib.contextmanager
def _postgres(run: Run, name: str) -> Iterator[str]:
    """The socket of a Postgres of its own."""
    from server.process.postgres import EmbeddedPostgres

    postgres = EmbeddedPostgres(run.scratch / f"postgres-{name}")
    dsn = postgres.start()
    try:
        yield dsn
    finally:
        postgres.stop()


@contextlib.contextmanager
def _on_this_disk(run: Run) -> Iterator[list[BenchServer]]:
    with _postgres(run, "near") as dsn, _two(run, {"SLUICE_CATALOG_DSN": dsn, "SLUICE_WAREHOUSE": str(run.scratch / "near")}) as servers:
        yield servers


@contextlib.contextmanager
def _postgres_away(run: Run) -> Iterator[list[BenchServer]]:
    with _postgres(run, "far") as dsn:
        parts = conninfo_to_dict(dsn)
        host, port = str(parts["host"]), int(parts.get("port") or 5432)
        near = to_socket(f"{host}/.s.PGSQL.{port}") if host.startswith("/") else to_tcp(host, port)
        with far_away(near, POSTGRES_AWAY) as there:
            far = f"host=127.0.0.1 port={there} user={parts['user']} dbname={parts['dbname']}"
            with _two(run, {"SLUICE_CATALOG_DSN": far, "SLUICE_WAREHOUSE": str(run.scratch / "far")}) as servers:
                yield servers


@contextlib.contextmanager
def _objects_away(run: Run, command: str) -> Iterator[list[BenchServer]]:
    port = free_port()
    with (run.scratch / "moto.log").open("wb") as log:
        process = subprocess.Popen([command, "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log)
    try:
        _make_bucket(f"http://127.0.0.1:{port}/lake")
        with far_away(to_tcp("127.0.0.1", port), S3_AWAY) as there, _postgres(run, "s3") as dsn:
            settings = {
                "SLUICE_CATALOG_DSN": dsn, "SLUICE_WAREHOUSE": "s3://lake/w", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
                "AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{there}", "AWS_EC2_METADATA_DISABLED": "true",
            }  # fmt: skip
            with _two(run, settings) as servers:
                yield servers
    finally:
        process.terminate()
        process.wait(20)


def _make_bucket(url: str) -> None:
    until = time.monotonic() + 30
    while True:
        try:
            httpx.put(url).raise_for_status()
            return
        except httpx.TransportError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
