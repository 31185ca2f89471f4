"""A checksum over all bytes of a data file, for a format that has none of its own.

It lies in what the file's manifest entry says of its indexes, in the bytes that Paimon keeps there for later versions: no reader of Paimon
looks at it, and an entry that another writer made anew has none (docs/decisions/orc-checksums.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NewType

import pyarrow as pa
import xxhash

from table.format.manifests.entries import DataFile
from table.index.container import SUFFIX, UnreadableIndex, encode, reserved_of
from table.index.owner import is_anothers

Checksum = NewType("Checksum", bytes)

_NAME = b"slxxh3:"
"""What tells our checksum from whatever else may lie there one day. So short that no container with an index is as short."""
_DIGEST_BYTES = 8
_CHUNK = 1 << 20


OF_ANOTHER = Checksum(b"")
"""What no file has: the one that lies beside was written for another, and whether this one is as it was cannot be told."""


class Summing:
    """The checksum of bytes that come one after the other."""

    def __init__(self) -> None:
        self._hash = xxhash.xxh3_64()

    def add(self, data: bytes | pa.Buffer) -> None:
        """Go on with these bytes."""
        self._hash.update(data)

    def end(self) -> Checksum:
        """The checksum of all of them."""
        return Checksum(self._hash.digest())


def sum_of(source: pa.NativeFile) -> Checksum:
    """The checksum of a file, read from its beginning."""
    summing = Summing()
    source.seek(0)
    while data := source.read(_CHUNK):
        summing.add(data)
    return summing.end()


def reserved_with(checksum: Checksum | None) -> bytes:
    """What of it lies in a container's head."""
    return b"" if checksum is None else _NAME + checksum


def container_of(checksum: Checksum | None) -> bytes | None:
    """A container of a checksum alone."""
    return None if checksum is None else encode({}, reserved_with(checksum))


CHECKSUM_ALONE_BYTES = len(encode({}, reserved_with(Checksum(bytes(_DIGEST_BYTES)))))
"""How long a container is that holds a checksum and no index."""


def told(container: bytes) -> Checksum | None:
    """The checksum in a container."""
    try:
        reserved = reserved_of(container)
    except UnreadableIndex:
        return None
    digest = reserved[len(_NAME) : len(_NAME) + _DIGEST_BYTES]
    return Checksum(digest) if reserved.startswith(_NAME) and len(digest) == _DIGEST_BYTES else None


def checksum_of(file: DataFile, path: str, read: Callable[[str], bytes | None]) -> Checksum | None:
    """The checksum that a file was written with, None for one without; ``read`` gives what lies beside it, where its index is large."""
    container = file.embedded_file_index
    if container is None:
        beside = next((name for name in file.extra_files if name.endswith(SUFFIX)), None)
        container = None if beside is None else read(path.rpartition("/")[0] + "/" + beside)
        if container is not None and beside is not None and is_anothers(container, beside, file):
            return OF_ANOTHER
    return None if container is None else told(container)
