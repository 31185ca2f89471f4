"""A proxy before Postgres that counts round trips, keeps what was asked in each, can make it far away, and loses what it is told to."""

from __future__ import annotations

import contextlib
import ctypes
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

_NOT_NOW = {80877103, 80877104}
"""What asks for TLS or GSS before the connection begins."""
_CANCEL = 80877102
_WITH_OTHERS = b"PBDEC"
"""Messages that nobody waits for: they go on with the one behind them."""
_WAIT_SECONDS = 60.0
_SO_ATTACH_FILTER, _RETURN = 26, 0x06
"""Of Linux, which Python has no names for."""


class Lost(Enum):
    """What of a round trip is lost; its client's connection ends."""

    QUESTION = "before it arrives"
    ANSWER = "its answer"
    LATE = "its answer, and it arrives right before the next such round trip"


@dataclass
class _Loss:
    of: str
    what: Lost
    passed: int = 0
    """How many such round trips are let through before."""
    away: bool = False
    """Whether Postgres is away from then on, for whoever asks next."""
    begun: bool = False
    release: threading.Event = field(default_factory=threading.Event)
    answered: threading.Event = field(default_factory=threading.Event)


@dataclass
class PostgresProxy:
    """Where it answers, and what came: a round trip is what its client has to wait for, and can hold several statements."""

    dsn: str = ""
    seconds: float = 0.0
    """How long what is sent takes to arrive."""
    trips: list[str] = field(default_factory=list)
    """The statements of each round trip since `reset`, `; ` between them, each in one line."""
    startups: list[dict[str, str]] = field(default_factory=list)
    """The parameters each connection began with."""
    prepared: list[str] = field(default_factory=list)
    """The names under which statements were prepared."""
    loss: _Loss | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    left: int | None = None
    """How many more round trips are let through before Postgres is away, which is then gone for every connection; None for all."""

    clients: list[socket.socket] = field(default_factory=list)

    def vanish(self) -> None:
        """Let nobody answer on the connections there are, nor end them, as a machine that is gone; new ones are of another."""
        for client in self.clients:
            _drop_all(client)

    def away_after(self, trips: int) -> None:
        """Let Postgres go away before a round trip: it arrives at nobody, nor does anything else until it is `back`."""
        with self.lock:
            self.left = trips

    def back(self) -> bool:
        """Let Postgres answer again; whether it was away."""
        with self.lock:
            was, self.left = self.left == 0, None
        return was

    def is_away(self) -> bool:
        """Whether nobody reaches Postgres now."""
        return self.left == 0

    def passes(self) -> bool:
        """Count a round trip that begins; False for one that Postgres is away for."""
        with self.lock:
            if not self.left:
                return self.left is None
            self.left -= 1
            return True

    def lose(self, of: str, what: Lost, *, after: int = 0, away: bool = False) -> None:
        """Lose the next round trip whose statements match, once, or the next after so many; it may be the last before Postgres is away."""
        self.loss = _Loss(of, what, after, away)

    def lost(self, trip: str) -> _Loss | None:
        """The loss that this round trip is; what came late before it has arrived."""
        with self.lock:
            loss = self.loss
            if loss is None or not re.search(loss.of, trip):
                return None
            if loss.passed:
                loss.passed -= 1
                return None
            first, loss.begun = not loss.begun, True
            if first and loss.away:
                self.left = 0
        if first:
            return loss
        if loss.what is Lost.LATE:
            loss.release.set()
            loss.answered.wait(_WAIT_SECONDS)
        return None

    def reset(self) -> None:
        """Count anew."""
        with self.lock:
            self.trips.clear()

    def asked(self, *, without: str = "") -> list[str]:
        """The round trips since `reset`, but for those that match."""
        with self.lock:
            return [trip for trip in self.trips if not without or not re.search(without, trip)]


def _drop_all(client: socket.socket) -> None:
    """Let the kernel drop what comes on a connection, unacknowledged: a filter of one instruction, which keeps nothing."""
    instruction = ctypes.create_string_buffer(struct.pack("HBBI", _RETURN, 0, 0, 0))
    client.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", 1, ctypes.addressof(instruction)))


@dataclass
class _Client:
    """Reads a client's messages, and tells the proxy of each that it waits for the answer of."""

    proxy: PostgresProxy
    statements: list[str] = field(default_factory=list)
    names: dict[bytes, str] = field(default_factory=dict)
    """What was prepared under which name."""
    loss: _Loss | None = None
    """What this connection loses."""

    def began(self, body: bytes) -> None:
        words = [word.decode() for word in body[4:].split(b"\0") if word]
        with self.proxy.lock:
            self.proxy.startups.append(dict(zip(words[::2], words[1::2], strict=True)))

    def sent(self, kind: bytes, body: bytes) -> None:
        """Hear a message; one that is waited for may become this connection's `loss`."""
        match kind:
            case b"Q":
                self._ask(body[:-1])
                self._wait()
            case b"P":
                name, text, _ = body.split(b"\0", 2)
                self.names[name] = _line(text)
                if name:
                    with self.proxy.lock:
                        self.proxy.prepared.append(name.decode())
            case b"B":
                self.statements.append(self.names.get(body.split(b"\0", 2)[1], "?"))
            case b"S":
                self._wait()

    def _ask(self, text: bytes) -> None:
        self.statements.append(_line(text))

    def _wait(self) -> None:
        trip = "; ".join(self.statements) or "(prepares)"
        with self.proxy.lock:
            self.proxy.trips.append(trip)
        self.statements.clear()
        if not self.proxy.passes():
            raise ConnectionError
        self.loss = self.proxy.lost(trip)


def _line(text: bytes) -> str:
    return " ".join(text.decode(errors="replace").split())


def _read(source: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = source.recv(count - len(found))
        if not part:
            raise ConnectionError
        found += part
    return found


def _upwards(heard: _Client, client: socket.socket, there: socket.socket) -> None:
    """Pass a client's messages on; a message that is waited for arrives later."""
    while True:  # until the connection itself begins
        size = _read(client, 4)
        body = _read(client, int.from_bytes(size) - 4)
        if int.from_bytes(body[:4]) not in _NOT_NOW:
            break
        client.sendall(b"N")
    if int.from_bytes(body[:4]) != _CANCEL:
        heard.began(body)
    there.sendall(size + body)
    pending = b""
    while True:
        kind, size = _read(client, 1), _read(client, 4)
        body = _read(client, int.from_bytes(size) - 4)
        pending += kind + size + body
        heard.sent(kind, body)
        if kind in _WITH_OTHERS:
            continue
        if heard.loss is not None:
            _lose(heard.loss, client, there, pending)
            return
        if heard.proxy.seconds and kind in (b"Q", b"S"):
            time.sleep(heard.proxy.seconds)
        there.sendall(pending)
        pending = b""


def _lose(loss: _Loss, client: socket.socket, there: socket.socket, pending: bytes) -> None:
    if loss.what is Lost.LATE:
        client.shutdown(socket.SHUT_RDWR)
        loss.release.wait(_WAIT_SECONDS)
    if loss.what is not Lost.QUESTION:
        there.sendall(pending)
        loss.answered.wait(_WAIT_SECONDS)


def _downwards(heard: _Client, client: socket.socket, there: socket.socket) -> None:
    while data := there.recv(1 << 16):
        if heard.loss is not None:
            if b"Z\x00\x00\x00\x05" in data:  # all of it was done
                heard.loss.answered.set()
            continue
        client.sendall(data)


def _until_closed(client: socket.socket, there: socket.socket, work: Callable[[], None]) -> None:
    with contextlib.suppress(OSError):
        work()
    for end in (client, there):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _connect(dsn: str) -> socket.socket:
    """A connection to where a DSN leads."""
    parts = conninfo_to_dict(dsn)
    host, port = str(parts.get("host") or "localhost"), int(parts.get("port") or 5432)
    if not host.startswith("/"):
        return socket.create_connection((host, port))
    there = socket.socket(socket.AF_UNIX)
    there.connect(f"{host}/.s.PGSQL.{port}")
    return there


@contextlib.contextmanager
def before_postgres(dsn: str) -> Iterator[PostgresProxy]:
    """A proxy before the Postgres of a DSN."""
    proxy = PostgresProxy()
    listening = socket.create_server(("127.0.0.1", 0))
    proxy.dsn = make_conninfo(dsn, host="127.0.0.1", port=listening.getsockname()[1], sslmode="disable", gssencmode="disable")
    open_: list[socket.socket] = []

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listening.accept()
                open_.append(client)
                proxy.clients.append(client)
                with contextlib.suppress(OSError):  # a client that has gone by now
                    connect(client)

    def connect(client: socket.socket) -> None:
        if proxy.is_away():
            client.close()
            return
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        there = _connect(dsn)
        open_.append(there)
        heard = _Client(proxy)
        for way in (_upwards, _downwards):
            work = partial(way, heard, client, there)
            threading.Thread(target=_until_closed, args=(client, there, work), name="postgres-proxy", daemon=True).start()

    thread = threading.Thread(target=accept, name="postgres-proxy", daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        for one in (listening, *open_):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        thread.join(20)


@pytest.fixture
def postgres_proxy(dsn: str) -> Iterator[PostgresProxy]:
    """A proxy before this test's database."""
    with before_postgres(dsn) as proxy:
        with psycopg.connect(proxy.dsn) as conn:  # so that a proxy that leads nowhere is told at once
            conn.execute("SELECT 1")
        proxy.startups.clear()
        proxy.reset()
        yield proxy
