"""Building a data file's indexes: from its rows as they are written, or from the file itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from model.options.file_index import BITMAP, BLOOM, RANGE, ColumnIndex, column_indexes
from model.options.table import TABLE_OPTIONS
from model.schema.schema import Schema
from model.schema.types import DataType, Field
from table.format.manifests.entries import DataFile
from table.format.store import TableFiles
from table.index.bitmap import BitmapBuilder
from table.index.bloom import BloomBuilder
from table.index.checksum import Checksum, checksum_of, container_of, reserved_with
from table.index.container import SUFFIX, decode, encode
from table.index.owner import owned
from table.index.range_bitmap import RangeBitmapBuilder
from table.scan.planning.plan import PlannedFile
from table.scan.read import Selection, read_batches


class _Builder(Protocol):
    def add(self, column: pa.Array) -> None: ...
    def body(self) -> bytes: ...


_KINDS: Mapping[str, Callable[[DataType, Mapping[str, Any]], _Builder]] = {
    BLOOM: BloomBuilder,
    BITMAP: BitmapBuilder,
    RANGE: RangeBitmapBuilder,
}


class FileIndexes:
    """The indexes of one data file being built, under the names and types of the file's own schema."""

    def __init__(self, columns: Sequence[tuple[Field, ColumnIndex]]) -> None:
        self._builders = [(field.name, index.kind, _KINDS[index.kind](field.type, index.settings)) for field, index in columns]
        self.columns = list(dict.fromkeys(field.name for field, _ in columns))

    @classmethod
    def declared(cls, schema: Schema, file_schema: Schema | None = None) -> FileIndexes | None:
        """What the table's options ask for; columns a file of an older schema does not have are left out. None for nothing."""
        by_id = {field.id: field for field in (file_schema or schema).fields}
        declared = [(by_id.get(schema.field(index.column).id), index) for index in column_indexes(schema.options)]
        columns = [(field, index) for field, index in declared if field is not None]
        return cls(columns) if columns else None

    def add(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Note rows that follow those before."""
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else (rows,):
            for column, _, builder in self._builders:
                builder.add(batch.column(batch.schema.get_field_index(column)))

    def container(self, checksum: Checksum | None = None) -> bytes:
        """All indexes as one container, with the file's checksum."""
        bodies: dict[str, dict[str, bytes | None]] = {}
        for column, kind, builder in self._builders:
            bodies.setdefault(column, {})[kind] = builder.body()
        return encode(bodies, reserved_with(checksum))


def index_of_file(files: TableFiles, schema: Schema, planned: PlannedFile) -> bytes | None:
    """The container for a file that is there, from its rows; None where the table's options declare nothing for it.

    A checksum that the file was written with stays.
    """
    file_schema = schema if planned.file.schema_id == schema.id else files.read_schema(planned.file.schema_id)
    indexes = FileIndexes.declared(schema, file_schema)
    checksum = checksum_of(planned.file, planned.path, partial(_there, files)) or None
    if indexes is None:
        return container_of(checksum)
    for batch in read_batches(files, file_schema, [planned], Selection(columns=indexes.columns)):
        indexes.add(batch)
    return indexes.container(checksum)


def _there(files: TableFiles, path: str) -> bytes | None:
    """An index file's bytes; one that is lost is made anew, and costs the checksum that it held."""
    try:
        return files.io.read(path)
    except FileNotFoundError:
        return None


def attached(files: TableFiles, schema: Schema, path: str, file: DataFile, container: bytes | None, *, name: str | None = None) -> DataFile:
    """The file with its index: inside the manifest while it is small, else in a file beside ``path`` that is written here."""
    others = tuple(extra for extra in file.extra_files if not extra.endswith(SUFFIX))
    if container is None:
        return replace(file, extra_files=others, embedded_file_index=None)
    if len(container) <= TABLE_OPTIONS.read(schema.options, "file-index.in-manifest-threshold") or not decode(container):
        return replace(file, extra_files=others, embedded_file_index=container)
    directory, _, data_name = path.rpartition("/")
    name = name or data_name + SUFFIX
    files.io.add(f"{directory}/{name}", owned(container, name, file))
    return replace(file, extra_files=(*others, name), embedded_file_index=None)
