"""The TCP connections of clients, as Flight names them: ``ipv4:1.2.3.4:5``."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from collections.abc import Collection, Sequence
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


def connected(port: int) -> set[Endpoint]:
    """The other ends of the connections to a port of ours."""
    return {_remote(connection) for connection in _established(port)}


def cut(others: Collection[Endpoint], port: int) -> list[Endpoint]:
    """Close the connections from other ends to a port of ours, which fails all their calls; returns those that were there."""
    gone = []
    for connection in _established(port):
        if (other := _remote(connection)) not in others:
            continue
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fd)) as duplicate:  # it may end by itself just now
            if _end(duplicate.getpeername()) == other:  # the number may be another connection's by now
                duplicate.shutdown(socket.SHUT_RDWR)
                gone.append(other)
    return gone


def _established(port: int) -> list[Any]:
    connections = psutil.Process().net_connections(kind="tcp")
    return [
        connection
        for connection in connections
        if connection.raddr and connection.laddr.port == port and connection.status == psutil.CONN_ESTABLISHED
    ]


def _remote(connection: Any) -> Endpoint:
    return _end(connection.raddr)


def _end(address: Sequence[Any]) -> Endpoint:
    return _plain(address[0]), address[1]


def _plain(host: str) -> str:
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
