"""The name of an index file in itself: by it one that lies in another's place is told, which would leave out files with rows that match.

It lies in the bytes that Paimon keeps free in a container's head for later versions, after a checksum where there is one. Whoever
copies a file under another name, as Paimon's Spark does, keeps when its data file was made: an index is another file's where both
differ.
"""

from __future__ import annotations

import re

from table.format.manifests.entries import DataFile
from table.index.container import UnreadableIndex, decode, encode, reserved_of

_MARK = b"slfile:"
_OWNER = re.compile(rb"(?P<name>.+) (?P<created>-?\d{1,18})", re.DOTALL)


def owned(container: bytes, name: str, file: DataFile) -> bytes:
    """A container with the name under which it lies beside a data file."""
    return encode(decode(container), reserved_of(container) + _MARK + f"{name} {file.creation_time_millis}".encode())


def is_anothers(container: bytes, name: str, file: DataFile) -> bool:
    """Whether an index file that lies beside a data file under a name was written for another; False where it does not tell."""
    try:
        _, mark, said = reserved_of(container).partition(_MARK)
    except UnreadableIndex:
        return False
    owner = _OWNER.fullmatch(said) if mark else None
    return owner is not None and owner["name"] != name.encode() and int(owner["created"]) != file.creation_time_millis
