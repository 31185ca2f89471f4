"""A proxy before an S3 server that refuses, loses, holds back and counts requests."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from tests.serving import in_background


class Fate(Enum):
    """What becomes of a request."""

    SERVED = "served"
    SLOW_DOWN = "503 SlowDown"
    INTERNAL = "500"
    TOO_MANY = "429"
    FORBIDDEN = "403"
    LOST = "served, and the answer is lost"
    CUT = "cut off in the middle of the body"
    HELD = "held back until the client gives up"
    AWAY = "the connection is closed"


_REFUSED = {
    Fate.SLOW_DOWN: (503, "SlowDown"),
    Fate.INTERNAL: (500, "InternalError"),
    Fate.TOO_MANY: (429, "SlowDown"),
    Fate.FORBIDDEN: (403, "AccessDenied"),
}
_HOP = {"connection", "keep-alive", "transfer-encoding", "expect", "host"}


@dataclass
class Proxy:
    """Where it answers, what came, and what becomes of the next ones."""

    endpoint: str = ""
    fate: Callable[[int, str, str], Fate] = lambda number, method, path: Fate.SERVED
    """Of a request by its number since `reset`, its method and its path."""
    requests: list[str] = field(default_factory=list)
    delay: float = 0.0
    """Seconds that each request waits before it is served, beside the others."""
    faults: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    released: threading.Event = field(default_factory=threading.Event)

    def reset(self, fate: Callable[[int, str, str], Fate] | None = None) -> None:
        """Count anew; without a fate all is served."""
        with self.lock:
            self.requests.clear()
            self.faults = 0
            self.fate = fate or (lambda number, method, path: Fate.SERVED)

    def come(self, method: str, path: str) -> Fate:
        """Count a request."""
        with self.lock:
            self.requests.append(f"{method} {path}")
            fate = self.fate(len(self.requests), method, path)
            self.faults += fate is not Fate.SERVED
            return fate


def _handler(proxy: Proxy, upstream: str) -> type[BaseHTTPRequestHandler]:
    where = urlsplit(upstream).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Nothing: a test shows what it needs."""

        def _serve(self) -> None:
            fate = proxy.come(self.command, self.path)
            time.sleep(proxy.delay)
            if fate is Fate.AWAY:
                self.close_connection = True
                return
            if fate is Fate.CUT:
                self.rfile.read(int(self.headers.get("Content-Length", 2)) // 2)
                self.close_connection = True
                return
            body = self._body()
            if fate is Fate.HELD:
                proxy.released.wait(60)
                self.close_connection = True
                return
            if fate in _REFUSED:
                self._refuse(*_REFUSED[fate])
                return
            self._forward(body, lost=fate is Fate.LOST)

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return b"".join(parts)

        def _refuse(self, status: int, code: str) -> None:
            text = f"<Error><Code>{code}</Code><Message>told to</Message></Error>".encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(text)

        def _forward(self, body: bytes, *, lost: bool) -> None:
            sent = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
            with contextlib.closing(http.client.HTTPConnection(where, timeout=60)) as there:
                there.request(self.command, self.path, body=body, headers=sent)
                answer = there.getresponse()
                data = answer.read()
            if lost:
                self.close_connection = True
                return
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _HOP | {"content-length"}:
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
            if answer.status != 204:
                self.send_header("Content-Length", length or "0")
            self.end_headers()
            self.wfile.write(data)

    for method in ("GET", "PUT", "POST", "DELETE", "HEAD"):
        setattr(Handler, f"do_{method}", Handler._serve)
    return Handler


@pytest.fixture
def s3_proxy(s3_endpoint: str) -> Iterator[Proxy]:
    """A proxy before the S3 server of this run."""
    proxy = Proxy()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(proxy, s3_endpoint))
    server.daemon_threads = True
    proxy.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = in_background(server)
    yield proxy
    proxy.released.set()
    server.shutdown()
    server.server_close()
    thread.join(20)
