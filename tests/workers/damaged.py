"""Arrow streams that say more than they hold."""

from __future__ import annotations

import struct

import pyarrow as pa


def stream(batch: pa.RecordBatch) -> bytes:
    """A batch as an Arrow IPC stream; the writer copies offsets without looking at them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def reaching(size: int, column: str = "v") -> pa.RecordBatch:
    """Two BYTES values in 8 bytes, of which the first says that it is ``size`` bytes long."""
    offsets = pa.py_buffer(struct.pack("<3i", 0, size, 8))
    return pa.RecordBatch.from_arrays([pa.Array.from_buffers(pa.binary(), 2, [None, offsets, pa.py_buffer(b"abcdefgh")])], [column])
