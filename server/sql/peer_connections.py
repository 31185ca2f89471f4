"""Connections to other servers of the catalog; each has shown, before anything of a caller is sent over it, that it leads to the one meant.

An address in the catalog may be another program's by now, and one on loopback may be another machine's. So the first exchange of a
connection is ``GET /livez`` with a number that was never used, and only who knows the key in the catalog, and has the number of the server
that is meant, can give the answer. Nothing else is sent over a connection without it.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import select
import socket
import ssl
import string
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from urllib.parse import quote, urlsplit

from catalog.records import ServerRow
from server.settings.kinds import is_loopback

PROVE, PROOF = "X-Sluice-Prove", "X-Sluice-Proof"
FLIGHT_PORT = "X-Sluice-Flight-Port"
"""Asks a server, and tells, at which port it speaks Flight SQL."""
ONLY_READ = ("GET", "HEAD")
"""Methods of requests that change nothing where they arrive."""
_PROVED_AT = "/livez"
"""A path that everybody may ask for, and every proxy before a server lets through."""
_SAME_WHEREVER = "-"
"""In place of the asking end of a connection that may lead through others."""
_CONNECT_SECONDS, _PROOF_SECONDS, _ANSWER_SECONDS = 3.0, 10.0, 90.0
"""An answer may be held back for 30 seconds until a statement has ended."""
_IDLE_SECONDS, _MOST_IDLE = 5.0, 20
"""So long, and so many for each server, connections wait for the next request."""
_PIECE = 1 << 16
Seal = Callable[..., str]
"""`Peers.seal`."""


class NotReached(Exception):
    """Nothing that a caller sent has left this server; the text says why, behind "the server … which"."""


class NotTheOne(NotReached):
    """Somebody answers there who is not the server that is meant, as far as he can show."""


class NoAnswer(Exception):
    """A request was sent, or a part of it, and there is no answer."""


def proof(number: int, seal: Seal, asked: str, client: tuple[str, str]) -> str | None:
    """What shows a server that asks with `PROVE` that this one has the number; None where it means another one.

    ``client`` is the other end of the connection as it is seen here: on loopback nobody may have passed the question on.
    """
    nonce, _, rest = asked.partition(" ")
    meant, _, end = rest.partition(" ")
    if meant != str(number) or end not in (_SAME_WHEREVER, _end(client[0], int(client[1]))):
        return None
    return seal("proof", nonce, meant, end)


def _end(address: str, port: int) -> str:
    """One end of a connection, in one spelling whichever sockets see it."""
    ip = ipaddress.ip_address(address)
    return f"{getattr(ip, 'ipv4_mapped', None) or ip}/{port}"


@dataclass(frozen=True, slots=True)
class PeerRequest:
    """What is sent to another server."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]]
    body: Iterable[bytes] | None
    answer_seconds: float = _ANSWER_SECONDS
    """So long its answer may be silent."""

    @property
    def only_reads(self) -> bool:
        """Whether it changes nothing there."""
        return self.method in ONLY_READ


@dataclass(slots=True)
class PeerAnswer:
    """An answer whose body is still to come."""

    status: int
    headers: Sequence[tuple[str, str]]
    _response: HTTPResponse
    _give_back: Callable[[bool], None]
    _whole: bool = False

    def pieces(self) -> Iterator[bytes]:
        """The body as it comes, compressed as it is; raises `IncompleteRead` or `OSError` where it breaks off."""
        while piece := self._response.read1(_PIECE):
            yield piece
        if self._response.length:
            raise IncompleteRead(b"", self._response.length)
        self._whole = True
        self.close()

    def close(self) -> None:
        """Nothing more is read of it; twice is fine."""
        give_back, self._give_back = self._give_back, lambda whole: None
        self._response.close()  # before the connection is anybody's: it takes no request while an answer of its is open
        give_back(self._whole and not self._response.will_close)


class PeerConnections:
    """Those of one server, kept a moment for the next request."""

    def __init__(self) -> None:
        import httpx

        self._trusted = httpx.create_ssl_context(trust_env=False)  # the public authorities, which a machine may not have
        self._trusted.load_default_certs()  # and the machine's own, or those of SSL_CERT_FILE
        self._lock = threading.Lock()
        self._idle: dict[tuple[int, str], list[tuple[float, HTTPConnection]]] = {}
        self._closed = False

    def send(self, owner: ServerRow, seal: Seal, request: PeerRequest) -> PeerAnswer:
        """Send a request to a server that has shown who it is; raises `NotReached` or `NoAnswer`."""
        while (connection := self._taken(owner)) is not None:
            try:
                return self._sent(connection, owner, request)
            except NoAnswer as problem:
                # One that was closed at that moment; what is only read may be asked again, unless it was waited for in vain.
                if request.body is not None or not request.only_reads or isinstance(problem.__cause__, TimeoutError):
                    raise
        return self._sent(self._opened(owner, seal), owner, request)

    def _sent(self, connection: HTTPConnection, owner: ServerRow, request: PeerRequest) -> PeerAnswer:
        try:
            connection.sock.settimeout(request.answer_seconds)
            target = quote(request.target.encode("latin-1"), safe=string.punctuation)
            connection.putrequest(request.method, target, skip_accept_encoding=True)
            for name, value in request.headers:
                connection.putheader(name, value)
            chunked = request.body is not None and not any(name.lower() == "content-length" for name, _ in request.headers)
            if chunked:
                connection.putheader("Transfer-Encoding", "chunked")
            taken = True
            try:
                connection.endheaders(request.body, encode_chunked=chunked)
            except (BrokenPipeError, ConnectionResetError):
                taken = False  # who refuses a body closes before all of it is sent, and what he said is still to be read
            response = connection.getresponse()
        except (OSError, HTTPException) as problem:
            connection.close()
            raise NoAnswer(str(problem)) from problem
        except BaseException:  # the caller's own body broke off
            connection.close()
            raise
        return PeerAnswer(
            response.status, response.getheaders(), response, lambda whole: self._back(owner, connection, whole=whole and taken)
        )

    def _opened(self, owner: ServerRow, seal: Seal) -> HTTPConnection:
        parts = urlsplit(owner.url or "")
        host, secure = parts.hostname or "", parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        connection = HTTPSConnection(host, port, context=self._trusted) if secure else HTTPConnection(host, port)
        connection.timeout = _CONNECT_SECONDS
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as problem:
            raise NotReached(
                f"shows a certificate at {owner.url} that is not trusted here ({problem}): let SSL_CERT_FILE here name its CA"
            ) from problem
        except (OSError, UnicodeError) as problem:  # the latter of a host that no name server knows how to ask for
            raise NotReached("does not answer") from problem
        connection.auto_open = 0  # nobody has shown anything at another one
        try:
            self._prove(connection, owner, seal, direct=not secure and is_loopback(host))
        except (OSError, HTTPException) as problem:
            connection.close()
            raise NotReached("does not answer") from problem
        except BaseException:
            connection.close()
            raise
        return connection

    @staticmethod
    def _prove(connection: HTTPConnection, owner: ServerRow, seal: Seal, *, direct: bool) -> None:
        connection.sock.settimeout(_PROOF_SECONDS)
        nonce, meant = secrets.token_hex(16), str(owner.number)
        end = _end(*connection.sock.getsockname()[:2]) if direct else _SAME_WHEREVER
        connection.request("GET", _PROVED_AT, headers={PROVE: f"{nonce} {meant} {end}"})
        response = connection.getresponse()
        if len(response.read(_PIECE)) == _PIECE or not hmac.compare_digest(
            (response.getheader(PROOF) or "").encode("latin-1"), seal("proof", nonce, meant, end).encode()
        ):
            raise NotTheOne(
                f"is not the one that answers at {owner.url}, or runs an earlier version; where that lasts set SLUICE_ADVERTISED_URL there"
            )
        if response.will_close:  # it stops, or a proxy before it sends each request over a connection of its own
            raise NotReached(
                f"closes each connection at {owner.url} behind one answer; where that lasts let the proxy there keep them open"
            )

    def _taken(self, owner: ServerRow) -> HTTPConnection | None:
        """A connection that waits and is still open."""
        while True:
            with self._lock:
                waiting = self._idle.get((owner.number, owner.url or ""))
                if not waiting:
                    return None
                since, connection = waiting.pop()
            if time.monotonic() - since <= _IDLE_SECONDS and not _is_readable(connection.sock):
                return connection
            connection.close()

    def _back(self, owner: ServerRow, connection: HTTPConnection, *, whole: bool) -> None:
        now = time.monotonic()
        with self._lock:
            if goes_back := whole and not self._closed:
                self._idle.setdefault((owner.number, owner.url or ""), []).append((now, connection))
            old = self._too_old(now)
        if not goes_back:
            connection.close()
        for each in old:
            each.close()

    def _too_old(self, now: float) -> list[HTTPConnection]:
        """Connections that nobody takes any more, taken out."""
        old: list[HTTPConnection] = []
        for key, waiting in list(self._idle.items()):
            young = [entry for entry in waiting if now - entry[0] <= _IDLE_SECONDS][-_MOST_IDLE:]
            old += [entry[1] for entry in waiting if entry not in young]
            self._idle[key] = young
            if not young:
                del self._idle[key]
        return old

    def close(self) -> None:
        """Keep no connection, nor those that are still used."""
        with self._lock:
            self._closed = True
            old, self._idle = [connection for waiting in self._idle.values() for _, connection in waiting], {}
        for connection in old:
            connection.close()


def _is_readable(waiting: socket.socket) -> bool:
    """Whether a connection that waits has been closed by the other end, which has nothing to say."""
    poll = select.poll()
    poll.register(waiting, select.POLLIN)
    return bool(poll.poll(0))
