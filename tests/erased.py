"""Where a value is found that was to be erased: in what files say as they lie there and as their formats read them, and in their names."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq

VALUE = "Erika Mustermann 4711"
SEEN = "Erika Must"
"""Bounds in manifests are cut."""
_AVRO, _PARQUET, _ORC, _SHUFFLED = b"Obj\x01", b"PAR1", b"ORC", b"LZ4Block"
_SHUFFLED_HEAD = struct.Struct("<8sBIII")
"""Of a block of what Spark spills and shuffles: magic, method, bytes as they lie there, bytes of what they say, checksum."""


def decoded(path: Path) -> str:
    """All a file says, as it lies there and as its format reads it."""
    raw = path.read_bytes()
    told = raw.decode("latin-1")
    if raw.startswith(_AVRO):
        with path.open("rb") as file:
            told += repr(list(fastavro.reader(file)))
    elif raw.startswith(_PARQUET) and raw.endswith(_PARQUET):
        told += repr(pq.ParquetFile(path).read().to_pylist()) + str(pq.read_metadata(path).to_dict())
    elif raw.startswith(_ORC):
        told += repr(orc.ORCFile(path).read().to_pylist())
    elif _SHUFFLED in raw:
        told += b"".join(_unpacked(raw)).decode("latin-1")
    return told


def _unpacked(raw: bytes) -> Iterator[bytes]:
    """What the blocks of one of Spark's own files say, one after the other; an index or a block that was cut off says nothing."""
    at = raw.find(_SHUFFLED)
    while 0 <= at <= len(raw) - _SHUFFLED_HEAD.size:
        _, method, packed, size, _ = _SHUFFLED_HEAD.unpack_from(raw, at)
        begin = at + _SHUFFLED_HEAD.size
        block = raw[begin : begin + packed]
        if size and len(block) == packed:
            yield block if method & 0xF0 == 0x10 else pa.decompress(block, size, codec="lz4_raw", asbytes=True)
        at = raw.find(_SHUFFLED, begin + packed)


def holders(directory: Path, *, but: Path | None = None, seen: str = SEEN) -> list[str]:
    """The files and directories below one that hold the value, by their paths from there; those below another are not looked at."""
    found = []
    for path in sorted(directory.rglob("*")):
        if but is not None and path.is_relative_to(but):
            continue
        try:
            says = seen in path.name or (path.is_file() and seen in decoded(path))
        except FileNotFoundError:  # what comes and goes, such as a file of a worker
            continue
        if says:
            found.append(str(path.relative_to(directory)))
    return found
