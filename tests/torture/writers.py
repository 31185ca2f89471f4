"""Writers that number their rows and never give up on one: what a table must hold is a count for each of them."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

from tests.running import RunningServer

WRITERS = 8


@dataclass
class Book:
    """What the writers know."""

    acknowledged: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0] * WRITERS))
    """By table: how many rows each writer has been told are in."""
    taken: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By table: milliseconds of the appends answered at the first attempt."""
    problems: list[str] = field(default_factory=list)

    def p99(self, table: str) -> float:
        """Milliseconds within which 99 of 100 appends were answered."""
        taken = sorted(self.taken[table])
        return taken[int(len(taken) * 0.99)] if taken else 0.0


class Writers:
    """`WRITERS` threads that append rows (w, n) one by one, to the tables in turns, until they are stopped."""

    def __init__(self, server: RunningServer, tables: Sequence[str], book: Book) -> None:
        self._server, self._tables, self._book = server, tables, book
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)]

    def start(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def stop(self) -> None:
        """Stop each after the row it is at."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, number: int) -> None:
        with httpx.Client(timeout=60) as client:
            while not self._stop.is_set():
                for table in self._tables:
                    self._append(client, table, number)

    def _append(self, client: httpx.Client, table: str, number: int) -> None:
        """One row; a number whose answer was lost is asked for again under its key."""
        n = self._book.acknowledged[table][number]
        body = f'{{"w": {number}, "n": {n}}}'.encode()
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": f"{table}-{number}-{n}"}
        for attempt in range(1000):
            begin = time.perf_counter()
            try:
                answer = client.post(f"{self._server.url}/tables/default/{table}/rows", content=body, headers=headers)
            except httpx.HTTPError:
                time.sleep(0.1)
                continue
            if answer.status_code == 200:
                self._book.acknowledged[table][number] = n + 1
                if attempt == 0:
                    self._book.taken[table].append((time.perf_counter() - begin) * 1000)
                return
            if answer.status_code not in (409, 503) or attempt == 0:
                self._book.problems.append(f"{table}, writer {number}, row {n}: {answer.status_code} {answer.text}")
                return
            time.sleep(0.1)
        self._book.problems.append(f"{table}, writer {number}, row {n}: no answer in a thousand attempts")


def rows_of(server: RunningServer, table: str) -> dict[int, list[int]]:
    """Each writer's numbers, in the order they are read."""
    found = server.arrow(f"SELECT w, n FROM {table}")
    rows: dict[int, list[int]] = {number: [] for number in range(WRITERS)}
    for w, n in zip(found.column("w").to_pylist(), found.column("n").to_pylist(), strict=True):
        rows[w].append(n)
    return rows


def check_rows(server: RunningServer, table: str, book: Book, *, ordered: bool, where: str) -> None:
    """Every acknowledged row is there once, at most one more of each writer, and a queue has them in the order they were sent."""
    before = list(book.acknowledged[table])
    for number, found in rows_of(server, table).items():
        numbers = found if ordered else sorted(found)
        assert numbers == list(range(len(numbers))), f"{where}: {table}, writer {number}: {_first_wrong(numbers)}"
        assert len(numbers) >= before[number], f"{where}: {table}, writer {number}: {len(numbers)} of {before[number]} rows"


def _first_wrong(numbers: Sequence[int]) -> str:
    at = next(at for at, number in enumerate(numbers) if number != at)
    return f"lost, doubled or out of order around {list(numbers[max(0, at - 3) : at + 4])}"
