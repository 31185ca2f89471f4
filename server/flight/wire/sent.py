"""Arrow data as the bytes of Flight's ``FlightData``, put together with one copy: a result's batches are what most bytes are."""

from __future__ import annotations

import pyarrow as pa

_HEADER, _BODY = b"\x12", b"\xc2\x3e"
"""Tags of ``data_header`` (2) and ``data_body`` (1000), both of which are bytes."""


def schema_message(schema: pa.Schema) -> bytes:
    """The message that begins a stream."""
    return _flight_data(pa.ipc.read_message(schema.serialize()))


def batch_message(batch: pa.RecordBatch) -> bytes:
    """The message of a batch, which has no columns encoded by a dictionary."""
    return _flight_data(pa.ipc.read_message(batch.serialize()))


def _flight_data(message: pa.Message) -> bytes:
    header, body = message.metadata, message.body
    parts = [_HEADER, _size(header.size), header]
    if body is not None and body.size:
        parts += [_BODY, _size(body.size), body]
    return b"".join(parts)


def _size(number: int) -> bytes:
    """A number as protobuf's varint."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
