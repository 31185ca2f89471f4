"""Arrow batches as data files, by partition and bucket, in write order (`paimon-append.md` §2.5, 4.7, 9).

Files are written where they will stay: one nobody's manifest names is invisible. A failure deletes what it wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from uuid import uuid4

import numpy as np
import pyarrow as pa

from model.schema import Schema
from table import binary_row
from table.arrow import arrow_schema
from table.bucket import buckets_of, internal_values
from table.data_file import OpenFile, describe, naming, open_file
from table.file_index.build import FileIndexes, attached
from table.file_index.container import SUFFIX
from table.formats import FileFormat
from table.manifest import EMPTY_ROW, DataFile, FileSource, NewFile
from table.stats import StatsModes
from table.store import TableFiles

_CHECK_BYTES = 256 << 10
"""Uncompressed bytes gathered before a row group is considered, so that rolling sees real sizes often enough."""

_MOST_PENDING_BYTES = 128 << 20
"""Uncompressed bytes one write gathers over all its partitions and buckets."""

_MOST_OPEN_FILES = 200
"""Files one write keeps open; a process may have 1024."""


def write_batches(
    files: TableFiles, schema: Schema, batches: Iterable[pa.RecordBatch], *, source: FileSource = FileSource.APPEND
) -> list[NewFile]:
    """Write rows that fit the schema (see `table.cast.fit`); returns the files, not yet committed.

    Rows of one (partition, bucket) keep their order; their files' sequence numbers count from 0.
    """
    writer = TableWriter(files, schema, source=source)
    try:
        for batch in batches:
            writer.write(batch)
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


def write_bucket(
    files: TableFiles, schema: Schema, partition: bytes, bucket: int, batches: Iterable[pa.RecordBatch], *, source: FileSource
) -> list[DataFile]:
    """Write rows that all belong to one (partition, bucket), in order; their sequence numbers count from 0 over the files."""
    values = binary_row.decode([f.type for f in schema.partition_fields], partition)
    directory = files.layout.bucket_dir(schema, values, bucket)
    writer = _BucketWriter(files, schema, FileFormat.of(schema), StatsModes(schema), directory, source)
    try:
        for batch in batches:
            writer.write(batch)
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


class TableWriter:
    """Open files of one write, one per (partition, bucket)."""

    def __init__(self, files: TableFiles, schema: Schema, *, source: FileSource = FileSource.APPEND) -> None:
        self._files = files
        self._schema = schema
        self._source = source
        self._open: dict[tuple[bytes, int], _BucketWriter] = {}
        self._format = FileFormat.of(schema)
        self._modes = StatsModes(schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Route the batch's rows to their files."""
        for partition, values, bucket, rows in route(self._schema, batch):
            key = (partition, bucket)
            writer = self._open.get(key)
            if writer is None:
                directory = self._files.layout.bucket_dir(self._schema, values, bucket)
                writer = _BucketWriter(self._files, self._schema, self._format, self._modes, directory, self._source)
                self._open[key] = writer
            writer.write(rows)
        self._keep_small()

    def _keep_small(self) -> None:
        """However many partitions rows go to, memory and open files stay bounded: the fullest give way first."""
        held = sum(writer.pending_bytes for writer in self._open.values())
        if held > _MOST_PENDING_BYTES:
            for writer in sorted(self._open.values(), key=lambda w: -w.pending_bytes):
                writer.flush()
                held = sum(w.pending_bytes for w in self._open.values())
                if held <= _MOST_PENDING_BYTES // 2:
                    break
        opened = [writer for writer in self._open.values() if writer.is_open]
        for writer in sorted(opened, key=lambda w: -w.open_bytes)[: max(0, len(opened) - _MOST_OPEN_FILES)]:
            writer.close_file()

    def finish(self) -> list[NewFile]:
        """Close all files and describe them."""
        return [
            NewFile(partition=partition, bucket=bucket, file=file)
            for (partition, bucket), writer in self._open.items()
            for file in writer.finish()
        ]

    def abort(self) -> None:
        """Delete everything this write made."""
        for writer in self._open.values():
            writer.abort()


def route(schema: Schema, batch: pa.RecordBatch) -> Iterator[tuple[bytes, tuple[object, ...], int, pa.RecordBatch]]:
    """The batch split by partition and bucket, each part in the batch's order: row bytes, values, bucket, rows."""
    if batch.num_rows == 0:
        return
    groups: np.ndarray[tuple[int], np.dtype[np.int64]] = np.zeros(batch.num_rows, dtype=np.int64)
    distinct: list[tuple[object, ...]] = [()]
    types = [f.type for f in schema.partition_fields]
    if types:
        columns = [internal_values(f.type, batch.column(batch.schema.get_field_index(f.name))) for f in schema.partition_fields]
        seen: dict[tuple[object, ...], int] = {}
        groups = np.fromiter((seen.setdefault(row, len(seen)) for row in zip(*columns, strict=True)), dtype=np.int64, count=batch.num_rows)
        distinct = list(seen)
    total = max(schema.bucket, 1)
    keys = groups * total + (buckets_of(schema, batch) if schema.bucket > 1 else 0)
    for key in np.unique(keys):
        group, bucket = divmod(int(key), total)
        picked = np.flatnonzero(keys == key)
        rows = batch if len(picked) == batch.num_rows else batch.take(pa.array(picked))
        values = distinct[group]
        yield binary_row.encode_prefixed(types, values) if types else EMPTY_ROW, values, bucket, rows


@dataclass(slots=True)
class _Pending:
    """Rows not yet in a row group."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    nbytes: int = 0


class _BucketWriter:
    """The files of one (partition, bucket), rolled at the target size."""

    def __init__(
        self, files: TableFiles, schema: Schema, format_: FileFormat, modes: StatsModes, directory: str, source: FileSource
    ) -> None:
        self._files = files
        self._schema = schema
        self._arrow = arrow_schema(schema.fields, with_ids=True)
        self._format = format_
        self._modes = modes
        self._directory = directory
        self._source = source
        self._id = uuid4()
        self._count = 0
        self._sequence = 0
        self._pending = _Pending()
        self._file: OpenFile | None = None
        self._index: FileIndexes | None = None
        self._done: list[DataFile] = []
        self._paths: list[str] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows behind those already written."""
        at = 0
        while at < batch.num_rows:
            room = max(1, self._format.target_rows - (self._file.rows if self._file else 0) - self._pending.rows)
            part = batch.slice(at, room)
            self._pending.batches.append(part)
            self._pending.rows += part.num_rows
            self._pending.nbytes += part.nbytes
            at += part.num_rows
            if self._pending.nbytes >= self._group_bytes() or part.num_rows == room:
                self.flush()

    @property
    def pending_bytes(self) -> int:
        """Bytes of rows not yet in a row group."""
        return self._pending.nbytes

    @property
    def is_open(self) -> bool:
        """Whether a file is open."""
        return self._file is not None

    @property
    def open_bytes(self) -> int:
        """Bytes in the open file."""
        return self._file.written() if self._file is not None else 0

    def _group_bytes(self) -> int:
        """Small targets need small row groups to be met; large ones need no more than the block size."""
        return int(min(self._format.block_bytes, max(_CHECK_BYTES, self._format.target_bytes // 8)))

    def flush(self) -> None:
        """Write the pending rows as a row group."""
        if not self._pending.rows:
            return
        rows = pa.Table.from_batches(self._pending.batches).cast(self._arrow)
        self._pending = _Pending()
        while rows.num_rows:
            file = self._file or self._begin()
            fitting = file.rows_that_fit(rows, self._format.target_bytes)
            part = rows.slice(0, fitting)
            file.write(part)
            if self._index is not None:
                self._index.add(part)
            rows = rows.slice(fitting)
            if file.full(self._format):
                self.close_file()

    def _begin(self) -> OpenFile:
        name = f"{self._format.prefix}{self._id}-{self._count}.{self._format.extension}"
        path = f"{self._directory}/{name}"
        self._count += 1
        self._paths.append(path)
        try:
            self._file = open_file(self._files, self._format, path, self._arrow, self._modes)
        except FileNotFoundError:
            self._files.io.mkdirs(self._directory)
            self._file = open_file(self._files, self._format, path, self._arrow, self._modes)
        self._index = FileIndexes.declared(self._schema)
        return self._file

    def close_file(self) -> None:
        """Finish the open file, if any; later rows go to another."""
        file = self._file
        if file is None:
            return
        self._file = None
        with naming(file.path):
            size, stats = file.close(self._modes)
        first = self._sequence
        self._sequence += file.rows
        described = describe(
            self._schema, self._modes, file.path, size=size, rows=file.rows, stats=stats, first_sequence=first, source=self._source
        )
        if self._index is not None:
            self._paths.append(file.path + SUFFIX)
            described = attached(self._files, self._schema, file.path, described, self._index.container())
        self._done.append(described)

    def finish(self) -> list[DataFile]:
        """Write what is pending and close the last file."""
        self.flush()
        self.close_file()
        return self._done

    def abort(self) -> None:
        """Delete the files."""
        if self._file is not None:
            self._file.discard()
        for path in self._paths:
            self._files.io.delete(path)
