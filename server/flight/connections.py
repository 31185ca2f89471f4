"""The TCP connections of clients, as Flight names them: ``ipv4:1.2.3.4:5``."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import psutil

Endpoint = tuple[str, int]


def endpoint(peer: str) -> Endpoint | None:
    """Address and port of ``ipv4:1.2.3.4:5`` or ``ipv6:%5B::1%5D:5``; None for what is neither."""
    host, _, port = peer.partition(":")[2].rpartition(":")
    try:
        return _plain(host.replace("%5B", "").replace("%5D", "").strip("[]")), int(port)
    except ValueError:
        return None


def connected() -> set[Endpoint | None]:
    """The other ends of this process's TCP connections."""
    return {_remote(connection) for connection in _established()}


def cut(other: Endpoint, port: int) -> bool:
    """Close the connection from another end to a port of ours, which fails all its calls; False where there is none."""
    for opened in _held(port, other):
        with contextlib.suppress(OSError):  # it ends by itself just now
            opened.shutdown(socket.SHUT_RDWR)
            return True
    return False


def _held(port: int, other: Endpoint) -> Iterator[socket.socket]:
    """The connection from another end to a port of ours, good until the next is asked for."""
    for connection in _established():
        if connection.laddr.port == port and _remote(connection) == other:
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fd)) as duplicate:
                if _end(duplicate.getpeername()) == _remote(connection):  # the number may be another connection's by now
                    yield duplicate


def _established() -> list[Any]:
    connections = psutil.Process().net_connections(kind="tcp")
    return [connection for connection in connections if connection.raddr and connection.status == psutil.CONN_ESTABLISHED]


def _remote(connection: Any) -> Endpoint:
    return _end(connection.raddr)


def _end(address: Sequence[Any]) -> Endpoint:
    return _plain(address[0]), address[1]


def _plain(host: str) -> str:
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
