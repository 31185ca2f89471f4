"""One data file being written: Parquet or ORC, its size known as it grows, its statistics when it closes."""

from __future__ import annotations

import contextlib
import threading
import time
from abc import ABC, abstractmethod

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc
import pyarrow.parquet as pq

from model.errors import InvalidData, LakeError
from model.schema.schema import Schema
from model.schema.types import DataType, DoubleType, FloatType
from model.text.file_name import file_name
from model.wall_clock import local_wall_millis
from table.format.formats import FileFormat
from table.format.io.storage_errors import translating
from table.format.manifests.entries import DataFile, FileSource
from table.format.orc import has_fractions_before_1970
from table.format.parquet.batches import more_than_read
from table.format.parquet.identity import identity
from table.format.parquet.metadata import FooterTooLarge, footer_of, metadata_of
from table.format.parquet.nan import columns_without_floats
from table.format.rows.nested import inside, list_of, map_of, row_of
from table.format.rows.stats import ColumnStats, StatsModes, merge_stats, stats_from_parquet, stats_of_batches
from table.format.store import TableFiles
from table.index.checksum import Checksum, Summing

FLOATS: dict[pa.DataType, DataType] = {pa.float32(): FloatType(), pa.float64(): DoubleType()}
_creating = threading.Lock()
_last_created = 0


class OpenFile(ABC):
    """A data file being written."""

    path: str
    rows: int

    def __init__(self, files: TableFiles, path: str) -> None:
        self.path = path
        self.rows = 0
        self.created_millis = 0
        """When it was made, once it is closed; see `creation_millis`."""
        self.checksum: Checksum | None = None
        """That of all bytes of the closed file, for a format whose pages have none."""
        self._files = files
        with translating(path):
            self._sink = files.io.open_output(path)

    def written(self) -> int:
        """Bytes in the file so far."""
        with translating(self.path):
            return int(self._sink.tell())

    def rows_that_fit(self, rows: pa.Table, target: int) -> int:
        """How many of the rows bring the file to its target, by the bytes its rows have taken so far."""
        if not self.rows or not self.written():
            return int(rows.num_rows)
        per_row = self.written() / self.rows
        return int(min(rows.num_rows, max(1, round((target - self.written()) / per_row))))

    def write(self, rows: pa.Table) -> None:
        """Add a row group."""
        with translating(self.path):
            self._write(rows)
        self.rows += rows.num_rows

    def full(self, format_: FileFormat) -> bool:
        """Whether the next row belongs to the next file."""
        return self.written() >= format_.target_bytes * 0.95 or self.rows >= format_.target_rows

    @abstractmethod
    def _write(self, rows: pa.Table) -> None: ...

    def close(self, modes: StatsModes) -> tuple[int, dict[str, ColumnStats]]:
        """Finish the file; returns its size and the statistics of its columns."""
        self.created_millis = creation_millis()
        with translating(self.path):
            self._finish()
            size = self.written()
            self._sink.close()
        return size, self._stats_of(modes)

    @abstractmethod
    def _stats_of(self, modes: StatsModes) -> dict[str, ColumnStats]:
        """The statistics of the finished file's columns."""

    @abstractmethod
    def _finish(self) -> None:
        """Write what ends a file of this format."""

    def discard(self) -> None:
        """Let go of a file that will be deleted; a full disk must not keep it open."""
        for close in (self._finish, self._sink.close):
            with contextlib.suppress(OSError, pa.ArrowException, LakeError):
                close()


class _ParquetFile(OpenFile):
    def __init__(self, files: TableFiles, format_: FileFormat, path: str, schema: pa.Schema) -> None:
        super().__init__(files, path)
        # Arrow leaves NaN out of a footer's bounds, by which readers then leave out the rows with NaN.
        self._floats = {field.name: FLOATS[field.type] for field in schema if field.type in FLOATS}
        self._float_stats: dict[str, ColumnStats] = {}
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression=format_.codec,
            compression_level=format_.level,
            use_dictionary=format_.dictionary,
            store_decimal_as_integer=True,
            store_schema=False,
            version="2.6",
            write_statistics=columns_without_floats(schema),
            write_page_checksum=True,
        )

    def _write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        stats = stats_of_batches({name: (type_, rows.column(name).chunks) for name, type_ in self._floats.items()})
        self._float_stats = merge_stats([self._float_stats, stats])

    def _finish(self) -> None:
        self._writer.add_key_value_metadata(identity(file_name(self.path), self.created_millis, rows=self.rows, at=self.written()))
        self._writer.close()

    def _stats_of(self, modes: StatsModes) -> dict[str, ColumnStats]:
        collected = modes.collected()
        floats = {field.name: stats for field in collected if (stats := self._float_stats.get(field.name)) is not None}
        return stats_from_parquet(self._writer.writer.metadata, collected) | floats


class _Patient:
    """A sink that keeps the first failure for later: Arrow's ORC writer ends the whole process where its close meets one."""

    closed = False

    def __init__(self, sink: pa.NativeFile) -> None:
        self._sink = sink
        self._failure: Exception | None = None
        self.summing = Summing()

    def write(self, data: bytes) -> int:
        """Write, or drop what follows a failure: the file will be deleted."""
        if self._failure is None:
            try:
                self._sink.write(data)
                self.summing.add(data)
            except Exception as failure:
                self._failure = failure
        return len(data)

    def tell(self) -> int:
        return int(self._sink.tell())

    def flush(self) -> None: ...

    def close(self) -> None:
        """The sink's owner closes it."""
        self.closed = True

    def check(self) -> None:
        """Raise what was kept."""
        if self._failure is not None:
            raise self._failure


class _OrcFile(OpenFile):
    """ORC footers cannot be read here, so statistics are computed from the rows as they are written."""

    def __init__(self, files: TableFiles, format_: FileFormat, path: str, schema: pa.Schema, modes: StatsModes) -> None:
        super().__init__(files, path)
        self._collected = modes.collected()
        self._stats: list[dict[str, ColumnStats]] = []
        codec = "uncompressed" if format_.codec == "none" else format_.codec
        # The file's size is seen stripe by stripe, so a small target needs small stripes to be met.
        stripe = min(format_.block_bytes, 64 << 20, max(64 << 10, format_.target_bytes // 16))
        self._schema = pa.schema([_orc_field(field) for field in schema])
        self._patient = _Patient(self._sink)
        self._writer = orc.ORCWriter(pa.PythonFile(self._patient, mode="w"), compression=codec, stripe_size=stripe)

    def _write(self, rows: pa.Table) -> None:
        self._stats.append(stats_of_batches({f.name: (f.type, rows.column(f.name).chunks) for f in self._collected}))
        self._writer.write(pa.Table.from_arrays(_orc_columns(rows), schema=self._schema))
        self._patient.check()

    def _finish(self) -> None:
        self._writer.close()
        self._patient.check()
        self.checksum = self._patient.summing.end()

    def _stats_of(self, modes: StatsModes) -> dict[str, ColumnStats]:
        return merge_stats(self._stats)


def _orc_columns(rows: pa.Table) -> list[pa.ChunkedArray]:
    """The columns in the form of `_orc_field`; raises `InvalidData` for what Arrow writes wrongly."""
    columns = []
    for column, values in zip(rows.schema, rows.columns, strict=True):
        values = pa.chunked_array([_orc_values(column.name, chunk) for chunk in values.chunks], _orc_field(column).type)
        if pa.types.is_nested(column.type):
            # Of a slice Arrow writes the rows at the array's beginning, without an error: only a copy begins where its rows do.
            values = values.take(pa.array(np.arange(rows.num_rows)))
        columns.append(values)
    return columns


def _orc_values(name: str, array: pa.Array) -> pa.Array:
    """Values as they lie in ORC, which has no TIME: Paimon keeps one as an INT of milliseconds there, however deep it stands.

    Parts of a ROW that is NULL are NULL: what else lies there Arrow writes as a value, so that all behind it get another row's.
    """
    types, type_ = pa.types, array.type
    if types.is_time(type_):
        return array.cast(pa.int32())
    if types.is_timestamp(type_):
        _check_orc_timestamps(name, array)
    if not types.is_nested(type_):
        return array
    if types.is_struct(type_):
        parts = [_orc_values(f"{name}.{field.name}", part) for field, part in zip(type_, array.flatten(), strict=True)]
        return row_of(array, parts, [field.with_nullable(True) for field in type_])
    bounds, values = inside(array)
    if types.is_map(type_):
        keys, items = _orc_values(f"{name}.key", values[0]), _orc_values(f"{name}.value", values[1])
        return map_of(array, bounds, keys, items, nullable=type_.item_field.nullable)
    return list_of(array, bounds, _orc_values(f"{name}.element", values[0]), nullable=type_.value_field.nullable)


def _orc_field(field: pa.Field) -> pa.Field:
    """The field as it lies in ORC, where its id has Paimon's name and Iceberg's: Arrow makes attributes of what stands with a field."""
    type_ = field.type
    if pa.types.is_time(type_):
        type_ = pa.int32()
    elif pa.types.is_map(type_):
        type_ = pa.map_(_orc_field(type_.key_field), _orc_field(type_.item_field))
    elif pa.types.is_list(type_):
        type_ = pa.list_(_orc_field(type_.value_field))
    elif pa.types.is_struct(type_):
        # ORC has no NOT NULL, and a part is NULL where its ROW is.
        type_ = pa.struct([_orc_field(part).with_nullable(True) for part in type_])
    own = (field.metadata or {}).get(b"PARQUET:field_id")
    return pa.field(field.name, type_, field.nullable, None if own is None else {"paimon.id": own, "iceberg.id": own})


_ORC_SECONDS = 2**63 // 1_000_000_000 - 1


def _check_orc_timestamps(name: str, values: pa.Array) -> None:
    """Arrow writes the fraction of a second before 1970 as negative, which no reader takes, and reads no time beyond 64 bits of them."""
    second = {"ms": 1000, "us": 1_000_000}[values.type.unit]
    numbers = values.cast(pa.int64())
    if has_fractions_before_1970(values):
        raise InvalidData(
            f"Column {name}: a time before 1970 with a fraction of a second cannot be written to ORC; "
            "use 'file.format' = 'parquet' for this table."
        )
    ends = pc.min_max(numbers)
    if ends["min"].is_valid and max(-ends["min"].as_py(), ends["max"].as_py()) > _ORC_SECONDS * second:
        raise InvalidData(
            f"Column {name}: a time before September 1677 or after April 2262 cannot be written to ORC, "
            "whose files are read here in nanoseconds; use 'file.format' = 'parquet' for this table."
        )


def open_file(files: TableFiles, format_: FileFormat, path: str, schema: pa.Schema, modes: StatsModes) -> OpenFile:
    """Begin a file at ``path``; raises `FileNotFoundError` where its directory is missing."""
    with translating(path):
        if format_.name == "orc":
            return _OrcFile(files, format_, path, schema, modes)
        return _ParquetFile(files, format_, path, schema)


def describe(  # noqa: PLR0913 - the fields of a record
    schema: Schema,
    modes: StatsModes,
    path: str,
    *,
    size: int,
    rows: int,
    stats: dict[str, ColumnStats],
    first_sequence: int,
    created_millis: int,
    source: FileSource = FileSource.APPEND,
    external: bool = False,
) -> DataFile:
    """A finished file as a manifest will hold it."""
    stored, cols = modes.store(stats)
    bucketed = schema.bucket > 0
    first = first_sequence if bucketed else 0
    return DataFile(
        file_name=file_name(path),
        file_size=size,
        row_count=rows,
        value_stats=stored,
        value_stats_cols=cols,
        min_sequence_number=first,
        max_sequence_number=first + max(rows - 1, 0),
        schema_id=schema.id,
        creation_time_millis=created_millis,
        file_source=source,
        external_path=path if external else None,
    )


def describe_parquet(
    files: TableFiles,
    schema: Schema,
    path: str,
    *,
    created_millis: int,
    modes: StatsModes | None = None,
) -> DataFile:
    """A Parquet file somebody else wrote, from its footer."""
    modes = modes or StatsModes(schema)
    try:
        with translating(path), files.io.open_input(path) as file:
            size = int(file.size())
            metadata = metadata_of(footer_of(file))
    except FooterTooLarge as problem:
        raise more_than_read(path, problem) from problem
    stats = stats_from_parquet(metadata, modes.collected())
    return describe(schema, modes, path, size=size, rows=metadata.num_rows, stats=stats, first_sequence=0, created_millis=created_millis)


def creation_millis() -> int:
    """`local_wall_millis` for a file that is being made; of this process's files of about now no other has the same.

    Waits for the next millisecond where this one is taken: a file is never newer than the snapshot that adds it,
    by which ``scan.file-creation-time-millis`` tells old rows from new ones.
    """
    global _last_created
    with _creating:
        while (now := local_wall_millis()) == _last_created:
            time.sleep(0.0002)
        # A clock that was set back is not waited for, and one that was ahead for a while is not followed.
        _last_created = _last_created + 1 if now < _last_created < now + 1000 else now
        return _last_created
