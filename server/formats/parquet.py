"""Results as a Parquet file, written as the rows come: for people who take a result with them."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

import pyarrow as pa

from server.formats.writers import Batches, BrokenStream, Format, More, Tell
from sql.execution.array_memory import memory_of
from sql.execution.results import ResultColumn, result_schema

_GROUP_BYTES = 32 << 20
"""Arrow bytes of a row group: what is held in memory."""


class _Sink(io.RawIOBase):
    """What Parquet is written to: it never goes back, so what was written can be sent."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        piece = bytes(data)  # type: ignore[call-overload]
        self._parts.append(piece)
        self._position += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._position

    def taken(self) -> bytes:
        """What was written since the last time."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


def write_parquet(columns: Sequence[ResultColumn], batches: Batches, tell: Tell, more: More = lambda: False) -> Iterator[bytes]:
    """A Parquet file in row groups of some megabytes; a failure on the way leaves it without its footer and cuts the connection."""
    import pyarrow.parquet as pq

    sink = _Sink()
    schema = result_schema(columns)
    writer = pq.ParquetWriter(pa.PythonFile(sink, mode="w"), schema, compression="zstd")
    batches_ahead: list[pa.RecordBatch] = []
    size = 0
    try:
        for batch in batches:
            batches_ahead.append(batch)
            size += memory_of(batch)
            if size >= _GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(batches_ahead, schema))
                batches_ahead, size = [], 0
                yield sink.taken()
        if size or any(batch.num_rows for batch in batches_ahead):
            writer.write_table(pa.Table.from_batches(batches_ahead, schema))
    except Exception as failure:
        tell(failure)
        raise BrokenStream from failure
    writer.close()
    yield sink.taken()


PARQUET = Format("application/vnd.apache.parquet", write_parquet)
