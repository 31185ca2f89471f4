"""Rows of writes with many open partitions and buckets, put aside on local disk until their file is written.

Without it such a write holds them all in memory, or leaves many small files in each partition.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa

from model.options.table import TABLE_OPTIONS
from model.schema.schema import Schema
from table.format.io.storage_errors import translating

_MOST_MEMORY = 128 << 20
"""Uncompressed bytes one write holds over all its partitions and buckets, whatever `write-buffer-size` allows: many write at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferRules:
    """What a table's options say about rows that are not in a file yet."""

    memory_bytes: int
    writers: int | None
    """Open partitions and buckets from which rows are put aside on disk; None where they never are."""
    disk_bytes: int | None
    codec: str | None

    @classmethod
    def of(cls, schema: Schema) -> BufferRules:
        """The rules of a table."""

        def option(key: str) -> Any:
            return TABLE_OPTIONS.read(schema.options, key)

        codec = str(option("spill-compression")).lower()
        return cls(
            memory_bytes=min(option("write-buffer-size"), _MOST_MEMORY),
            writers=option("write-max-writers-to-spill") if option("write-buffer-spillable") else None,
            disk_bytes=option("write-buffer-spill.max-disk-size"),
            codec=codec if codec in ("zstd", "lz4") else None,
        )


class Spill:
    """Files of one write on local disk: each holds a batch for every partition and bucket that had rows in memory."""

    def __init__(self, rules: BufferRules) -> None:
        self._rules = rules
        self._places: dict[Hashable, list[tuple[int, int]]] = {}
        self._files: list[IO[bytes]] = []
        self._readers: list[pa.ipc.RecordBatchFileReader] = []
        self.size = 0
        """Bytes on disk."""

    @property
    def full(self) -> bool:
        """Whether `write-buffer-spill.max-disk-size` is reached."""
        return self._rules.disk_bytes is not None and self.size >= self._rules.disk_bytes

    def put(self, rows: Iterator[tuple[Hashable, pa.RecordBatch]]) -> None:
        """Put rows aside, each batch under its key, to be taken back in the order they were put; raises `StorageFull`."""
        with translating(tempfile.gettempdir()):
            # Without a name, so that a killed process leaves none behind; `close` ends it.
            file = tempfile.TemporaryFile(prefix="sluice-spill-")  # noqa: SIM115
            self._files.append(file)
            if self._write(file, rows):
                self.size += file.tell()
                self._readers.append(pa.ipc.open_file(pa.PythonFile(file, mode="r")))

    def _write(self, file: IO[bytes], rows: Iterator[tuple[Hashable, pa.RecordBatch]]) -> int:
        options = pa.ipc.IpcWriteOptions(compression=self._rules.codec)
        writer: pa.ipc.RecordBatchFileWriter | None = None
        count = 0
        try:
            for key, batch in rows:
                if writer is None:
                    writer = pa.ipc.new_file(pa.PythonFile(file, mode="w"), batch.schema, options=options)
                writer.write_batch(batch)
                self._places.setdefault(key, []).append((len(self._readers), count))
                count += 1
        finally:
            if writer is not None:
                writer.close()
        return count

    def take(self, key: Hashable) -> Iterator[pa.RecordBatch]:
        """The rows put aside under a key, once."""
        for number, at in self._places.pop(key, ()):
            with translating(tempfile.gettempdir()):
                batch = self._readers[number].get_batch(at)
            yield batch

    def close(self) -> None:
        """Remove the files."""
        self._places.clear()
        self._readers.clear()
        for file in self._files:
            with contextlib.suppress(OSError):  # what it could not write any more was not to be kept
                file.close()
        self._files.clear()
