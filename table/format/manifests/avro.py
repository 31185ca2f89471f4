"""Avro files that anybody may have written, read so that none of them ends, holds or fills the process.

fastavro does what a file's own schema says, in C and without letting other threads run: a type within itself is followed until the
stack ends, an array of things that take no bytes has as many as it claims, a block unpacks to whatever it unpacks to, and a decimal of
a megabyte takes a quarter of an hour. So the schema is judged before the first record is decoded, and a block while it is unpacked.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, Protocol

import fastavro
import pyarrow as pa

_fastavro: Any = import_module("fastavro._read")
_MOST_BLOCK_BYTES = 256 << 20
"""What a block may unpack to: writers close theirs after some ten thousand bytes, but one value may have many megabytes."""
_MOST_HEADER_BYTES = 16 << 20
_MOST_DECIMAL_BYTES = 32
"""One of 38 digits takes 16."""
_CHECKSUM_BYTES, _MOST_LENGTH_BYTES = 4, 5
_SNAPPY = pa.Codec("snappy")
_DEEPEST = 100
"""Types in each other: a nullable ROW in a ROW is two."""
_PLAIN = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string", "enum"})


class Source(Protocol):
    """Bytes read from the first to the last."""

    def read(self, nbytes: int, /) -> bytes: ...


class _Unpacker(Protocol):
    """Takes packed bytes and gives plain ones; what zlib, bz2 and lzma have."""

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


def records_of(data: bytes, *, most_bytes: int) -> Iterator[Any]:
    """The records of a whole file; raises `ValueError`, or anything fastavro raises, for one that cannot be, or takes more than so much."""
    return records_in(io.BytesIO(data), len(data), most_bytes=most_bytes)


def records_in(source: Source, size: int, *, most_bytes: int | None = None) -> Iterator[Any]:
    """The records of a file of so many bytes, one block in memory at a time; raises what `records_of` raises."""
    block: Any
    total = 0
    for block in _opened(_Input(source, size)):
        plain_size = len(block.bytes_.getbuffer())
        total += plain_size
        if most_bytes is not None and total > most_bytes:
            raise ValueError(f"its records take more than {most_bytes:,} bytes")
        yield from block
        if block.bytes_.tell() != plain_size:
            raise ValueError("a block holds more than its records")


def schema_of(data: bytes) -> Any:
    """The schema a file was written with, once judged; raises what `records_of` raises."""
    return _opened(_Input(io.BytesIO(data), len(data))).writer_schema


def _opened(source: _Input) -> Any:
    reader: Any = fastavro.block_reader(source)  # type: ignore[arg-type]
    source.most = None
    if reader.codec not in _READERS:
        raise ValueError(f"it is packed with {str(reader.codec)[:40]}, which is not read here")
    _height(reader.writer_schema, {}, 0)
    return reader


class _Input:
    """A file as fastavro reads it, which asks for as many bytes as a file says: it is given what there is."""

    def __init__(self, source: Source, size: int) -> None:
        self._source, self._size, self._at = source, size, 0
        self.most: int | None = _MOST_HEADER_BYTES

    def read(self, size: int) -> bytes:
        data = self._source.read(max(0, min(size, self._size - self._at)))
        self._at += len(data)
        if self.most is not None and self._at > self.most:
            raise ValueError(f"its header has more than {self.most:,} bytes")
        return data

    def tell(self) -> int:
        return self._at


def _height(schema: Any, known: dict[str, int], depth: int) -> int:
    """How deep values of a type nest; raises `ValueError` for one without an end, or of which some values take no bytes."""
    if depth > _DEEPEST:
        raise ValueError(f"its types are nested more than {_DEEPEST} deep")
    match schema:
        case str() if schema in _PLAIN:
            return 0
        case str() if schema in known:
            return _within(known[schema], depth)
        case list():
            return 1 + max((_height(part, known, depth + 1) for part in schema if part != "null"), default=0)
        case {"type": "record", "name": name, "fields": [_, *_] as fields}:
            known[name] = 1 + max(_height(field["type"], known, depth + 1) for field in fields)
            return known[name]
        case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
            return 1 + _height(inner, known, depth + 1)
        case {"type": "enum", "name": name}:
            known[name] = 0
            return 0
        case {"type": "fixed", "name": name, "size": int(size)} if size > 0:
            known[name] = 0
            return 0
        case {"type": str(plain)} if plain in _PLAIN:
            return 0
    type_name = schema.get("name") or schema.get("type") if isinstance(schema, Mapping) else schema
    raise ValueError(f"its type {str(type_name)[:60]!r} is within itself, takes no bytes or is not known")


def _within(height: int, depth: int) -> int:
    if depth + height > _DEEPEST:
        raise ValueError(f"its types are nested more than {_DEEPEST} deep")
    return height


def _block(source: _Input) -> bytes:
    """What a block holds, still packed."""
    return _fastavro.null_read_block(source).getvalue()  # type: ignore[no-any-return]


def _plain(source: _Input) -> io.BytesIO:
    data = _block(source)
    _check_space(len(data), False)
    return io.BytesIO(data)


def _unpacking(unpacker: Callable[[], _Unpacker], *, frames: bool = True) -> Callable[[_Input], io.BytesIO]:
    """Reads blocks packed so, in one frame or several; what stands behind one alone is a checksum that some writers leave."""

    def read(source: _Input) -> io.BytesIO:
        data, plain = _block(source), bytearray()
        while data:
            frame = unpacker()
            plain += frame.decompress(data, _MOST_BLOCK_BYTES - len(plain) + 1)
            _check_space(len(plain), not frame.eof)
            data = frame.unused_data if frames else b""
        return io.BytesIO(bytes(plain))

    return read


def _snappy(source: _Input) -> io.BytesIO:
    """Unpack a block of raw Snappy: how long it is unpacked stands before it, the checksum of that behind it."""
    packed, checksum = (data := _block(source))[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    size = 0
    for at, byte in enumerate(packed[:_MOST_LENGTH_BYTES]):
        size |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            break
    _check_space(size, False)
    try:
        plain = _SNAPPY.decompress(packed, size, asbytes=True)
    except OSError as problem:  # what Arrow says of bytes, which are no store's
        raise ValueError(str(problem)) from problem
    if zlib.crc32(plain) != int.from_bytes(checksum):
        raise ValueError("a block is not what was packed")
    return io.BytesIO(plain)


def _check_space(size: int, ends_early: bool) -> None:
    if size > _MOST_BLOCK_BYTES:
        raise ValueError(f"a block unpacks to more than {_MOST_BLOCK_BYTES:,} bytes")
    if ends_early:
        raise ValueError("a block ends early")


def _deflated() -> _Unpacker:
    return zlib.decompressobj(-zlib.MAX_WBITS)


def _short_decimal(read: Callable[..., Any]) -> Callable[..., Any]:
    def checked(data: bytes, *schemas: Any) -> Any:
        if len(data) > _MOST_DECIMAL_BYTES:
            raise ValueError(f"a decimal has {len(data):,} bytes")
        return read(data, *schemas)

    return checked


_READERS: dict[str, Callable[[_Input], io.BytesIO]] = {
    "null": _plain,
    "deflate": _unpacking(_deflated, frames=False),
    "bzip2": _unpacking(bz2.BZ2Decompressor),
    "xz": _unpacking(lzma.LZMADecompressor),
    "snappy": _snappy,
    "zstandard": _unpacking(_fastavro.zstd.ZstdDecompressor),
}
_fastavro.BLOCK_READERS.update(_READERS)
for _kind in ("bytes-decimal", "fixed-decimal"):
    _fastavro.LOGICAL_READERS[_kind] = _short_decimal(_fastavro.LOGICAL_READERS[_kind])
