"""Servers of one catalog, clients that change the same rows through each of them, and the history that came of it."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lake import Lake
from model.identifier import Identifier
from table.scan.planning.entry_scan import plan_scan
from table.scan.read import read_batches
from tests.interop.asked import Asked
from tests.running import RunningServer
from tests.torture.job_campaign import start_job, until
from tests.torture.serial.model import Author, Row, Statement, Version, added_rows, differing

TABLES = {
    "queue": "WITH ('bucket' = '1', 'bucket-key' = 'id'",
    "hashed": "WITH ('bucket' = '2', 'bucket-key' = 'id'",
    "scalable": "PARTITIONED BY (p) WITH ('bucket' = '-1'",
}
_OPTIONS = "'rows.erasable' = 'true', 'write-only' = 'true', 'snapshot.num-retained.min' = '100000')"
LOCAL = ("insert", "delete", "set", "set", "move")
"""Statements that need no Spark."""
ALL = (*LOCAL, "log", "merge", "delete the greatest", "insert", "insert")


@dataclass(slots=True)
class Book:
    """What was sent to one table, and what was told of it."""

    done: dict[int, Statement] = field(default_factory=dict)
    appended: list[Row] = field(default_factory=list)
    foreign: list[Row] = field(default_factory=list)
    """Those of pypaimon."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class Campaign:
    """Threads that send statements until they are stopped."""

    def __init__(self, servers: Sequence[RunningServer], lake: Lake, *, seed: int) -> None:
        self._servers = servers
        self._lake = lake
        self._seed = seed
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.books = {table: Book() for table in TABLES}
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        for table, layout in TABLES.items():
            servers[0].sql(f"CREATE TABLE {table} (id BIGINT, p INT, v INT, log STRING) {layout}, {_OPTIONS}")

    def add(self, name: str, work: Callable[[int], None]) -> None:
        """Work that is done again and again, as soon as it has ended; it is given a number of its own."""
        number = len(self._threads) + 1

        def run() -> None:
            while not self._stop.is_set():
                try:
                    work(number)
                except Exception as problem:  # whatever it is, the test tells it
                    self.problems.append(f"{name}: {type(problem).__name__}: {problem}")
                    self._stop.set()

        self._threads.append(threading.Thread(target=run, name=name))

    def add_client(self, server: RunningServer, kinds: Sequence[str], tables: Sequence[str] = tuple(TABLES)) -> None:
        """A client that sends statements to one server, table by table."""
        author = Author(len(self._threads) + 1, self._seed)

        def work(_: int) -> None:
            for table in tables:
                self._send(server, table, author.made(kinds))

        self.add(f"a client of {server.url}", work)

    def _send(self, server: RunningServer, table: str, statement: Statement) -> None:
        answer = server.post(statement.text.format(t=table))
        if answer.status_code != 200:
            raise AssertionError(f"{statement.text.format(t=table)}: {answer.text}")
        ((_, snapshot),) = answer.json()["rows"]
        self.counts[statement.kind] += 1
        book = self.books[table]
        with book.lock:
            if statement.kind == "insert":
                book.appended += statement.effect(())[1]
            elif snapshot is None:
                self.counts["no rows"] += 1
            else:
                assert snapshot not in book.done, f"snapshot {snapshot} is said to be of two statements"
                book.done[snapshot] = statement

    def add_compactions(self) -> None:
        """Each server merges files of each table."""

        def work(_: int) -> None:
            for server in self._servers:
                for table in TABLES:
                    self._stop.wait(0.3)
                    answer = server.post(f"CALL sys.compact('default.{table}', '', 'full')")
                    if answer.status_code != 200:
                        raise AssertionError(answer.text)
                    self.counts["compactions"] += 1

        self.add("compactions", work)

    def add_pypaimon(self, process: Asked) -> None:
        """A pypaimon process appends to every table."""
        author = Author(len(self._threads) + 1, self._seed)

        def work(_: int) -> None:
            for table, book in self.books.items():
                new = author.new_rows()
                answer = process.ask(json.dumps({"table": f"default.{table}", "rows": new}))
                assert "error" not in answer, f"{answer['error']}\n{process.log()}"
                with book.lock:
                    book.appended += new
                    book.foreign += new
                self.counts["pypaimon"] += 1

        self.add("pypaimon", work)

    def start_job(self) -> None:
        """A job copies the queue, as it is appended to."""
        self._servers[-1].sql("CREATE TABLE copied (id BIGINT, v INT)")
        self._servers[-1].wait_for_spark()
        start_job(self._servers[-1], "INSERT INTO copied SELECT id, v FROM queue")

    def run(self, seconds: float) -> None:
        """For so long, or until something goes wrong."""
        for thread in self._threads:
            thread.start()
        self._stop.wait(seconds)
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def versions(self, table: str) -> list[Version]:
        """Every snapshot of a table, with its rows as they stand."""
        opened = self._lake.open(Identifier("default", table))
        latest = opened.latest()
        found = []
        for number in range(1, latest.id + 1 if latest else 1):
            snapshot = opened.files.read_snapshot(number)
            assert snapshot is not None, f"snapshot {number} of {table} is not there"
            planned = plan_scan(opened.files, opened.schema, snapshot).files
            batches = read_batches(opened.files, opened.schema, planned)
            rows = tuple((row["id"], row["p"], row["v"], row["log"]) for batch in batches for row in batch.to_pylist())
            found.append(Version(id=number, kind=snapshot.commit_kind.value, rows=rows))
        return found

    def check(self, *, copied: bool = False) -> None:
        """Hold the tables against what was sent."""
        assert self.problems == [], self.problems
        for table, book in self.books.items():
            versions = self.versions(table)
            wrong = differing(versions, book.done, book.appended, ordered=table == "queue", foreign=book.foreign)
            assert wrong is None, f"{table}: {wrong}"
            assert self._servers[-1].sql(f"CALL sys.check_table('{table}', deep => true)") == []
            if table == "queue" and copied:
                self._check_copies(versions)

    def _check_copies(self, versions: Sequence[Version]) -> None:
        """The job has what was appended, each row once, in order, as it was then."""
        wanted: list[tuple[int, int]] = []
        before = Version(id=0, kind="", rows=())
        for version in versions:
            if version.kind == "APPEND":
                wanted += [(row[0], row[2]) for row in added_rows(before, version)]
            before = version

        def arrived() -> bool:
            copies = [tuple(row) for row in self._servers[0].sql("SELECT id, v FROM copied")]
            assert len(copies) <= len(wanted), "the job wrote rows twice"
            return sorted(copies) == sorted(wanted)

        until(arrived, seconds=120, what=lambda: "the job has not copied all that was appended")
