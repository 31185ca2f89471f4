"""What a server asks of others: whom it believes where several are asked, and what waiting for them may hold.

The others stand in the catalog and answer over sockets of their own, each with what the test lets it say.
"""

from __future__ import annotations

import io
import json
import math
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Barrier, Event
from time import sleep

import psycopg
import pytest
import trustme
from flask.testing import FlaskClient

from gateway.gateway import Gateway
from lake.access.callers import EVERYBODY
from lake.peers import Peers
from lake.process_name import process_space
from model.work.handle import new_handle
from server.access.audit import AUDITED
from server.app import create_app
from server.process.services import AT_ONCE, Services
from server.settings.settings import read_settings
from server.sql import forward, peer_connections
from server.sql.forward import _connections, _made_connections
from server.sql.peer_connections import PROOF, PROVE, proof
from server.sql.peer_questions import MOST_AT_ONCE
from tests.serving import in_background
from tests.waiting import eventually

Say = Callable[[], int | None]
"""The status of an answer; None hangs up without one."""


class Others:
    """Servers of the catalog beside the one that is asked, numbered from 60001 on."""

    def __init__(self, dsn: str, peers: Peers) -> None:
        self._dsn, self._peers = dsn, peers
        self._listening: list[ThreadingHTTPServer] = []
        self._closing = Event()
        self.asked: list[tuple[int, dict[str, str]]] = []
        """Who was asked, and with which headers."""
        self.methods: list[str] = []
        """What each was asked to do."""

    def add(
        self,
        say: Say,
        tls: ssl.SSLContext | None = None,
        *,
        name: str | None = None,
        shows: Callable[..., str] | None = None,
        proves: bool = True,
        headers: Mapping[str, str] = {},
        cancel: Say | None = None,
        result: Say | None = None,
    ) -> None:
        """One more, which says so, or else where it is to cancel or tells a result.

        It ``shows`` the proof of the server that it is, or ``proves`` nothing and says nothing.
        """
        others, number = self, 60001 + len(self._listening)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle(self) -> None:
                with suppress(OSError):  # who asked waits no more
                    super().handle()

            def answer(self) -> None:
                if PROVE in self.headers and not proves:
                    others._closing.wait(60)
                    return
                if PROVE in self.headers:
                    client = self.client_address
                    shown = proof(number, shows or others._peers.seal, self.headers[PROVE], (client[0], str(client[1])))
                    self.send_response(204)
                    self.send_header(PROOF, shown or "")
                    self.end_headers()
                    return
                others.asked.append((number, dict(self.headers)))
                others.methods.append(self.command)
                says = cancel if self.command == "DELETE" else result if self.path.endswith("/result") else None
                if (status := (says or say)()) is None:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                body = json.dumps({"by": number}).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_DELETE = do_POST = answer  # noqa: N815 - the base class's names

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        in_background(server)
        self._listening.append(server)
        with psycopg.connect(self._dsn, autocommit=True) as catalog:
            row = (number, name or f"{process_space()}/{number}", f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}")
            catalog.execute("INSERT INTO server (number, name, url) VALUES (%s, %s, %s)", row)

    def refuse(self) -> None:
        """One more, at whose address nobody listens any more."""
        self.add(lambda: 200)
        self._listening[-1].shutdown()
        self._listening[-1].server_close()

    def close(self) -> None:
        """Let none answer any more."""
        self._closing.set()
        for server in self._listening:
            server.shutdown()
            server.server_close()


@pytest.fixture
def others(dsn: str, services: Services) -> Iterator[Others]:
    assert services.peers is not None
    made = Others(dsn, services.peers)
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
    _connections().close()
    _made_connections.cache_clear()


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
    others.add(lambda: 200, cancel=lambda: None)
    others.add(lambda: 404)
    answer = client.delete("/statements/mine")
    assert answer.json["errorClass"] == "OutcomeUnknown"  # type: ignore[index]
    assert "may or may not" in answer.text


SILENCES: dict[str, Callable[[Others], None]] = {
    "accepts connections and says nothing": lambda others: others.add(lambda: 200, proves=False),
    "refuses connections": lambda others: others.refuse(),
    "is another program": lambda others: others.add(lambda: 200, shows=lambda *said: "0" * 64),
    "hangs up when asked": lambda others: others.add(lambda: None),
}


@pytest.mark.parametrize("where", ["before", "behind"])
@pytest.mark.parametrize("silence", SILENCES)
def test_what_a_silent_server_may_know_is_not_told_as_of_nothing(
    client: FlaskClient, services: Services, others: Others, monkeypatch: pytest.MonkeyPatch, dsn: str, silence: str, where: str
) -> None:
    """It was 404 while the statement ran there, until the server answered again; once it is gone, what it ran is, too."""
    monkeypatch.setattr(peer_connections, "_PROOF_SECONDS", 0.2)
    if where == "behind":
        others.add(lambda: 404)
    SILENCES[silence](others)
    if where == "before":
        others.add(lambda: 404)
    for asked in (client.get, client.delete):
        answer = asked("/statements/mine")
        assert answer.status_code == 503
        assert answer.json["errorClass"] in ("Unavailable", "OutcomeUnknown")  # type: ignore[index]
    silent = 60001 if where == "before" else 60002
    with psycopg.connect(dsn, autocommit=True) as catalog:
        catalog.execute("UPDATE server SET url = NULL WHERE number = %s", (silent,))
    assert services.peers is not None
    services.peers._asked_at = -math.inf  # what it knows of the others is good for two seconds
    assert eventually(lambda: client.get("/statements/mine").status_code == 404)
    gone = client.get(f"/statements/{new_handle(silent)}")
    assert (gone.status_code, gone.json["errorClass"]) == (410, "ServerGone")  # type: ignore[index]
    assert "ServerGone" in client.get(f"/v2/sessions/{new_handle(silent)}").text


def test_a_silent_server_does_not_hide_who_knows(client: FlaskClient, others: Others) -> None:
    others.refuse()
    others.add(lambda: 200)
    assert client.get("/statements/mine").json == {"by": 60002}


def test_all_are_asked_for_a_name_at_the_same_time(client: FlaskClient, others: Others) -> None:
    """They were one after the other: whoever hangs kept the one that knows it from being asked for ten seconds."""
    together = Barrier(4)

    def says_once_all_are_asked(status: int) -> int:
        together.wait(20)
        return status

    for status in (404, 404, 404, 404):
        others.add(partial(says_once_all_are_asked, status))
    assert client.get("/statements/mine").status_code == 404
    assert client.delete("/statements/mine").status_code == 404


def test_one_that_knows_a_name_is_all_that_is_told_to_cancel_it(client: FlaskClient, others: Others) -> None:
    for status in (404, 200, 404):
        others.add(partial(int, status))
    assert client.delete("/statements/mine", buffered=True).json == {"by": 60002}
    assert others.methods.count("DELETE") == 1


def test_a_result_is_found_behind_one_that_runs_a_statement_of_its_name(client: FlaskClient, others: Others) -> None:
    """It was 404 where the one that has no result was the first to say that it knows the name."""
    in_vain = Event()
    others.add(lambda: 200, result=lambda: in_vain.set() or 404)  # type: ignore[func-returns-value]
    others.add(lambda: 200 if in_vain.wait(20) else 503)
    answer = client.get("/statements/mine/result")
    assert (answer.status_code, answer.json) == (200, {"by": 60002})


def test_what_one_that_knows_a_name_answers_is_not_waited_for_others(client: FlaskClient, others: Others, hangs: Event) -> None:
    others.add(lambda: 200, result=lambda: 429)
    assert client.get("/statements/mine/result", buffered=True).status_code == 429
    assert not hangs.is_set()


def test_where_several_know_a_name_each_request_comes_to_the_same(
    client: FlaskClient, others: Others, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It came to whichever was faster: a cancel could end another statement than the one that had just been shown."""
    monkeypatch.setattr(forward, "_BEFORE_SECONDS", 20.0)
    told = Event()

    def says_last() -> int:
        told.wait(20)
        sleep(0.1)
        return 200

    others.add(says_last)
    others.add(lambda: told.set() or 200)  # type: ignore[func-returns-value]
    for asked in (client.get, client.delete):
        told.clear()
        assert asked("/statements/mine", buffered=True).json == {"by": 60001}


@pytest.fixture
def hangs(others: Others) -> Iterator[Event]:
    """Keeps who waits for it from answering until the test ends."""
    event = Event()
    others.add(lambda: event.wait(60) and None)
    yield event
    event.set()


def test_one_that_takes_a_question_and_hangs_was_told_nothing(
    client: FlaskClient, others: Others, hangs: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "_NAME_SECONDS", 1.0)
    answer = client.get("/statements/mine/result")
    assert (answer.status_code, answer.json["errorClass"]) == (503, "Unavailable")  # type: ignore[index]
    assert others.methods == ["GET"]


@pytest.mark.parametrize("status", [200, 404])
def test_a_cancel_reaches_one_that_is_too_busy_to_say_what_it_knows(
    client: FlaskClient, others: Others, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """It was 503 as long as that lasted, and the statement ran on: nothing but the question was ever sent."""
    monkeypatch.setattr(forward, "_NAME_SECONDS", 1.0)
    may_end = Event()
    others.add(lambda: 404 if may_end.wait(60) else 503, cancel=partial(int, status))
    others.add(lambda: 404)
    answer = client.delete("/statements/mine", buffered=True)
    may_end.set()
    assert answer.status_code == status
    assert others.methods.count("DELETE") == 1


def test_one_that_takes_a_question_and_hangs_hides_nobody(client: FlaskClient, others: Others, hangs: Event) -> None:
    others.add(lambda: 200)
    assert client.delete("/statements/mine", buffered=True).json == {"by": 60002}
    assert not hangs.is_set()


def test_one_that_hangs_holds_a_few_threads_however_often_a_name_is_asked_for(client: FlaskClient, others: Others) -> None:
    """Each request left one more behind, with a connection of its own, until no thread could be started any more."""
    may_end = Event()
    others.add(lambda: 200)
    others.add(lambda: 404 if may_end.wait(60) else 503)
    for _ in range(3 * MOST_AT_ONCE):
        assert client.get("/statements/mine").json == {"by": 60001}

    def asked_that_hangs() -> int:
        return [number for number, _ in others.asked].count(60002)

    assert eventually(lambda: asked_that_hangs() > 0)
    hanging = asked_that_hangs()
    may_end.set()
    assert hanging <= MOST_AT_ONCE


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
    assert client.get(asked, buffered=True).status_code == 200
    with ExitStack() as places:
        while places.enter_context(services.may_wait(EVERYBODY)):
            pass
        full = services.waiting._taken.total()
        assert client.get(asked, buffered=True).status_code == 200
        assert client.get(f"/statements/{handle}", buffered=True).status_code == 200, "which waits for nothing"
    assert taken == [1, full, full]
    assert [headers.get(AT_ONCE) for _, headers in others.asked] == [None, "1", None]
    assert services.waiting._taken.total() == 0


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/statements/{}"), ("POST", "/v2/sessions/{}/operations/{}/cancel")])
def test_who_cancels_on_another_server_takes_a_place_too(
    client: FlaskClient, services: Services, others: Others, method: str, path: str
) -> None:
    """That one may wait for a commit."""
    taken: list[int] = []
    others.add(lambda: taken.append(services.waiting._taken.total()) or 200)  # type: ignore[func-returns-value]
    handle = new_handle(60001)
    assert client.open(path.format(handle, handle), method=method, buffered=True).status_code == 200
    assert taken == [1]
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


def test_a_stranger_at_the_address_of_a_server_gets_nothing(client: FlaskClient, others: Others) -> None:
    """It got the caller's token and, of a session, the statement: a server that is gone leaves its address to whoever takes the port."""
    others.add(lambda: 200, shows=lambda *said: "0" * 64)
    for asked in (client.delete, client.get):
        answer = asked(f"/statements/{new_handle(60001)}", headers={"Authorization": "Bearer secret"})
        assert (answer.status_code, answer.json["errorClass"]) == (503, "Unavailable")  # type: ignore[index]
        assert "is not the one that answers at http://127.0.0.1:" in answer.text
    assert client.get("/statements/mine").status_code == 503, "the server that may know it by name may come back"
    assert others.asked == []


def test_servers_that_share_a_loopback_and_no_process_ids_ask_each_other(client: FlaskClient, others: Others) -> None:
    """As containers of one pod; they were told apart by their process ids' namespace, and never asked."""
    others.add(lambda: 200, name="another.0/1")
    answer = client.get(f"/statements/{new_handle(60001)}")
    assert (answer.status_code, answer.json) == (200, {"by": 60001})


def test_a_question_on_loopback_that_somebody_passed_on_is_not_answered(services: Services) -> None:
    """A stranger could show a proof that he had asked the server that is meant for."""
    peers = services.peers
    assert peers is not None
    asked = f"nonce {peers.number} 127.0.0.1/4000"
    shown = proof(peers.number, peers.seal, asked, ("::ffff:127.0.0.1", "4000"))
    assert shown == peers.seal("proof", "nonce", str(peers.number), "127.0.0.1/4000")
    for client in (("127.0.0.1", "4001"), ("10.0.0.1", "4000")):
        assert proof(peers.number, peers.seal, asked, client) is None
    assert proof(peers.number + 1, peers.seal, asked, ("127.0.0.1", "4000")) is None


def test_what_no_server_has_an_audit_entry_of_is_told_by_the_one_that_was_asked(
    client: FlaskClient, services: Services, others: Others, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal before the other server's app, or by a proxy before it, was in no server's audit log."""
    notes: list[tuple[str, str | None]] = []
    monkeypatch.setattr(services.gateway.lake.audit, "note", lambda row: notes.append((row.action, row.error_class)))
    others.add(lambda: 504)
    others.add(lambda: 403, headers={AUDITED: "1"})
    for number in (60001, 60002):
        answer = client.post(f"/ui/statements/{new_handle(number)}/cancel", data={}, buffered=True)
        assert AUDITED not in answer.headers
    assert [(action.split("/")[1], told) for action, told in notes] == [("ui", "504")]


def test_a_body_that_breaks_off_is_its_senders_fault(client: FlaskClient, others: Others) -> None:
    """It was told as the other server's silence: that nobody knows whether it was done."""
    others.add(lambda: 200)

    class Broken(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: object) -> int:
            raise OSError("The body broke off.")

    chunked = {"wsgi.input": Broken(), "wsgi.input_terminated": True}
    handle = new_handle(60001)
    answer = client.post(f"/v1/sessions/{handle}/statements", headers={"Transfer-Encoding": "chunked"}, environ_overrides=chunked)
    assert answer.status_code == 400
    assert "ended before all of it had come" in answer.text  # the other server has its head, and never its end


def test_a_connection_that_has_shown_where_it_leads_is_used_again(client: FlaskClient, others: Others) -> None:
    others.add(lambda: 200)
    at = f"/statements/{new_handle(60001)}"
    for _ in range(3):
        assert client.get(at).json == {"by": 60001}
    assert sum(map(len, _connections()._idle.values())) == 1, "one connection is enough for one after the other"
