"""How long the texts of a column chunk are, by its pages: what a page takes in the file says nothing of texts that repeat.

A text written as what it adds to the one before (DELTA_BYTE_ARRAY) costs a few bits where it adds nothing; only the lengths of what is
shared and of what is added tell what it takes. They are summed as they are read, so that no page makes them take memory here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from table.format.parquet.pages import header_at
from table.format.parquet.thrift import STRUCT, NotCompact, Reader, Struct

_PIECE = 8_192
"""Lengths unpacked at once; a multiple of 8, so that each piece begins with a byte."""
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_DELTA_BYTE_ARRAY = 7
_MOST_LENGTH = (1 << 31) - 1
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd", "LZ4": "lz4_raw", "LZ4_RAW": "lz4_raw"}


@dataclass(slots=True)
class Lengths:
    """Bounds of the texts of a column chunk."""

    longest: int = 0
    total: int = 0

    def add(self, longest: int, total: int) -> None:
        """The texts of one more page."""
        self.longest = max(self.longest, longest)
        self.total += total


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    kind: int
    values: int
    encoding: int
    body: memoryview
    """What follows its levels."""


def lengths_of(source: pa.NativeFile, chunk: pq.ColumnChunkMetaData, *, max_repetition: int, max_definition: int) -> Lengths:
    """Bounds of the texts of a chunk that writes them by what they add, and of those in its dictionary.

    Other texts lie in the file as long as they are, and are not counted. Raises `pa.ArrowInvalid` for pages that cannot be read, and
    `pa.ArrowCapacityError` for one of more than 1 GB.
    """
    lengths = Lengths()
    try:
        for page in _pages(source, chunk, max_repetition > 0, max_definition > 0):
            if page.kind == _DICTIONARY:
                lengths.add(_longest_plain(page), 0)
            elif page.encoding == _DELTA_BYTE_ARRAY:
                shared, end = _summed(page.body, 0, page.values)
                added, _ = _summed(page.body, end, page.values)
                lengths.add(shared.longest + added.longest, shared.total + added.total)
    except (NotCompact, IndexError, ValueError, OverflowError, RecursionError) as problem:
        raise pa.ArrowInvalid(f"a page of column {chunk.path_in_schema} cannot be read: {problem or type(problem).__name__}") from problem
    return lengths


def _pages(source: pa.NativeFile, chunk: pq.ColumnChunkMetaData, repeats: bool, optional: bool) -> Iterator[_Page]:
    at = chunk.data_page_offset
    if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
        at = min(at, chunk.dictionary_page_offset)
    end, seen = at + chunk.total_compressed_size, 0
    while at < end and seen < chunk.num_values:
        header = header_at(source, at, end)
        if header.packed_size < 0 or header.plain_size < 0 or header.packed_size > end - at - header.size:
            raise ValueError("its size")
        header.check_size()
        body = memoryview(source.read_at(header.packed_size, at + header.size))
        at += header.size + header.packed_size
        page = _page(header.fields, body, header.plain_size, chunk.compression, repeats, optional)
        if page is not None:
            seen += page.values if page.kind != _DICTIONARY else 0
            yield page


def _page(header: Struct, body: memoryview, size: int, codec: str, repeats: bool, optional: bool) -> _Page | None:
    kind = header.integer(1)
    if kind == _DATA_V2:
        of = _struct(header, 8)
        levels = of.integer(5) + of.integer(6)
        if not 0 <= levels <= min(len(body), size):
            raise ValueError("its levels")
        plain = body[levels:] if of.fields.get(7) == (2, b"") else _unpacked(body[levels:], size - levels, codec)
        return _Page(kind=kind, values=of.integer(1), encoding=of.integer(4), body=plain)
    if kind not in (_DATA, _DICTIONARY):
        return None
    of = _struct(header, 5 if kind == _DATA else 7)
    plain = _unpacked(body, size, codec)
    for _ in range((repeats + optional) if kind == _DATA else 0):
        plain = plain[4 + int.from_bytes(plain[:4], "little") :]
    return _Page(kind=kind, values=of.integer(1), encoding=of.integer(2), body=plain)


def _unpacked(body: memoryview, size: int, codec: str) -> memoryview:
    if codec == "UNCOMPRESSED" or not size:
        return body
    return memoryview(pa.Codec(_CODECS.get(codec, codec.lower())).decompress(body, size)).cast("B")


def _longest_plain(page: _Page) -> int:
    """The longest of the texts of a dictionary, each behind its length."""
    longest = at = 0
    for _ in range(page.values):
        length = int.from_bytes(page.body[at : at + 4], "little")
        at += 4 + length
        if at > len(page.body):
            raise ValueError("a text of its dictionary")
        longest = max(longest, length)
    return longest


def _summed(data: memoryview, at: int, most: int) -> tuple[Lengths, int]:
    """The lengths packed from a place on (DELTA_BINARY_PACKED), and the place behind them."""
    reader = Reader(bytes(data))
    reader.at = at
    block, parts, count, last = reader.varint(), reader.varint(), reader.varint(), reader.integer()
    if count > most or not parts or not block or block % parts or (block // parts) % 8:
        raise ValueError("its lengths")
    lengths = Lengths()
    if not count:
        return lengths, reader.at
    lengths.add(last, last)
    left = count - 1
    while left > 0:
        least = reader.integer()
        widths = [reader.byte() for _ in range(parts)]
        for width in widths:
            if left <= 0:
                break
            last = _part(lengths, data[reader.at :], min(left, block // parts), width, least, last)
            left -= block // parts
            reader.at += block // parts * width // 8
            if reader.at > len(data):
                raise ValueError("its lengths end early")
    if last < 0 or lengths.longest > _MOST_LENGTH:
        raise ValueError("its lengths")
    return lengths, reader.at


def _part(lengths: Lengths, data: memoryview, count: int, width: int, least: int, last: int) -> int:
    """Add the lengths of one part of a block; returns the last of them."""
    if width > 32 or abs(least) > _MOST_LENGTH:
        raise ValueError("its lengths")
    for start in range(0, count, _PIECE):
        rows = min(_PIECE, count - start)
        steps = _bits(data[start * width // 8 :], rows, width) + least
        values = last + np.cumsum(steps)
        longest = int(values.max())
        if int(values.min()) < 0 or longest > _MOST_LENGTH:
            raise ValueError("its lengths")
        lengths.add(longest, int(values.sum()))
        last = int(values[-1])
    return last


def _bits(data: memoryview, rows: int, width: int) -> npt.NDArray[np.int64]:
    """So many numbers of ``width`` bits each, the lowest bits first."""
    if not width:
        return np.zeros(rows, np.int64)
    packed = np.frombuffer(data[: -(-rows * width // 8)], np.uint8)
    bits = np.unpackbits(packed, count=rows * width, bitorder="little").reshape(rows, width)
    return bits.astype(np.int64) @ (np.int64(1) << np.arange(width, dtype=np.int64))


def _struct(struct: Struct, field: int) -> Struct:
    kind, value = struct.fields.get(field, (0, b""))
    if kind != STRUCT:
        raise ValueError("its header")
    return Struct.read(Reader(value))
