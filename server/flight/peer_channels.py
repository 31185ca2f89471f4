"""gRPC's connections to the Flight SQL of other servers, one to each, which all calls that are passed on share.

Where a server's Flight SQL is, it says over a connection of HTTP on which it has shown who it is (`server.sql.peer_connections`), for each
call anew: the port may be another program's once that server is gone.
"""

from __future__ import annotations

import re
import ssl
import threading
from http.client import HTTPException, IncompleteRead
from pathlib import Path
from urllib.parse import urlsplit

import grpc

from catalog.records import ServerRow
from lake.peers import Peers
from model.errors import Unavailable
from server.flight.service import LEAST_PING_SECONDS
from server.sql.forward import known_to, silent
from server.sql.peer_connections import FLIGHT_PORT, NoAnswer, NotReached, PeerConnections, PeerRequest

_CONNECT_SECONDS = 5.0
_PORT_SECONDS = 10.0
"""So long a server may take to say where its Flight SQL is, also over a connection that has been used before."""
_LONGEST_BACKOFF_MILLIS = 1000
_KEEPALIVE_SECONDS, _KEEPALIVE_ANSWER_SECONDS = 2 * LEAST_PING_SECONDS, 10
"""So a machine that is gone without a word is noticed, however long an answer may take for other reasons."""
_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.keepalive_time_ms", _KEEPALIVE_SECONDS * 1000),
    ("grpc.keepalive_timeout_ms", _KEEPALIVE_ANSWER_SECONDS * 1000),
    ("grpc.http2.ping_timeout_ms", _KEEPALIVE_ANSWER_SECONDS * 1000),  # a minute otherwise, which goes before
    ("grpc.http2.max_pings_without_data", 0),  # as often as it takes
    ("grpc.max_reconnect_backoff_ms", _LONGEST_BACKOFF_MILLIS),
    ("grpc.use_local_subchannel_pool", 1),  # nobody else's channel to that target shares the connection
]
_READY, _FAILED = grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE
_NAME_IN_CERT_DIR = re.compile(r"[0-9a-f]{8}\.\d+")


class _Channel:
    """A channel, and whether it is connected."""

    def __init__(self, target: str, *, secure: bool) -> None:
        self.target = target
        if secure:
            self.channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(_roots()), options=_OPTIONS)
        else:
            self.channel = grpc.insecure_channel(target, options=_OPTIONS)
        self._changed = threading.Condition()
        self._state: grpc.ChannelConnectivity | None = None
        self.channel.subscribe(self._tell, try_to_connect=True)

    def _tell(self, state: grpc.ChannelConnectivity) -> None:
        with self._changed:
            self._state = state
            self._changed.notify_all()

    def connect(self) -> bool:
        """Be connected, as far as one can know; False where nobody listens there, or takes long."""
        with self._changed:
            if self._state is _READY:
                return True
        self.channel.subscribe(_ignore, try_to_connect=True)
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._state in (_READY, _FAILED), _CONNECT_SECONDS)
                return self._state is _READY
        finally:
            self.channel.unsubscribe(_ignore)


def _ignore(_: grpc.ChannelConnectivity) -> None:
    pass


class PeerChannels:
    """Those of one server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: PeerConnections | None = None
        self._kept: dict[int, _Channel] = {}

    def to(self, owner: ServerRow, peers: Peers, what: str) -> grpc.Channel:
        """The channel to a server's Flight SQL, connected, for calls about ``what``; raises `Unavailable` or `ServerGone`."""
        parts = urlsplit(owner.url or "")
        host = parts.hostname or ""
        target = f"{f'[{host}]' if ':' in host else host}:{self._port(owner, peers, what)}"
        with self._lock:
            channel = self._kept.get(owner.number)
            old = [] if channel is not None and channel.target == target else self._take_old(owner.number, peers)
            if channel is None or channel.target != target:
                channel = self._kept[owner.number] = _Channel(target, secure=parts.scheme == "https")
        for each in old:
            each.channel.close()
        if not channel.connect():
            raise Unavailable(known_to(owner, what, f"is not reached at {target}, where its Flight SQL listens"))
        return channel.channel

    def _take_old(self, number: int, peers: Peers) -> list[_Channel]:
        """Take out the channel to a number, and those to servers that are gone."""
        rows = {each: peers.find(each) for each in self._kept}
        return [self._kept.pop(each) for each, row in rows.items() if each == number or row is None or peers.is_gone(row)]

    def _port(self, owner: ServerRow, peers: Peers, what: str) -> str:
        with self._lock:
            if self._connections is None:
                self._connections = PeerConnections()
        try:
            request = PeerRequest("GET", "/livez", [(FLIGHT_PORT, "?")], None, answer_seconds=_PORT_SECONDS)
            answer = self._connections.send(owner, peers.seal, request)
            # A proxy before the owner may write the names of headers as it likes.
            port = {name.lower(): value for name, value in answer.headers}.get(FLIGHT_PORT.lower())
            for _ in answer.pieces():
                pass
        except NotReached as problem:
            raise silent(owner, peers, what, str(problem)) from problem
        except (NoAnswer, OSError, HTTPException, IncompleteRead) as problem:
            raise silent(owner, peers, what, "does not answer") from problem
        if port is None:
            raise Unavailable(known_to(owner, what, "has no Flight SQL, or is of an earlier version"))
        return port

    def close(self) -> None:
        """Keep none; calls on them are canceled."""
        with self._lock:
            channels, self._kept = list(self._kept.values()), {}
            connections, self._connections = self._connections, None
        for each in channels:
            each.channel.close()
        if connections is not None:
            connections.close()


def _roots() -> bytes | None:
    """The authorities that this machine trusts, as SSL_CERT_FILE and SSL_CERT_DIR say or OpenSSL was built; None leaves it to gRPC."""
    context = ssl.create_default_context()
    directory = ssl.get_default_verify_paths().capath  # OpenSSL looks there for each certificate when it meets it, gRPC never
    for file in Path(directory).iterdir() if directory is not None else ():
        if _NAME_IN_CERT_DIR.fullmatch(file.name):
            try:
                context.load_verify_locations(file)
            except OSError:  # and what is no certificate, of which OpenSSL says nothing either
                continue
    trusted = context.get_ca_certs(binary_form=True)
    return "".join(map(ssl.DER_cert_to_PEM_cert, trusted)).encode() or None
