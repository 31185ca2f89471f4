"""Calls that Flight's own clients never make, as bytes of HTTP/2."""

from __future__ import annotations

import contextlib
import socket
import struct

_SETTINGS, _HEADERS, _DATA = 4, 1, 0
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1


def begun(
    url: str, method: str, message: bytes | None = None, *, calls: int = 1, token: str | None = None, source: str = ""
) -> socket.socket:
    """A connection with calls on it whose client sends the headers, perhaps one message, and then nothing forever."""
    host, _, port = url.removeprefix("grpc://").rpartition(":")
    made = socket.create_connection((host, int(port)), timeout=60, source_address=(source, 0))
    headers = {
        ":method": "POST", ":scheme": "http", ":path": f"/arrow.flight.protocol.FlightService/{method}", ":authority": host,
        "content-type": "application/grpc", "te": "trailers",
    }  # fmt: skip
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    block = b"".join(b"\0" + _text(name) + _text(value) for name, value in headers.items())
    opened = b"".join(_frame(_HEADERS, _END_HEADERS, 2 * call + 1, block) for call in range(calls))
    made.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0, b"") + opened)
    if message is not None:
        made.sendall(_frame(_DATA, 0, 1, b"\0" + struct.pack(">I", len(message)) + message))
    return made


def greet(connection: socket.socket) -> None:
    """Answer the server's settings, which it waits a minute for."""
    with contextlib.suppress(ConnectionError):
        if connection.recv(9):
            connection.sendall(_frame(_SETTINGS, _ACK, 0, b""))


def ended(connection: socket.socket) -> str:
    """Read until the server ends the call, or the connection with it; says which."""
    with connection, connection.makefile("rb") as answer:
        while len(head := answer.read(9)) == 9:
            answer.read(int.from_bytes(head[:3], "big"))
            if head[3] == _HEADERS and head[4] & _END_STREAM:
                return "call"
    return "connection"


def _text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + struct.pack(">I", stream) + body
