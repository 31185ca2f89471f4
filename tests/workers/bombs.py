"""Small bodies that say they are, or are, enormous: Parquet written by hand, where every number may be a lie, and Arrow streams."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

_I32, _I64, _BINARY, _LIST, _STRUCT = 5, 6, 8, 9, 12
INT64, BYTE_ARRAY = 2, 6
_PLAIN, _RLE, _BY_DICTIONARY = 0, 3, 8
_CODECS = {"none": 0, "snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6}
MOST = 2**31 - 1
Field = tuple[int, int, Any]
"""A field of a Thrift struct: number, type, value; a struct is the list of its fields, a list one of numbers, bytes or structs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page, and what its header says of it."""

    body: bytes
    values: int
    encoding: int = _PLAIN
    size: int | None = None
    """What it says of its size once decompressed; None for the truth."""


def parquet(
    pages: Sequence[Page], *, rows: int, dictionary: Page | None = None, type_: int = INT64, codec: str = "none", groups: int = 0
) -> bytes:
    """A file of one column ``id``, inside so many groups."""
    found, begin = b"PAR1", 4
    for kind, page in [*([(2, dictionary)] if dictionary else []), *((0, page) for page in pages)]:
        sent = page.body if codec == "none" else pa.compress(page.body, codec, asbytes=True)
        told = len(page.body) if page.size is None else page.size
        header: list[Field] = [(1, _I32, kind), (2, _I32, told), (3, _I32, len(sent))]
        of_values: list[Field] = [(1, _I32, page.values), (2, _I32, page.encoding)]
        header.append((7, _STRUCT, of_values) if kind == 2 else (5, _STRUCT, [*of_values, (3, _I32, _RLE), (4, _I32, _RLE)]))
        if kind == 0 and begin == 4:
            begin = len(found)
        found += _struct(header) + sent
    values = sum(page.values for page in pages)
    chunk: list[Field] = [
        (1, _I32, type_), (2, _LIST, [_PLAIN, _RLE, _BY_DICTIONARY]), (3, _LIST, [b"g"] * groups + [b"id"]), (4, _I32, _CODECS[codec]),
        (5, _I64, values), (6, _I64, len(found)), (7, _I64, len(found) - 4), (9, _I64, begin),
    ]  # fmt: skip
    if dictionary:
        chunk.append((11, _I64, 4))
    nested: list[list[Field]] = [[(3, _I32, 0), (4, _BINARY, b"g"), (5, _I32, 1)] for _ in range(groups)]
    schema: list[list[Field]] = [[(4, _BINARY, b"root"), (5, _I32, 1)], *nested, [(1, _I32, type_), (3, _I32, 1), (4, _BINARY, b"id")]]
    group: list[Field] = [(1, _LIST, [[(2, _I64, 4), (3, _STRUCT, chunk)]]), (2, _I64, len(found)), (3, _I64, rows)]
    footer = _struct([(1, _I32, 1), (2, _LIST, schema), (3, _I64, rows), (4, _LIST, [group])])
    return found + footer + struct.pack("<I", len(footer)) + b"PAR1"


def nulls(count: int) -> bytes:
    """A page of so many NULLs: their levels are one run."""
    return _levels(count, 0)


def repeated(count: int) -> bytes:
    """A page of so many times the dictionary's first entry."""
    return _levels(count, 1) + b"\x08" + _varint(count << 1) + b"\0"


def plain(values: bytes, count: int) -> bytes:
    """A page of so many values that stand there."""
    return _levels(count, 1) + values


def _levels(count: int, level: int) -> bytes:
    run = _varint(count << 1) + bytes([level])
    return struct.pack("<I", len(run)) + run


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _zigzag(number: int) -> bytes:
    return _varint(number << 1 if number >= 0 else (-number << 1) - 1)


def _struct(fields: list[Field]) -> bytes:
    """A struct in Thrift's compact protocol."""
    found, last = b"", 0
    for number, type_, value in fields:
        found += bytes([number - last << 4 | type_]) + _value(type_, value)
        last = number
    return found + b"\0"


def _value(type_: int, value: object) -> bytes:
    if isinstance(value, int):
        return _zigzag(value)
    if isinstance(value, bytes):
        return _varint(len(value)) + value
    assert isinstance(value, list)
    if type_ == _STRUCT:
        return _struct(value)
    inner = {int: _I32, bytes: _BINARY, list: _STRUCT}[type(value[0])]
    head = bytes([0xF0 | inner]) + _varint(len(value))
    return head + b"".join(_value(inner, one) for one in value)


def _long(text: bytes) -> bytes:
    return struct.pack("<I", len(text)) + text


_ZEROS = 1 << 25
"""Numbers of eight bytes: 256 MB."""
_WORD = Page(body=_long(b"x" * (1 << 20)), values=1)
PARQUET: dict[str, Callable[[], bytes]] = {
    "a page that says 2 GB": lambda: parquet([Page(body=plain(bytes(80), 10), values=10, size=MOST)], rows=10),
    **{
        f"a page of {codec} that says 2 GB": lambda codec=codec: parquet(  # type: ignore[misc]
            [Page(body=plain(bytes(80), 10), values=10, size=MOST)], rows=10, codec=codec
        )
        for codec in ("snappy", "gzip", "brotli", "zstd")
    },
    **{
        f"256 MB of zeros in {codec}": lambda codec=codec: parquet(  # type: ignore[misc]
            [Page(body=plain(bytes(8 * _ZEROS), _ZEROS), values=_ZEROS)], rows=_ZEROS, codec=codec
        )
        for codec in ("snappy", "brotli", "zstd")
    },
    "a page that says a negative size": lambda: parquet([Page(body=plain(bytes(80), 10), values=10, size=-5)], rows=10, codec="zstd"),
    "a text of a megabyte two billion times": lambda: parquet(
        [Page(body=repeated(MOST), values=MOST, encoding=_BY_DICTIONARY)], rows=MOST, dictionary=_WORD, type_=BYTE_ARRAY
    ),
    "a dictionary that says two billion entries": lambda: parquet(
        [Page(body=repeated(10), values=10, encoding=_BY_DICTIONARY)],
        rows=10, dictionary=Page(body=_long(b"x"), values=MOST), type_=BYTE_ARRAY,
    ),
    "2^40 rows of which ten are there": lambda: parquet([Page(body=plain(bytes(80), 10), values=10)], rows=2**40),
    "ten thousand groups in one another": lambda: parquet([Page(body=plain(bytes(80), 10), values=10)], rows=10, groups=10_000),
    "a text that says 2 GB": lambda: parquet(
        [Page(body=plain(struct.pack("<I", MOST) + b"x" * 60, 1), values=1)], rows=1, type_=BYTE_ARRAY
    ),
}  # fmt: skip
MANY_ROWS: dict[str, Callable[[], bytes]] = {
    "two billion NULLs": lambda: parquet([Page(body=nulls(MOST), values=MOST)], rows=MOST),
    "2^40 NULLs": lambda: parquet([Page(body=nulls(MOST), values=MOST)] * 512, rows=MOST * 512),
}


def ipc(batch: pa.RecordBatch, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _of(array: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([array], ["id"])


def _views(count: int) -> pa.Array:
    """So many views of the same megabyte."""
    view = struct.pack("<i4sii", 1 << 20, b"xxxx", 0, 0)
    return pa.Array.from_buffers(pa.string_view(), count, [None, pa.py_buffer(view * count), pa.py_buffer(b"x" * (1 << 20))])


def _same(array: pa.Array) -> pa.Array:
    """Ten thousand lists that are all this array."""
    return pa.ListViewArray.from_arrays(np.zeros(10_000, np.int32), np.full(10_000, len(array), np.int32), array)


ARROW: dict[str, Callable[[], bytes]] = {
    "400 MB of zeros in zstd": lambda: ipc(_of(pa.array(np.zeros(50_000_000, np.int64))), "zstd"),
    "two billion NULLs": lambda: ipc(_of(pa.nulls(MOST))),
    "a megabyte of text a million times by dictionary": lambda: ipc(
        _of(pa.DictionaryArray.from_arrays(np.zeros(1_000_000, np.int8), pa.array(["x" * (1 << 20)])))
    ),
    "a megabyte of text a hundred thousand times by views": lambda: ipc(_of(_views(100_000))),
    "lists that are all the same million numbers": lambda: ipc(_of(_same(_same(pa.array(np.zeros(1 << 20, np.int8)))))),
}
