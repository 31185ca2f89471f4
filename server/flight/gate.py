"""Who may be connected to Flight SQL: HTTP's gate (`server.http.gate`) over connections that gRPC takes without asking anybody."""

from __future__ import annotations

import logging
import threading

from model.errors import TooManyStatements
from server.flight.calls import Call
from server.flight.connections import Endpoint, connected, cut, endpoint
from server.flight.service import MOST_CONNECTIONS
from server.http.gate import Gate, Group

_log = logging.getLogger(__name__)
_MOST_KEPT = MOST_CONNECTIONS * 4 // 5
"""What gRPC takes beyond is for newcomers, until the next round finds whose place they get; it turns away whom it takes no more."""


class _Connection:
    """A client's connection, as the gate sees it."""

    def __init__(self, end: Endpoint) -> None:
        self.end = end
        self.group: Group = ("", "")
        self.calls = 0
        self.dismissed = self.jammed = False

    @property
    def waits(self) -> bool:
        """Whether no call is open on it."""
        return not self.calls

    def dismiss(self) -> None:
        """Let it be cut in the next round: gRPC closes none when asked, and to find a connection all are looked at."""
        self.dismissed = True


class FlightGate:
    """Knows of each connection how many calls are open on it, and of whom."""

    def __init__(self, of_one: int) -> None:
        self._lock = threading.Lock()
        self._gate = Gate.shared(_MOST_KEPT, of_one)
        self._known: dict[Endpoint, _Connection] = {}

    def begin(self, call: Call) -> None:
        """A call of somebody who is known has begun on a connection; raises `TooManyStatements` where that one must go."""
        end = endpoint(call.peer)
        if end is None:
            return
        with self._lock:
            connection = self._known.get(end) or self._enter(end)
            # One that was dismissed has left the gate: it joins no group again, and makes nobody give way.
            if not connection.dismissed and not self._gate.prove(connection, call.caller.principal):
                connection.dismiss()
            if connection.dismissed:
                raise TooManyStatements(
                    f"This server keeps {self._gate.most} connections of Flight SQL, {self._gate.per_group} of one principal, and all "
                    "others have calls open. Close some, or send calls on fewer connections."
                )
            connection.calls += 1

        def ended() -> None:
            with self._lock:
                connection.calls -= 1

        if not call.on_end(ended):
            ended()

    def tend(self, port: int) -> None:
        """Let in who came, forget who has gone, and cut those whose places are others' now."""
        with self._lock:
            before = set(self._known)
        present = connected(port)
        with self._lock:
            for end in before - present:
                self._gate.leave(self._known.pop(end))
            for end in present - set(self._known):
                self._enter(end)
            going = [connection for connection in self._known.values() if connection.dismissed]
            for connection in going:
                self._gate.leave(self._known.pop(connection.end))
        if going and (gone := cut({connection.end for connection in going}, port)):
            _log.warning(
                "%d idle connections of Flight SQL were closed for others, such as from %s: %d stay at most, of one principal, or one "
                "address without a valid token, %d",
                len(gone),
                going[0].end[0],
                self._gate.most,
                self._gate.per_group,
            )

    def _enter(self, end: Endpoint) -> _Connection:
        self._known[end] = connection = _Connection(end)
        self._gate.enter(connection, end[0])
        return connection
