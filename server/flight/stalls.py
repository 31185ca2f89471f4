"""Clients that neither take rows nor send them: each holds a thread, so that they are cut off after a while."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from server.flight.calls import Call, CallHeaders
from server.flight.connections import Endpoint, cut, endpoint, heard

_log = logging.getLogger(__name__)
_NEAR_SECONDS = 5.0
T = TypeVar("T")


@dataclass(slots=True)
class _Connection:
    """What the calls on a connection wait for."""

    at_work: int = 0
    """Calls that wait for us."""
    waiting: int = 0
    """Calls that wait for the client."""
    moved: float = field(default_factory=time.monotonic)


class Stalls:
    """Knows of each connection when something last moved on it.

    gRPC lets no call be ended from here, so that the whole connection goes; it stays while any of its calls is at work or moves.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._connections: dict[str, _Connection] = {}
        self._silent: dict[CallHeaders, float] = {}
        """Streams to us without a first message yet, and when each began."""

    def began(self, stream: CallHeaders) -> None:
        """A stream to us waits for its first message."""
        with self._lock:
            self._silent[stream] = time.monotonic()

    def spoke(self, stream: CallHeaders) -> None:
        """Its first message has come, or it is over."""
        with self._lock:
            self._silent.pop(stream, None)

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
    def waiting(self, call: Call) -> Iterator[None]:
        """A call at work waits until its client has taken or sent something."""
        peer = call.peer
        self._move(peer, at_work=-1, waiting=1)
        try:
            yield
        finally:
            self._move(peer, at_work=1, waiting=-1)

    def sending(self, call: Call, batches: Iterable[T]) -> Iterator[T]:
        """What is sent to a client, each piece of which it must take in time."""
        with self.at_work(call):
            for batch in batches:
                with self.waiting(call):
                    yield batch

    def tend(self, port: int) -> None:
        """Cut the connections to a port on which only clients are waited for, and nothing has moved for too long."""
        until = time.monotonic() - self._seconds
        with self._lock:
            stalled = {endpoint(peer) for peer, one in self._connections.items() if one.waiting and not one.at_work and one.moved < until}
            known = {endpoint(peer) for peer in self._connections}
            silent = [began for began in self._silent.values() if began < until]
        if silent:
            stalled |= _last_heard_at(silent, port) - known
        for end in stalled:
            if end is not None and cut(end, port):
                _log.warning(
                    "%s:%d took and sent nothing for %g seconds (SLUICE_FLIGHT_STALL_SECONDS); its connection was closed",
                    *end,
                    self._seconds,
                )

    def _move(self, peer: str, *, at_work: int, waiting: int = 0) -> None:
        with self._lock:
            one = self._connections.setdefault(peer, _Connection())
            one.at_work += at_work
            one.waiting += waiting
            one.moved = time.monotonic()
            if not one.at_work and not one.waiting:
                del self._connections[peer]


def _last_heard_at(moments: Sequence[float], port: int) -> set[Endpoint]:
    """The ends of the connections on which nothing has come since about one of these moments.

    Flight does not say whose a call is before its first message, so that this is how the connection of a silent one is found. An idle
    connection that went quiet at the same time goes with it; its client connects anew with its next call.
    """
    now = time.monotonic()
    return {end for end, ago in heard(port).items() if any(abs(now - ago - moment) < _NEAR_SECONDS for moment in moments)}
