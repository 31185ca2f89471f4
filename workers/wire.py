"""Messages between the server and its workers: JSON with its length in front, over a socket that also hands a file on."""

from __future__ import annotations

import array
import socket
import struct

_HEAD = struct.Struct("=Q")
_LONGEST = 64 << 20
"""Bytes of a message at most: a table of thousands of columns, or the names of tens of thousands of files."""


class Gone(Exception):
    """The other end has closed the socket, or talks nonsense."""


def send(end: socket.socket, message: bytes, file: int | None = None) -> None:
    """Send a message, and a file's descriptor with its first byte."""
    head = _HEAD.pack(len(message))
    if file is not None:
        sent = end.sendmsg([head], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))])
        head = head[sent:]
    end.sendall(head + message)


def receive(end: socket.socket) -> tuple[bytes, int | None]:
    """The next message and the descriptor that came with it, which is the caller's to close; raises `Gone`."""
    descriptors = array.array("i")
    head, ancillary, _, _ = end.recvmsg(_HEAD.size, socket.CMSG_LEN(descriptors.itemsize))
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    if not head:
        raise Gone
    head += _exactly(end, _HEAD.size - len(head))
    size = _HEAD.unpack(head)[0]
    if size > _LONGEST:
        raise Gone
    return _exactly(end, size), descriptors[0] if descriptors else None


def _exactly(end: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = end.recv(min(size, 1 << 20))
        if not part:
            raise Gone
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
