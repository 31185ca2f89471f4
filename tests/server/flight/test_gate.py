"""The gate of Flight SQL, where a call comes on a connection that has to go and is not cut yet."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lake import Caller
from model.errors import TooManyStatements
from server.flight.calls import Call
from server.flight.gate import FlightGate


class _Context:
    """What gRPC says of a call."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.ends: list[Callable[[], None]] = []

    def peer(self) -> str:
        return f"ipv4:192.0.2.1:{self._port}"

    def add_callback(self, call: Callable[[], None]) -> bool:
        self.ends.append(call)
        return True


def _call(gate: FlightGate, port: int, principal: str) -> None:
    """A call from its beginning to its end."""
    context = _Context(port)
    gate.begin(Call(context=context, method="DoGet", token=None, cookie=None, request_id="1", caller=Caller(principal=principal)))
    for end in context.ends:
        end()


def test_a_connection_that_has_to_go_joins_nobodys_again() -> None:
    gate = FlightGate(of_one=1)
    for port in (1, 2):
        _call(gate, port, "ada")
    _call(gate, 3, "bob")
    with pytest.raises(TooManyStatements):
        _call(gate, 1, "bob")
    assert gate._gate.counts() == {"authenticated": 2, "unauthenticated": 0}
    _call(gate, 3, "bob")
    gate.tend(1)
    assert gate._gate.counts() == {"authenticated": 0, "unauthenticated": 0}
