"""Connections of the client: as many as are needed, and none that waits for ever for a machine that is gone."""

from __future__ import annotations

import http.server
import io
import socket
import sys
import threading
from collections.abc import Iterator

import httpx
import pyarrow as pa
import pyarrow.ipc as ipc
import pytest

import sluice
from sluice import transport
from sluice.client import Client
from sluice.transport import http_client
from tests.serving import in_background

MANY = 130
"""More than the connections httpx opens by itself."""


def begun() -> bytes:
    """The begin of a result."""
    sink = io.BytesIO()
    ipc.new_stream(sink, pa.schema([("a", pa.int32())])).write_batch(pa.record_batch({"a": pa.array([1], pa.int32())}))
    return sink.getvalue()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Begin to answer, and never end."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(begun()), begun()))
        self.wfile.flush()
        self.server.ended.wait(300)  # type: ignore[attr-defined]
        self.close_connection = True

    def do_DELETE(self) -> None:
        """Take a cancel."""
        self.server.canceled += 1  # type: ignore[attr-defined]
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet."""


class Endless(http.server.ThreadingHTTPServer):
    """A server whose results never end."""

    daemon_threads = True
    request_queue_size = MANY

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.ended = threading.Event()
        self.canceled = 0
        self.url = f"http://127.0.0.1:{self.server_port}"
        in_background(self)


@pytest.fixture
def endless() -> Iterator[Endless]:
    with Endless() as made:
        yield made
        made.ended.set()
        made.shutdown()


def test_results_that_are_not_read_on_keep_nobody_from_asking(endless: Endless) -> None:
    with sluice.connect(endless.url) as conn:
        unread = [conn.execute("SELECT 1") for _ in range(MANY)]
        cancel = threading.Thread(target=unread[0].cancel, daemon=True)
        cancel.start()
        cancel.join(120)
        assert endless.canceled == 1
        endless.ended.set()


@pytest.mark.parametrize("made", ["connect", "Client"])
def test_a_machine_that_is_gone_is_found_out(endless: Endless, made: str) -> None:
    http = sluice.connect(endless.url).http() if made == "connect" else Client(endless.url)._http
    with http.stream("DELETE", "/statements/x") as answer:
        used: socket.socket = answer.extensions["network_stream"].get_extra_info("socket")
        assert used.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert used.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 120
    http.close()


def test_proxies_of_the_environment_are_used_as_by_httpx(endless: Endless, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", endless.url.removeprefix("http://"))
    monkeypatch.setenv("no_proxy", "direct.invalid")
    with http_client("http://elsewhere.invalid/", {}) as through:
        assert through.delete("/statements/x").status_code == 204
    with http_client("http://direct.invalid/", {}) as direct, pytest.raises(httpx.ConnectError):
        direct.delete("/statements/x")


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(
    ("listed", "direct"),
    [
        ("cat.internal:8083", True),
        ("cat.internal", True),
        ("INTERNAL", True),
        (".internal", True),
        ("10.0.0.1, cat.internal", True),
        ("a.b,*", True),
        ("a.b, http://cat.internal:8083", None),
        ("https://cat.internal", None),
        ("all://*cat.internal", True),
        ("cat.internal:9", False),
        ("at.internal", False),
        ("cat.internal.example", False),
        ("", False),
    ],
)
def test_what_no_proxy_names_is_asked_directly(listed: str, direct: bool | None, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a port, a scheme, or ``*`` among others it was asked through the proxy, which got the token."""
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://px:1")
    monkeypatch.setenv("no_proxy", listed)
    url = httpx.URL(f"{scheme}://cat.internal:8083")
    expected = scheme == listed.rpartition("://")[0].rpartition(" ")[2] if direct is None else direct
    with httpx.Client() as plain:
        assert (plain._transport_for_url(url) is plain._transport) is expected, "what httpx does"
    assert (transport._proxy(url) is None) is expected


@pytest.mark.parametrize(
    ("url", "listed"), [("http://[::1]:8083", "[::1]"), ("http://[::1]:8083", "::1"), ("https://cat.internal", "cat.internal:443")]
)
def test_what_no_proxy_names_is_asked_directly_although_httpx_does_not_know_it(
    url: str, listed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("all_proxy", "http://px:1")
    monkeypatch.setenv("no_proxy", listed)
    assert transport._proxy(httpx.URL(url)) is None


def test_a_socks_proxy_without_its_package_is_told_in_the_drivers_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was an ImportError that no caller expects."""
    monkeypatch.setenv("all_proxy", "socks5://px:1")
    monkeypatch.setitem(sys.modules, "socksio", None)
    with pytest.raises(sluice.InterfaceError, match=r"pip install 'httpx\[socks\]', or name the server in no_proxy"):
        sluice.connect("http://cat.internal:8083")
