"""Postgres away, disk full, SIGTERM, slow readers: the server says so, keeps what it promised, and goes on by itself."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from server.process.postgres import EmbeddedPostgres
from tests import new_cluster
from tests.disks import MEGABYTE, fill, mounted
from tests.e2e.agreement import assert_agreement, embedded_dsn
from tests.fix_server import StartServer
from tests.running import Refused, RunningServer, runs


def until(reached: Callable[[], bool], seconds: float = 180) -> float:
    """Wait for something to come true; returns the seconds it took."""
    begin = time.monotonic()
    while not reached():
        assert time.monotonic() - begin < seconds, "it never came true"
        time.sleep(0.1)
    return time.monotonic() - begin


def answers(server: RunningServer) -> bool:
    """Whether the server takes inserts again."""
    answer = server.post("INSERT INTO t VALUES (2)", timeout=120)
    assert answer.status_code in (200, 503), answer.text
    return answer.status_code == 200


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    """A process and its children stand still, as on a machine that is out of reach."""
    processes = [psutil.Process(pid)]
    processes[0].suspend()  # so that there are no more children
    processes += processes[0].children(recursive=True)
    for process in processes[1:]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


def test_postgres_is_stopped_and_started_again(start_server: StartServer, tmp_path: Path) -> None:
    postgres = new_cluster.made(tmp_path / "catalog")
    dsn = postgres.start()
    server = start_server(SLUICE_CATALOG_DSN=dsn)
    server.sql("CREATE TABLE t (id INT); INSERT INTO t VALUES (1)")
    postgres.stop()
    refused = server.post("INSERT INTO t VALUES (99)")  # answered while Postgres is away: nobody starts it before
    assert refused.status_code == 503
    assert "Retry-After" in refused.headers
    assert "catalog" in refused.json()["detail"]
    assert httpx.get(f"{server.url}/livez").status_code == 200
    ready = httpx.get(f"{server.url}/readyz", timeout=30)
    assert ready.status_code == 503
    assert ready.json()["postgres"]["ok"] is False

    again = EmbeddedPostgres(tmp_path / "catalog")
    assert again.start() == dsn
    try:
        until(lambda: answers(server))
        rows = sorted(server.sql("SELECT id FROM t"))
        assert rows == [[1], [2]]
        assert_agreement(dsn, server, "default.t")
    finally:
        server.terminate()
        again.stop()


def _jvm(server: RunningServer) -> psutil.Process | None:
    return next(iter(server.jvms()), None)


STANDSTILL_SECONDS, TOLD_SECONDS = 20, 15
"""When a JVM that answers nothing is killed, and when statements that need it are told: seconds apart, as a machine may be busy."""


class Refusals:
    """Somebody who asks, about when statements are told, for what needs Spark; gives up soon, asks again, and keeps the answers.

    Those who ask before that wait, and keep their places though nobody waits for them any more.
    """

    def __init__(self, server: RunningServer, text: str) -> None:
        self._server, self._text = server, text
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.answers: list[httpx.Response] = []

    def __enter__(self) -> Refusals:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        ended = self._ends.wait(TOLD_SECONDS)  # the JVM is asked every five seconds: for so long it may not have been missed
        while not ended:
            with contextlib.suppress(httpx.TimeoutException):  # it waits: nobody has counted so many seconds yet
                self.answers.append(self._server.post(self._text, timeout=2))
            ended = self._ends.wait(0.2)


@pytest.mark.spark
@pytest.mark.slow
def test_the_jvm_of_spark_stands_still(start_server: StartServer) -> None:
    """What runs there is told once the JVM was killed, all else goes on meanwhile, and another one takes its place."""
    room = {"SLUICE_STATEMENT_CONCURRENCY": "16"}  # for those who asked before they would have been told, too
    server = start_server(SLUICE_SPARK_STANDSTILL_SECONDS=str(STANDSTILL_SECONDS), **room)
    server.wait_for_spark()
    server.sql("CREATE TABLE t (id INT); INSERT INTO t VALUES (1)")
    on_spark = "SELECT count(DISTINCT id) FROM t"
    assert server.sql(on_spark) == [[1]]
    first = _jvm(server)
    assert first is not None
    told: list[httpx.Response] = []
    long = "SELECT max(a.id * b.id) FROM range(1000000) AS a, range(1000000) AS b"
    working = threading.Thread(target=lambda: told.append(server.post(long, X_Request_Id="long")))
    working.start()
    until(lambda: server.at_work("long"))
    assert not told
    first.send_signal(signal.SIGSTOP)
    begin = time.monotonic()
    waiting: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: waiting.append(server.post(on_spark)))
    asking.start()
    inserted, longest = 1, 0.0
    with Refusals(server, on_spark) as refusals:
        while runs(first.pid):
            assert time.monotonic() - begin < 200, "it lives on"
            at = time.monotonic()
            inserted += 1
            server.sql(f"INSERT INTO t VALUES ({inserted})", timeout=30)
            assert len(server.sql("SELECT id FROM t", timeout=30)) == inserted
            longest = max(longest, time.monotonic() - at)
            time.sleep(0.5)
        killed = time.monotonic() - begin
    working.join(60)
    asking.join(180)
    assert killed > STANDSTILL_SECONDS - 1
    assert longest < TOLD_SECONDS - 3, "statements that need no Spark wait for none"
    refused = [answer for answer in refusals.answers if f"It is started anew after {STANDSTILL_SECONDS} s" in answer.text]
    assert refused, "statements that come are told"
    for answer in (*refused, *told):
        assert (answer.status_code, "Retry-After" in answer.headers) == (503, True), answer.text
    assert waiting[0].status_code in (200, 503), waiting[0].text
    until(lambda: server.post(on_spark).status_code == 200, 180)
    assert server.sql(on_spark) == [[inserted]]
    again = _jvm(server)
    assert again is not None
    assert again.pid != first.pid


@pytest.mark.spark
@pytest.mark.torture
def test_a_server_that_ends_waits_ten_seconds_for_a_jvm_that_stands_still(start_server: StartServer) -> None:
    """In `tests/sql/spark/test_restart.py` it is its Spark alone that ends, and waits three."""
    server = start_server()
    server.wait_for_spark()
    jvm = _jvm(server)
    assert jvm is not None
    jvm.send_signal(signal.SIGSTOP)
    assert server.terminate() == 0
    assert not runs(jvm.pid)
    assert "it has not answered for 10 s; it is killed" in server.words(), "a server that ends waits no longer for it"


def test_postgres_stands_still_for_a_while(start_server: StartServer) -> None:
    server = start_server()
    server.sql("CREATE TABLE t (id INT); INSERT INTO t VALUES (1)")
    pid = server.postgres_pid()
    assert pid is not None
    outcome: list[int] = []

    def insert() -> None:
        outcome.append(server.post("INSERT INTO t VALUES (3)", timeout=120, Idempotency_Key="during").status_code)

    with frozen(pid):
        waiting = threading.Thread(target=insert)
        waiting.start()
        assert httpx.get(f"{server.url}/livez", timeout=60).status_code == 200
        waiting.join(3)
    waiting.join(150)
    assert outcome[0] in (200, 503)

    def repeated() -> bool:
        return server.post("INSERT INTO t VALUES (3)", timeout=60, Idempotency_Key="during").status_code == 200

    until(repeated)  # under its key it lands once, whatever was told before
    assert sorted(server.sql("SELECT id FROM t")) == [[1], [3]]
    assert_agreement(embedded_dsn(server), server, "default.t")


def test_a_postgres_without_a_byte_says_why_it_is_away(one_disk: Path, start_server: StartServer) -> None:
    server = start_server(SLUICE_DATA=str(one_disk), SLUICE_STORAGE_RESERVE="0")
    server.sql("CREATE TABLE t (id INT); INSERT INTO t VALUES (1)")
    dsn = embedded_dsn(server)
    fill(one_disk / "ballast", leave=0)

    said: list[str] = []

    def away() -> bool:
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("SELECT pg_logical_emit_message(false, 'test', repeat('x', 1000))")
            conn.execute("SELECT pg_switch_wal()")
        said.append(str(httpx.get(f"{server.url}/readyz", timeout=30).json()["postgres"].get("detail")))
        return "o space left" in said[-1]

    until(away)
    assert str(one_disk) not in said[-1]
    with pytest.raises(Refused) as refused:
        server.sql("INSERT INTO t VALUES (2)")
    assert refused.value.status in (503, 507)
    assert "space" in refused.value.document["detail"] or "No space left" in refused.value.document["detail"], refused.value.document
    (one_disk / "ballast").unlink()
    until(lambda: answers(server))
    assert sorted(server.sql("SELECT id FROM t")) == [[1], [2]]
    assert httpx.get(f"{server.url}/readyz", timeout=30).json()["postgres"] == {"ok": True}
    assert_agreement(dsn, server, "default.t")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB."""
    with mounted(tmp_path / "disk", megabytes=24) as directory:
        yield directory


@pytest.fixture
def one_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 MB, for all that a server writes."""
    with mounted(tmp_path / "disk", megabytes=300) as directory:
        new_cluster.copy_to(directory)
        yield directory


def test_one_disk_nearly_full_takes_no_new_rows_and_all_else_goes_on(one_disk: Path, start_server: StartServer) -> None:
    server = start_server(SLUICE_DATA=str(one_disk))
    server.sql("CREATE TABLE t (id INT); INSERT INTO t VALUES (1), (2); CREATE TABLE gone (id INT); INSERT INTO gone VALUES (1)")
    ballast = one_disk / "ballast"
    fill(ballast, leave=10 * MEGABYTE)  # of the 15 kept free
    time.sleep(0.5)
    csv = b"id\n3\n"
    for refused in (lambda: server.sql("INSERT INTO t VALUES (3)"), lambda: server.append("default.t", csv, "text/csv")):
        with pytest.raises(Refused) as problem:
            refused()
        assert problem.value.status == 507
        assert "SLUICE_STORAGE_RESERVE" in problem.value.document["detail"]
    health = httpx.get(f"{server.url}/readyz", timeout=30).json()
    assert health["disk"]["ok"] is False, health
    assert f"free at {one_disk.name}" in health["disk"]["detail"], "anybody may ask: no directory of the machine"
    assert f'sluice_disk_reserved_bytes{{directory="{one_disk}"}}' in httpx.get(f"{server.url}/metrics", timeout=30).text
    assert "Nearly full" in httpx.get(f"{server.url}/ui/", timeout=30).text
    assert server.sql("SELECT id FROM t LIMIT 5") == [[1], [2]]
    server.sql("CREATE TABLE empty (id INT); DROP TABLE gone; CALL sys.expire_snapshots(`table` => 'default.t')")
    ballast.unlink()
    time.sleep(0.5)
    server.sql("INSERT INTO t VALUES (3)")
    assert server.value("SELECT COUNT(*) FROM t") == 3
    assert httpx.get(f"{server.url}/readyz", timeout=30).json()["disk"] == {"ok": True}


def test_a_start_on_a_full_disk_says_so_and_one_with_room_finds_all(one_disk: Path, start_server: StartServer) -> None:
    server = start_server(SLUICE_DATA=str(one_disk))
    server.sql("CREATE TABLE t (id INT); INSERT INTO t VALUES (1), (2)")
    assert server.terminate() == 0
    ballast = one_disk / "ballast"
    fill(ballast, leave=0)
    with pytest.raises(RuntimeError, match=r"ended with status 1:[^$]*has no space left\. Free space there"):
        server.start()
    ballast.unlink()
    server.start()
    server.sql("INSERT INTO t VALUES (3)")
    assert server.sql("SELECT id FROM t") == [[1], [2], [3]]


def held_though_deleted(server: RunningServer, directory: Path) -> list[str]:
    """Files that take space and have no name, because the server or its JVM still has them open."""
    held = []
    for process in (server.process, *server.process.children(recursive=True)):
        for handle in Path(f"/proc/{process.pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                if (name := os.readlink(handle)).startswith(str(directory)) and name.endswith("(deleted)"):
                    held.append(name)
    return held


@pytest.mark.spark
@pytest.mark.torture
def test_disk_full(small_disk: Path, start_server: StartServer) -> None:
    """The last pages of a disk are in `tests/faults/test_small_disk.py`, a disk that Spark fills in `test_reserve`."""
    server = start_server(SLUICE_WAREHOUSE=str(small_disk / "warehouse"))
    server.wait_for_spark()
    server.sql("CREATE TABLE t (id INT); INSERT INTO t VALUES (1)")
    ballast = small_disk / "ballast"
    body = pa.BufferOutputStream()
    noise = pa.table({"id": pa.array(memoryview(os.urandom(8 * MEGABYTE)).cast("i"))})
    pq.write_table(noise, body, compression="none")
    with contextlib.suppress(OSError), ballast.open("wb") as file:
        file.write(b"x" * 20 * MEGABYTE)
    before = server.sql("SELECT id FROM t")
    for attempt in (
        lambda: server.append("default.t", bytes(body.getvalue())),
        lambda: server.sql("INSERT INTO t SELECT CAST(rand() * 2000000000 AS INT) FROM range(0, 2500000)"),
    ):
        with pytest.raises(Refused) as refused:
            attempt()
        assert refused.value.status == 507, refused.value
        assert "space" in refused.value.document["detail"]
        assert server.sql("SELECT id FROM t") == before
    until(lambda: not held_though_deleted(server, small_disk), 60)
    filled = small_disk / "filled"
    with contextlib.suppress(OSError), filled.open("wb", buffering=0) as rest:
        while rest.write(b"x" * 1024):
            pass
    with pytest.raises(Refused) as refused:  # not even a row has space
        server.sql("INSERT INTO t VALUES (98)")
    assert refused.value.status == 507, refused.value
    left = [file for file in server.table_path("default.t").rglob("*.parquet") if "_staging" not in file.parts]
    assert len(left) == 1, "files of failed inserts were left"
    ballast.unlink()
    filled.unlink()
    server.append("default.t", bytes(body.getvalue()))
    server.sql("INSERT INTO t VALUES (2)")
    assert server.value("SELECT COUNT(*) FROM t") == 2 * MEGABYTE + 2
    assert_agreement(embedded_dsn(server), server, "default.t")


def running_insert(server: RunningServer) -> tuple[threading.Thread, list[httpx.Response]]:
    """An insert that runs on Spark for seconds, begun for sure: its first files are being written."""
    server.sql("CREATE TABLE t (id BIGINT) WITH ('bucket'='-1')")
    server.wait_for_spark()
    outcome: list[httpx.Response] = []
    statement = "INSERT INTO t SELECT id FROM range(0, 25000000) WHERE id < 5 OR HASH(id, 'salt') = 7"
    running = threading.Thread(target=lambda: outcome.append(server.post(statement)))
    running.start()
    until(lambda: any("_temporary" in path.parts for path in server.table_path("default.t").rglob("*")))
    return running, outcome


def tell_the_server(server: RunningServer) -> None:
    server.process.terminate()


def press_ctrl_c(server: RunningServer) -> None:
    """What a terminal does: everything in the foreground's process group hears it."""
    os.killpg(server.process.pid, signal.SIGINT)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.torture
@pytest.mark.parametrize("stop", [tell_the_server, press_ctrl_c])
def test_a_stopping_server_lets_running_statements_finish(start_server: StartServer, stop: Callable[[RunningServer], None]) -> None:
    """A short statement does in `tests/server/process/test_process.py`; Ctrl-C is pressed in `tests/docs/test_readme.py`, too."""
    server = start_server(SLUICE_DRAIN_SECONDS="120")
    running, outcome = running_insert(server)
    children = server.process.children(recursive=True)
    assert not outcome, "the insert was over too soon"
    stop(server)
    assert server.wait(150) == 0
    running.join()
    assert outcome[0].status_code == 200, outcome[0].text
    assert not any(runs(child.pid) for child in children), "something outlived its server"
    server.start()
    assert server.value("SELECT COUNT(*) FROM t") == outcome[0].json()["rows"][0][0]


def resident(server: RunningServer) -> int:
    """Bytes of the Python process that lie in memory."""
    return int(server.process.memory_info().rss)


class Peak:
    """The most memory the server's Python process had while the block ran."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._done = threading.Event()
        self.before = self.most = resident(server)

    def __enter__(self) -> Peak:
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            self.most = max(self.most, resident(self._server))

    def __exit__(self, *problem: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def growth(self) -> int:
        return self.most - self.before


def big_table(server: RunningServer, rows: int) -> None:
    """A table ``big`` of four columns, a third of it text."""
    server.sql("CREATE TABLE big (id BIGINT, a DOUBLE, b STRING, c TIMESTAMP(3)) WITH ('bucket'='-1')")
    columns = "id, RAND() AS a, CONCAT('row number ', id) AS b, TIMESTAMP '2024-01-01 00:00:00' AS c"
    server.sql(f"INSERT INTO big SELECT {columns} FROM range(0, {rows})", timeout=600)


@pytest.mark.torture
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("rows", [800_000, pytest.param(20_000_000, marks=[pytest.mark.torture, pytest.mark.timeout(3600)])])
def test_a_large_select_has_bounded_memory(start_server: StartServer, rows: int) -> None:
    server = start_server()
    big_table(server, rows)
    server.sql("SELECT * FROM big LIMIT 10")  # what is loaded once is not the result's
    for accept, query in (
        ("application/vnd.apache.arrow.stream", "SELECT * FROM big"),
        ("application/x-ndjson", "SELECT * FROM big"),
        ("text/csv", "SELECT id, UPPER(b) AS b FROM big"),  # by Spark, through the spool
    ):
        with (
            Peak(server) as peak,
            httpx.stream("POST", f"{server.url}/sql", content=query, headers={"Accept": accept}, timeout=900) as answer,
        ):
            assert answer.status_code == 200
            lines = 0
            for chunk in answer.iter_bytes():
                lines += chunk.count(b"\n")
        assert peak.growth < 300 * MEGABYTE, f"{accept}: {peak.growth / MEGABYTE:.0f} MB"
        if accept == "application/x-ndjson":
            assert lines == rows
        if accept == "text/csv":
            assert lines == rows + 1
    spool = server.warehouse / ".sluice" / "spool"
    left = [file for file in spool.rglob("*") if file.is_file() and file.name != ".alive"]  # a gateway's sign of life stays
    assert not left, "results were left on disk"


def test_a_slow_reader_holds_back_nobody(server: RunningServer, database: str) -> None:
    rows = 400_000
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": pa.array(range(rows), pa.int64()), "note": [f"a note about row {n}" for n in range(rows)]}), sink)
    server.sql(f"CREATE TABLE {database}.t (id BIGINT, note STRING)")
    server.append(f"{database}.t", bytes(sink.getvalue()))
    server.sql(f"SELECT * FROM {database}.t LIMIT 1")
    where = urlsplit(server.url)
    assert where.hostname is not None
    request = f"SELECT * FROM {database}.t".encode()
    head = f"POST /sql HTTP/1.1\r\nHost: x\r\nAccept: application/x-ndjson\r\nContent-Length: {len(request)}\r\n\r\n".encode()
    slow = [socket.create_connection((where.hostname, where.port or 80)) for _ in range(8)]
    try:
        with Peak(server) as peak:
            for client in slow:
                client.sendall(head + request)
                client.recv(100)  # and then it falls asleep
            began = time.monotonic()
            server.sql(f"INSERT INTO {database}.t VALUES (-1, 'quick')")
            assert server.value(f"SELECT COUNT(*) FROM {database}.t") == rows + 1
            assert time.monotonic() - began < 60, "those that read nothing would be waited for"
        assert peak.growth < 300 * MEGABYTE
    finally:
        for client in slow:
            client.close()
