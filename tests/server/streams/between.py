"""What stands between a client and its server: a proxy that loses requests and answers by a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal, Protocol

import httpx
import pytest

from pyspark_sluice import catalog
from tests.serving import in_background

_NOT_PASSED = {"connection", "keep-alive", "transfer-encoding", "host", "content-length"}
Loss = Literal["before", "after"] | tuple[int, Literal["before", "after"]]
"""A connection that is closed before the request was passed on or after, or the status that is answered so."""


class Plan(Protocol):
    """What becomes of a request, counted from 0; None for nothing."""

    def __call__(self, number: int, line: str) -> Loss | None: ...


class Between:
    """Answers at ``url``; ``plan`` may be set anew at any time, and counts from then on."""

    def __init__(self, server: str) -> None:
        self.seen: list[str] = []
        """The requests' lines, since the plan was set."""
        self.then: Callable[[str], None] = lambda line: None
        """Called with the line of each request whose answer is lost, before it is."""
        self._plan: Plan = lambda number, line: None
        self._server = server
        self._client = httpx.Client(timeout=120, trust_env=False)
        self._proxy = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._proxy.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._proxy.server_port}"
        in_background(self._proxy)

    def plan(self, plan: Plan) -> None:
        """From now on go by this plan."""
        self._plan, self.seen = plan, []

    def close(self) -> None:
        """Answer no more."""
        self._proxy.shutdown()
        self._proxy.server_close()
        self._client.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        between = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                line = f"{self.command} {self.path.partition('?')[0]}"
                number = len(between.seen)
                between.seen.append(line)
                loss = between._plan(number, line)
                moment = loss[1] if isinstance(loss, tuple) else loss
                given = None if moment == "before" else between._sent(self, body)
                if loss is None:
                    assert given is not None
                    self._tell(given.status_code, given.content, given.headers.get("Content-Type", ""))
                    return
                between.then(line)
                if isinstance(loss, tuple):
                    self._tell(loss[0], b"<html>away</html>", "text/html")
                else:
                    self.close_connection = True

            def _tell(self, status: int, body: bytes, kind: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = answer  # noqa: N815 - the base class's names

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                pass

        return Handler

    def _sent(self, handler: BaseHTTPRequestHandler, body: bytes) -> httpx.Response:
        headers = [(name, value) for name, value in handler.headers.items() if name.lower() not in _NOT_PASSED]
        return self._client.request(handler.command, f"{self._server}{handler.path}", headers=headers, content=body)


@pytest.fixture
def between(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Between]:
    """One before the server, whose clients ask again at once."""
    monkeypatch.setattr(catalog, "PAUSE_SECONDS", 0.02)
    proxy = Between(url)
    yield proxy
    proxy.close()
