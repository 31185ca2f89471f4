"""Clients that take nothing of what they asked for, over HTTP and Flight SQL: what they cost in memory is bounded for all of them."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pyarrow.flight as fl
import pytest

from gateway.gateway import Gateway
from server.flight.wire.messages import message, packed
from sql.execution import reading_memory
from tests.server.flight.conftest import Endpoint
from tests.server.flight.raw import begun
from tests.waiting import eventually

ROWS, ROW_BYTES = 160, 50_000
"""More than sockets, and an answer that waits for its client, take in: 8 MB of text."""
STATEMENT = "SELECT * FROM large"
ROOM, ASKED = 2, 5


def make_large(gateway: Gateway) -> None:
    gateway.run("CREATE TABLE large (id INT, s STRING)").close()
    for start in range(0, ROWS, 10):
        rows = ", ".join(f"({number}, '{os.urandom(ROW_BYTES // 2).hex()}')" for number in range(start, start + 10))
        gateway.run(f"INSERT INTO large VALUES {rows}").close()


def leave_room(gateway: Gateway, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory to read so many such results, all of one principal."""
    batches = iter(gateway.run(STATEMENT).batches())
    next(batches)
    (size,) = gateway._runner.held.reading().values()
    del batches
    assert size > ROWS * ROW_BYTES // 16
    monkeypatch.setattr(gateway._runner.held._reading.shared, "most", size * count * 5 // 4)
    monkeypatch.setattr(reading_memory, "_LAST_WAIT_SECONDS", 0)


def free(gateway: Gateway) -> bool:
    return gateway._runner.held.reading() == {}


@pytest.mark.parametrize("accept", ["application/x-ndjson", "application/vnd.apache.arrow.stream"])
def test_http(url: str, gateway: Gateway, accept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_large(gateway)
    leave_room(gateway, ROOM, monkeypatch)
    address = httpx.URL(url)
    body = f'{{"statement": "{STATEMENT}"}}'
    headers = {"Host": address.host, "Accept": accept, "Content-Type": "application/json", "Content-Length": len(body)}
    head = "".join(["POST /sql HTTP/1.1\r\n", *(f"{name}: {value}\r\n" for name, value in headers.items()), "\r\n"])
    with ExitStack() as opened:
        clients = list[socket.socket]()
        for _ in range(ASKED):
            clients.append(opened.enter_context(socket.socket()))
            clients[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            clients[-1].settimeout(120)
            clients[-1].connect((address.host, address.port))
            clients[-1].sendall((head + body).encode())
        answered = Counter(client.recv(12) for client in clients)
        assert answered == {b"HTTP/1.1 200": ROOM, b"HTTP/1.1 429": ASKED - ROOM}
        assert httpx.post(f"{url}/sql", json={"statement": "SHOW TABLES"}, timeout=60).status_code == 200
    assert eventually(lambda: free(gateway))
    assert len(httpx.post(f"{url}/sql", json={"statement": STATEMENT}, timeout=60).json()["rows"]) == ROWS


def test_a_refusal_after_an_insert_tells_what_took_effect_and_asks_for_no_repeat(
    url: str, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What repeats by itself where it is told to would insert the rows again."""
    make_large(gateway)
    leave_room(gateway, 1, monkeypatch)
    gateway.run("CREATE TABLE t (id INT)").close()
    other = iter(gateway.run(STATEMENT).batches())
    next(other)
    insert = "INSERT INTO t VALUES (1)"
    refused = httpx.post(f"{url}/sql", json={"statement": f"{insert}; {STATEMENT}"}, timeout=60)
    assert (refused.status_code, refused.json()["statementIndex"], refused.json()["completed"]) == (429, 1, [insert])
    assert "Retry-After" not in refused.headers
    alone = httpx.post(f"{url}/sql", json={"statement": STATEMENT}, timeout=60)
    assert (alone.status_code, "completed" in alone.json(), "Retry-After" in alone.headers) == (429, False, True)
    del other
    assert gateway.run("SELECT * FROM t").collect() == [(1,)]


@pytest.fixture
def endpoint(dsn: str, tmp_path: Path) -> Iterator[Endpoint]:
    made = Endpoint(dsn, tmp_path)
    yield made
    made.close()


def test_flight(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    make_large(endpoint.gateway)
    leave_room(endpoint.gateway, ROOM, monkeypatch)
    asked = fl.FlightDescriptor.for_command(packed("CommandStatementQuery", query=STATEMENT))
    with ExitStack() as opened, fl.FlightClient(endpoint.url) as client:
        for count in range(ROOM):
            info = client.get_flight_info(asked)
            opened.enter_context(
                begun(endpoint.url, "DoGet", message("Ticket", ticket=info.endpoints[0].ticket.ticket).SerializeToString())
            )
            assert eventually(lambda count=count: counted(endpoint.gateway) > count)  # type: ignore[misc]
        with pytest.raises(fl.FlightError, match="SLUICE_RESULTS_READING_BYTES"):
            client.do_get(client.get_flight_info(asked).endpoints[0].ticket).read_all()
    assert eventually(lambda: free(endpoint.gateway))
    with fl.FlightClient(endpoint.url) as client:
        assert client.do_get(client.get_flight_info(asked).endpoints[0].ticket).read_all().num_rows == ROWS


def counted(gateway: Gateway) -> int:
    """How many results take memory."""
    memory = gateway._runner.held._reading.shared
    return sum(memory.usage().values()) // (memory.most * 4 // 5 // ROOM)
