"""The name of a manifest, list or index manifest in its own Avro header: by it one that lies in another's place is told, whatever its size.

The format lets files hold keys of their own beside the schema, which other readers pass over. These files keep their names wherever they
are copied to: nothing writes the bytes of one under another name.
"""

from __future__ import annotations

import re

KEY = "sluice.file"
_MAGIC = b"Obj\x01"
_MOST_PAIRS = 1000
"""Keys of a header; those of writers have two to five."""
_LONGEST_SHIFT = 63
_GIVEN = re.compile(r"(index-)?manifest(-list)?-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+")
"""Names that writers of Paimon's format give, each once; files that were made in another way may be called anything."""


def named(name: str) -> dict[str, str]:
    """What the header of a file says of itself."""
    return {KEY: name}


def wrong_name(data: bytes, name: str) -> str | None:
    """What is wrong with a file of that name that calls itself otherwise; None for one without a name, as of other writers."""
    own = _own_name(data)
    if own is None or own == name or not _GIVEN.fullmatch(name):
        return None
    return f"is another file, by its own header {own[:200]}"


def _own_name(data: bytes) -> str | None:
    """The name a header tells; None where it tells none, or is no header."""
    if not data.startswith(_MAGIC):
        return None
    wanted = KEY.encode()
    try:
        at, left = len(_MAGIC), 0
        for _ in range(_MOST_PAIRS):  # a header may claim pairs without end
            if not left:
                at, left = _long(data, at)
                if left < 0:  # such a block of pairs tells its bytes, too
                    left, (at, _) = -left, _long(data, at)
                if not left:
                    break
            at, key = _bytes(data, at)
            at, value = _bytes(data, at)
            left -= 1
            if key == wanted:
                return value.decode(errors="replace")
    except IndexError:  # it is cut off, or no header
        pass
    return None


def _bytes(data: bytes, at: int) -> tuple[int, bytes]:
    at, length = _long(data, at)
    if length < 0 or at + length > len(data):
        raise IndexError(at)
    return at + length, data[at : at + length]


def _long(data: bytes, at: int) -> tuple[int, int]:
    """Where a zigzag number of 64 bits ends, and the number; raises `IndexError` for a longer one."""
    value = shift = 0
    while (byte := data[at]) & 0x80:
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if shift > _LONGEST_SHIFT:
            raise IndexError(at)
    value |= byte << shift
    return at + 1, (value >> 1) ^ -(value & 1)
