"""Data files of a table in its three formats, real ones of which numbers, lengths, bits and parts say something else; made by seed.

The metadata of all three is made of numbers of varying length: Thrift's in Parquet, Protobuf's in ORC, Avro's own. One of them is taken
from anywhere in the parts that a reader believes first, and another telling number put in its place; what lies around it is put right.
"""

from __future__ import annotations

import io
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from table.format.parquet.thrift import varint
from tests.fuzz.inputs import COLUMNS, drawn
from tests.table.avro_snappy import packed_with_snappy

FORMATS = ("parquet", "orc", "avro")
_ROWS = 300
_TELLING = (
    0,
    1,
    2,
    3,
    7,
    127,
    128,
    255,
    1 << 15,
    1 << 20,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    (1 << 62) + 1,
    (1 << 63) - 1,
    (1 << 64) - 1,
)
_MAGIC = b"ORC"
_AVRO_NESTED = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "i", "type": ["null", "int"]},
        {"name": "s", "type": ["null", "string"]},
        {"name": "n", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}]},
        {"name": "a", "type": {"type": "array", "items": ["null", {"type": "array", "items": "long"}]}},
        {"name": "m", "type": {"type": "map", "values": {"type": "map", "values": ["null", "bytes"]}}},
        {"name": "r", "type": {"type": "record", "name": "P", "fields": [{"name": "x", "type": {"type": "array", "items": "string"}}]}},
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 4}},
    ],
}


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a file, and how the file is made with other bytes there."""

    begin: int
    end: int
    put: Callable[[bytes], bytes]


def hostile(format_: str, seed: int) -> bytes:
    """The file of a seed."""
    rng = drawn(f"data-{format_}", seed)
    data = rng.choice(_real(format_))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = _changed(rng, format_, data)
    return data


def _changed(rng: random.Random, format_: str, data: bytes) -> bytes:
    try:
        parts = list(_PARTS[format_](data))
    except (LookupError, ValueError, zlib.error):  # it was changed before, or its codec is not unpacked here
        parts = []
    parts = [part for part in parts if part.begin < part.end <= len(data)]
    if not parts or rng.random() < 0.1:
        parts = [Part(0, len(data), lambda other: other)] if data else []
    if not parts:
        return data
    part = rng.choice(parts)
    return part.put(_told_otherwise(rng, data[part.begin : part.end], rng.choice(_real(format_))))


def _told_otherwise(rng: random.Random, old: bytes, other: bytes) -> bytes:
    at = rng.randrange(len(old)) if old else 0
    match rng.randrange(10):
        case 0 | 8 | 9:
            return old[:at] + bytes([old[at] ^ (1 << rng.randrange(8))]) + old[at + 1 :] if old else old
        case 1:
            return old[:at]
        case 2:
            begin = rng.randrange(len(other))
            return old[:at] + other[begin : begin + rng.randrange(1, 64)] + old[at + rng.randrange(64) :]
        case 3:
            return old[:at] + old[at:] * rng.randrange(2, 4)
        case _:
            end = at
            while end < len(old) and old[end] & 0x80 and end - at < 9:
                end += 1
            return old[:at] + varint(rng.choice(_TELLING)) + old[end + 1 :]


@cache
def _real(format_: str) -> tuple[bytes, ...]:
    return tuple(_REAL[format_]())


def _table(*without: str) -> pa.Table:
    rows = {name: (values * _ROWS)[:_ROWS] for name, (_, _, values) in COLUMNS.items() if name not in without}
    schema = pa.schema([(name, type_) for name, (_, type_, _) in COLUMNS.items() if name not in without])
    return pa.table(rows, schema=schema)


def _parquet_files() -> Iterator[bytes]:
    for compression, version, dictionary in (
        ("none", "1.0", True),
        ("zstd", "2.0", False),
        ("snappy", "1.0", False),
        ("gzip", "2.0", True),
    ):
        out = io.BytesIO()
        pq.write_table(
            _table(),
            out,
            compression=compression,
            data_page_version=version,
            use_dictionary=dictionary,
            row_group_size=100,
            write_page_index=True,
        )
        yield out.getvalue()


def _orc_files() -> Iterator[bytes]:
    for compression in ("uncompressed", "zlib", "zstd", "snappy", "lz4"):
        out = io.BytesIO()
        orc.write_table(
            _table("t", "ts"),
            out,
            compression=compression,
            stripe_size=4_096,
            row_index_stride=100,
            bloom_filter_columns=[0, 7],
            batch_size=64,
        )
        yield out.getvalue()


def _avro_files() -> Iterator[bytes]:
    rows = [
        {
            "i": n if n % 3 else None,
            "s": f"text {n}",
            "n": None,
            "a": [None, [n, -n]],
            "m": {"k": {"l": b"x", "n": None}},
            "r": {"x": ["y"] * (n % 4)},
            "f": b"abcd",
        }
        for n in range(_ROWS)
    ]
    for codec in ("null", "deflate", "zstandard"):
        out = io.BytesIO()
        fastavro.writer(out, _AVRO_NESTED, rows, codec=codec, sync_interval=2_000)
        yield out.getvalue()
    yield packed_with_snappy(_AVRO_NESTED, rows)


def _parquet_parts(data: bytes) -> Iterator[Part]:
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    if begin < 4:
        raise ValueError
    footer = Part(begin, len(data) - 8, lambda new: data[:begin] + new + len(new).to_bytes(4, "little") + data[-4:])
    yield from [footer] * 3
    yield Part(4, begin, partial(_in_place, data, 4, begin))
    yield Part(4, min(begin, 60), lambda new: data[:4] + (new + data[60:begin])[: begin - 4] + data[begin:])
    yield Part(len(data) - 8, len(data), lambda new: data[:-8] + new)


def _orc_parts(data: bytes) -> Iterator[Part]:
    script = data[-1]
    at = len(data) - 1 - script
    told = {number: value for number, value, _ in _numbers(data[at:-1])}
    packed = told.get(2, 0) != 0
    foot = at - told[1]
    meta = foot - told.get(5, 0)
    if not 3 <= meta <= foot <= at:
        raise ValueError

    def with_tail(footer: bytes, metadata: bytes) -> bytes:
        other = b"".join(
            varint(number << 3) + varint({1: len(footer), 5: len(metadata)}.get(number, value)) if kind == 0 else raw
            for number, value, (kind, raw) in _numbers(data[at:-1])
        )
        return data[:meta] + metadata + footer + other + bytes([len(other) & 0xFF])

    footer, metadata = _plain(data[foot:at], packed=packed), _plain(data[meta:foot], packed=packed)
    yield Part(at, len(data) - 1, lambda new: data[:at] + new[:255] + bytes([len(new[:255])]))
    for _ in range(3):
        yield _within(footer, lambda new: with_tail(_as_chunk(new, packed=packed), data[meta:foot]), foot, len(data))
    yield _within(metadata, lambda new: with_tail(data[foot:at], _as_chunk(new, packed=packed)), meta, len(data))
    for number, _, (_, raw) in _numbers(footer):
        if number != 3:
            continue
        stripe = {n: value for n, value, _ in _numbers(raw[_head(raw) :])}
        begin = stripe.get(1, 0)
        index, rows, tail = (stripe.get(n, 0) for n in (2, 3, 4))
        for start, end in (
            (begin, begin + index),
            (begin + index, begin + index + rows),
            (begin + index + rows, begin + index + rows + tail),
        ):
            if 3 <= start < end <= meta:
                yield Part(start, end, partial(_in_place, data, start, end))


def _within(plain: bytes, put: Callable[[bytes], bytes], begin: int, size: int) -> Part:
    """A part whose bytes are told otherwise once they are unpacked."""

    def changed(new: bytes) -> bytes:
        rng = random.Random(new)
        return put(_told_otherwise(rng, plain, plain)) if plain else put(new)

    return Part(begin, min(begin + max(1, len(plain)), size), changed)


def _head(raw: bytes) -> int:
    """Where the value of a field with a length begins."""
    at = 0
    for _ in range(2):
        while raw[at] & 0x80:
            at += 1
        at += 1
    return at


def _numbers(data: bytes) -> Iterator[tuple[int, int, tuple[int, bytes]]]:
    """Each field of a Protobuf message: its number, its value or length, and its kind and bytes."""
    at = 0
    while at < len(data):
        begin = at
        tag, at = _read(data, at)
        kind = tag & 7
        value, end = _read(data, at) if kind in (0, 2) else (0, at + (8 if kind == 1 else 4))
        at = end + value if kind == 2 else end
        if at > len(data):
            raise ValueError
        yield tag >> 3, value, (kind, data[begin:at])


def _read(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def _plain(data: bytes, *, packed: bool) -> bytes:
    """What chunks of ORC hold that are not packed, or packed with zlib; others raise."""
    if not packed:
        return data
    out, at = b"", 0
    while at < len(data):
        told = int.from_bytes(data[at : at + 3], "little")
        chunk = data[at + 3 : at + 3 + (told >> 1)]
        out += chunk if told & 1 else zlib.decompress(chunk, -15)
        at += 3 + (told >> 1)
    return out


def _as_chunk(data: bytes, *, packed: bool) -> bytes:
    return (len(data) << 1 | 1).to_bytes(3, "little") + data if packed else data


def _avro_parts(data: bytes) -> Iterator[Part]:
    sync = data[-16:]
    head = data.index(sync) + 16
    yield Part(4, head - 16, lambda new: data[:4] + new + data[head - 16 :])
    at = head
    while at < len(data):
        begin = at
        _, told = _read(data, at)
        size, at = _read(data, told)
        size = size >> 1 ^ -(size & 1)
        if not 0 < size <= len(data) - at:
            raise ValueError
        yield Part(begin, at, partial(_put, data, begin, at))
        body, end = at, at + size
        yield Part(body, end, partial(_block, data, told, end))
        at = end + 16


def _put(data: bytes, begin: int, end: int, new: bytes) -> bytes:
    return data[:begin] + new + data[end:]


def _in_place(data: bytes, begin: int, end: int, new: bytes) -> bytes:
    """The file with as many other bytes, so that what follows lies where it is told to lie."""
    return data[:begin] + (new + bytes(end))[: end - begin] + data[end:]


def _block(data: bytes, told: int, end: int, new: bytes) -> bytes:
    return data[:told] + varint(len(new) << 1) + new + data[end:]


_PARTS: dict[str, Callable[[bytes], Iterator[Part]]] = {"parquet": _parquet_parts, "orc": _orc_parts, "avro": _avro_parts}
_REAL: dict[str, Callable[[], Iterator[bytes]]] = {"parquet": _parquet_files, "orc": _orc_files, "avro": _avro_files}
