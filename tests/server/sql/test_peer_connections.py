"""What a connection to another server may do at any moment: closing behind an answer, refusing early, saying nothing."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from threading import Thread

import pytest

from catalog.records import ServerRow
from server.sql.peer_connections import NoAnswer, NotReached, PeerConnections, PeerRequest

Speak = Callable[[socket.socket, list[bytes]], None]
"""Answers on one connection, and notes what it was asked."""
_PROVED = b"HTTP/1.1 204 No Content\r\nX-Sluice-Proof: shown\r\n"
_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
GET = PeerRequest("GET", "/statements/x", [], None)


class Peer:
    """A server that says what a test lets it say."""

    def __init__(self, speak: Speak) -> None:
        self.asked: list[bytes] = []
        """The first lines of requests behind the proofs."""
        self._speak = speak
        self._listener = socket.create_server(("127.0.0.1", 0))
        Thread(target=self._serve, daemon=True).start()

    @property
    def row(self) -> ServerRow:
        return ServerRow(number=7, name="peer", url=f"http://127.0.0.1:{self._listener.getsockname()[1]}", alive=True, silent=0.0)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with connection:
            self._speak(connection, self.asked)

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def peers() -> Iterator[Callable[[Speak], Peer]]:
    with ExitStack() as stack:

        def made(speak: Speak) -> Peer:
            peer = Peer(speak)
            stack.callback(peer.close)
            return peer

        yield made


@pytest.fixture
def connections() -> Iterator[PeerConnections]:
    made = PeerConnections()
    yield made
    made.close()


def head(connection: socket.socket) -> bytes:
    """The next request's head; nothing where there is none any more."""
    read = b""
    while not read.endswith(b"\r\n\r\n") and (byte := connection.recv(1)):
        read += byte
    return read


def shows(connection: socket.socket, more: bytes = b"") -> None:
    """Prove who it is."""
    head(connection)
    connection.sendall(_PROVED + more + b"\r\n")


def answers(connection: socket.socket, asked: list[bytes]) -> None:
    """Each request alike."""
    shows(connection)
    while request := head(connection):
        asked.append(request.partition(b"\r\n")[0])
        connection.sendall(_OK)


def seal(*said: str) -> str:
    return "shown"


def test_a_connection_that_is_closed_behind_the_proof_is_one_that_leads_nowhere(
    peers: Callable[[Speak], Peer], connections: PeerConnections
) -> None:
    """A server that stops while it shows who it is, or any proxy that closes each connection, was a bug of the server, 500."""
    peer = peers(lambda connection, asked: shows(connection, b"Connection: close\r\n"))
    with pytest.raises(NotReached, match="let the proxy there keep them open"):
        connections.send(peer.row, seal, GET)


def test_a_connection_is_anothers_once_its_answer_is_over(peers: Callable[[Speak], Peer], connections: PeerConnections) -> None:
    """Who took it a moment before could read no answer, and did not know what became of his request."""
    peer = peers(answers)
    first = connections.send(peer.row, seal, GET)
    given, statuses = first._give_back, []

    def and_taken(whole: bool) -> None:
        given(whole)
        second = connections.send(peer.row, seal, PeerRequest("DELETE", "/statements/x", [], None))
        statuses.append(second.status)
        second.close()

    first._give_back = and_taken
    assert b"".join(first.pieces()) == b"ok"
    assert statuses == [200]


def test_what_was_waited_for_in_vain_is_not_asked_again(peers: Callable[[Speak], Peer], connections: PeerConnections) -> None:
    """It was, on a new connection: the caller waited twice, and the other server did the same work twice."""

    def once(connection: socket.socket, asked: list[bytes]) -> None:
        shows(connection)
        while request := head(connection):
            asked.append(request)
            if len(asked) == 1:
                connection.sendall(_OK)

    peer = peers(once)
    assert b"".join(connections.send(peer.row, seal, GET).pieces()) == b"ok"
    assert len(connections._idle) == 1, "on which the next request is sent"
    with pytest.raises(NoAnswer):
        connections.send(peer.row, seal, replace(GET, answer_seconds=0.5))
    assert len(peer.asked) == 2


@pytest.mark.parametrize("headers", [[], [("Content-Length", str(64 << 20))]], ids=["chunked", "sized"])
def test_a_refusal_before_the_end_of_a_body_is_read(
    peers: Callable[[Speak], Peer], connections: PeerConnections, headers: list[tuple[str, str]]
) -> None:
    """Nobody knew what became of what was refused, as sending on to who has closed fails."""

    def refuse(connection: socket.socket, asked: list[bytes]) -> None:
        shows(connection)
        head(connection)
        connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 4\r\n\r\nmuch")

    peer = peers(refuse)
    answer = connections.send(peer.row, seal, PeerRequest("POST", "/rows/t", headers, (bytes(1 << 20) for _ in range(64))))
    assert (answer.status, b"".join(answer.pieces())) == (413, b"much")
    assert not connections._idle, "as nothing more can be sent over it"
