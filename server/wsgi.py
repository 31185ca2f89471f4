"""The HTTP server: cheroot's threads in front of the app (`docs/decisions/http-server.md`)."""

from __future__ import annotations

import logging
import math
import select
import ssl
import threading
from typing import Any

from cheroot import wsgi
from cheroot.server import HTTPConnection
from flask import Flask

from server.options import Settings
from server.statements import CONNECTION
from server.tls import TlsAdapter, TlsFiles, shake_hands

_log = logging.getLogger(__name__)
_LINGER_MILLIS = 5
_SPARE_THREADS = 8
"""So many threads stay free for those who come."""


class _Gateway(wsgi.Gateway_10):
    """Hands the client's socket to the app, so that it can notice when the client goes."""

    def get_environ(self) -> dict[str, Any]:  # type: ignore[override] # cheroot's stubs say None
        environ: dict[str, Any] = super().get_environ()  # type: ignore[no-untyped-call]
        environ[CONNECTION] = self.req.conn.socket
        return environ


class _Connection(HTTPConnection):
    """Stays with its thread for a moment after an answer: a busy client's next request is there before any other thread is woken for it."""

    _met = False

    def communicate(self) -> bool:
        if not self._met and isinstance(self.socket, ssl.SSLSocket) and not shake_hands(self.socket):
            return False
        self._met = True
        while super().communicate():  # type: ignore[no-untyped-call]
            if self.server.requests.idle < _SPARE_THREADS or not self._next_comes():
                return True
        return False

    def _next_comes(self) -> bool:
        if self.rfile.has_data():
            return True
        waiting = select.poll()
        waiting.register(self.socket, select.POLLIN)
        return bool(waiting.poll(_LINGER_MILLIS))


class HttpServer(wsgi.Server):
    """One process, many threads; stops by letting requests end."""

    def __init__(self, app: Flask, settings: Settings, *, tls: TlsFiles | None = None) -> None:
        super().__init__(
            settings.listen,
            app,
            numthreads=settings.threads,
            server_name="sluice",
            max=settings.threads,
            request_queue_size=512,
            timeout=math.ceil(settings.stall),
            shutdown_timeout=math.ceil(settings.drain),
        )
        self.gateway = _Gateway
        self.ConnectionClass = _Connection
        if tls is not None:
            self.ssl_adapter = TlsAdapter(tls)
        # Cheroot's own limit of 10 makes every client past the tenth connect anew for each request; idle ones hold no thread.
        self.keep_alive_conn_limit = 4 * settings.threads
        self.max_request_header_size = 64 << 10
        self._thread = threading.Thread(target=self.serve, name="sluice-http", daemon=True)

    def start_serving(self) -> tuple[str, int]:
        """Bind and answer from now on; returns where. Raises `OSError` where the address is taken."""
        self.prepare()
        host, port = self.bind_addr[:2]
        self._thread.start()
        return host, port

    def threads(self) -> dict[str, float]:
        """Threads that answer requests, and connections with a request that waits for one."""
        idle = self.requests.idle
        return {"busy": self.numthreads - idle, "idle": idle, "waiting": self.requests.qsize}

    def stop_serving(self) -> None:
        """Take no more connections, and return when the requests at work have ended or the drain time is over."""
        self.stop()

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        """A client that went away is no news; everything else goes to the log."""
        _log.log(level, msg, exc_info=traceback)
