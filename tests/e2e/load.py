"""Writers and readers that work a table at the same time and keep book of what they were told."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import httpx

from tests.running import Refused, RunningServer

ROWS = 3
"""Rows of each insert: all of them are there, or none."""
Insert = tuple[int, int]
"""A client's number, and the number of its insert."""


@dataclass
class Book:
    """What the clients know."""

    acknowledged: set[Insert] = field(default_factory=set)
    unknown: set[Insert] = field(default_factory=set)
    """Sent, and no answer came."""
    problems: list[str] = field(default_factory=list)
    reads: int = 0


def create(server: RunningServer, table: str) -> None:
    """The table the writers fill."""
    server.sql(f"CREATE TABLE {table} (client INT, n INT, part INT) WITH ('bucket'='2','bucket-key'='client')")


def insert(server: RunningServer, table: str, what: Insert) -> None:
    """One insert of `ROWS` rows under a key of its own."""
    client, n = what
    rows = ", ".join(f"({client}, {n}, {part})" for part in range(ROWS))
    server.sql(f"INSERT INTO {table} VALUES {rows}", timeout=180, Idempotency_Key=f"{table}-{client}-{n}")


def insert_until_known(server: RunningServer, table: str, what: Insert, seconds: float = 240) -> None:
    """Repeat an insert under its key until the server says that it is in; raises `Refused` for a refusal that waiting does not mend."""
    until = time.monotonic() + seconds
    while True:
        try:
            insert(server, table, what)
            return
        except httpx.TransportError:
            if time.monotonic() > until:
                raise
        except Refused as refused:
            if refused.status not in (409, 429, 503) or time.monotonic() > until:
                raise
        time.sleep(0.2)


class Load:
    """Clients that insert until they are stopped or done, and readers that check every read."""

    def __init__(self, server: RunningServer, table: str, *, clients: int, inserts: int, readers: int, first: int = 0) -> None:
        self.book = Book()
        self._server = server
        self._table = table
        self._stop = threading.Event()
        self._writers = [threading.Thread(target=self._write, args=(first + n, inserts)) for n in range(clients)]
        self._readers = [threading.Thread(target=self._read) for _ in range(readers)]

    def start(self) -> Load:
        for thread in self._writers + self._readers:
            thread.start()
        return self

    def join(self) -> None:
        """Wait until every client has sent all of its inserts."""
        for thread in self._writers:
            thread.join()
        self.stop()

    def stop(self) -> None:
        """Stop the clients after what they are at."""
        self._stop.set()
        for thread in self._writers + self._readers:
            thread.join()

    def _write(self, client: int, inserts: int) -> None:
        for n in range(inserts):
            if self._stop.is_set():
                return
            try:
                insert(self._server, self._table, (client, n))
                self.book.acknowledged.add((client, n))
            except httpx.TransportError:
                self.book.unknown.add((client, n))
                if self._stop.wait(0.2):
                    return
            except Refused as refused:
                self.book.problems.append(f"insert {client}-{n}: {refused}")

    def _read(self) -> None:
        seen: set[Insert] = set()
        while not self._stop.is_set():
            known = set(self.book.acknowledged)
            with contextlib.suppress(httpx.TransportError):
                try:
                    found = whole_inserts(self._server, self._table)
                except (Refused, AssertionError) as problem:
                    self.book.problems.append(f"read: {problem}")
                    continue
                if lost := (seen | known) - found:
                    self.book.problems.append(f"a read went back in time: {sorted(lost)[:5]}")
                seen = found
                self.book.reads += 1


def whole_inserts(server: RunningServer, table: str) -> set[Insert]:
    """The inserts in the table; asserts that none is there in part or twice."""
    found = server.arrow(f"SELECT client, n, part FROM {table}")
    rows = Counter(zip(*(found.column(name).to_pylist() for name in ("client", "n", "part")), strict=True))
    doubled = [row for row, times in rows.items() if times > 1]
    assert not doubled, f"rows that are there more than once: {doubled[:5]}"
    inserts = Counter((client, n) for client, n, _ in rows)
    parts = [what for what, count in inserts.items() if count != ROWS]
    assert not parts, f"inserts that are there in part: {parts[:5]}"
    return set(inserts)
