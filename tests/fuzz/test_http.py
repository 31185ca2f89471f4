"""Requests of HTTP that are almost right, byte by byte, at a server that listens: it answers or closes, and goes on."""

from __future__ import annotations

import contextlib
import random
import socket
from urllib.parse import urlsplit

import httpx
import pytest

from tests.fuzz.inputs import drawn, mutated
from tests.fuzz.oracle import Flat, failed_once, kept_if_it_fails
from tests.server.conftest import url

__all__ = ["url"]
SHORT, PART, PARTS = 80, 10_000, 2
_SECONDS = 60.0
_LINES = [
    b"Host: a", b"Host: 127.0.0.1", b"Host: [", b"Host:", b" folded: x", b"Content-Length: 8", b"Content-Length: 08", b"Content-Length: -1",
    b"Content-Length: +8", b"Content-Length: 8, 8", b"Content-Length: 99999999999999999999", b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: identity", b"Connection: close", b"Connection: upgrade", b"Upgrade: h2c",
    b"Expect: 100-continue", b"Expect: x", b"Authorization: Bearer x", b"Authorization:", b"Content-Type: application/json",
    b"Content-Type: application/sql", b"Content-Encoding: gzip", b"Content-Encoding: zstd", b"Accept: text/csv", b"X: " + b"y" * 20_000,
    b"Na me: x", b"Name : x", b"\x00: x", b"\xff: \xfe", b"Origin: http://[", b"Cookie: session=x", b"X-Forwarded-For: \r",
]  # fmt: skip
_STARTS = [
    b"POST /sql HTTP/1.1", b"GET /livez HTTP/1.1", b"GET /readyz HTTP/1.0", b"POST /tables/default/t/rows HTTP/1.1", b"GET // HTTP/1.1",
    b"GET /%zz HTTP/1.1", b"GET /%00 HTTP/1.1", b"GET http://a/livez HTTP/1.1", b"CONNECT a:1 HTTP/1.1", b"OPTIONS * HTTP/1.1", b"GET /",
    b"get /livez http/1.1", b"GET /livez HTTP/9.9", b"PRI * HTTP/2.0", b"GET /" + b"a" * 70_000 + b" HTTP/1.1", b"\x16\x03\x01", b"",
    b"POST /v1/sessions HTTP/1.1", b"DELETE /statements/x HTTP/1.1", b"GET /ui/ HTTP/1.1", b"GET /v1/config?warehouse=%ff HTTP/1.1",
]  # fmt: skip
_BODIES = [
    b"",
    b"SELECT 1",
    b"8\r\nSELECT 1\r\n0\r\n\r\n",
    b"zz\r\n",
    b"-1\r\n",
    b"8;x=y\r\nSELECT 1\r\n0\r\nTrailer: x\r\n\r\n",
    b"\x1f\x8b\x08\x00",
]


def request(rng: random.Random) -> bytes:
    """A start line, some headers, a body, and damage to some of it."""
    lines = [rng.choice(_STARTS), *rng.sample(_LINES, rng.randrange(6))]
    if rng.random() < 0.7:
        lines.insert(1, b"Host: 127.0.0.1")
    made = rng.choice([b"\r\n", b"\r\n", b"\r\n", b"\n"]).join(lines) + b"\r\n\r\n" + rng.choice(_BODIES)
    return mutated(rng, made) if rng.random() < 0.5 else made


def answer(host: str, port: int, sent: bytes) -> bytes:
    """Everything the server says until it closes, once told that nothing more comes."""
    found = b""
    with socket.create_connection((host, port), timeout=_SECONDS) as connection:
        try:
            connection.sendall(sent)
            with contextlib.suppress(OSError):  # refused by now, and gone
                connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(1 << 16):
                found += part
        except ConnectionError:  # refused before all was sent
            return found
    return found


def asked(url: str, what: str, sent: bytes) -> bytes:
    """What the server says to it: nothing, or an answer of HTTP that is not the server's fault."""
    place = urlsplit(url)
    with kept_if_it_fails(what, sent):
        found = answer(place.hostname or "", place.port or 0, sent)
        head = found.split(b" ", 2)
        assert not found or (head[0] in (b"HTTP/1.1", b"HTTP/1.0") and head[1].isdigit()), (what, sent, found)
        status = int(head[1]) if found else 0
        assert status < 500 or status in (501, 503, 505, 507), (what, sent, found)
        assert b"Traceback" not in found
        assert b"InternalError" not in found
    return found


def campaign(url: str, seeds: range) -> int:
    """Send them; returns how many were answered at all."""
    answered = 0
    for seed in seeds:
        answered += bool(asked(url, f"http seed {seed}", request(drawn("http", seed))))
        if seed % 50 == 0:
            assert httpx.get(f"{url}/livez", timeout=_SECONDS).status_code == 200
    return answered


def test_requests_that_are_almost_http_are_answered_or_closed(url: str) -> None:
    campaign(url, range(5))
    flat = Flat()
    assert campaign(url, range(5, SHORT)) > SHORT // 2
    flat.check(files=40)
    assert httpx.post(f"{url}/sql", content=b"SHOW TABLES").status_code == 200


@pytest.mark.torture
@pytest.mark.parametrize("part", range(PARTS))
def test_thousands_of_raw_requests(url: str, part: int) -> None:
    flat = Flat()
    campaign(url, range(SHORT + part * PART, SHORT + (part + 1) * PART))
    flat.check(files=40)


def test_what_failed_once(url: str) -> None:
    for name, _, sent in failed_once("http"):
        asked(url, f"http kept as {name}", sent)
