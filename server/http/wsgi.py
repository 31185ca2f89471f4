"""The HTTP server: connections in an event loop on one thread, the app on others (`docs/decisions/http-server.md`)."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import threading
from concurrent.futures import Future
from contextvars import Context
from typing import Any

from flask import Flask

from model.errors import LakeError
from server.access.access import check_access
from server.access.tls import TlsFiles
from server.http.exchange import Admit, Site
from server.http.gate import Gate, connections_allowed
from server.http.held import HeldBytes
from server.http.incoming import BrokenBody
from server.http.listener import Listener
from server.http.owners import Owners
from server.http.serial import SerialWorkers
from server.http.workers import Workers
from server.process.services import EXTENSION, Services
from server.settings.options import CONNECTIONS, CONNECTIONS_OF_ONE, DRAIN, LISTEN, ROWS_BYTES, STALL, STATEMENT_BYTES, THREADS
from server.settings.settings import Settings
from server.sql.disconnect import PRINCIPAL
from workers.spool import BodyFiles

_log = logging.getLogger(__name__)
_BACKLOG = 4096
_OTHER_BODIES = 64 << 20
"""The largest body but rows and statements: more than any of them may hold, so that who sends too much is told what is too much."""
_ROWS_PATH = re.compile(r"/tables/[^/]+/[^/]+/rows/?")
_STREAM_THREADS = 8
_PROBE_THREADS = 2
_KEPT = 8
"""One of so many threads is kept for principals and addresses for which none works."""
_STOP_SECONDS = 10.0


class HttpServer:
    """One process, one event loop, and threads for complete requests; stops by letting requests end."""

    def __init__(self, app: Flask, settings: Settings, *, tls: TlsFiles | None = None, bodies: BodyFiles | None = None) -> None:
        self.shutdown_timeout = settings[DRAIN]
        self._settings = settings
        self._tls = tls
        self._workers = Workers(threads := settings[THREADS], "sluice-http", of_one=max(1, threads * 3 // 4), kept=threads // _KEPT)
        self._gate = Gate.shared(connections_allowed(settings[CONNECTIONS]), settings[CONNECTIONS_OF_ONE])
        self._site = Site(
            app=app.wsgi_app,
            admit=admission(app, settings),
            workers=self._workers,
            probes=Workers(_PROBE_THREADS, "sluice-livez"),
            owners=Owners(),
            streams=SerialWorkers(_STREAM_THREADS, "sluice-streams"),
            bodies=bodies or BodyFiles(settings.data / "bodies"),
            held=HeldBytes(),
            scheme="http" if tls is None else "https",
            stall=settings[STALL],
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listener: Listener | None = None
        self._started: Future[None] = Future()
        self._thread = threading.Thread(target=self._serve, name="sluice-http", daemon=True)
        self._bound: socket.socket | None = None

    def start_serving(self) -> tuple[str, int]:
        """Bind and answer from now on; returns where. Raises `OSError` where the address is taken."""
        host, port = self._settings[LISTEN]
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        infos = socket.getaddrinfo(host, port, family if ":" in host else 0, socket.SOCK_STREAM, 0, socket.AI_PASSIVE)
        infos.sort(key=lambda info: info[0] != socket.AF_INET)
        bound = socket.socket(infos[0][0], socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if bound.family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            bound.bind(infos[0][4])
            bound.listen(_BACKLOG)
            bound.setblocking(False)
        except OSError:
            bound.close()
            raise
        self._bound = bound
        self._thread.start()
        self._started.result()
        name = bound.getsockname()
        return str(name[0]), int(name[1])

    def threads(self) -> dict[str, float]:
        """Threads that answer requests, and requests that wait for one."""
        return self._workers.counts()

    def held(self) -> int:
        """Bytes of requests in memory: heads, and bodies that come or wait."""
        return self._site.held.total

    def connections(self) -> dict[str, float]:
        """Open connections, by whether it is known who speaks through them."""
        return self._gate.counts()

    def stop_serving(self) -> None:
        """Take no more connections, and return when the requests at work have ended or the drain time is over."""
        if self._loop is None or self._listener is None or not self._thread.is_alive():
            return
        stopped = asyncio.run_coroutine_threadsafe(self._listener.stop(self.shutdown_timeout), self._loop)
        stopped.result(self.shutdown_timeout + _STOP_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECONDS)

    def _serve(self) -> None:
        loop = asyncio.new_event_loop()
        self._loop = loop
        try:
            loop.call_soon(self._begin)
            loop.run_forever()
        finally:
            loop.close()

    def _begin(self) -> None:
        assert self._bound is not None
        try:
            self._listener = Listener(self._bound, self._site, self._gate, self._tls)
            self._listener.begin()
        except BaseException as problem:
            self._started.set_exception(problem)
            raise
        self._started.set_result(None)


def admission(app: Flask, settings: Settings) -> Admit:
    """How large a body may be that one sends here, by who sends it and where, and who that is: nothing is kept of who may not call."""
    services = app.extensions.get(EXTENSION)

    def admit(environ: dict[str, Any]) -> tuple[int, str | None]:
        if not isinstance(services, Services):
            return settings[ROWS_BYTES], None
        looked_at = {**environ, "wsgi.input": BrokenBody()}
        with app.request_context(looked_at):
            try:
                check_access(services)
            except LakeError:
                return 0, None
        if PRINCIPAL not in looked_at:
            return 0, None
        principal = looked_at[PRINCIPAL] or None
        if environ["REQUEST_METHOD"] == "POST" and _ROWS_PATH.fullmatch(environ["PATH_INFO"]):
            return settings[ROWS_BYTES], principal
        return max(_OTHER_BODIES, 3 * settings[STATEMENT_BYTES]), principal

    return lambda environ: Context().run(admit, environ)
