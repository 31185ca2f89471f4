"""Arrow batches as data files, by partition and bucket, in write order (`paimon-append.md` §2.5, 4.7, 9).

Files are written where they will stay: one nobody's manifest names is invisible. A failure deletes what it wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import uuid4

import numpy as np
import pyarrow as pa

from model.errors import Unavailable
from model.schema.schema import Schema
from model.schema.type_parts import nullable_throughout
from model.work.deciding import present_decider
from table.format.discard import discard
from table.format.formats import FileFormat
from table.format.io.beside import puts_beside
from table.format.manifests.entries import EMPTY_ROW, DataFile, EntryKind, FileSource, ManifestEntry, NewFile
from table.format.rows import binary_row
from table.format.rows.arrow import arrow_schema
from table.format.rows.stats import StatsModes
from table.format.store import TableFiles
from table.index.build import FileIndexes, attached
from table.index.checksum import container_of
from table.index.container import SUFFIX
from table.scan.going_on import Check
from table.write.bucket import buckets_of, partitions_of
from table.write.data_file import OpenFile, describe, open_file
from table.write.spill import BufferRules, Spill

_CHECK_BYTES = 256 << 10
"""Uncompressed bytes gathered before a row group is considered, so that rolling sees real sizes often enough."""
_ROUTED_TIMES = 4
"""Times its memory a write takes in before all that waits is put aside or written."""
_SLICE_BYTES, _COLUMN_BYTES = 300, 220
"""What Arrow takes for a slice of a batch and for each of its columns, however few its rows are; measured."""

_TRIES = 3
"""A directory may go with a table that is dropped, again after it was made anew; what is written then is refused at the commit."""
_MOST_OPEN_FILES = 200
"""Files one write keeps open; a process may have 1024."""

_Key = tuple[bytes, int]
Opening = Callable[[str], object]


def unheard(path: str) -> None:
    """Nobody asks which files are made."""


def write_batches(
    files: TableFiles,
    schema: Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    source: FileSource = FileSource.APPEND,
    opening: Opening = unheard,
    rewrites: bool = False,
) -> list[NewFile]:
    """Write rows that fit the schema (see `table.format.rows.cast.fit`); returns the files, not yet committed.

    Rows of one (partition, bucket) keep their order; their files' sequence numbers count from 0.
    ``opening`` is called with each path before a file is made there. Where the write ``rewrites`` rows the table holds, NULL may stand
    where their types are NOT NULL by now. Raises, without leaving a file, where the present context's work is told to stop.
    """
    writer = TableWriter(files, schema, source=source, opening=opening, rewrites=rewrites)
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
    """Write rows of files anew that all belong to one (partition, bucket), in order; their sequence numbers count from 0 over the files."""
    values = binary_row.decode([f.type for f in schema.partition_fields], partition)
    directory = files.layout.new_bucket_dir(schema, values, bucket)
    writer = _BucketWriter(files, schema, FileFormat.of(schema), StatsModes(schema), directory, source, rewrites=True)
    try:
        for batch in batches:
            writer.write(batch)
        return writer.finish()
    except BaseException:
        writer.abort()
        raise


def paths_of(files: TableFiles, schema: Schema, new: NewFile) -> list[str]:
    """Where a written data file lies, and what lies beside it."""
    entry = ManifestEntry(kind=EntryKind.ADD, partition=new.partition, bucket=new.bucket, total_buckets=schema.bucket, file=new.file)
    return [files.data_path(schema, entry), *files.extra_paths(schema, entry)]


class TableWriter:
    """Open files of one write, one per (partition, bucket).

    Rows that do not fill a row group yet wait in memory, of which a write takes so much at most however many partitions its
    rows go to (`write-buffer-size`); beyond it they wait on local disk where many partitions and buckets are open
    (`write-buffer-spillable`, `write-max-writers-to-spill`), and go to files, small ones where too many are open, where not.
    ``check`` is asked before each file is made and finished, for each row may have one; without it, who decides in the present context.
    """

    def __init__(
        self,
        files: TableFiles,
        schema: Schema,
        *,
        source: FileSource = FileSource.APPEND,
        opening: Opening = unheard,
        rewrites: bool = False,
        check: Check | None = None,
    ) -> None:
        self._files = files
        self._rewrites = rewrites
        self._check = check or present_decider().check
        self._schema = schema
        self._source = source
        self._opening = opening
        self._open: dict[_Key, _BucketWriter] = {}
        self._format = FileFormat.of(schema)
        self._modes = StatsModes(schema)
        self._rules = BufferRules.of(schema)
        self._spill = Spill(self._rules)
        self._routed = 0
        self._pending_bytes = 0
        """Of all writers together: a batch may have one row, and be one of as many as there are writers."""
        self._with_file: dict[_Key, _BucketWriter] = {}
        """Those whose file is open."""
        self._with_rows: dict[_Key, _BucketWriter] = {}
        """Those with rows in memory: whoever sees to that need not go through all."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Route the batch's rows to their files."""
        for partition, values, bucket, rows in route(self._schema, batch):
            self._check()
            key = (partition, bucket)
            writer = self._open.get(key)
            if writer is None:
                directory = self._files.layout.new_bucket_dir(self._schema, values, bucket)
                writer = _BucketWriter(
                    self._files, self._schema, self._format, self._modes, directory, self._source, rewrites=self._rewrites
                )
                writer.opening, writer.check = self._opening, self._check
                writer.aside = partial(self._spill.take, key)
                self._open[key] = writer
            before = writer.pending_bytes
            writer.write(rows)
            self._pending_bytes += writer.pending_bytes - before
            self._with_rows[key] = writer
            self._note_file(key, writer)
        self._routed += batch.nbytes
        self._keep_small()

    def _keep_small(self) -> None:
        """However many partitions rows go to, memory and open files stay bounded."""
        most = self._rules.memory_bytes
        # A few rows waiting for their like keep the whole batch they came in from being freed, so now and then all go.
        if self._routed > _ROUTED_TIMES * most or self._pending_bytes > most:
            waiting, self._with_rows = self._with_rows, {}
            many = self._rules.writers is not None and len(self._open) > self._rules.writers
            if many and not self._spill.full:
                self._spill.put((key, rows) for key, writer in waiting.items() for rows in writer.put_aside())
                self._routed = 0
            else:
                self._flush(list(waiting.values()), to=0 if self._routed > _ROUTED_TIMES * most else most // 2)
            self._with_rows = {key: writer for key, writer in waiting.items() if writer.pending_bytes}
            self._pending_bytes = sum(writer.pending_bytes for writer in self._with_rows.values())
            for key, writer in waiting.items():
                self._note_file(key, writer)
        if len(self._with_file) > _MOST_OPEN_FILES:
            fullest = sorted(self._with_file.items(), key=lambda opened: -opened[1].open_bytes)
            for key, writer in fullest[: len(fullest) - _MOST_OPEN_FILES]:
                writer.close_file()
                self._note_file(key, writer)

    def _note_file(self, key: _Key, writer: _BucketWriter) -> None:
        if writer.is_open:
            self._with_file[key] = writer
        else:
            self._with_file.pop(key, None)

    def _flush(self, waiting: list[_BucketWriter], *, to: int) -> None:
        """Write rows of writers to files, the fullest ones' first, until so many bytes are left."""
        pending = self._pending_bytes
        if not to:
            self._routed = 0
        for at, writer in enumerate(sorted(waiting, key=lambda w: -w.pending_bytes)):
            if pending <= to or not writer.pending_bytes:
                return
            pending -= writer.pending_bytes
            writer.flush()
            if at >= _MOST_OPEN_FILES:
                writer.close_file()

    def finish(self) -> list[NewFile]:
        """Close all files and describe them."""
        try:
            with puts_beside():
                return [
                    NewFile(partition=partition, bucket=bucket, file=file)
                    for (partition, bucket), writer in self._open.items()
                    for file in writer.finish()
                ]
        finally:
            self._spill.close()

    def abort(self) -> None:
        """Delete everything this write made."""
        self._spill.close()
        for writer in self._open.values():
            writer.abort()


def route(schema: Schema, batch: pa.RecordBatch) -> Iterator[tuple[bytes, tuple[object, ...], int, pa.RecordBatch]]:
    """The batch split by partition and bucket, each part in the batch's order: row bytes, values, bucket, rows."""
    if batch.num_rows == 0:
        return
    types = [f.type for f in schema.partition_fields]
    distinct, groups = partitions_of(schema, batch)
    total = max(schema.bucket, 1)
    keys = groups * total + (buckets_of(schema, batch) if schema.bucket > 1 else 0)
    order = np.argsort(keys, kind="stable")
    buckets, starts = np.unique(keys[order], return_index=True)
    rows = batch if len(buckets) == 1 else batch.take(pa.array(order))
    for key, start, end in zip(buckets.tolist(), starts.tolist(), [*starts[1:].tolist(), batch.num_rows], strict=True):
        group, bucket = divmod(key, total)
        values = distinct[group]
        yield binary_row.encode_prefixed(types, values) if types else EMPTY_ROW, values, bucket, rows.slice(start, end - start)


@dataclass(slots=True)
class _Pending:
    """Rows not yet in a row group."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    nbytes: int = 0


class _BucketWriter:
    """The files of one (partition, bucket), rolled at the target size."""

    def __init__(  # noqa: PLR0913 - what all files of the write have in common, and where these lie
        self,
        files: TableFiles,
        schema: Schema,
        format_: FileFormat,
        modes: StatsModes,
        directory: str,
        source: FileSource,
        *,
        rewrites: bool,
    ) -> None:
        self._files = files
        self._schema = schema
        self._arrow = arrow_schema(schema.fields, with_ids=True)
        self._strict = not rewrites
        self._slice_bytes = _SLICE_BYTES + _COLUMN_BYTES * len(schema.fields)
        self._format = format_
        self._modes = modes
        self._directory = directory
        self._source = source
        self._id = uuid4()
        self._count = 0
        self._sequence = 0
        self._pending = _Pending()
        self._aside_bytes = self._aside_rows = 0
        self.aside: Callable[[], Iterator[pa.RecordBatch]] = lambda: iter(())
        """Gives back the rows that were put aside; they come before those that wait in memory."""
        self.opening: Opening = unheard
        self.check: Check = present_decider().check
        self._file: OpenFile | None = None
        self._index: FileIndexes | None = None
        self._done: list[DataFile] = []
        self._paths: list[str] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows behind those already written."""
        at = 0
        while at < batch.num_rows:
            rows_left = max(1, self._format.target_rows - (self._file.rows if self._file else 0) - self._pending.rows - self._aside_rows)
            part = batch.slice(at, rows_left)
            self._pending.batches.append(part)
            self._pending.rows += part.num_rows
            self._pending.nbytes += part.nbytes
            at += part.num_rows
            if self._pending.nbytes + self._aside_bytes >= self._group_bytes() or part.num_rows == rows_left:
                self.flush()

    @property
    def pending_bytes(self) -> int:
        """Memory of rows not yet in a row group; where many partitions get a row each, most of it holds no row."""
        return self._pending.nbytes + self._slice_bytes * len(self._pending.batches)

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

    def put_aside(self) -> Iterator[pa.RecordBatch]:
        """The rows in memory, as one batch, for who keeps them until `aside` asks for them."""
        if self._pending.rows:
            self._aside_bytes += self._pending.nbytes
            self._aside_rows += self._pending.rows
            rows = pa.Table.from_batches(self._pending.batches).combine_chunks()
            self._pending = _Pending()
            yield from rows.to_batches()

    def flush(self) -> None:
        """Write the rows that wait as a row group."""
        if not self._pending.rows and not self._aside_rows:
            return
        rows = self._typed(pa.Table.from_batches([*self.aside(), *self._pending.batches]))
        self._pending = _Pending()
        self._aside_bytes = self._aside_rows = 0
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

    def _typed(self, rows: pa.Table) -> pa.Table:
        """The rows in the form of files; NULLs of rows that lay in files already stay where a type is NOT NULL, as they were read."""
        try:
            return rows.cast(self._arrow)
        except ValueError:  # of a column; Arrow's own of a part of one is such an error, too
            if self._strict:
                raise
        self.close_file()
        self._strict = True
        fields = [replace(column, type=nullable_throughout(column.type)) for column in self._schema.fields]
        self._arrow = arrow_schema(fields, with_ids=True)
        return rows.cast(self._arrow)

    def _begin(self) -> OpenFile:
        self.check()
        name = f"{self._format.prefix}{self._id}-{self._count}.{self._format.extension}"
        path = f"{self._directory}/{name}"
        self._count += 1
        self.opening(path)
        self._paths.append(path)
        for left in reversed(range(_TRIES)):
            try:
                self._file = open_file(self._files, self._format, path, self._arrow, self._modes)
                break
            except FileNotFoundError as gone:
                if not left:
                    raise Unavailable(
                        f"{name} of table {self._files.name} could not be made: its directory is removed each time."
                    ) from gone
                self._files.io.mkdirs(self._directory)
        assert self._file is not None
        self._index = FileIndexes.declared(self._schema)
        return self._file

    def close_file(self) -> None:
        """Finish the open file, if any; later rows go to another."""
        file = self._file
        if file is None:
            return
        self.check()
        self._file = None
        size, stats = file.close(self._modes)
        first = self._sequence
        self._sequence += file.rows
        described = describe(
            self._schema,
            self._modes,
            file.path,
            size=size,
            rows=file.rows,
            stats=stats,
            first_sequence=first,
            created_millis=file.created_millis,
            source=self._source,
        )
        container = container_of(file.checksum)
        if self._index is not None:
            self.opening(file.path + SUFFIX)
            self._paths.append(file.path + SUFFIX)
            container = self._index.container(file.checksum)
        described = attached(self._files, self._schema, file.path, described, container)
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
        discard(self._files, self._paths)
