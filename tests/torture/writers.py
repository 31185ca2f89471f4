"""Writers that number their rows and keep book of what they were told: what a table must hold follows from it."""

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
    """What the writers know; each counts its rows of a table from 0."""

    sent: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    """By table and writer: how many rows were sent."""
    acknowledged: dict[tuple[str, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    unknown: dict[tuple[str, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    """Sent, and no answer came."""
    taken: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By table: milliseconds of the appends that were answered."""
    problems: list[str] = field(default_factory=list)

    def p99(self, table: str) -> float:
        """Milliseconds within which 99 of 100 appends were answered."""
        taken = sorted(self.taken[table])
        return taken[int(len(taken) * 0.99)] if taken else 0.0


class Writers:
    """`WRITERS` threads that append rows (w, n) one by one, to the tables in turns, with a pause in seconds, until they are stopped."""

    def __init__(self, server: RunningServer, tables: Sequence[str], book: Book, *, pause: float = 0.0) -> None:
        self._server, self._tables, self._book, self._pause = server, tables, book, pause
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
                    self._stop.wait(self._pause)

    def _append(self, client: httpx.Client, table: str, number: int) -> None:
        key = (table, number)
        n = self._book.sent[key]
        self._book.sent[key] = n + 1
        begin = time.perf_counter()
        try:
            body, headers = f'{{"w": {number}, "n": {n}}}', {"Content-Type": "application/x-ndjson"}
            answer = client.post(f"{self._server.url}/tables/default/{table}/rows", content=body.encode(), headers=headers)
        except httpx.HTTPError:
            self._book.unknown[key].add(n)
            self._stop.wait(0.1)
            return
        if answer.status_code == 200:
            self._book.acknowledged[key].add(n)
            self._book.taken[table].append((time.perf_counter() - begin) * 1000)
        else:
            self._book.problems.append(f"{table}, writer {number}, row {n}: {answer.status_code} {answer.text}")


def check_rows(server: RunningServer, table: str, book: Book, *, ordered: bool, where: str) -> None:
    """Every acknowledged row is there once, of the others only such as were sent, and a queue has each writer's in its order."""
    before = {number: set(book.acknowledged[(table, number)]) for number in range(WRITERS)}
    found = server.arrow(f"SELECT w, n FROM {table}")
    rows: dict[int, list[int]] = {number: [] for number in range(WRITERS)}
    for w, n in zip(found.column("w").to_pylist(), found.column("n").to_pylist(), strict=True):
        rows[w].append(n)
    for number, numbers in rows.items():
        told = f"{where}: {table}, writer {number}"
        there = set(numbers)
        assert len(there) == len(numbers), f"{told}: rows are doubled: {sorted(n for n in there if numbers.count(n) > 1)[:5]}"
        assert before[number] <= there, f"{told}: acknowledged and lost: {sorted(before[number] - there)[:5]}"
        assert not ordered or numbers == sorted(numbers), f"{told}: out of order: {numbers[:200]}"
        assert all(n < book.sent[(table, number)] for n in there), f"{told}: never sent: {sorted(there)[-5:]}"
