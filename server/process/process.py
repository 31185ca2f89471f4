"""The server process: what it starts, in which order, and how it ends."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from types import FrameType, ModuleType
from typing import TYPE_CHECKING

from model.version import sluice_version
from server.http.gate import raise_open_files
from server.process.data_directory import DataDirectoryLock, make_private
from server.process.postgres import EmbeddedPostgres
from server.settings.kinds import own_uri, reached_at
from server.settings.options import (
    ADVERTISED_URL,
    CATALOG_DIRECT_DSN,
    CATALOG_DSN,
    DRAIN,
    DRAIN_DELAY,
    FLIGHT_LISTEN,
    LISTEN,
    THREADS,
    TOKEN,
)
from server.settings.settings import Settings
from workers.launch import launch

if TYPE_CHECKING:
    from flask import Flask

    from server.access.tls import TlsFiles
    from server.flight.server import FlightEndpoint
    from server.observe.metrics import Metrics
    from server.observe.traces import Maker
    from server.process.services import Services

_log = logging.getLogger(__name__)
_LOOPBACK = "127.0.0.1"
_OWN_THREADS = 64
"""Each of Spark's streams waits in one nearly all the time, and all of a principal's have three quarters between them."""
_TURN_SECONDS = 0.001
"""Of a thread that computes, before one that waits for the interpreter gets it: a request waits for it several times, and Python's own 5 ms
are longer than most requests take."""
_STOPPING = (signal.SIGTERM, signal.SIGINT)
_LAST_BYTES_SECONDS = 2.0
"""However short the drain, answers being written get so long."""


@dataclass(frozen=True, slots=True)
class CatalogPostgres:
    """The Postgres the catalog lies in."""

    dsn: str
    problem: Callable[[], str | None] | None = None
    """Says why it is away; None where it is not ours to know."""


@contextlib.contextmanager
def catalog_dsn(settings: Settings) -> Iterator[str]:
    """The catalog's DSN, past a pooler where it can be: the one set, or that of an embedded Postgres which runs until the block ends."""
    from catalog.connection import noticing_dsn

    with _catalog_postgres(settings) as postgres:
        yield noticing_dsn(settings[CATALOG_DIRECT_DSN] or postgres.dsn)


@contextlib.contextmanager
def _catalog_postgres(settings: Settings) -> Iterator[CatalogPostgres]:
    if (dsn := settings[CATALOG_DSN]) is not None:
        yield CatalogPostgres(dsn)
        return
    postgres = EmbeddedPostgres(settings.data)
    try:
        with _migrating(settings) as migrate:
            dsn = postgres.start()
            migrate(dsn)
        yield CatalogPostgres(dsn, postgres.problem)
    finally:
        postgres.stop()


@contextlib.contextmanager
def _migrating(settings: Settings) -> Iterator[Callable[[str], object]]:
    """What brings a catalog to its first schema soon: a process that loads alembic, a second's work, while Postgres is being made.

    Whether it did is for `migrations.upgrade` to see, which runs afterwards in any case.
    """
    if (settings.data / "postgres").exists():
        yield lambda dsn: None
        return
    command = [sys.executable, "-P", "-m", "migrations"]
    none = subprocess.DEVNULL
    with launch(command, stdin=subprocess.PIPE, stdout=none, stderr=none, text=True, start_new_session=True) as process:
        yield process.communicate


class Stop:
    """Waits for SIGTERM or SIGINT; a second one means that waiting for statements is over.

    A thread reads the signals where the interpreter writes them. The kernel gives a signal to whichever thread comes first, and Python runs
    a handler in the main thread only, when that next runs: asleep in a lock it is not woken for a signal another thread took.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()
        self.hurry = threading.Event()
        reading_end, written = os.pipe()  # open as long as the process lives: a signal may come at any time
        os.set_blocking(written, False)
        signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        for number in _STOPPING:
            signal.signal(number, _ignore)  # one of Python's, so that its number is written and nothing else happens
        threading.Thread(target=self._listen, args=(reading_end,), name="sluice-signals", daemon=True).start()

    def _listen(self, reading_end: int) -> None:
        while numbers := os.read(reading_end, 64):
            for number in numbers:
                if number in _STOPPING:
                    (self.hurry if self._asked.is_set() else self._asked).set()

    @property
    def asked(self) -> bool:
        """Whether the process was told to stop."""
        return self._asked.is_set()

    def wait(self) -> None:
        """Sleep until told to stop."""
        self._asked.wait()


def _ignore(number: int, frame: FrameType | None) -> None:
    """`Stop` reads the number instead."""


def serve(settings: Settings) -> None:
    """Serve until told to stop; everything started is stopped again, in the other order."""
    sys.setswitchinterval(_TURN_SECONDS)
    raise_open_files()
    stop = Stop()
    tls = _tls(settings)
    gc.disable()  # what is being loaded stays, and looking through it again and again is a fifth of the start
    loading = threading.Thread(target=_load_packages, name="sluice-load", daemon=True)
    loading.start()  # Postgres starts meanwhile
    make_private(settings.data)
    with contextlib.ExitStack() as cleanup:
        if settings[CATALOG_DSN] is not None:  # else who has the embedded Postgres holds it
            cleanup.callback(DataDirectoryLock(settings.data, needed=False).release)
        postgres = cleanup.enter_context(_catalog_postgres(settings))
        loading.join()
        _serve(settings, postgres, stop, cleanup, tls)


def _tls(settings: Settings) -> TlsFiles | None:
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    from server.access.tls import TlsFiles

    return TlsFiles(settings.tls_certificate, settings.tls_key)


def _load_packages() -> None:
    """Import what serving needs; what is wrong with it shows when it is used."""
    with contextlib.suppress(Exception):
        do_without_pandas()
        import server.app
        import server.http.wsgi
        import server.process.build  # noqa: F401
        import sql.statements.all  # noqa: F401
        from server.flight.server import FlightEndpoint  # noqa: F401


class _NoPandas(MetaPathFinder):
    """Says that there is no pandas."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is not needed here")


def do_without_pandas() -> None:
    """Keep pyarrow from loading pandas, more than a second's work, to see whether a list is one of its series: nobody here has one.

    pyarrow looks once, and has no setting for it; whoever else wants pandas finds it afterwards.
    """
    absent = _NoPandas()
    sys.meta_path.insert(0, absent)
    try:
        import pyarrow

        pyarrow.array([])
    finally:
        sys.meta_path.remove(absent)


def _serve(settings: Settings, postgres: CatalogPostgres, stop: Stop, cleanup: contextlib.ExitStack, tls: TlsFiles | None) -> None:
    from catalog.backup.restoring import starting
    from catalog.connection import noticing_dsn
    from migrations import upgrade
    from server.app import create_app
    from server.http.wsgi import HttpServer
    from server.observe.metrics import metrics_of
    from server.process.build import build_gateway
    from server.process.services import Services

    direct = settings[CATALOG_DIRECT_DSN] or postgres.dsn
    with contextlib.ExitStack() as unseen:  # until a restore would see the gateway's connections
        unseen.enter_context(starting(direct))
        if settings.catalog_pooled and settings[CATALOG_DIRECT_DSN] is None:
            unseen.close()  # a pooler has few connections, and none to hold meanwhile
        upgrade(noticing_dsn(direct))
        gateway, spark, peers = build_gateway(settings, postgres.dsn, cleanup, postgres_problem=postgres.problem)
    services = Services(gateway=gateway, settings=settings, peers=peers)
    app = create_app(services, maker=_traced(settings, cleanup))
    figures = metrics_of(app)
    http = HttpServer(app, settings, tls=tls, bodies=gateway.bodies)
    figures.server.threads = http.threads
    figures.server.connections = http.connections
    host, port = http.start_serving()
    flight = _open_flight(services, figures, tls)
    peers.announce(settings[ADVERTISED_URL] or reached_at(host, port, secure=tls is not None))
    gateway.serve_at(own_uri(host, port) if tls is None else _listen_for_spark(app, settings, cleanup))
    gc.freeze()
    gc.enable()
    gateway.workers.start()
    if not settings.spark_when_needed:
        spark.start_in_background()  # not before: it takes all cores for seconds, and most first statements need no Spark
    print(banner(settings, host, port, flight=flight.where if flight is not None else None), flush=True)
    stop.wait()
    _log.info("Stopping: up to %g s for what runs", settings[DRAIN])
    services.stop_waiting()
    stop.hurry.wait(settings[DRAIN_DELAY])
    threading.Thread(target=_hurry, args=(stop, gateway), name="sluice-hurry", daemon=True).start()
    until = time.monotonic() + settings[DRAIN]
    gateway.drain(settings[DRAIN])
    if flight is not None:
        flight.stop(max(_LAST_BYTES_SECONDS, until - time.monotonic()))
    peers.leave()
    http.shutdown_timeout = max(_LAST_BYTES_SECONDS, until - time.monotonic())
    http.stop_serving()


def _open_flight(services: Services, metrics: Metrics, tls: TlsFiles | None) -> FlightEndpoint | None:
    """The endpoint of Arrow Flight SQL, where the settings have one."""
    if services.settings[FLIGHT_LISTEN] is None:
        return None
    from server.flight.server import FlightEndpoint

    endpoint = FlightEndpoint(services, metrics, tls)
    endpoint.start()
    return endpoint


def _hurry(stop: Stop, gateway: object) -> None:
    from gateway.gateway import Gateway

    stop.hurry.wait()
    assert isinstance(gateway, Gateway)
    gateway.drain(0)


def _traced(settings: Settings, cleanup: contextlib.ExitStack) -> Maker | None:
    if settings.traces_endpoint is None:
        return None
    from server.observe.traces import tracing

    return cleanup.enter_context(tracing(settings.traces_endpoint))


def _listen_for_spark(app: Flask, settings: Settings, cleanup: contextlib.ExitStack) -> str:
    """Where Spark's processes on this machine ask for tables while the server speaks TLS, whose certificate names no loopback address."""
    from server.http.wsgi import HttpServer

    own = HttpServer(app, settings.with_value(LISTEN, (_LOOPBACK, 0)).with_value(THREADS, _OWN_THREADS))
    host, port = own.start_serving()
    cleanup.callback(own.stop_serving)
    return own_uri(host, port)


def banner(settings: Settings, host: str, port: int, *, flight: tuple[str, int] | None = None) -> str:
    """What a newcomer reads first: where the server is, and three commands to try."""
    secure = settings.tls_certificate is not None
    url = f"{'https' if secure else 'http'}://{_shown(host)}:{port}"
    token = ' -H "Authorization: Bearer $SLUICE_TOKEN"' if settings[TOKEN] else ""
    commands = (
        "CREATE TABLE words (id BIGINT, word STRING)",
        "INSERT INTO words VALUES (1, 'hello'), (2, 'world')",
        "SELECT * FROM words",
    )
    lines = [f"Sluice {sluice_version()} answers at {url} (data in {settings.data}; Spark warms up in the background)", "Try:"]
    lines += [f'  curl -s{token} {url}/sql -d "{command}"' for command in commands]
    if flight is not None:
        lines.append(f"Arrow Flight SQL (ADBC, JDBC): {'grpc+tls' if secure else 'grpc'}://{_shown(flight[0])}:{flight[1]}")
    return "\n".join(lines)


def _shown(host: str) -> str:
    """A host as it stands in a URL a person can use on this machine."""
    return "127.0.0.1" if host in ("0.0.0.0", "::", "localhost") else f"[{host}]" if ":" in host else host
