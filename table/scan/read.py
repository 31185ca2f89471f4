"""Planned files as Arrow batches, in plan order, under the table's present schema (`paimon-append.md` §2.4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow.fs import LocalFileSystem

from model.errors import LakeError, UnsupportedType
from model.options.table import is_on
from model.schema.schema import Schema
from model.schema.types import Field
from table.format.deletions import alive, positions
from table.format.formats import format_of
from table.format.io.look_ahead import Ahead, Stream, in_order
from table.format.io.storage_errors import storage_failure
from table.format.manifests.avro import records_in
from table.format.manifests.entries import DataFile
from table.format.orc import OrcPart, orc_parts, rows_of
from table.format.parquet.batches import BATCH_ROWS, bounded_batches, more_than_read, opened, untrusted_batches
from table.format.parquet.identity import TAIL_BYTES, identity_fault
from table.format.rows.array_memory import memory_of
from table.format.rows.arrow import arrow_schema
from table.format.rows.domain import value_fault
from table.format.rows.unpacked import pieces
from table.format.store import TableFiles
from table.scan.checks.checksums import check_bytes
from table.scan.checks.columns import lacking_fault
from table.scan.checks.orc_times import columns_beyond, not_read_here
from table.scan.checks.statistics import ToldStats, has_checksums
from table.scan.evolution import evolved, in_form
from table.scan.going_on import Check, go_on
from table.scan.planning.plan import PlannedFile
from table.write.bucket import as_column

if TYPE_CHECKING:
    import pyarrow.dataset as ds  # at run time it would bring pandas along, a second of every start

_THREADS = 4
"""Threads that read small local files."""
_AHEAD = Ahead(streams=4, most_streams=24, small_bytes=16 << 20, held_bytes=64 << 20)
"""Each file of a store is a wait or two: small ones are asked for together, over about as many connections as Arrow has to a store."""
_AT_HAND_BYTES = 4 << 20
"""Local files that take no more together are read whole, one after the other or, where they are many, by a few threads."""
_MANY = 8
_FETCHED_WHOLE_BYTES = 256 << 10
_AVRO_ROWS = 4_096
"""Rows of Avro, which are Python's objects for a moment."""
_PIECE_BYTES = 8 << 20
"""Bytes of a batch of rows that lie in memory as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What of each row is wanted: columns (None for all), a filter in the table's names, and how many rows at most."""

    columns: Sequence[str] | None = None
    filter: ds.Expression | None = None
    filter_columns: frozenset[str] = frozenset()
    limit: int | None = None
    counted: bool = False
    """Whether the rows of a file are counted in it also where nothing that is wanted lies there; else its manifest's word is taken."""
    empty: bool = False
    """Whether a batch of which nothing is kept is given as an empty one."""
    principal: str = ""
    """Whose share of what is read ahead it takes; the server's own without a name."""


def read_batches(
    files: TableFiles, schema: Schema, planned: Sequence[PlannedFile], selection: Selection | None = None, check: Check = go_on
) -> Iterator[pa.RecordBatch]:
    """Yield the rows in plan order, in bounded memory; a filter keeps only rows for which it is true.

    ``check`` is called for each file and each batch that is read, also while no row is kept, and from several threads.
    """
    selection = selection or Selection()
    fields = list(schema.fields) if selection.columns is None else [schema.field(name) for name in selection.columns]
    left = selection.limit
    if left == 0:
        return
    for batch in _in_order(files, schema, fields, _enough(planned, selection), selection, check):
        if left is not None:
            batch = batch.slice(0, left)
            left -= batch.num_rows
        if batch.num_rows or selection.empty:
            yield batch
        if left == 0:
            return


def _enough(planned: Sequence[PlannedFile], selection: Selection) -> Sequence[PlannedFile]:
    """The files that a limit without a filter can reach."""
    if selection.limit is None or selection.filter is not None:
        return planned
    rows = 0
    for count, planned_file in enumerate(planned):
        if rows >= selection.limit:
            return planned[:count]
        deleted = 0 if planned_file.vector is None else planned_file.vector.cardinality
        rows += 0 if deleted is None else planned_file.file.row_count - deleted
    return planned


def _in_order(
    files: TableFiles, schema: Schema, fields: Sequence[Field], planned: Sequence[PlannedFile], selection: Selection, check: Check
) -> Iterator[pa.RecordBatch]:
    """Several files are read ahead of the consumer; where that gains nothing, no thread is started beside Arrow's own.

    Local files that are small as a whole are there at once, while handing each from thread to thread costs several turns
    of the interpreter's lock, and a server under load waits for each.
    """
    streams = [partial(_one_file, files, schema, fields, planned_file, selection, check) for planned_file in planned]
    at_hand = files.io.atomic_rename and _are_small(planned)
    if len(streams) < 2 or (at_hand and len(streams) < _MANY):
        for stream in streams:
            yield from stream()
    elif at_hand:
        yield from _by_threads(streams)
    else:
        far = selection.limit is None  # else those that the limit does not reach would be asked for, too
        yield from in_order(streams, _AHEAD, [planned_file.file.file_size for planned_file in planned] if far else (), selection.principal)


def _are_small(planned: Sequence[PlannedFile]) -> bool:
    return (
        sum(planned_file.file.file_size for planned_file in planned) < _AT_HAND_BYTES
        and sum(planned_file.file.row_count for planned_file in planned) < 2 * BATCH_ROWS
    )


def _by_threads(streams: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
    """All batches in the streams' order; whole streams are read ahead where they are as small as their files."""
    threads = _small_files()
    waiting: deque[Future[tuple[list[pa.RecordBatch], Iterator[pa.RecordBatch]]]] = deque()
    upcoming = iter(streams)
    try:
        while True:
            waiting.extend(threads.submit(_beginning, stream) for stream in islice(upcoming, _MANY - len(waiting)))
            if not waiting:
                return
            batches, rest = waiting.popleft().result()
            yield from batches
            yield from rest
    finally:
        for stream in waiting:
            stream.cancel()


def _beginning(stream: Stream) -> tuple[list[pa.RecordBatch], Iterator[pa.RecordBatch]]:
    """The first batches of a stream, all of them where they take no more than small files do, and those that follow."""
    rest = stream()
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in rest:
        batches.append(batch)
        size += memory_of(batch)
        if size > _AT_HAND_BYTES:
            break
    return batches, rest


@cache
def _small_files() -> ThreadPoolExecutor:
    """Threads that read a file each and stay: under load starting one takes longer than its file."""
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="scan-small")


def check_whole(file: DataFile, schema: Schema, file_schema: Schema) -> None:
    """Raise `UnsupportedType` for a file that holds only some of its rows' columns; an UPDATE of a table with row tracking names all.

    In a table with data evolution rows lie in several files, whatever columns each of them holds.
    """
    if file.write_cols is None:
        return
    if is_on(schema.options, "data-evolution.enabled") or not set(file.write_cols) >= set(file_schema.field_names):
        raise UnsupportedType(f"File {file.file_name} holds only some columns (data evolution), which is not read here yet.")


def _one_file(
    files: TableFiles, schema: Schema, fields: Sequence[Field], planned: PlannedFile, selection: Selection, check: Check
) -> Iterator[pa.RecordBatch]:
    check()
    wanted = list(fields)
    wanted += [f for f in schema.fields if f.name in selection.filter_columns and f not in wanted]
    file_schema = schema if planned.file.schema_id == schema.id else files.read_schema(planned.file.schema_id)
    check_whole(planned.file, schema, file_schema)
    reader = Projection(schema, file_schema, planned, wanted, counted=selection.counted)
    for batch in reader.batches(files):
        check()  # before the filter, which may keep nothing for hours
        yield from _filtered(batch, selection.filter, [f.name for f in fields])


def _as_written(files: TableFiles, planned: PlannedFile, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches of a file, which has all the rows its manifest tells; raises `TableDamaged` where it is not what was written."""
    rows = 0
    try:
        for batch in batches:
            rows += batch.num_rows
            if rows > planned.file.row_count:  # its own numbers may go on forever
                break
            yield batch
    except FileNotFoundError:
        raise files.missing(planned.path) from None
    except (LakeError, pa.ArrowCancelled):
        raise
    except pa.ArrowCapacityError as problem:
        raise more_than_read(planned.path, problem) from problem
    except Exception as problem:  # bytes that were changed make a decoder fail in any way
        if (away := storage_failure(problem, planned.path)) is not None:
            raise away from problem
        raise files.damaged(planned.path, f"cannot be decoded: {problem}") from problem
    if rows != planned.file.row_count:
        holds = rows if rows < planned.file.row_count else f"more than {planned.file.row_count}"
        raise files.damaged(planned.path, f"holds {holds} rows where its manifest tells {planned.file.row_count}")


def _filtered(batch: pa.RecordBatch, condition: ds.Expression | None, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    if condition is None:
        yield batch
        return
    matching = pa.Table.from_batches([batch]).filter(condition).select(list(names))
    yield from matching.combine_chunks().to_batches() if matching.num_rows else [batch.select(list(names)).slice(0, 0)]


class Projection:
    """A file's columns under the table's names and types: by field id, missing ones as NULL, partitions from the manifest."""

    def __init__(
        self, schema: Schema, file_schema: Schema, planned: PlannedFile, wanted: Sequence[Field], *hidden: Field, counted: bool = False
    ) -> None:
        """``counted``: as of a `Selection`."""
        self._planned = planned
        self._file_schema, self._wanted = file_schema, wanted
        by_id = {f.id: f for f in (*file_schema.fields, *hidden)}
        self._partition = dict(zip(schema.partition_keys, planned.partition, strict=True))
        self._sources = {f.name: by_id.get(f.id) for f in wanted if f.name not in self._partition}
        self._names = [source.name for source in self._sources.values() if source is not None]
        if counted and not self._names:
            self._names = [next((f for f in file_schema.fields if f.name not in self._partition), file_schema.fields[0]).name]
        self._target = arrow_schema(wanted)
        self._there: Sequence[str] = ()
        """All columns of the file, known once it is open."""

    def batches(self, files: TableFiles) -> Iterator[pa.RecordBatch]:
        """The file's rows in the wanted shape."""
        if not self._names:
            yield from self._alive(files, self._rows_only())
            return
        for raw in self._alive(files, self._checked(files)):
            shaped = self._in_shape(files, raw)
            for name, values in zip(shaped.schema.names, shaped.columns, strict=True):
                if name not in self._partition and (fault := value_fault(values)) is not None:
                    raise files.damaged(self._planned.path, f"holds in column {name} what is no value of its type: {fault}")
            yield shaped

    def _checked(self, files: TableFiles) -> Iterator[pa.RecordBatch]:
        """The file's columns as they lie there; raises `TableDamaged` for what its manifest tells otherwise."""
        stats = None if has_checksums(self._planned.file) else ToldStats(self._planned.file, self._file_schema, self._names)
        for raw in _as_written(files, self._planned, self._raw(files)):
            if not set(self._names).issubset(raw.schema.names):
                self._check_columns(files, raw.schema.names)
            if stats is not None and (problem := problem_of_rows(stats, raw)) is not None:
                raise files.damaged(self._planned.path, problem)
            yield raw
        if stats is not None and (problem := stats.end()) is not None:
            raise files.damaged(self._planned.path, problem)

    def _alive(self, files: TableFiles, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that are not deleted."""
        vector = self._planned.vector
        return batches if vector is None else alive(batches, positions(files, vector, self._planned.file.row_count))

    def _check_columns(self, files: TableFiles, names: Sequence[str]) -> None:
        """Raise `TableDamaged` for a file that should have a column that is not among ``names``: a changed name would make it NULL."""
        present = frozenset(names)
        lacking = [source for source in self._sources.values() if source is not None and source.name not in present]
        if (problem := lacking_fault(self._there, self._planned.file, self._file_schema, lacking)) is not None:
            raise files.damaged(self._planned.path, problem)

    def _rows_only(self) -> Iterator[pa.RecordBatch]:
        """Nothing wanted lies in the file: as many rows as it has, without opening it."""
        for at in range(0, self._planned.file.row_count, BATCH_ROWS):
            rows = min(BATCH_ROWS, self._planned.file.row_count - at)
            yield self._shaped(rows_of(rows))

    def _raw(self, files: TableFiles) -> Iterator[pa.RecordBatch]:
        path = self._planned.path
        match format_of(self._planned.file.file_name):
            case "parquet":
                yield from self._parquet(files, path)
            case "orc":
                yield from self._orc(files, path)
            case "avro":
                yield from self._avro(files, path)
            case _:
                raise UnsupportedType(f"Data files of the format of {self._planned.file.file_name} are not read here.")

    def _parquet(self, files: TableFiles, path: str) -> Iterator[pa.RecordBatch]:
        with self._opened(files, path) as source:
            self._check_size(files, source.size())
            file = opened(source)
            self._there = file.schema_arrow.names
            at = source.size() - file.metadata.serialized_size - TAIL_BYTES
            if (fault := identity_fault(file.metadata, self._planned.file, at=at)) is not None:
                raise files.damaged(path, fault)
            at_hand = files.io.atomic_rename or isinstance(source, pa.BufferReader)  # elsewhere each header would be a request
            yield from untrusted_batches(source, file, self._names) if at_hand else bounded_batches(source, self._names, file=file)

    def _opened(self, files: TableFiles, path: str) -> pa.NativeFile:
        """The file; a small one of a store is fetched whole, in a request instead of one for its end and for each column."""
        if not self._at_once() or isinstance(files.io.arrow(), LocalFileSystem):
            return files.io.open_input(path)
        return pa.BufferReader(files.io.read(path))

    def _at_once(self) -> bool:
        return self._planned.file.file_size <= _FETCHED_WHOLE_BYTES

    def _check_size(self, files: TableFiles, size: int) -> None:
        if size != self._planned.file.file_size:
            raise files.damaged(self._planned.path, f"has {size:,} bytes where its manifest tells {self._planned.file.file_size:,}")

    def _orc(self, files: TableFiles, path: str) -> Iterator[pa.RecordBatch]:
        check_bytes(files, self._planned)
        for part in self._orc_parts(files, path):
            self._there = part.head.schema.names
            self._check_size(files, part.head.size)
            for batch in part.batches:
                yield from pieces(batch, _PIECE_BYTES, BATCH_ROWS)

    def _orc_parts(self, files: TableFiles, path: str) -> Iterator[OrcPart]:
        try:
            yield from orc_parts(files.io, path, self._names, at_once=self._at_once())
        except (pa.ArrowException, ValueError) as problem:
            if beyond := columns_beyond(problem, self._planned.file, self._file_schema, self._names):
                raise not_read_here(path, beyond) from problem
            raise

    def _avro(self, files: TableFiles, path: str) -> Iterator[pa.RecordBatch]:
        fields = [source for source in self._sources.values() if source is not None]
        target = arrow_schema(fields)
        with files.io.open_input(path) as source:
            rows = records_in(source, source.size())
            while chunk := list(islice(rows, _AVRO_ROWS)):
                self._there = list(chunk[0])
                there = pa.schema([f for f in target if f.name in chunk[0]])
                yield pa.RecordBatch.from_pylist(chunk, schema=there) if len(there) else rows_of(len(chunk))

    def _in_shape(self, files: TableFiles, raw: pa.RecordBatch) -> pa.RecordBatch:
        try:
            return self._shaped(raw)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as problem:
            raise files.damaged(self._planned.path, f"has values that are none of its schema's types: {problem}") from problem
        except OverflowError as problem:
            raise UnsupportedType(
                f"Partition {self._planned.partition} of {files.name} is of a time that no client here can show."
            ) from problem

    def _shaped(self, raw: pa.RecordBatch) -> pa.RecordBatch:
        columns = []
        rows = raw.num_rows
        for field, target in zip(self._wanted, self._target, strict=True):
            if field.name in self._partition:
                columns.append(pa.repeat(as_column(field.type, [self._partition[field.name]])[0], rows))
                continue
            source = self._sources[field.name]
            position = -1 if source is None else raw.schema.get_field_index(source.name)
            if source is None or position < 0:  # files taken over where they lie may lack columns that others have
                columns.append(pa.nulls(rows, target.type))
            else:
                columns.append(evolved(raw.column(position), source.type, field.type, field.name))
        # Old files may hold NULL where the column is NOT NULL by now, so the batch does not promise it.
        loose = pa.schema([pa.field(f.name, f.type) for f in self._target])
        return pa.RecordBatch.from_arrays(columns, schema=loose)


def problem_of_rows(stats: ToldStats, raw: pa.RecordBatch) -> str | None:
    """What is wrong with rows as a file holds them, by what its manifest tells of its columns."""
    there = set(raw.schema.names)
    try:
        columns = {name: (raw.column(name), type_) for name, type_ in stats.columns if name in there}
        return stats.look({name: array if type_ is None else in_form(array, type_) for name, (array, type_) in columns.items()})
    except pa.ArrowException as problem:
        return f"has values that are none of its schema's types: {problem}"
