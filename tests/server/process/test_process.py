"""The server as a process: start, stop, kill, another of its kind, clients that go away."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import psycopg
import pytest

from server.process.data_directory import DataDirectoryLock
from tests.fix_server import StartServer
from tests.running import START_SECONDS, RunningServer, free_port, runs
from tests.waiting import eventually

SERVE = [str(Path(sys.executable).parent / "sluice"), "serve"]


def serve(tmp_path: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Try to serve, expecting that it ends by itself."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    return subprocess.run(SERVE, env=environment | settings, cwd=tmp_path, capture_output=True, text=True, timeout=START_SECONDS)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        # What else is said of settings is in tests/server/settings; here it is that it ends the process.
        pytest.param({"SLUICE_LISTEN": "0.0.0.0:0"}, "set SLUICE_TOKEN, or listen on 127.0.0.1", marks=pytest.mark.torture),
        ({"SLUICE_FLIGHT_LISTEN": "0.0.0.0:0"}, "SLUICE_FLIGHT_LISTEN names 0.0.0.0"),
        pytest.param({"SLUICE_LISTENN": "127.0.0.1:0"}, "Did you mean SLUICE_LISTEN?", marks=pytest.mark.torture),
        pytest.param({"SLUICE_SESSION_LIMIT": "none"}, "a whole number is expected", marks=pytest.mark.torture),
        ({"SLUICE_CATALOG_DSN": "host=h password secret"}, "SLUICE_CATALOG_DSN is no connection string of Postgres"),
    ],
)
def test_settings_that_cannot_be_end_the_process_with_one_line(tmp_path: Path, settings: dict[str, str], said: str) -> None:
    done = serve(tmp_path, SLUICE_DATA=str(tmp_path / "data"), **settings)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("sluice: ")
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
    assert "secret" not in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_catalog_of_a_newer_version_ends_the_process_with_one_line(tmp_path: Path, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE alembic_version SET version_num = '9999'")
    done = serve(tmp_path, SLUICE_DATA=str(tmp_path / "data"), SLUICE_CATALOG_DSN=dsn, SLUICE_LISTEN="127.0.0.1:0")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "The catalog's schema is 9999" in line


def test_a_postgres_that_is_away_ends_the_start_with_one_line(tmp_path: Path) -> None:
    dsn = f"postgresql://someone:secret@127.0.0.1:{free_port()}/lake"
    done = serve(tmp_path, SLUICE_DATA=str(tmp_path / "data"), SLUICE_CATALOG_DSN=dsn, SLUICE_LISTEN="127.0.0.1:0")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("sluice: The catalog's Postgres (SLUICE_CATALOG_DSN) cannot be used: ")
    assert "refused" in line
    assert "secret" not in line


@pytest.mark.parametrize("with_dsn", [True, False])
def test_a_second_server_on_a_data_directory_ends_at_once(tmp_path: Path, dsn: str, with_dsn: bool) -> None:
    """Where the catalog was elsewhere it served, and cleared the other's scratch files."""
    data = tmp_path / "data"
    data.mkdir()
    first = DataDirectoryLock(data)
    settings = {"SLUICE_DATA": str(data), "SLUICE_LISTEN": "127.0.0.1:0"} | ({"SLUICE_CATALOG_DSN": dsn} if with_dsn else {})
    done = serve(tmp_path, **settings)
    first.release()
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert f"in use by another server (process {os.getpid()})" in line


_TOLD_IN_ANOTHER_THREAD = """
import signal, sys, threading, time
from server.process.process import Stop

stop = Stop()
def told():
    time.sleep(0.5)  # the main thread sleeps by then
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    time.sleep(0.5)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
threading.Thread(target=told).start()
stop.wait()
print("stopping", flush=True)
stop.hurry.wait()
print("at once", flush=True)
"""


def test_a_signal_that_another_thread_took_stops_the_process() -> None:
    """The kernel may give a process's signal to any thread; a server that had taken one so went on forever."""
    done = subprocess.run([sys.executable, "-P", "-c", _TOLD_IN_ANOTHER_THREAD], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split("\n")[:2]) == (0, ["stopping", "at once"])


@pytest.mark.spark
def test_a_server_from_start_to_stop(start_server: StartServer, tmp_path: Path) -> None:
    (tmp_path / "server" / "data").mkdir(parents=True)  # one that is there is left alone: the server makes and migrates its Postgres
    server = start_server(SLUICE_SPARK_START="with-server")
    begun = httpx.get(f"{server.url}/readyz", timeout=60)
    assert (begun.status_code, begun.json()["spark"]["ok"]) in ((503, False), (200, True)), "it takes longer, unless who asks comes late"
    server.wait_for_spark()  # which asks it nothing
    assert httpx.get(f"{server.url}/readyz", timeout=60).json()["spark"] == {"ok": True}
    assert len(server.jvms()) == 1
    told = server.words().splitlines()  # on the terminal: a line with the URL, three to try, Flight's, and nothing of Spark's
    assert [line[:5] for line in told] == ["Sluic", "Try:", "  cur", "  cur", "  cur", "Arrow"]
    assert (server.data / "logs" / "spark.log").stat().st_size > 0
    postgres = server.postgres_pid()
    assert postgres is not None
    second = serve(server.directory, SLUICE_DATA=str(server.data), SLUICE_LISTEN="127.0.0.1:0")
    assert second.returncode == 1
    assert f"in use by another server (process {server.process.pid})" in second.stderr
    server.sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)")
    children = server.process.children(recursive=True)
    answers: list[httpx.Response] = []
    query = "INSERT INTO t SELECT CAST(sum(id % 7) AS INT) FROM (SELECT explode(sequence(1, 1000)) AS id FROM range(0, 10000))"
    asking = threading.Thread(target=lambda: answers.append(server.post(query, X_Request_Id="asked-before")))
    asking.start()
    assert eventually(lambda: httpx.get(f"{server.url}/statements/asked-before", timeout=60).status_code == 200)
    assert server.terminate() == 0
    asking.join(120)
    assert answers[0].status_code == 200, "what runs is finished: " + answers[0].text
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.url}/livez")
    assert not runs(postgres)
    assert not (server.data / "postgres" / "postmaster.pid").exists()
    assert eventually(lambda: not any(runs(child.pid) for child in children))
    assert "Traceback" not in server.words()
    server.start(SLUICE_SPARK_START="when-needed")
    assert server.sql("SELECT * FROM t") == [[1], [30_030_000]]


def spark_told(server: RunningServer) -> tuple[int, dict[str, object]]:
    answer = httpx.get(f"{server.url}/readyz", timeout=60)
    return answer.status_code, answer.json()["spark"]


@pytest.mark.spark
@pytest.mark.parametrize("spark_again", [False, pytest.param(True, marks=pytest.mark.torture)], ids=["", "Spark again"])
def test_spark_starts_when_it_is_needed_and_a_killed_server_leaves_nothing_running(start_server: StartServer, spark_again: bool) -> None:
    """That Spark may start with the server is seen in `test_a_server_from_start_to_stop`."""
    server = start_server(SLUICE_SPARK_START="when-needed")
    server.sql("CREATE TABLE t (id INT)")
    server.sql("INSERT INTO t VALUES (1), (2)")
    assert server.sql("SELECT id FROM t WHERE id > 1") == [[2]]
    assert spark_told(server) == (200, {"ok": True, "detail": "It starts with the first statement that needs it."})
    assert "When needed" in httpx.get(f"{server.url}/", timeout=60, follow_redirects=True).text
    assert "sluice_spark_ready 0.0" in httpx.get(f"{server.url}/metrics", timeout=60).text
    assert server.jvms() == []
    assert server.value("SELECT sum(a.id * b.id) FROM t a JOIN t b ON a.id = b.id") == 5, "it waits for Spark"
    assert spark_told(server) == (200, {"ok": True})
    assert len(server.jvms()) == 1
    children = server.process.children(recursive=True)
    assert set(server.jvms()) & set(children)
    assert server.postgres_pid() in [child.pid for child in children]
    server.kill()
    assert eventually(lambda: not any(runs(child.pid) for child in children)), "something outlived its server"
    server.start()
    if spark_again:
        server.wait_for_spark()
        assert len([path for path in (server.data / "spark").iterdir() if path.is_dir()]) == 1
    assert server.sql("SELECT * FROM t") == [[1], [2]]
    assert server.terminate() == 0


@pytest.mark.spark
def test_a_spark_that_does_not_start_names_its_log(start_server: StartServer) -> None:
    server = start_server(SLUICE_SPARK_MASTER="nonsense")
    answer = server.post("SELECT explode(sequence(1, 2))")
    assert answer.status_code == 503, answer.text + server.words()
    assert f"Its log says why: {server.data}/logs/spark.log" in answer.json()["detail"]
    assert server.sql("SHOW TABLES") == []


@pytest.mark.spark
def test_a_pid_file_that_names_somebody_else_is_no_postgres(start_server: StartServer) -> None:
    server = start_server()
    server.sql("CREATE TABLE t (a INT)")
    assert server.terminate() == 0
    lines = f"{os.getpid()}\n{server.data}/postgres\n1700000000\n5432\n{server.data}/postgres\n\n  1 1\nready   \n"
    (server.data / "postgres" / "postmaster.pid").write_text(lines)  # as a container's restart leaves it
    server.start()
    assert server.sql("SHOW TABLES") == [["t"]]


def connect(server: RunningServer) -> socket.socket:
    host, port = server.url.removeprefix("http://").rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=60)


def request(path: str, body: bytes, **headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@pytest.mark.spark
def test_a_client_that_goes_away_cancels_its_statement(server: RunningServer) -> None:
    server.wait_for_spark()
    with connect(server) as client:
        client.sendall(
            request(
                "/sql",
                b"SELECT count(*) FROM (SELECT explode(sequence(1, 1000)) AS id FROM range(0, 40000000)) WHERE hash(id, 'x') % 7 = 3",
                X_Request_Id="leaves",
            )
        )
        assert eventually(lambda: server.at_work("leaves"), pause=0.02)
    runs_on = f"{server.url}/statements/leaves"
    assert eventually(lambda: httpx.get(runs_on, timeout=60).json().get("state") != "RUNNING", 60), "by itself it takes minutes"
    assert server.value("SELECT 0 + 1") == 1


@pytest.mark.spark
def test_a_slow_reader_holds_up_nobody_and_no_memory(server: RunningServer, database: str) -> None:
    server.sql(f"CREATE TABLE {database}.big (id BIGINT, s STRING)")
    row = "x" * 200
    body = "".join(f"{number},{row}\n" for number in range(200_000)).encode()
    server.append(f"{database}.big", b"id,s\n" + body, "text/csv")
    before = server.process.memory_info().rss
    with connect(server) as client:
        client.sendall(request("/sql", f"SELECT * FROM {database}.big".encode()))
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
        time.sleep(2)
        assert server.value(f"SELECT count(*) FROM {database}.big") == 200_000
        assert server.process.memory_info().rss - before < 300 << 20
    assert eventually(lambda: server.sql("SHOW DATABASES") != [])


@pytest.mark.spark
def test_bodies_cut_off_in_the_middle_change_nothing(server: RunningServer, database: str) -> None:
    server.sql(f"CREATE TABLE {database}.t (a INT)")
    path = f"/tables/{database}/t/rows"
    with connect(server) as client:
        sized = request(path, b"a\n1\n2\n", Content_Type="text/csv").replace(b"Content-Length: 6", b"Content-Length: 600")
        client.sendall(sized)
        client.shutdown(socket.SHUT_WR)
        assert b" 400 " in client.recv(4096)
    with connect(server) as client:
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/csv\r\nTransfer-Encoding: chunked\r\n\r\n"
        client.sendall(head.encode() + b"6\r\na\n1\n2\n\r\n")
        client.shutdown(socket.SHUT_WR)
        assert b" 400 " in client.recv(4096)
    assert server.sql(f"SELECT * FROM {database}.t") == []


@pytest.mark.spark
def test_a_chunked_body_is_appended_as_it_comes(server: RunningServer, database: str) -> None:
    server.sql(f"CREATE TABLE {database}.t (a INT)")
    chunks = (b"a\n" if number == 0 else f"{number}\n".encode() for number in range(1001))
    url = f"{server.url}/tables/{database}/t/rows"
    answer = httpx.post(url, content=chunks, headers={"Content-Type": "text/csv"}, timeout=60)
    assert answer.json()["rows"] == 1000


@pytest.mark.spark
def test_a_get_with_a_body_leaves_the_connection_usable(server: RunningServer) -> None:
    with httpx.Client(base_url=server.url) as client:
        for _ in range(3):
            answer = client.request("GET", "/v1/info", content=b"{}", headers={"Content-Type": "application/json"})
            assert answer.json()["productName"] == "Sluice"


@pytest.mark.spark
def test_two_hundred_connections_at_once(server: RunningServer) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(200) as threads:
        answers = list(threads.map(lambda _: server.post("SHOW DATABASES").status_code, range(200)))
    assert set(answers) <= {200, 429}
    assert answers.count(200) >= 100


@pytest.mark.spark
def test_a_text_of_fifty_megabytes_is_refused_and_said_so(server: RunningServer) -> None:
    for body in (b"x" * (50 << 20), (b"x" * (1 << 20) for _ in range(50))):
        answer = httpx.post(f"{server.url}/sql", content=body, timeout=60)
        assert (answer.status_code, json.loads(answer.content)["errorClass"]) == (413, "StatementTooLarge")


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.torture)])
def test_a_stream_goes_on_after_the_server_was_killed(start_server: StartServer, kills: int) -> None:
    from tests.following import Follower

    server = start_server()
    server.sql("CREATE TABLE q (id BIGINT) WITH ('bucket' = '1')")
    statement = "SELECT id FROM q /*+ OPTIONS('consumer-id' = 'me') */"
    file = server.table_path("default.q") / "consumer" / "consumer-me"
    seen: list[int] = []

    def told(next_snapshot: int) -> bool:
        return eventually(lambda: file.exists() and json.loads(file.read_text())["nextSnapshot"] == next_snapshot)

    for round_ in range(kills):
        with Follower(server.url, statement) as stream:
            for number in range(5):
                server.sql(f"INSERT INTO q VALUES ({round_ * 10 + number})")
            found = [row["id"] for row in stream.rows(5)]
            assert told(round_ * 6 + 6)
            seen += found
            server.kill()
            assert stream.ended.wait(60)
        server.start()
        server.sql(f"INSERT INTO q VALUES ({round_ * 10 + 5})")
        with Follower(server.url, statement) as stream:
            seen += [row["id"] for row in stream.rows(1)]
            assert told(round_ * 6 + 7)
    assert seen == [10 * kill + number for kill in range(kills) for number in range(6)]


def test_a_stop_ends_streams_at_once(start_server: StartServer) -> None:
    from tests.following import Follower

    server = start_server(SLUICE_DRAIN_SECONDS="600")
    server.sql("CREATE TABLE q (id BIGINT) WITH ('bucket' = '1')")
    with Follower(server.url, "SELECT id FROM q") as stream:
        assert server.terminate(120) == 0
        assert stream.rows(1)[0]["$error"]["errorClass"] == "StreamEnded"
