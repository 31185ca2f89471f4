"""What a server asks of others: whom it believes where several are asked, and what waiting for them may hold.

The others stand in the catalog and answer over sockets of their own, each with what the test lets it say.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import psycopg
import pytest
import trustme
from flask.testing import FlaskClient

from gateway.gateway import Gateway
from lake.access.callers import EVERYBODY
from lake.peers import Peers
from lake.process_name import process_space
from model.work.handle import new_handle
from server.app import create_app
from server.process.services import AT_ONCE, Services
from server.settings.settings import read_settings
from server.sql.forward import _client

Say = Callable[[], int | None]
"""The status of an answer; None hangs up without one."""


class Others:
    """Servers of the catalog beside the one that is asked, numbered from 60001 on."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._listening: list[ThreadingHTTPServer] = []
        self.asked: list[tuple[int, dict[str, str]]] = []
        """Who was asked, and with which headers."""

    def add(self, say: Say, tls: ssl.SSLContext | None = None) -> None:
        """One more, which says so."""
        others, number = self, 60001 + len(self._listening)

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                others.asked.append((number, dict(self.headers)))
                if (status := say()) is None:
                    self.connection.close()
                    return
                body = json.dumps({"by": number}).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_DELETE = answer  # noqa: N815 - the base class's names

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, daemon=True).start()
        self._listening.append(server)
        with psycopg.connect(self._dsn, autocommit=True) as catalog:
            row = (number, f"{process_space()}/{number}", f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}")
            catalog.execute("INSERT INTO server (number, name, url) VALUES (%s, %s, %s)", row)

    def close(self) -> None:
        """Let none answer any more."""
        for server in self._listening:
            server.shutdown()
            server.server_close()


@pytest.fixture
def others(dsn: str) -> Iterator[Others]:
    made = Others(dsn)
    yield made
    made.close()


@pytest.fixture
def services(gateway: Gateway, tmp_path: Path) -> Services:
    peers = Peers(gateway.lake.catalog, f"{process_space()}/1")
    return Services(gateway=gateway, settings=read_settings({"SLUICE_DATA": str(tmp_path)}), peers=peers)


@pytest.fixture
def client(services: Services) -> Iterator[FlaskClient]:
    yield create_app(services).test_client()
    begins_anew()


def begins_anew() -> None:
    """As a server that has asked no other yet."""
    _client().close()
    _client.cache_clear()


@pytest.mark.parametrize("refusal", [503, 429, 401])
def test_who_refuses_does_not_hide_who_knows(client: FlaskClient, others: Others, refusal: int) -> None:
    """A cancel by the name its client gave a statement got the first server's 503, and the statement ran on at the next."""
    for status in (refusal, 404, 200):
        others.add(partial(int, status))
    for answer in (client.delete("/statements/mine"), client.get("/statements/mine")):
        assert (answer.status_code, answer.json) == (200, {"by": 60003})


def test_where_nobody_knows_a_refusal_is_told(client: FlaskClient, others: Others) -> None:
    for status in (503, 404):
        others.add(partial(int, status))
    answer = client.delete("/statements/mine")
    assert (answer.status_code, answer.json) == (503, {"by": 60001})


def test_a_cancel_that_may_have_been_done_is_not_told_as_of_nothing(client: FlaskClient, others: Others) -> None:
    """It was 404 where the server that runs the statement had the request and was gone before its answer."""
    others.add(lambda: None)
    others.add(lambda: 404)
    answer = client.delete("/statements/mine")
    assert answer.json["errorClass"] == "OutcomeUnknown"  # type: ignore[index]
    assert "may or may not" in answer.text
    assert client.get("/statements/mine").json["errorClass"] == "Unavailable"  # type: ignore[index]


def test_where_no_other_knows_it_is_not_found(client: FlaskClient, others: Others) -> None:
    others.add(lambda: 404)
    assert client.delete("/statements/mine").status_code == 404


@pytest.mark.parametrize("path", ["/statements/{}?wait=20", "/statements/{}/result?wait=20", "/v2/sessions/{}/operations/{}/result/1"])
def test_who_waits_for_another_server_takes_a_place_or_none(client: FlaskClient, services: Services, others: Others, path: str) -> None:
    """The other holds a quarter of its threads so; all servers' together were more than there are threads here."""
    taken: list[int] = []
    others.add(lambda: taken.append(services.waiting._taken.total()) or 200)  # type: ignore[func-returns-value]
    handle = new_handle(60001)
    asked = path.format(handle, handle)
    assert client.get(asked).status_code == 200
    with ExitStack() as places:
        while places.enter_context(services.may_wait(EVERYBODY)):
            pass
        full = services.waiting._taken.total()
        assert client.get(asked).status_code == 200
        assert client.get(f"/statements/{handle}").status_code == 200, "which waits for nothing"
    assert taken == [1, full, full]
    assert [headers.get(AT_ONCE) for _, headers in others.asked] == [None, "1", None]
    assert services.waiting._taken.total() == 0


def test_servers_with_certificates_of_an_authority_of_ones_own_ask_each_other(
    client: FlaskClient, others: Others, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but public authorities was trusted, and what failed said for ever that the other does not answer."""
    ca, tls = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("127.0.0.1").configure_cert(tls)
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    others.add(lambda: 200, tls)
    at = f"/statements/{new_handle(60001)}"
    answer = client.get(at)
    assert (answer.status_code, answer.json["errorClass"]) == (503, "Unavailable")  # type: ignore[index]
    for words in ("shows a certificate at https://127.0.0.1:", "certificate verify failed", "SSL_CERT_FILE"):
        assert words in answer.text
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    begins_anew()
    with client.get(at) as trusted:
        assert (trusted.status_code, trusted.json) == (200, {"by": 60001})
