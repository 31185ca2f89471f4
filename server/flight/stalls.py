"""Clients that neither take rows nor send them: each holds a thread, so that they are cut off after a while."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import grpc

from model.errors import StatementCanceled
from server.flight.calls import Call
from server.flight.connections import cut, endpoint

_log = logging.getLogger(__name__)
_FIRST_SECONDS = 20.0
"""A call's only message is there so long after its headers."""
T = TypeVar("T")


@dataclass(slots=True)
class _Connection:
    """What the calls on a connection wait for."""

    at_work: int = 0
    """Calls that wait for us."""
    waiting: int = 0
    """Calls that wait for the client."""
    unasked: int = 0
    """Of these, calls whose one message has not come."""
    moved: float = field(default_factory=time.monotonic)


class Stalls:
    """Knows of each connection when something last moved on it.

    gRPC lets no call be ended from here, so that the whole connection goes; it stays while any of its calls is at work or moves.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._connections: dict[str, _Connection] = {}

    @contextlib.contextmanager
    def at_work(self, call: Call) -> Iterator[None]:
        """A call is being answered."""
        peer = call.peer
        self._move(peer, at_work=1)
        try:
            yield
        finally:
            self._move(peer, at_work=-1)

    @contextlib.contextmanager
    def waiting(self, call: Call, *, first: bool = False) -> Iterator[None]:
        """A call at work waits until its client has taken or sent something; ``first`` is the message that every client sends at once."""
        peer = call.peer
        self._move(peer, at_work=-1, waiting=1, unasked=int(first))
        try:
            yield
        finally:
            self._move(peer, at_work=1, waiting=-1, unasked=-int(first))

    def sending(self, call: Call, messages: Iterable[T | None]) -> Generator[T | None]:
        """What is sent to a client, each piece of which it must take in time; None is no piece, and waits for us."""
        with self.at_work(call):
            for message in messages:
                if message is None:
                    yield None
                    continue
                with self.waiting(call):
                    yield message

    def receiving(self, call: Call, requests: Iterator[bytes]) -> Iterator[bytes]:
        """What a client sends, each piece in time, to its end; raises `StatementCanceled` where it hangs up before that."""
        while True:
            try:
                with self.waiting(call):
                    request = next(requests)
            except StopIteration:
                break
            except grpc.RpcError:  # canceled, or longer than a message may be
                break
            yield request
        # A call that is canceled ends its stream a moment before gRPC calls it canceled: what is asked for now is answered after that.
        with contextlib.suppress(StopIteration, grpc.RpcError):
            next(requests)
        if call.gone():
            raise StatementCanceled("The client went away before all rows had come; none were kept.")

    def tend(self, port: int) -> None:
        """Cut the connections to a port on which only clients are waited for, and nothing has moved for too long."""
        now = time.monotonic()
        with self._lock:
            stalled = {
                endpoint(peer): patience
                for peer, connection in self._connections.items()
                if connection.waiting and not connection.at_work and connection.moved < now - (patience := self._patience(connection))
            }
        for end in cut({end for end in stalled if end is not None}, port) if stalled else ():
            _log.warning(
                "%s:%d took and sent nothing for %g seconds (SLUICE_FLIGHT_STALL_SECONDS, and at most %g for a call's only message); "
                "its connection was closed",
                *end,
                stalled[end],
                _FIRST_SECONDS,
            )

    def _patience(self, connection: _Connection) -> float:
        return min(_FIRST_SECONDS, self._seconds) if connection.unasked else self._seconds

    def _move(self, peer: str, *, at_work: int, waiting: int = 0, unasked: int = 0) -> None:
        with self._lock:
            connection = self._connections.setdefault(peer, _Connection())
            connection.at_work += at_work
            connection.waiting += waiting
            connection.unasked += unasked
            connection.moved = time.monotonic()
            if not connection.at_work and not connection.waiting:
                del self._connections[peer]
