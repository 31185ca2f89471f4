"""The command against a real server: what it prints, sends and exits with."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.running import RunningServer
from tests.serving import in_background

SLUICE = str(Path(sys.executable).parent / "sluice")


def sluice(*arguments: str, url: str, text: str = "", token: str = "") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    environment |= {"SLUICE_URL": url} | ({"SLUICE_TOKEN": token} if token else {})
    return subprocess.run([SLUICE, *arguments], env=environment, input=text, capture_output=True, text=True, timeout=120, check=False)


def test_version_and_help_need_no_server() -> None:
    versions = [f"{distribution} {version(distribution)}" for distribution in ("sluice-client", "sluice-server")]
    assert sluice("version", url="http://127.0.0.1:1").stdout.splitlines() == versions
    assert {"serve", "migrate", "sql", "load", "version"} <= set(sluice("--help", url="").stdout.split())


def test_a_server_that_is_not_there_is_said_in_one_line() -> None:
    done = sluice("sql", "SELECT 1", url="http://127.0.0.1:1")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "cannot be reached" in done.stderr


@pytest.mark.spark
def test_sql_in_every_format(server: RunningServer, database: str) -> None:
    setup = f"CREATE TABLE {database}.t (id INT, s STRING); INSERT INTO {database}.t VALUES (1, 'a'), (2, NULL)"
    assert sluice("sql", setup, url=server.url).returncode == 0
    query = "SELECT * FROM t"
    assert sluice("sql", query, "-d", database, url=server.url).stdout == "id | s\n---+-----\n 1 | a\n 2 | NULL\n(2 rows)\n"
    assert json.loads(sluice("sql", query, "-d", database, "--format", "json", url=server.url).stdout)["rows"] == [[1, "a"], [2, None]]
    assert sluice("sql", "--format", "csv", "-d", database, url=server.url, text=query).stdout == "id,s\n1,a\n2,\n"
    assert sluice("sql", "-f", "-", "--format", "ndjson", "-d", database, url=server.url, text=query).stdout.startswith(
        '{"id":1,"s":"a"}\n'
    )


@pytest.mark.spark
def test_an_error_goes_to_stderr_with_its_place(server: RunningServer) -> None:
    done = sluice("sql", "SHOW DATABASES;\nSELEC 1", url=server.url)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("sluice: SqlSyntaxError: ")
    assert "line 2" in done.stderr


@pytest.mark.spark
def test_load_knows_formats_by_name_and_repeats_safely(server: RunningServer, database: str, tmp_path: Path) -> None:
    server.sql(f"CREATE TABLE {database}.t (id INT, s STRING)")
    table = pa.table({"id": pa.array([1, 2], pa.int32()), "s": ["a", "b"]})
    pq.write_table(table, tmp_path / "a.parquet")
    with pa.ipc.new_stream(tmp_path / "b.arrow", table.schema) as writer:
        writer.write_table(table)
    (tmp_path / "c.csv").write_text("s,id\nc,3\n")
    (tmp_path / "d.ndjson").write_text('{"id":4}\n')
    files = [str(tmp_path / name) for name in ("a.parquet", "b.arrow", "c.csv", "d.ndjson")]
    for attempt in ("rows, snapshot", "loaded before under this key"):
        done = sluice("load", f"{database}.t", *files, "--retry-key", "k", url=server.url)
        assert (done.returncode, done.stderr.count(attempt)) == (0, 4), done.stderr
    assert server.sql(f"SELECT count(*), max(id) FROM {database}.t") == [[6, 4]]
    (tmp_path / "e.xml").write_text("<x/>")
    assert "must end in one of" in sluice("load", f"{database}.t", str(tmp_path / "e.xml"), url=server.url).stderr
    (tmp_path / "f.csv").write_text("id\nx\n")
    refused = sluice("load", f"{database}.t", str(tmp_path / "f.csv"), url=server.url)
    assert refused.returncode == 1
    assert "--retry-key" in refused.stderr


class _Flaky(http.server.BaseHTTPRequestHandler):
    """Answers 503 first and then well, and remembers what it was sent."""

    seen: list[tuple[str, str, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append((self.path, self.headers["Idempotency-Key"], body))
        first = len(self.seen) == 1
        answer = b'{"errorClass":"Unavailable","detail":"away"}' if first else b'{"rows":1,"snapshotId":1,"replayed":false}'
        self.send_response(503 if first else 200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        return None


@pytest.fixture
def flaky() -> Iterator[tuple[str, list[tuple[str, str, bytes]]]]:
    seen: list[tuple[str, str, bytes]] = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Flaky,), {"seen": seen})) as running:
        thread = in_background(running)
        yield f"http://127.0.0.1:{running.server_port}", seen
        running.shutdown()
        thread.join()


def test_a_busy_server_is_asked_again_under_the_same_key(flaky: tuple[str, list[tuple[str, str, bytes]]], tmp_path: Path) -> None:
    url, seen = flaky
    (tmp_path / "a.csv").write_text("id\n1\n")
    done = sluice("load", "my table", str(tmp_path / "a.csv"), url=url)
    assert done.returncode == 0, done.stderr
    assert seen[0] == seen[1]
    assert (seen[0][0], seen[0][2]) == ("/tables/default/my%20table/rows", b"id\n1\n")


class _Notifying(http.server.BaseHTTPRequestHandler):
    """Answers every statement with one row and what is to be known of its tables."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        answer = b"id\n1\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        for notice in ('Table default.\\u00e4 is \\"old\\"', "and so is b"):
            self.send_header("X-Notice", notice)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        return None


def test_what_is_to_be_known_of_tables_goes_to_stderr() -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Notifying) as running:
        thread = in_background(running)
        done = sluice("sql", "SELECT * FROM ä", "--format", "csv", url=f"http://127.0.0.1:{running.server_port}")
        running.shutdown()
        thread.join()
    assert (done.returncode, done.stdout) == (0, "id\n1\n")
    assert done.stderr.splitlines() == ['Table default.ä is "old"', "and so is b"]


def test_a_name_with_dots_stands_in_backquotes(flaky: tuple[str, list[tuple[str, str, bytes]]], tmp_path: Path) -> None:
    url, seen = flaky
    (tmp_path / "a.csv").write_text("id\n1\n")
    assert sluice("load", "sluice.`my.db`.`a.b`", str(tmp_path / "a.csv"), url=url).returncode == 0
    assert {path for path, _, _ in seen} == {"/tables/my.db/a.b/rows"}
    refused = sluice("load", "my.db.t", str(tmp_path / "a.csv"), url=url)
    assert (refused.returncode, "stands in backquotes" in refused.stderr) == (2, True)


class _Slow(http.server.BaseHTTPRequestHandler):
    """A server whose statement takes until its progress was asked for twice."""

    asked: list[str]
    enough: threading.Event

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.enough.wait(100)
        self._answer(b'{"columns":[{"name":"n","type":"INT"}],"rows":[\n[1]\n]}\n', self.headers["X-Request-Id"])

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if len(self.asked) >= 3:
            self.enough.set()
        self._answer(b'{"progress":{"stage":"merging files of d.t","done":3,"total":10,"bytesDone":1,"bytesTotal":2}}', "")

    def _answer(self, body: bytes, request_id: str) -> None:
        self.asked.append(request_id)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        return None


def all_of(terminal: int) -> str:
    """What was written to a terminal that nobody has open any more; a read gives 4 KB of it at most."""
    shown = b""
    with contextlib.suppress(OSError):  # its end
        while part := os.read(terminal, 1 << 16):
            shown += part
    return shown.decode()


def test_a_bar_shows_how_far_a_long_statement_is() -> None:
    asked: list[str] = []
    handler = type("Handler", (_Slow,), {"asked": asked, "enough": threading.Event()})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = in_background(running)
        terminal, theirs = os.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
        command = [SLUICE, "sql", "SELECT 1", "--url", f"http://127.0.0.1:{running.server_port}"]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=theirs, timeout=120, check=False)
        os.close(theirs)
        shown = all_of(terminal)
        os.close(terminal)
        running.shutdown()
        thread.join()
    assert (done.returncode, done.stdout) == (0, b"n\n-\n1\n(1 row)\n")
    assert "merging files of d.t" in shown
    assert "3/10" in shown
    paths = {path for path in asked if path.startswith("/statements/")}
    (statement,) = {one for one in asked if one and not one.startswith("/")}
    assert paths == {f"/statements/{statement}"}
