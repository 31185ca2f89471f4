"""The name of a Parquet file in its own footer: by it a file that lies in another's place is told, whatever its size, rows and bounds.

A file keeps its name wherever it is copied to, as into a backup or a table that is restored or registered. Paimon's Spark copies files
under new names (`sys.copy`), and keeps in the manifest when they were made: a file is another one where both differ, and files that this
server makes have times of their own, to the millisecond. pyarrow hands the keys of a file that it reads on to files that are written of
its rows: so a name stands with what only its own file is, and files with Arrow's schema, which ours never have, have no name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow.parquet as pq

from table.format.manifests.entries import DataFile
from table.format.parquet.thrift import BINARY, LIST, Reader, Struct, elements, list_of, varint

KEY = "sluice.file"
"""The key in the footer's own metadata; other readers pass over keys that they do not know."""
TAIL_BYTES = 8
"""What follows a footer: its length, and the format's name."""
_ARROW = b"ARROW:schema"
_ROWS, _PAIRS, _PAIR_KEY, _PAIR_VALUE = 3, 5, 1, 2
_NAMED = re.compile(r"(?P<name>.+) (?P<created>-?\d{1,18}) (?P<rows>\d{1,18}) (?P<at>\d{1,18})", re.DOTALL)
_GIVEN = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+\.")
"""What names have that writers of Paimon's format give, each once. Files that are taken over where they lie may be called anything."""


def identity(name: str, created_millis: int, *, rows: int, at: int) -> dict[str, str]:
    """What the footer of a file says of itself: its name, when it was made, how many rows it has, and where its footer begins."""
    return {KEY: f"{name} {created_millis} {rows} {at}"}


def identity_fault(metadata: pq.FileMetaData, file: DataFile, *, at: int) -> str | None:
    """What is wrong with a manifest's file whose footer begins there; None for one without a name, as of other writers."""
    pairs: Mapping[bytes, bytes] = metadata.metadata or {}
    named = pairs.get(KEY.encode(), b"").decode(errors="replace")
    own = _NAMED.fullmatch(named)
    if own is None or _ARROW in pairs or (int(own["rows"]), int(own["at"])) != (metadata.num_rows, at):
        return None
    if own["name"] == file.file_name or int(own["created"]) == file.creation_time_millis or not _GIVEN.search(file.file_name):
        return None
    return f"is another file, by its own footer {own['name'][:200]}"


def named_footer(footer: bytes, name: str, created_millis: int, *, at: int) -> bytes:
    """A footer that begins there with the name of its file; raises `NotCompact` or `IndexError` for bytes that are none."""
    file_metadata = Struct.read(Reader(footer))
    rows = Reader(file_metadata.fields[_ROWS][1]).integer() if _ROWS in file_metadata.fields else 0
    _, pairs = file_metadata.fields.get(_PAIRS, (LIST, b"\0"))
    others = [pair for pair in elements(pairs) if pair.fields.get(_PAIR_KEY) != _text(KEY)]
    named = Struct({_PAIR_KEY: _text(KEY), _PAIR_VALUE: _text(identity(name, created_millis, rows=rows, at=at)[KEY])})
    file_metadata.fields[_PAIRS] = (LIST, list_of([*others, named]))
    return file_metadata.encoded()


def _text(text: str) -> tuple[int, bytes]:
    encoded = text.encode()
    return BINARY, varint(len(encoded)) + encoded
