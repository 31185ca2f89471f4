"""The name of a manifest, list or index manifest in its own Avro header: by it one that lies in another's place is told, whatever its size.

The format lets files hold keys of their own beside the schema, which other readers pass over. These files keep their names wherever they
are copied to: nothing writes the bytes of one under another name.
"""

from __future__ import annotations

import re

from table.format.parquet.thrift import NotCompact, Reader

KEY = "sluice.file"
_MAGIC = b"Obj\x01"
_MOST_PAIRS = 1000
"""Keys of a header; those of writers have two to five."""
_GIVEN = re.compile(r"(index-)?manifest(-list)?-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+")
"""Names that writers of Paimon's format give, each once; files that were made in another way may be called anything."""


def named(name: str) -> dict[str, str]:
    """What the header of a file says of itself."""
    return {KEY: name}


def wrong_name(data: bytes, name: str) -> str | None:
    """What is wrong with a file of that name that calls itself otherwise; None for one without a name, as of other writers."""
    value = header_value(data, KEY)
    own = None if value is None else value.decode(errors="replace")
    if own is None or own == name or not _GIVEN.fullmatch(name):
        return None
    return f"is another file, by its own header {own[:200]}"


def header_value(data: bytes, key_wanted: str) -> bytes | None:
    """What a header tells under a key; None where it tells nothing, or is no header."""
    if not data.startswith(_MAGIC):
        return None
    wanted = key_wanted.encode()
    reader = Reader(data)  # Avro writes its numbers as Thrift does
    reader.at, left = len(_MAGIC), 0
    try:
        for _ in range(_MOST_PAIRS):  # a header may claim pairs without end
            if not left:
                left = reader.integer()
                if left < 0:  # such a block of pairs tells its bytes, too
                    left, _ = -left, reader.integer()
                if not left:
                    break
            key, value = _bytes(reader), _bytes(reader)
            left -= 1
            if key == wanted:
                return value
    except (IndexError, NotCompact):  # it is cut off, or no header
        pass
    return None


def _bytes(reader: Reader) -> bytes:
    length = reader.integer()
    end = reader.at + length
    if length < 0 or end > len(reader.data):
        raise IndexError(end)
    value, reader.at = reader.data[reader.at : end], end
    return value
