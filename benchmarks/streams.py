"""How long a committed row takes to an HTTP client that follows the table."""

from __future__ import annotations

import statistics
import threading
import time

import httpx

from benchmarks.page import Table
from benchmarks.run import Run
from benchmarks.server import BenchServer
from benchmarks.timing import percentile

ROWS = 200
IDLE = (0, 20)
PAUSE_SECONDS = 0.02
HINT = "/*+ OPTIONS('scan.mode' = 'latest') */"


def measure(run: Run) -> list[Table]:
    """One reader, alone and beside readers of a table that gets no rows."""
    found = []
    with run.server(spark=True) as server:
        for idle in IDLE:
            shown = tuple(f"{value:.1f} ms" for value in latency(server, f"lag{idle}", idle))
            found.append((f"{idle}", *shown, f"{server.resident_bytes() >> 20} MB"))
    head = ("other idle streams", "answer → row p50", "p99", "INSERT sent → row p50", "p99", "server's memory")
    return [Table(head=head, rows=found, note=f"{ROWS} inserts of one row, one each {PAUSE_SECONDS * 1000:.0f} ms.")]


class _Tail:
    """A streaming SELECT whose rows are told with the moment they came."""

    def __init__(self, url: str, table: str) -> None:
        self.came: dict[int, float] = {}
        self.opened = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(url, table), daemon=True)
        self._thread.start()
        self.opened.wait(30)

    def _read(self, url: str, table: str) -> None:
        with httpx.stream("POST", f"{url}/sql?mode=streaming", content=f"SELECT id FROM {table} {HINT}", timeout=600) as answer:
            for line in answer.iter_lines():
                self.opened.set()
                if "$error" in line:  # the server stops
                    return
                if line.strip():
                    self.came[int(line.split(":")[1].strip("} \n"))] = time.perf_counter()

    def wait(self, count: int) -> None:
        """Until so many rows came; raises `TimeoutError`."""
        until = time.monotonic() + 60
        while len(self.came) < count:
            if time.monotonic() > until:
                raise TimeoutError(f"{len(self.came)} of {count} rows came")
            time.sleep(0.01)


def latency(server: BenchServer, table: str, idle: int) -> tuple[float, float, float, float]:
    """Milliseconds from the INSERT's answer, and from its start, to the row at the client: p50 and p99 of each."""
    server.sql(f"CREATE TABLE {table} (id BIGINT) WITH ('bucket' = '1'); CREATE TABLE {table}_idle (id BIGINT) WITH ('bucket' = '1')")
    tails = [_Tail(server.url, f"{table}_idle") for _ in range(idle)]
    tail = _Tail(server.url, table)
    answered, sent = {}, {}
    for number in range(ROWS):
        sent[number] = time.perf_counter()
        server.sql(f"INSERT INTO {table} VALUES ({number})")
        answered[number] = time.perf_counter()
        time.sleep(PAUSE_SECONDS)
    tail.wait(ROWS)
    assert all(not one.came for one in tails)
    after = [max(0.0, 1000 * (tail.came[n] - answered[n])) for n in range(20, ROWS)]
    whole = [1000 * (tail.came[n] - sent[n]) for n in range(20, ROWS)]
    return (
        statistics.median(after),
        percentile(after, 0.99),
        statistics.median(whole),
        percentile(whole, 0.99),
    )
