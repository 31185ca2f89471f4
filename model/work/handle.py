"""Handles of sessions and statements: UUIDs that tell which server knows them (RFC 9562, version 8)."""

from __future__ import annotations

import secrets
from uuid import UUID

NO_SERVER = 0
"""The number of a process that no other can ask, as of one without a catalog in Postgres."""
MOST_SERVERS = 0xFFFF
_NUMBER_AT, _VERSION_AT, _VARIANT_AT = 80, 76, 62


def new_handle(server: int = NO_SERVER) -> str:
    """A handle with the server's number in its second group and 106 random bits."""
    bits = secrets.randbits(128)
    for value, width, at in ((server, 16, _NUMBER_AT), (8, 4, _VERSION_AT), (0b10, 2, _VARIANT_AT)):
        bits = bits & ~(((1 << width) - 1) << at) | value << at
    return str(UUID(int=bits))


def handle_bytes(server: int = NO_SERVER) -> bytes:
    """The same in 16 bytes, as Flight SQL's tickets and prepared statements have it."""
    return UUID(new_handle(server)).bytes


def server_of(handle: str) -> int | None:
    """The number of the server that made a handle; None for a text that is none."""
    try:
        parsed = UUID(handle)
    except ValueError:
        return None
    return parsed.int >> _NUMBER_AT & MOST_SERVERS if parsed.version == 8 else None
