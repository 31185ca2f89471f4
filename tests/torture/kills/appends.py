"""Writers that append under no key: clients of the REST catalog, Flight SQL's ingest, a job that copies what one of them wrote."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import adbc_driver_flightsql.dbapi as flight
import httpx
import pyarrow as pa
from adbc_driver_manager import Error

from tests.interop.appenders import Append
from tests.running import Refused, RunningServer
from tests.torture.job_campaign import job, start_job, until
from tests.torture.kills.clients import Counts

_COLUMNS = "id BIGINT, s STRING"
_ROWS = 5
"""Of a commit."""


class Writer(Protocol):
    """What a campaign runs beside its clients."""

    problems: list[str]

    def run(self, stop: threading.Event) -> None:
        """Write until told to stop, or until an answer is lost."""

    def compare(self, server: RunningServer, where: str) -> None:
        """Hold what is there against what the writer was told."""


@dataclass(slots=True)
class Appended:
    """What one writer sent to a table of its own: what was acknowledged is there once, what was not is there once or not at all."""

    table: str
    sure: set[int] = field(default_factory=set)
    doubtful: list[range] = field(default_factory=list)
    next: int = 0

    def take(self) -> range:
        """Numbers that no row has."""
        new = range(self.next, self.next + _ROWS)
        self.next += _ROWS
        return new

    def compare(self, server: RunningServer, where: str) -> None:
        """Each row once, commits whole; from here on what is there is known."""
        counted = Counter(row["id"] for row in server.arrow(f"SELECT id FROM {self.table}").to_pylist())
        assert max(counted.values(), default=1) == 1, f"{where}: {self.table} has rows twice: {counted.most_common(3)}"
        there = set(counted)
        assert self.sure <= there, f"{where}: {self.table} lost {sorted(self.sure - there)[:10]}"
        for commit in self.doubtful:
            part = there & set(commit)
            assert len(part) in (0, len(commit)), f"{where}: of one commit to {self.table} there are {sorted(part)}"
            self.sure |= part
        self.doubtful = []
        assert there == self.sure, f"{where}: {self.table} has {sorted(there - self.sure)[:10]}, which nobody sent"


class Ingester:
    """Arrow Flight SQL's ingest, by ADBC."""

    def __init__(self, servers: Sequence[RunningServer], counts: Counts) -> None:
        self._servers, self._counts = list(servers), counts
        self.book = Appended("ingested")
        self.problems: list[str] = []
        servers[0].sql(f"CREATE TABLE ingested ({_COLUMNS})")

    def run(self, stop: threading.Event) -> None:
        """One connection, one ingest after another."""
        try:
            with flight.connect(self._servers[0].flight_url, autocommit=True) as connection, connection.cursor() as cursor:
                while not stop.is_set():
                    ids = self.book.take()
                    self.book.doubtful.append(ids)
                    cursor.adbc_ingest("ingested", pa.table({"id": ids, "s": [str(n) for n in ids]}), mode="append")
                    self.book.sure |= set(self.book.doubtful.pop())
                    self._counts.acknowledged["ingest"] += 1
        except Error:
            self._counts.doubtful["ingest"] += 1
            self._servers.append(self._servers.pop(0))

    def compare(self, server: RunningServer, where: str) -> None:
        """See `Appended`."""
        self.book.compare(server, where)


class ClientWriter:
    """A client of the REST catalog with default options, in a process of its own; its server keeps its address over restarts."""

    def __init__(self, name: str, server: RunningServer, append: Append, counts: Counts) -> None:
        self._name, self._append, self._counts = name, append, counts
        self.book = Appended(f"appended_by_{name}")
        self.problems: list[str] = []
        server.sql(f"CREATE TABLE {self.book.table} ({_COLUMNS})")
        first = self.book.take()  # a process that still begins would die of the first kill
        assert append(f"default.{self.book.table}", first.start, len(first)) is None
        self.book.sure |= set(first)

    def run(self, stop: threading.Event) -> None:
        """One commit after another. The client tries again by itself, so that what ends in an error may still be there."""
        while not stop.is_set():
            ids = self.book.take()
            if self._append(f"default.{self.book.table}", ids.start, len(ids)) is None:
                self.book.sure |= set(ids)
                self._counts.acknowledged[self._name] += 1
            else:
                self.book.doubtful.append(ids)
                self._counts.doubtful[self._name] += 1
                stop.wait(0.2)

    def compare(self, server: RunningServer, where: str) -> None:
        """See `Appended`."""
        self.book.compare(server, where)


class Copier:
    """A job that copies a table: each row once, in a table of its own."""

    def __init__(self, server: RunningServer, source: Appended, counts: Counts) -> None:
        self._server, self._source, self._counts = server, source, counts
        self.problems: list[str] = []
        server.sql(f"CREATE TABLE copied ({_COLUMNS})")
        server.wait_for_spark()
        self._job = start_job(server, f"INSERT INTO copied SELECT * FROM {source.table}")

    def run(self, stop: threading.Event) -> None:
        """It runs by itself."""
        before = len(self._source.sure)
        stop.wait()
        self._counts.acknowledged["rows to copy"] += len(self._source.sure) - before

    def compare(self, server: RunningServer, where: str) -> None:
        """All that its source holds arrives, each row once, in order."""
        wanted = [row["id"] for row in server.arrow(f"SELECT id FROM {self._source.table}").to_pylist()]

        def arrived() -> bool:
            copies = [row["id"] for row in server.arrow("SELECT id FROM copied").to_pylist()]
            assert len(copies) == len(set(copies)), f"{where}: the job wrote rows twice"
            return sorted(copies) == sorted(wanted)

        until(arrived, seconds=300, what=lambda: f"{where}: the job has not copied all; {self._state(server)}", pause=0.5)
        assert server.sql("CALL sys.check_table('copied')") == [], where

    def _state(self, server: RunningServer) -> object:
        with contextlib.suppress(httpx.HTTPError, Refused):
            return job(server, self._job)
        return server.words()
