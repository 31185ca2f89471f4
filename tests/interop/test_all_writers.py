"""pypaimon, Java, Spark, Flink and SQL append to a queue and a scalable table beside compaction and expiry: all is there, in order.

All clients have the options they come with, and each is counted: 99 of 100 commits take five retries at most.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.interop.appenders import Append, Java, flink_process, of_a_process, of_flink, of_spark, of_sql, pypaimon_process
from tests.interop.conftest import Reader
from tests.interop.counted_commits import CountedCommits
from tests.interop.spark_paimon import SparkClient, given
from tests.running import RunningServer

pytestmark = [pytest.mark.interop, pytest.mark.slow]
SECONDS = float(os.environ.get("SLUICE_TEST_SECONDS", "600"))
_OF_A_WRITER = 1_000_000
"""Writer w appends the ids from w times this on, in order."""
_ROWS = 3
_SQLS, _PYPAIMONS, _JAVAS = 6, 6, 2
"""Writers of a kind, beside one of Spark and one of Flink: sixteen."""
_COMPACTED_EACH = 2.0
"""Seconds between two compactions and expiries of a table."""
OPTIONS = "'write-only' = 'true', 'compaction.min.file-num' = '5', 'snapshot.num-retained.min' = '10', 'snapshot.num-retained.max' = '50'"
"""Java's writers would compact a queue out of its order (docs/catalog.md), and expire by themselves."""
TABLES = {"queue": "'bucket' = '1', 'bucket-key' = 'id'", "scalable": "'bucket' = '-1'"}


@dataclass
class Book:
    """What the writers were told."""

    rows: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """By table: the ids that were acknowledged."""
    commits: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


class Writers:
    """A thread for each writer, which appends to the tables in turns until they are stopped; one that fails ends."""

    def __init__(self, tables: dict[str, str]) -> None:
        self._tables = list(tables.values())
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.book = Book()

    def add(self, name: str, append: Append) -> None:
        number = len(self._threads)
        self._threads.append(threading.Thread(target=self._write, args=(name, number, append), name=name))

    def add_maintenance(self, name: str, work: Callable[[str], str | None]) -> None:
        """Work on each table, again and again."""
        self._threads.append(threading.Thread(target=self._maintain, args=(name, work), name=name))

    def run(self, seconds: float) -> None:
        for thread in self._threads:
            thread.start()
        self._stop.wait(seconds)
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, name: str, number: int, append: Append) -> None:
        at = number * _OF_A_WRITER
        while not self._stop.is_set():
            for table in self._tables:
                if (problem := append(table, at, _ROWS)) is not None:
                    self.book.problems.append(f"{name}: {problem}")
                    self._stop.set()
                    return
                self.book.rows[table].update(range(at, at + _ROWS))
            self.book.commits[name] += len(self._tables)
            at += _ROWS

    def _maintain(self, name: str, work: Callable[[str], str | None]) -> None:
        while not self._stop.wait(_COMPACTED_EACH):
            for table in self._tables:
                if (problem := work(table)) is not None:
                    self.book.problems.append(f"{name}: {problem}")
                    self._stop.set()
                    return
                self.book.commits[name] += 1


def maintenance(server: RunningServer) -> Callable[[str], str | None]:
    """Merge small files, and expire what is more than the table is to keep."""

    def work(table: str) -> str | None:
        for statement in (
            f"CALL sys.compact('{table}', '', 'minor')",
            f"CALL sys.expire_snapshots(`table` => '{table}', retain_max => 50, retain_min => 10)",
        ):
            answer = server.post(statement)
            if answer.status_code != 200:
                return answer.text
        return None

    return work


@pytest.fixture
def tables(server: RunningServer, database: str) -> dict[str, str]:
    """The names of the tables, by kind."""
    for kind, options in TABLES.items():
        server.sql(f"CREATE TABLE {database}.{kind} (id BIGINT, s STRING) WITH ({options}, {OPTIONS})")
    return {kind: f"{database}.{kind}" for kind in TABLES}


def check(server: RunningServer, tables: dict[str, str], book: Book, readers: dict[str, Reader]) -> None:
    """Everybody finds what was acknowledged, each row once; in the queue the rows of each writer stand in their order."""
    assert book.problems == []
    for kind, table in tables.items():
        read = {"SQL": [row[0] for row in server.sql(f"SELECT id FROM {table}")]}
        read |= {name: [row[0] for row in reader.read(server.table_path(table))["rows"]] for name, reader in readers.items()}
        for name, ids in read.items():
            assert sorted(ids) == sorted(book.rows[table]), f"{kind}, read by {name}"
        if kind == "queue":
            for name, ids in read.items():
                for writer in {n // _OF_A_WRITER for n in ids}:
                    own = [n for n in ids if n // _OF_A_WRITER == writer]
                    assert own == sorted(own), f"writer {writer} is out of order for {name}"
        assert server.sql(f"CALL sys.check_table('{table}', deep => true)") == []


@pytest.mark.torture
def test_sql_and_pypaimon_beside_compaction(server: RunningServer, tables: dict[str, str], pypaimon: Reader, tmp_path: Path) -> None:
    """`make test` has pypaimon beside hot writers: `tests/interop/test_mixed_writers.py`."""
    writers, counted = Writers(tables), CountedCommits()
    with counted.between(server, "pypaimon") as url, pypaimon_process(url, tmp_path / "log") as process:
        writers.add("SQL", of_sql(server))
        writers.add("pypaimon", of_a_process(process))
        writers.add_maintenance("maintenance", maintenance(server))
        writers.run(5)
    assert set(writers.book.commits) == {"SQL", "pypaimon", "maintenance"}
    counted.check({"pypaimon"})
    assert len(counted.retries["pypaimon"]) == writers.book.commits["pypaimon"]
    check(server, tables, writers.book, {"pypaimon": pypaimon})


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_every_client_beside_compaction(
    server: RunningServer, tables: dict[str, str], pypaimon: Reader, java_paimon: Reader, flink_python: str, tmp_path: Path
) -> None:
    given()
    counted = CountedCommits()
    with contextlib.ExitStack() as started:
        urls = {name: started.enter_context(counted.between(server, name)) for name in ("pypaimon", "Java", "Spark", "Flink")}
        processes = [started.enter_context(pypaimon_process(urls["pypaimon"], tmp_path / f"log-{n}")) for n in range(_PYPAIMONS)]
        javas = []
        for n in range(_JAVAS):
            (tmp_path / f"java-{n}").mkdir()
            javas.append(Java(urls["Java"], tmp_path / f"java-{n}"))
            started.callback(javas[-1].close)
        spark = SparkClient(urls["Spark"], tmp_path / "spark")
        started.callback(spark.close)
        flink = started.enter_context(flink_process(urls["Flink"], flink_python, tmp_path / "flink"))
        writers = Writers(tables)
        for _ in range(_SQLS):
            writers.add("SQL", of_sql(server))
        for process in processes:
            writers.add("pypaimon", of_a_process(process))
        for java in javas:
            writers.add("Java", of_a_process(java))
        writers.add("Spark", of_spark(spark))
        writers.add("Flink", of_flink(flink))
        writers.add_maintenance("maintenance", maintenance(server))
        began = time.monotonic()
        writers.run(SECONDS)
        print(f"{time.monotonic() - began:.0f} s: {dict(writers.book.commits)}", file=sys.stderr)
    assert writers.book.problems == []
    print(counted.check(set(urls)), file=sys.stderr)
    assert set(writers.book.commits) == {"SQL", "pypaimon", "Java", "Spark", "Flink", "maintenance"}
    check(server, tables, writers.book, {"pypaimon": pypaimon, "Java": java_paimon})
