"""A server of HTTP over a small app, spoken to byte by byte."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask, Response, request

from server.access.tls import TlsFiles
from server.formats import BrokenStream
from server.http.wsgi import HttpServer
from server.settings.settings import read_settings
from server.sql.disconnect import CONNECTION, ENDLESS, PRINCIPAL
from tests.waiting import eventually
from workers.spool import BodyFiles


class Site:
    """An app that tells what it got, and its server."""

    def __init__(self, directory: Path, *, files: BodyFiles | None = None, tls: TlsFiles | None = None, **settings: str) -> None:
        self.settings = read_settings(
            {
                "SLUICE_DATA": str(directory),
                "SLUICE_LISTEN": "127.0.0.1:0",
                "SLUICE_DRAIN_SECONDS": "20",
                "SLUICE_HTTP_THREADS": "8",
            }
            | settings
        )
        self.release = threading.Event()
        self.start = threading.Event()
        self.arrived, self.begun = threading.Semaphore(0), threading.Semaphore(0)
        self.gone = threading.Event()
        self.closed = threading.Event()
        self.bodies: list[int] = []
        self.http = HttpServer(self._app(), self.settings, tls=tls, bodies=files)
        self.address = self.http.start_serving()

    def _app(self) -> Flask:
        app = Flask("site")

        @app.before_request
        def note_who_asks() -> None:
            if (shown := request.headers.get("Authorization")) is not None:
                request.environ[PRINCIPAL] = shown.partition(" ")[2].strip()

        @app.get("/livez")
        def live() -> str:
            return "ok"

        @app.route("/echo", methods=["GET", "POST"])
        def echo() -> Response:
            return Response(request.stream.read())

        @app.post("/size")
        def size() -> str:
            count = 0
            while data := request.environ["wsgi.input"].read(1 << 16):
                count += len(data)
            self.bodies.append(count)
            return str(count)

        @app.get("/seen")
        def seen() -> dict[str, str]:
            return {name: value for name, value in request.environ.items() if isinstance(value, str)}

        @app.get("/wait")
        def wait() -> str:
            request.environ[CONNECTION].watch(self.gone.set)
            self.release.wait(60)
            return "waited"

        @app.get("/flood")
        def flood() -> Response:
            def pieces() -> Iterator[bytes]:
                for _ in range(300):
                    yield b"x" * 100_000

            answer = Response(pieces())
            answer.call_on_close(self.closed.set)
            return answer

        @app.get("/long", defaults={"is_endless": False})
        @app.get("/endless", defaults={"is_endless": True})
        def begun(is_endless: bool) -> Response:
            if is_endless:
                request.environ[ENDLESS] = True
            else:
                self.arrived.release()
                self.start.wait(60)

            request.environ[CONNECTION].watch((gone := threading.Event()).set)

            def pieces() -> Iterator[bytes]:
                yield b"begun"
                self.begun.release()
                while not gone.wait(0.05) and (is_endless or not self.release.is_set()):
                    yield b""
                yield b"ended"

            return Response(pieces())

        @app.get("/broken", defaults={"failure": RuntimeError("in the middle")})
        @app.get("/told", defaults={"failure": BrokenStream()})
        def broken(failure: Exception) -> Response:
            def pieces() -> Iterator[bytes]:
                yield b"begun"
                raise failure

            return Response(pieces())

        return app

    def connect(self) -> socket.socket:
        """A new connection."""
        return socket.create_connection(self.address, timeout=60)

    def ask(self, sent: bytes) -> bytes:
        """All that is answered to some bytes, until the server closes."""
        with self.connect() as client:
            client.sendall(sent)
            return rest(client)

    def stop(self) -> None:
        self.release.set()
        self.http.stop_serving()


def rest(client: socket.socket) -> bytes:
    """What comes until the other side closes."""
    return b"".join(iter(lambda: client.recv(1 << 16), b""))


def answer(client: socket.socket) -> bytes:
    """One answer with a length."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):  # byte by byte: what follows is the next answer's
        head += (some := client.recv(1))
        assert some, head
    length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    body = b""
    while len(body) < length:
        body += (some := client.recv(length - len(body)))
        assert some, head
    return head + body


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.release.set()
    # A thread tells the event loop that it has answered after its client knows, and a loop that has ended hears nothing any more.
    nothing_held = eventually(lambda: made.http.held() == 0, seconds=1, pause=0.01)
    made.stop()
    assert nothing_held or eventually(lambda: made.http.held() == 0), "what has ended holds nothing"
