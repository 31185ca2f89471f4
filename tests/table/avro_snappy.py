"""Avro files packed with Snappy, as Java writes them, laid down by hand: fastavro packs so only beside other libraries."""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa

_SYNC = bytes(range(16))


def packed_with_snappy(schema: Any, rows: Sequence[Mapping[str, Any]], *, rows_in_block: int = 100) -> bytes:
    """A file of such rows."""
    out = io.BytesIO()
    fastavro.writer(out, schema, [], codec="null", sync_marker=_SYNC)
    file = bytearray(out.getvalue().replace(b"\x14avro.codec\x08null", b"\x14avro.codec\x0csnappy"))
    assert b"snappy" in file
    for begin in range(0, len(rows), rows_in_block):
        block = rows[begin : begin + rows_in_block]
        plain = io.BytesIO()
        for row in block:
            fastavro.schemaless_writer(plain, schema, row)
        packed = pa.Codec("snappy").compress(plain.getvalue(), asbytes=True) + zlib.crc32(plain.getvalue()).to_bytes(4)
        file += _long(len(block)) + _long(len(packed)) + packed + _SYNC
    return bytes(file)


def _long(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    return out.getvalue()
