"""Servers of one catalog behind a balancer without stickiness: each answers for what another knows."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest

from catalog import CatalogStore
from lake.peers import Peers
from lake.process_name import process_space
from model.work.handle import new_handle, server_of
from server.sql.peer_connections import PROOF, PROVE, proof
from sluice.dbapi import connect
from sluice.errors import OperationalError, ProgrammingError
from tests.balancer import Balancer
from tests.fix_memory import LastingPath
from tests.running import RunningServer
from tests.waiting import eventually

TOKEN = "t0ken-of-both"
ALLOWED = {"Authorization": f"Bearer {TOKEN}"}
ROUNDS = 4
SECRET = re.compile(r'name="csrf-token" content="([^"]+)"')


Pair = tuple[Balancer, RunningServer, RunningServer]


@pytest.fixture(scope="module")
def pair(module_dsn: str, lasting_path: LastingPath) -> Iterator[Pair]:
    """The balancer, and the two servers behind it."""
    directory = lasting_path("pair")
    shared = {"SLUICE_CATALOG_DSN": module_dsn, "SLUICE_WAREHOUSE": str(directory / "warehouse"), "SLUICE_TOKEN": TOKEN}
    shared["SLUICE_SPARK_MASTER"] = "spark://127.0.0.1:9"  # where there is none: what needs Spark waits for it
    servers = [RunningServer(directory / name, **shared) for name in ("first", "second")]
    try:
        balancer = Balancer([server.start().url for server in servers])
        with httpx.Client(base_url=balancer.url, headers=ALLOWED, timeout=120) as http:
            assert http.post("/sql", content="CREATE TABLE t (id INT)").status_code == 200
            assert http.post("/sql", content="INSERT INTO t VALUES (1), (2), (3)").status_code == 200
        yield balancer, servers[0], servers[1]
        balancer.close()
    finally:
        for server in servers:
            server.stop()


def later(http: httpx.Client, text: str) -> str:
    answer = http.post("/sql", content=text, headers={"Prefer": "respond-async"})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["statementId"])


def test_a_statement_is_canceled_through_any_server(pair: Pair) -> None:
    balancer, first, second = pair
    with httpx.Client(base_url=balancer.url, headers=ALLOWED, timeout=120) as http:
        for server in (first, second, first):
            name = uuid4().hex
            answers: list[httpx.Response] = []
            waiting = threading.Thread(target=lambda: answers.append(on_spark(server, name)))  # noqa: B023 - joined below
            waiting.start()
            assert eventually(lambda: http.get(f"/statements/{name}").status_code == 200)  # noqa: B023 - asked at once
            assert [http.get(f"/statements/{name}").status_code for _ in range(2)] == [200, 200]
            assert http.delete(f"/statements/{name}").status_code == 200
            waiting.join(120)
            assert [answer.json()["errorClass"] for answer in answers] == ["StatementCanceled"]
            assert {http.get(f"/statements/{name}").status_code for _ in range(2)} == {404}


def on_spark(server: RunningServer, name: str) -> httpx.Response:
    """A statement that waits for Spark, by a name of its client's."""
    return httpx.post(f"{server.url}/sql", content="SELECT sum(id) FROM t", headers={**ALLOWED, "X-Request-Id": name}, timeout=120)


def test_what_one_server_knows_every_server_answers_for(pair: Pair) -> None:
    balancer, *_ = pair
    with httpx.Client(base_url=balancer.url, headers=ALLOWED, timeout=120) as http:
        owners = set()
        for extra in range(ROUNDS):
            if extra % 2:
                http.get("/livez")  # so that either server is asked first
            statement = later(http, "SELECT id FROM t")
            owners.add(server_of(statement))
            for _ in range(2):
                assert http.get(f"/statements/{statement}?wait=20").json()["state"] == "FINISHED"
                answer = http.get(f"/statements/{statement}/result", headers={"Accept": "application/json", "Accept-Encoding": "gzip"})
                assert (answer.status_code, answer.json()["rows"]) == (200, [[1], [2], [3]])
            assert http.delete(f"/statements/{statement}").status_code == 200
            assert {http.get(f"/statements/{statement}").status_code for _ in range(2)} == {404}
        assert len(owners) == 2
        unknown = {http.get(f"/statements/{name}").status_code for name in (str(uuid4()), "no-handle") for _ in range(2)}
        assert unknown == {404}
        passed = http.get(f"/statements/{later(http, 'SHOW TABLES')}", headers={"Authorization": "Bearer wrong"})
        assert passed.status_code == 401


def flink(http: httpx.Client, method: str, path: str, body: Any = None) -> dict[str, Any]:
    answer = http.request(method, path, content=json.dumps(body or {}), headers={"Content-Type": "application/json"})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_flinks_sessions_are_of_one_server_and_asked_of_all(pair: Pair) -> None:
    balancer, *_ = pair
    with httpx.Client(base_url=balancer.url, headers=ALLOWED, timeout=120) as http:
        for _ in range(ROUNDS):
            session = flink(http, "POST", "/v2/sessions", {"sessionName": "s"})["sessionHandle"]
            http.get("/livez")
            of_session = f"/v2/sessions/{session}"
            for database in ("a", "b"):
                flink(http, "POST", f"{of_session}/configure-session", {"statement": f"CREATE DATABASE IF NOT EXISTS {database}"})
                flink(http, "POST", f"{of_session}/configure-session", {"statement": f"USE {database}"})
            operation = flink(http, "POST", f"{of_session}/statements", {"statement": "SHOW CURRENT DATABASE"})["operationHandle"]
            rows = []
            uri: str | None = f"{of_session}/operations/{operation}/result/0"
            while uri is not None:
                page = flink(http, "GET", uri)
                rows += page.get("results", {}).get("data", [])
                uri = page.get("nextResultUri")
            assert [row["fields"] for row in rows] == [["b"]]
            assert flink(http, "POST", f"{of_session}/heartbeat") == {}
            assert flink(http, "DELETE", of_session) == {"status": "CLOSED"}


def test_pages_know_a_visitor_on_every_server(pair: Pair) -> None:
    balancer, *_ = pair
    with httpx.Client(base_url=balancer.url, timeout=120) as browser:
        form = browser.get("/ui/login")
        (secret,) = SECRET.findall(form.text)
        known = browser.post("/ui/login", data={"_csrf": secret, "token": TOKEN, "next": "/ui/catalog"}, headers={"Origin": balancer.url})
        assert (known.status_code, known.headers["Location"]) == (303, "/ui/catalog")
        assert [browser.get("/ui/catalog").status_code for _ in range(ROUNDS)] == [200] * ROUNDS
        (secret,) = SECRET.findall(browser.get("/ui/catalog").text)
        script = {"X-CSRF-Token": secret, "Origin": balancer.url}
        for _ in range(ROUNDS):
            begun = browser.post("/sql", content="SHOW TABLES", headers={**script, "Prefer": "respond-async"})
            assert begun.status_code == 202, begun.text
            assert browser.get(f"/statements/{begun.json()['statementId']}?wait=20", headers=script).json()["state"] == "FINISHED"
            browser.get("/livez")


def test_a_cancel_that_reaches_nobody_is_told(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.dbapi._ARRIVAL_SECONDS", 0.5)  # for which it is waited in vain
    balancer, *_ = pair
    silent = Balancer([balancer.url])
    with connect(silent.url, token=TOKEN) as connection, connection.cursor() as cursor:
        with pytest.raises(ProgrammingError, match="Nothing was canceled: this cursor runs no statement"):
            cursor.cancel()
        cursor.execute("SHOW TABLES")
        with pytest.raises(ProgrammingError, match="Nothing was canceled: the statement has ended"):
            cursor.cancel()
        held = threading.Event()
        cursor.connection.request = _holding(cursor.connection.request, held)  # type: ignore[method-assign]
        thread = threading.Thread(target=cursor.execute, args=("SHOW DATABASES",))
        thread.start()
        assert eventually(lambda: cursor._asking)
        with pytest.raises(OperationalError, match="Nothing was canceled"):
            cursor.cancel()
        held.set()
        thread.join(60)
        assert ("default",) in cursor.fetchall()
    silent.close()


def _holding(request: Any, held: threading.Event) -> Any:
    """Keep statements from being sent until something happens."""

    def made(method: str, path: str, **more: Any) -> Any:
        if path == "/sql":
            assert held.wait(60)
        return request(method, path, **more)

    return made


def test_another_server_at_the_address_of_one_that_is_gone_does_not_answer_for_it(pair: Pair, module_dsn: str) -> None:
    """Killed and started again, a server has the same address and another number."""
    _, first, second = pair
    handle, space = new_handle(60001), process_space()
    with psycopg.connect(module_dsn, autocommit=True) as catalog, httpx.Client(base_url=first.url, headers=ALLOWED, timeout=120) as http:
        catalog.execute("INSERT INTO server (number, name, url) VALUES (60001, %s, %s)", (f"{space}/1", second.url))
        answer = http.get(f"/statements/{handle}")
        assert (answer.status_code, answer.json()["errorClass"]) == (503, "Unavailable")
        for told in (answer, http.get(f"/v2/sessions/{handle}")):
            assert "SLUICE_ADVERTISED_URL" in told.text
        catalog.execute("UPDATE server SET name = 'elsewhere.0/1', seen_at = now() WHERE number = 60001")
        here_alone = eventually(lambda: "by its own machine alone" in http.get(f"/statements/{handle}").text)
        assert here_alone, "an address of this machine is another one's there"


def test_a_server_that_could_not_tell_that_it_lives_is_asked_itself(pair: Pair, module_dsn: str) -> None:
    """As after Postgres was away for a while."""
    _, first, second = pair
    with httpx.Client(base_url=second.url, headers=ALLOWED, timeout=120) as http:
        statement = later(http, "SHOW TABLES")
    with psycopg.connect(module_dsn, autocommit=True) as catalog, httpx.Client(base_url=first.url, headers=ALLOWED, timeout=120) as http:
        catalog.execute("UPDATE server SET seen_at = now() - interval '1 hour' WHERE number = %s", (server_of(statement),))
        until = time.monotonic() + 3  # longer than what is known of others is good for
        while time.monotonic() < until:
            assert http.get(f"/statements/{statement}").status_code == 200
            time.sleep(0.2)
        catalog.execute("UPDATE server SET seen_at = now() WHERE number = %s", (server_of(statement),))


def head_of(client: socket.socket) -> str:
    """A request up to its body, in however many pieces it comes; less where no more does."""
    found = b""
    while b"\r\n\r\n" not in found and (part := client.recv(1 << 16)):
        found += part
    return found.decode()


def test_what_may_have_been_done_by_a_server_that_did_not_answer_is_told_so(pair: Pair, module_dsn: str) -> None:
    _, first, _ = pair
    handle = new_handle(60002)
    with contextlib.closing(CatalogStore(module_dsn)) as store:
        seal = Peers(store, "test.0/1").seal

    def hang_up() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, end = listening.accept()
                with client, contextlib.suppress(OSError):
                    for asked in re.findall(rf"(?i){PROVE}: (.*?)\r", head_of(client)):
                        shown = proof(60002, seal, asked, (end[0], str(end[1])))
                        client.sendall(f"HTTP/1.1 204 No Content\r\n{PROOF}: {shown}\r\n\r\n".encode())
                        head_of(client)

    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        psycopg.connect(module_dsn, autocommit=True) as catalog,
        httpx.Client(base_url=first.url, headers=ALLOWED, timeout=120) as http,
    ):
        threading.Thread(target=hang_up, daemon=True).start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        catalog.execute("INSERT INTO server (number, name, url) VALUES (60002, %s, %s)", (f"{process_space()}/1", url))
        read = http.get(f"/statements/{handle}")
        written = http.post(f"/v2/sessions/{handle}/statements", json={"statement": "INSERT INTO t VALUES (4)"})
        listening.shutdown(socket.SHUT_RDWR)
    assert (read.status_code, read.json()["errorClass"]) == (503, "Unavailable")
    assert "may or may not" in written.text
    assert "Try again" not in written.text


def test_pages_stop_and_close_what_another_server_has(pair: Pair) -> None:
    _, first, second = pair
    with httpx.Client(base_url=second.url, headers=ALLOWED, timeout=120) as http:
        session = flink(http, "POST", "/v2/sessions", {"sessionName": "s"})["sessionHandle"]
        waiting = later(http, "SELECT sum(id) FROM t")  # for Spark
    with httpx.Client(base_url=first.url, timeout=120) as browser:
        (secret,) = SECRET.findall(browser.get("/ui/login").text)
        browser.post("/ui/login", data={"_csrf": secret, "token": TOKEN, "next": "/ui/catalog"}, headers={"Origin": first.url})
        assert "sum(id)" in browser.get(f"/ui/statements/{waiting}").text
        assert eventually(lambda: "each of which shows its own" in browser.get("/ui/statements").text), "a server may be silent for a while"
        (secret,) = SECRET.findall(browser.get("/ui/statements").text)
        for path in (f"/ui/statements/{waiting}/cancel", f"/ui/sessions/{session}/close"):
            answer = browser.post(path, data={"_csrf": secret}, headers={"Origin": first.url})
            assert answer.status_code == 303, answer.text
    with httpx.Client(base_url=second.url, headers=ALLOWED, timeout=120) as http:
        assert http.get(f"/statements/{waiting}").json()["state"] == "CANCELED"
        assert "SessionNotExist" in http.get(f"/v2/sessions/{session}").text


def test_the_audit_log_tells_of_what_was_passed_on_once_and_from_where(pair: Pair) -> None:
    """A page's cancel was told twice, what came by another server was of that one's address, and who canceled for others was not told."""
    _, first, second = pair
    client = httpx.HTTPTransport(local_address="127.0.0.2")
    with httpx.Client(base_url=second.url, headers=ALLOWED, timeout=120) as http:
        token = http.post("/tokens", json={"name": "ada", "principal": "ada"}).json()["token"]
        http.post("/sql", content="GRANT SELECT ON t TO ada")
    with httpx.Client(base_url=second.url, headers={"Authorization": f"Bearer {token}"}, timeout=120) as hers:
        waiting, named = (later(hers, "SELECT sum(id) FROM t") for _ in range(2))
        session = flink(hers, "POST", "/v2/sessions", {"sessionName": "s"})["sessionHandle"]
    with httpx.Client(base_url=first.url, headers={"Authorization": f"Bearer {token}"}, transport=client, timeout=120) as hers:
        operation = flink(hers, "POST", f"/v2/sessions/{session}/statements", {"statement": "SHOW CATALOGS"})["operationHandle"]
    client = httpx.HTTPTransport(local_address="127.0.0.2")
    with httpx.Client(base_url=first.url, transport=client, timeout=120) as browser:
        (secret,) = SECRET.findall(browser.get("/ui/login").text)
        browser.post("/ui/login", data={"_csrf": secret, "token": TOKEN, "next": "/ui/catalog"}, headers={"Origin": first.url})
        (secret,) = SECRET.findall(browser.get("/ui/statements").text)
        gone = new_handle(server_of(waiting) or 0)
        for handle, status in ((waiting, 303), (gone, 404)):
            canceled = browser.post(f"/ui/statements/{handle}/cancel", data={"_csrf": secret}, headers={"Origin": first.url})
            assert canceled.status_code == status
        assert browser.delete(f"/statements/{named}", headers=ALLOWED).status_code == 200
    with httpx.Client(base_url=second.url, headers=ALLOWED, timeout=120) as http:
        asked = "SELECT principal, address, statement_id, action, outcome FROM sys.audit_log WHERE address = '127.0.0.2'"

        def entries() -> list[list[Any]]:
            rows = http.post("/sql", content=asked, headers={"Accept": "application/json"}).json()["rows"]
            return sorted(
                (row for row in rows if row[2] == operation or "cancel" in row[3] or "DELETE" in row[3]),
                key=str,
            )

        assert eventually(lambda: len(entries()) >= 4)
        time.sleep(1)  # a second entry would have come by now
        assert entries() == [
            ["ada", "127.0.0.2", operation, "SHOW CATALOGS", "FINISHED"],
            *sorted(
                [
                    ["administrator", "127.0.0.2", None, f"DELETE /statements/{named} /* a statement of ada */", "FINISHED"],
                    ["administrator", "127.0.0.2", None, f"POST /ui/statements/{waiting}/cancel", "FINISHED"],
                    ["administrator", "127.0.0.2", None, f"POST /ui/statements/{gone}/cancel", "ERROR"],
                ],
                key=str,
            ),
        ]


@pytest.mark.torture
def test_what_a_server_knew_that_is_gone_is_told_so(pair: Pair) -> None:
    """After half a minute of silence; who is taken for gone when is in `tests/lake/test_peers.py`, what is told in `test_forward.py`."""
    _, first, second = pair
    with httpx.Client(base_url=second.url, headers=ALLOWED, timeout=120) as http:
        statement, session = later(http, "SHOW TABLES"), flink(http, "POST", "/v2/sessions")["sessionHandle"]
    with httpx.Client(base_url=first.url, headers=ALLOWED, timeout=120) as http:
        assert http.get(f"/statements/{statement}?wait=20").json()["state"] == "FINISHED"
        second.kill()
        away = http.get(f"/statements/{statement}")  # it was seen a moment ago, and may come back
        assert (away.status_code, away.json()["errorClass"]) == (503, "Unavailable")
        assert "Retry-After" in away.headers
        second.start()
        gone = eventually(lambda: http.get(f"/statements/{statement}").status_code == 410, 120)
        assert gone, http.get(f"/statements/{statement}").text
        assert http.get(f"/statements/{statement}").json()["errorClass"] == "ServerGone"
        assert "ServerGone" in http.get(f"/v2/sessions/{session}").text
