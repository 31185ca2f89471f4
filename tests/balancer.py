"""A balancer that sends each request to the next server, in strict alternation, as one without stickiness does."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from tests.serving import in_background

_NOT_PASSED = {"connection", "keep-alive", "transfer-encoding", "host", "content-length"}

Heard = Callable[[str, bytes, int, bytes], None]
"""Path, body, status and answer of a request."""


def _plain(body: bytes, headers: Mapping[str, str] | Message) -> bytes:
    return gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body


class Balancer:
    """Answers at ``url``; what it sends on names the host it was asked for, as balancers do."""

    def __init__(self, urls: Sequence[str], *, heard: Heard | None = None) -> None:
        """``heard`` is told of each answer, before the client is."""
        self.urls = list(urls)
        self.sent: list[tuple[str, str, int]] = []
        """The server, the request's line and the status of each answer."""
        turns = itertools.count()
        client = httpx.Client(timeout=120, trust_env=False)
        balancer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                url = balancer.urls[next(turns) % len(balancer.urls)]
                headers = [(name, value) for name, value in self.headers.items() if name.lower() not in _NOT_PASSED]
                headers.append(("Host", self.headers["Host"]))
                with client.stream(self.command, f"{url}{self.path}", headers=headers, content=body) as given:
                    raw = b"".join(given.iter_raw())
                    balancer.sent.append((url, f"{self.command} {self.path}", given.status_code))
                    if heard is not None:
                        heard(self.path, _plain(body, self.headers), given.status_code, _plain(raw, given.headers))
                    self.send_response(given.status_code)
                    for name, value in given.headers.multi_items():
                        if name not in _NOT_PASSED:
                            self.send_header(name, value)
                    self.send_header("Content-Length", str(len(raw)))
                    self.end_headers()
                    self.wfile.write(raw)

            do_GET = do_POST = do_DELETE = do_PUT = answer  # noqa: N815 - the base class's names

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                pass

        self._client = client
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        in_background(self._server)

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._client.close()


class TcpBalancer:
    """Gives each connection to the next server, in strict alternation; knows nothing of what is spoken over it."""

    def __init__(self, addresses: Sequence[tuple[str, int]]) -> None:
        self._addresses = list(addresses)
        self._turns = itertools.cycle(self._addresses)
        self.given: list[tuple[str, int]] = []
        """The server of each connection."""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                address = next(self._turns)
                self.given.append(address)
                threading.Thread(target=_connect, args=(client, address), daemon=True).start()

    def stay_at(self, port: int) -> None:
        """Give every connection from now on to one server, as when the others are gone."""
        self._turns = itertools.cycle([address for address in self._addresses if address[1] == port])

    def close(self) -> None:
        """Take no more connections."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


def _connect(client: socket.socket, address: tuple[str, int]) -> None:
    with client, contextlib.suppress(OSError), socket.create_connection(address) as server:
        back = threading.Thread(target=_pump, args=(server, client), daemon=True)
        back.start()
        _pump(client, server)
        back.join()


def _pump(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := one.recv(1 << 16):
            other.sendall(piece)
    for end in (one, other):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
