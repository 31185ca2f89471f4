"""The name of a Parquet file in its own footer: by it a file that lies in another's place is told, whatever its size, rows and bounds.

A file keeps its name wherever it is copied to, as into a backup or a table that is restored or registered. Who gives it another one
writes that into its footer. pyarrow hands the keys of a file that it reads on to files that are written of its rows: so a name stands with
what only its own file is, and files with Arrow's schema, which ours never have, have no name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow.parquet as pq

from table.format.parquet.thrift import BINARY, LIST, Reader, Struct, elements, list_of, varint

KEY = "sluice.file"
"""The key in the footer's own metadata; other readers pass over keys that they do not know."""
TAIL_BYTES = 8
"""What follows a footer: its length, and the format's name."""
_ARROW = b"ARROW:schema"
_ROWS, _PAIRS, _PAIR_KEY, _PAIR_VALUE = 3, 5, 1, 2
_GIVEN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+\.")
"""What names have that writers of Paimon's format give, each once. Files that are taken over where they lie may be called anything."""


def identity(name: str, *, rows: int, at: int) -> dict[str, str]:
    """What the footer of a file says of itself: its name, how many rows it has, and where its footer begins."""
    return {KEY: f"{name} {rows} {at}"}


def identity_fault(metadata: pq.FileMetaData, file_name: str, *, at: int) -> str | None:
    """What is wrong with a file of that name whose footer begins there; None for a file without a name, as of other writers."""
    pairs: Mapping[bytes, bytes] = metadata.metadata or {}
    named = pairs.get(KEY.encode(), b"").decode(errors="replace")
    own = named.rpartition(" ")[0].rpartition(" ")[0]
    if not own or _ARROW in pairs or named != identity(own, rows=metadata.num_rows, at=at)[KEY]:
        return None
    return None if own == file_name or not _GIVEN.search(file_name) else f"is another file, by its own footer {own[:200]}"


def named_footer(footer: bytes, name: str, *, at: int) -> bytes:
    """A footer that begins there with the name of its file; raises `NotCompact` or `IndexError` for bytes that are none."""
    file_metadata = Struct.read(Reader(footer))
    rows = Reader(file_metadata.fields[_ROWS][1]).integer() if _ROWS in file_metadata.fields else 0
    _, pairs = file_metadata.fields.get(_PAIRS, (LIST, b"\0"))
    kept = [pair for pair in elements(pairs) if pair.fields.get(_PAIR_KEY) != _text(KEY)]
    named = Struct({_PAIR_KEY: _text(KEY), _PAIR_VALUE: _text(identity(name, rows=rows, at=at)[KEY])})
    file_metadata.fields[_PAIRS] = (LIST, list_of([*kept, named]))
    return file_metadata.encoded()


def _text(text: str) -> tuple[int, bytes]:
    encoded = text.encode()
    return BINARY, varint(len(encoded)) + encoded
