"""Connections cost no threads, and whoever sends badly, slowly or not at all harms nobody."""

from __future__ import annotations

import gc
import socket
import threading
import weakref
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

import server.http.connection as connection
from server.http import exchange, incoming
from tests.server.http.conftest import Site, answer, rest
from tests.waiting import eventually

GET = b"GET /echo HTTP/1.1\r\nHost: a\r\n\r\n"


def url(site: Site, path: str) -> str:
    return f"http://127.0.0.1:{site.address[1]}{path}"


def test_idle_and_half_sent_connections_hold_no_thread(site: Site) -> None:
    """Many more than there are threads: 260 of them stopped the server."""
    with ExitStack() as opened:
        for sent in [b"", b"GET", b"POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n12", b""] * 40:
            opened.enter_context(client := site.connect())
            client.sendall(sent)
        for _ in range(3):
            assert httpx.get(url(site, "/echo"), timeout=120).status_code == 200
        assert eventually(lambda: site.http.threads()["busy"] == 0)
        assert site.http.connections()["unauthenticated"] >= 160
    assert eventually(lambda: sum(site.http.connections().values()) == 0)


def asking(site: Site, opened: ExitStack, path: str, who: str) -> socket.socket:
    """A connection on which somebody has asked for something."""
    client = opened.enter_context(site.connect())
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {who}\r\n\r\n".encode())
    return client


def test_one_principals_requests_leave_threads_to_others_and_to_probes(site: Site) -> None:
    with ExitStack() as opened:
        for who in ("ada", "bob", "cid"):
            assert answer(asking(site, opened, "/echo", who)).startswith(b"HTTP/1.1 200")
        for who, at_work in (("ada", 6), ("bob", 7)):  # of 8 threads: three quarters, then all but those kept for whoever has none
            for _ in range(12):
                asking(site, opened, "/wait", who)
            assert eventually(lambda at_work=at_work: site.http.threads()["busy"] == at_work)  # type: ignore[misc]
        assert answer(asking(site, opened, "/echo", "cid")).startswith(b"HTTP/1.1 200")
        assert httpx.get(url(site, "/livez"), timeout=120).text == "ok"
        assert eventually(lambda: site.http.threads()["busy"] == 7)
        site.release.set()
        assert eventually(lambda: site.http.threads()["busy"] == 0 and site.http.threads()["waiting"] == 0)


def test_probes_are_answered_while_every_thread_is_busy(site: Site) -> None:
    with ExitStack() as opened:
        for who in ("ada", "bob", "cid"):
            assert answer(asking(site, opened, "/echo", who)).startswith(b"HTTP/1.1 200")
        for who in ("ada", "bob", "cid"):
            for _ in range(8):
                asking(site, opened, "/wait", who)
        assert eventually(lambda: site.http.threads()["busy"] == 8)
        assert httpx.get(url(site, "/livez"), timeout=120).text == "ok"
        site.release.set()


def test_one_connection_answers_many_requests_in_order(site: Site) -> None:
    with site.connect() as client:
        client.sendall(b"".join(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n%02d" % number for number in range(20)))
        assert [answer(client)[-2:] for _ in range(20)] == [b"%02d" % number for number in range(20)]
        client.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nTrailer: t\r\n\r\n")
        assert answer(client).endswith(b"abc")
        client.sendall(b"GET /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert b"Connection: close" in rest(client)


def test_http_1_0_and_head(site: Site) -> None:
    assert b"Connection: keep-alive" not in site.ask(b"GET /echo HTTP/1.0\r\n\r\n")
    with site.connect() as client:
        client.sendall(b"GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" * 2)
        assert b"Connection: keep-alive" in answer(client)
        assert b"Connection: keep-alive" in answer(client)
    got = site.ask(b"GET /flood HTTP/1.0\r\n\r\n")
    assert b"Transfer-Encoding" not in got
    assert len(got.partition(b"\r\n\r\n")[2]) == 30_000_000
    got = site.ask(b"HEAD /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert got.endswith(b"\r\n\r\n")


CHUNKED = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a/../b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: .1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a..b:80\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: " + b"a" * 64 + b".b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        (b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nHost: a\n\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", 400),
        (b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /#a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 505),
        (b"DESCRIBE / RTSP/1.0\r\nHost: a\r\n\r\n", 501),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 501),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 700_000, 431),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 300 + b"\r\n", 431),
        (CHUNKED + b"1;" + b"x" * 700_000, 431),
        (CHUNKED + b"1\r\na\r\n0\r\nX: " + b"x" * 700_000, 431),
        (CHUNKED + b"1\r\na\r\n0\r\n" + b"X: y\r\n" * 200_000, 431),
        (GET * 100, 200),
    ],
)
def test_what_is_no_request_is_told_so(site: Site, sent: bytes, status: int) -> None:
    got = site.ask(sent)
    assert got.startswith(b"HTTP/1.1 %d " % status), got[:300]
    if status != 200:
        assert got.count(b"HTTP/1.1 ") == 1
        assert b"application/problem+json" in got
    else:  # those read in time are answered, more at once are not
        assert got.count(b"HTTP/1.1 200 ") == 64
        assert b"HTTP/1.1 400 " in got
    assert httpx.get(url(site, "/echo")).status_code == 200


def test_headers_that_pose_as_others_and_addresses_of_proxies(site: Site) -> None:
    sent = b"GET http://other/seen?q=%2F HTTP/1.1\r\nHost: a\r\nX_Forwarded_For: evil\r\n"
    sent += b"Cookie: a=1\r\nCookie: b=2\r\nX-A: 1\r\nX-A: 2\r\nConnection: close\r\n\r\n"
    got = site.ask(sent)
    assert b"evil" not in got
    assert b'"HTTP_COOKIE":"a=1; b=2"' in got
    assert b'"HTTP_X_A":"1, 2"' in got
    assert b'"PATH_INFO":"/seen"' in got


def test_an_offer_of_another_protocol_is_declined_and_its_request_served(site: Site) -> None:
    """Java's client offers HTTP/2 with its first request, bodies too."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
    with site.connect() as client:
        client.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\n" + offer + b"Content-Length: 5\r\n\r\nGET /")
        assert answer(client).endswith(b"\r\n\r\nGET /")
        client.sendall(b"GET /echo HTTP/1.1\r\nHost: a\r\n" + offer + b"\r\n" + GET)
        assert b" 200 " in answer(client)
        assert b" 200 " in answer(client)


def test_a_body_that_never_ends_is_waited_for_and_then_not(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_HEAD_SECONDS", 0.5)
    with site.connect() as trickle, site.connect() as silent:
        trickle.sendall(b"GET /echo HT")
        silent.sendall(b"GE")
        assert rest(silent).startswith(b"HTTP/1.1 408 ")
        assert rest(trickle).startswith(b"HTTP/1.1 408 ")


def test_a_stalled_body_and_an_idle_connection_end(tmp_path: Path) -> None:
    site = Site(tmp_path, SLUICE_HTTP_STALL_SECONDS="2")
    try:
        with site.connect() as idle, site.connect() as stalled, site.connect() as kept:
            stalled.sendall(b"POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\nabc")
            kept.sendall(GET)
            assert b" 200 " in answer(kept)
            assert rest(stalled).startswith(b"HTTP/1.1 408 ")
            assert rest_or_reset(idle) == b""
            assert rest_or_reset(kept) == b""
        assert site.bodies == []
    finally:
        site.stop()


def rest_or_reset(client: socket.socket) -> bytes:
    try:
        return rest(client)
    except ConnectionResetError:
        return b""


def test_bodies_in_memory_in_a_file_and_piped_arrive_whole(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "SPOOLED_BYTES", 6 << 20)
    monkeypatch.setattr(incoming, "SPOOLED_BYTES", 6 << 20)
    for size in (0, 1, 65_536, 65_537, 1 << 20, 3 << 20, 6 << 20, 40 << 20):
        for body in (b"x" * size, (b"x" * 100_000 for _ in range(size // 100_000))):
            sent = size if isinstance(body, bytes) else size // 100_000 * 100_000
            assert httpx.post(url(site, "/size"), content=body, timeout=120).text == str(sent)
    assert list((site.settings.data / "bodies").iterdir()) == []


def test_a_huge_body_that_breaks_off_is_never_taken_for_whole(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "SPOOLED_BYTES", 2 << 20)
    monkeypatch.setattr(incoming, "SPOOLED_BYTES", 2 << 20)
    for size in (10, 500_000, 8 << 20):
        with site.connect() as client:
            client.sendall(b"POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: 90000000\r\n\r\n" + b"x" * size)
    assert eventually(lambda: sum(site.http.connections().values()) == 0 and site.http.threads()["busy"] == 0)
    assert site.bodies == []


def test_a_client_that_waits_to_be_asked_for_its_body_is_asked(site: Site) -> None:
    for size in (5, 200_000):
        with site.connect() as client:
            client.sendall(b"POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n" % size)
            assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.sendall(b"x" * size)
            assert answer(client).endswith(b"\r\n\r\n%d" % size)


def test_slow_readers_hold_no_thread_and_little_memory(site: Site) -> None:
    with ExitStack() as opened:
        readers = []
        for _ in range(20):  # there are eight threads
            opened.enter_context(client := site.connect())
            client.sendall(b"GET /flood HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            readers.append(client)
        assert eventually(lambda: site.http.threads()["busy"] == 0 and site.http.threads()["waiting"] == 0)
        assert httpx.get(url(site, "/echo"), timeout=120).status_code == 200
        assert len(rest(readers[7])) > 30_000_000  # who reads gets it all
    assert eventually(lambda: sum(site.http.connections().values()) == 0)
    assert site.closed.wait(60)


def test_a_reader_that_takes_nothing_is_let_go(tmp_path: Path) -> None:
    site = Site(tmp_path, SLUICE_HTTP_STALL_SECONDS="1")
    try:
        with site.connect() as client:
            client.sendall(b"GET /flood HTTP/1.1\r\nHost: a\r\n\r\n")
            assert site.closed.wait(60)
    finally:
        site.stop()


@pytest.mark.parametrize(("path", "lines"), [("/broken", 1), ("/told", 0)])
def test_an_answer_that_fails_in_the_middle_is_cut(site: Site, caplog: pytest.LogCaptureFixture, path: str, lines: int) -> None:
    """The log tells of it where nobody has: of a damaged table it does once an hour, however often that is read."""
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(url(site, path))
    assert eventually(lambda: sum(site.http.connections().values()) == 0)
    assert eventually(lambda: sum("in the middle" in record.getMessage() for record in caplog.records) == lines)


def test_a_client_that_goes_is_told_to_its_request_and_one_that_half_closed_gets_what_is_ready(site: Site) -> None:
    with site.connect() as client:
        client.sendall(GET)
        client.shutdown(socket.SHUT_WR)
        assert b" 200 " in rest(client)
    with site.connect() as client:
        client.sendall(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
        assert not site.gone.wait(0.5)
    assert site.gone.wait(60)


def test_a_crowd_from_one_address_pushes_out_its_own_oldest_and_nobody_else(tmp_path: Path) -> None:
    site = Site(tmp_path, SLUICE_HTTP_CONNECTIONS="16", SLUICE_HTTP_CONNECTIONS_OF_ONE="8")
    try:
        with site.connect() as busy, ExitStack() as opened:
            busy.sendall(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
            assert eventually(lambda: site.http.threads()["busy"] == 1)
            first = opened.enter_context(site.connect())
            for _ in range(40):
                opened.enter_context(site.connect())
            assert httpx.get(url(site, "/echo"), timeout=120).status_code == 200
            assert rest_or_reset(first) == b""
            assert eventually(lambda: sum(site.http.connections().values()) <= 9)
            site.release.set()
            assert answer(busy).endswith(b"waited")
    finally:
        site.stop()


def test_a_stop_lets_requests_end_and_closes_the_others(site: Site) -> None:
    with site.connect() as busy, site.connect() as idle:
        busy.sendall(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
        assert eventually(lambda: site.http.threads()["busy"] == 1)
        stopping = threading.Thread(target=site.http.stop_serving)
        stopping.start()
        assert rest(idle) == b""
        with pytest.raises(OSError, match="refused"):
            site.connect()
        site.release.set()
        assert answer(busy).endswith(b"waited")
        stopping.join(60)
        assert not stopping.is_alive()


def test_a_stop_waits_a_moment_for_one_that_was_refused_and_does_not_close(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It waited ten seconds for it, or for as long as all that was still to be answered might take."""
    caplog.set_level("INFO", "server.http.listener")
    site = Site(tmp_path, SLUICE_DRAIN_SECONDS="8")
    with site.connect() as client:
        client.sendall(b"no request\r\n\r\n")
        assert rest(client).startswith(b"HTTP/1.1 400 ")
        site.stop()
    assert "are cut" not in caplog.text


def test_an_idle_connection_keeps_nothing_of_what_was_asked_on_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body of a megabyte for each of thousands of them."""
    asked: list[weakref.ref[exchange.Exchange]] = []

    class Watched(exchange.Exchange):
        def begin(self) -> None:
            asked.append(weakref.ref(self))
            super().begin()

    monkeypatch.setattr(connection, "Exchange", Watched)
    with site.connect() as client:
        client.sendall(b"POST /size HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ada\r\nContent-Length: 90000\r\n\r\n" + bytes(90_000))
        assert answer(client).endswith(b"90000")
        assert len(asked) == 1
        assert eventually(lambda: gc.collect() >= 0 and asked[0]() is None)
        client.sendall(GET)
        assert answer(client).startswith(b"HTTP/1.1 200")
