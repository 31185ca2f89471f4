"""Clients with the options they come with write one table beside hot SQL writers: none gives up, and no row is lost or doubled."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.interop.conftest import HERE, ROOT
from tests.interop.counted_commits import CountedCommits
from tests.interop.spark_paimon import SparkClient, given
from tests.running import RunningServer

pytestmark = [pytest.mark.interop, pytest.mark.slow]
SQL_WRITERS = 2
_SPARK = 90
_SQL = 100
"""From here on the numbers of the SQL writers."""
Row = tuple[int, int]


class HotSql:
    """Threads that insert rows (w, n) one after another, as fast as they are answered, until they are stopped."""

    def __init__(self, server: RunningServer, table: str) -> None:
        self._server, self._table = server, table
        self._stop = threading.Event()
        self.rows: list[Row] = []
        self.problems: list[str] = []
        self._threads = [threading.Thread(target=self._write, args=(_SQL + number,)) for number in range(SQL_WRITERS)]

    def __enter__(self) -> HotSql:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, writer: int) -> None:
        n = 0
        while not self._stop.is_set():
            answer = self._server.post(f"INSERT INTO {self._table} VALUES ({writer}, {n})")
            if answer.status_code != 200:
                self.problems.append(answer.text)
                return
            self.rows.append((writer, n))
            n += 1


@contextlib.contextmanager
def pypaimon_writers(url: str, table: str, processes: int, commits: int, log: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that have opened the table and wait for a line to begin."""
    python = ROOT / ".venv-pypaimon" / "bin" / "python"
    if not python.exists():
        pytest.skip("pypaimon cannot be had here: run `make pypaimon`.")
    command = [str(python), str(HERE / "pypaimon_writer.py"), url, table]
    started = []
    with log.open("w") as out:
        for writer in range(processes):
            one = [*command, str(writer), str(commits)]
            started.append(subprocess.Popen(one, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out, text=True))
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "\n", log.read_text()[-3000:]
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def retries_of(started: Sequence[subprocess.Popen[str]], log: Path) -> list[int]:
    """How often each commit had to be built anew, once all processes are through; one that gave up fails the test."""
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    found: list[int] = []
    for process in started:
        told, _ = process.communicate(timeout=1200)
        assert process.returncode == 0, f"a client gave up: {log.read_text()[-3000:]}"
        found += json.loads(told)
    return found


def check_rows(server: RunningServer, table: str, wanted: Sequence[Row]) -> None:
    """Exactly these rows, each once, and those of each writer in its order."""
    rows = [(row[0], row[1]) for row in server.sql(f"SELECT w, n FROM {table}")]
    counted = Counter(rows)
    assert [row for row, times in counted.items() if times > 1] == []
    assert set(rows) == set(wanted)
    for writer in {w for w, _ in wanted}:
        numbers = [n for w, n in rows if w == writer]
        assert numbers == sorted(numbers), f"writer {writer} is out of order"


def create(server: RunningServer, database: str) -> str:
    table = f"{database}.q"
    server.sql(f"CREATE TABLE {table} (w INT, n INT) WITH ('bucket' = '1', 'bucket-key' = 'w', 'write-only' = 'true')")
    return table


def test_clients_get_their_turn_beside_hot_sql_writers(server: RunningServer, database: str, tmp_path: Path) -> None:
    table, processes, commits = create(server, database), 3, 5
    counted, log = CountedCommits(), tmp_path / "log"
    with (
        counted.between(server, "pypaimon") as url,
        pypaimon_writers(url, table, processes, commits, log) as started,
        HotSql(server, table) as hot,
    ):
        retries = retries_of(started, log)
    assert hot.problems == []
    assert len(retries) == processes * commits
    counted.check({"pypaimon"})
    assert sorted(counted.retries["pypaimon"]) == sorted(retries), "what the client tells of itself is what was counted"
    check_rows(server, table, [*hot.rows, *((w, n) for w in range(processes) for n in range(commits))])


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_six_processes_and_spark_beside_hot_sql_writers(server: RunningServer, database: str, tmp_path: Path) -> None:
    given()
    table, processes, commits, spark_commits = create(server, database), 6, 15, 20
    counted, connected = CountedCommits(), contextlib.ExitStack()
    of_pypaimon, of_spark = (connected.enter_context(counted.between(server, name)) for name in ("pypaimon", "Spark"))
    spark = SparkClient(of_spark, tmp_path / "spark")
    insert = f"INSERT INTO sluice.{table} VALUES ({_SPARK}, {{n}})"
    problems: list[str] = []

    def write() -> None:
        for n in range(1, spark_commits):
            if error := spark.answer(insert.format(n=n)).get("error"):
                problems.append(error)

    connected.callback(spark.close)
    with connected:
        spark.sql(insert.format(n=0))  # so that its JVM is warm when the others begin
        with pypaimon_writers(of_pypaimon, table, processes, commits, tmp_path / "log") as started, HotSql(server, table) as hot:
            writing = threading.Thread(target=write)
            writing.start()
            try:
                retries = retries_of(started, tmp_path / "log")
            finally:
                writing.join()
    assert (hot.problems, problems) == ([], [])
    of_clients = [(w, n) for w in range(processes) for n in range(commits)] + [(_SPARK, n) for n in range(spark_commits)]
    check_rows(server, table, [*hot.rows, *of_clients])
    assert sorted(counted.retries["pypaimon"]) == sorted(retries)
    print(f"{len(hot.rows)} rows by SQL; {counted.check({'pypaimon', 'Spark'})}")
