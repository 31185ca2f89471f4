"""The container of a file's indexes: a head that names columns and kinds, then their bodies; all numbers big-endian.

Paimon keeps bytes at the head's end for later versions: bytes with their length, which its readers pass over.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

SUFFIX = ".index"
"""What the name of an index file ends with; Paimon keeps it beside its data file."""

_MAGIC = 1493475289347502
_VERSION = 1
_FIXED = 8 + 4 + 4
"""Magic, version and the head's length, which counts from the first byte."""

Bodies = Mapping[str, Mapping[str, bytes | None]]
"""By column and kind; None is an index over NULLs alone."""


class UnreadableIndex(Exception):
    """Bytes that are no index container of a known version; the file is read as if it had none."""


def encode(bodies: Bodies, reserved: bytes = b"") -> bytes:
    """The container's bytes; ``reserved`` is what lies in its head for later versions."""
    names = [(_utf(column), [(_utf(kind), body) for kind, body in kinds.items()]) for column, kinds in bodies.items()]
    head_length = _FIXED + 4 + sum(len(column) + 4 + sum(len(kind) + 8 for kind, _ in kinds) for column, kinds in names) + 4 + len(reserved)
    head = [struct.pack(">qiii", _MAGIC, _VERSION, head_length, len(names))]
    body = bytearray()
    for column, kinds in names:
        head += [column, struct.pack(">i", len(kinds))]
        for kind, data in kinds:
            start = -1 if data is None else head_length + len(body)
            head += [kind, struct.pack(">ii", start, len(data or b""))]
            body += data or b""
    return b"".join(head) + struct.pack(">i", len(reserved)) + reserved + bytes(body)


def decode(data: bytes) -> dict[str, dict[str, bytes | None]]:
    """The bodies by column and kind; raises `UnreadableIndex`."""
    return _decoded(data)[0]


def container_fault(data: bytes) -> str | None:
    """Why bytes are no container that readers take apart; None for one that is."""
    try:
        _decoded(data)
    except UnreadableIndex as problem:
        return str(problem)
    return None


def reserved_of(data: bytes) -> bytes:
    """What lies in the head for later versions; raises `UnreadableIndex`."""
    return _decoded(data)[1]


def _decoded(data: bytes) -> tuple[dict[str, dict[str, bytes | None]], bytes]:
    try:
        return _decode(data)
    except (struct.error, IndexError, UnicodeDecodeError) as problem:
        raise UnreadableIndex("the index ends early") from problem


def _decode(data: bytes) -> tuple[dict[str, dict[str, bytes | None]], bytes]:
    magic, version, _, columns = struct.unpack_from(">qiii", data)
    if magic != _MAGIC or version != _VERSION:
        raise UnreadableIndex("no file index of version 1")
    at, left = _FIXED + 4, len(data)
    indexes: dict[str, dict[str, bytes | None]] = {}
    for _ in range(columns):
        column, at = _read_utf(data, at)
        (kinds,) = struct.unpack_from(">i", data, at)
        at += 4
        bodies = indexes.setdefault(column, {})
        for _ in range(kinds):
            kind, at = _read_utf(data, at)
            start, length = struct.unpack_from(">ii", data, at)
            at += 8
            if start < 0:
                bodies[kind] = None
                continue
            left -= length
            if length < 0 or left < 0:  # many bodies of the same bytes would take the square of them in memory
                raise UnreadableIndex("the bodies of the index lie over each other")
            if start + length > len(data):
                raise UnreadableIndex("the index ends early")
            bodies[kind] = data[start : start + length]
    length = int.from_bytes(data[at : at + 4], "big")
    return indexes, data[at + 4 : at + 4 + length]


def _utf(text: str) -> bytes:
    """A name as Java's ``writeUTF`` writes it: surrogates one by one, NUL in two bytes."""
    units = struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass"))
    data = b"".join(b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass") for (unit,) in units)
    return struct.pack(">H", len(data)) + data


def _read_utf(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">H", data, at)
    end = at + 2 + length
    if end > len(data):
        raise UnreadableIndex("the index ends early")
    text = data[at + 2 : end].replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
    return text.encode("utf-16", "surrogatepass").decode("utf-16"), end
