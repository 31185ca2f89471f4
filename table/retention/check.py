"""A data file held against what its manifest tells of it: there, whole, and what was written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from threading import BoundedSemaphore

import pyarrow as pa
import pyarrow.parquet as pq

from model.damage import MISSING
from model.errors import LakeError
from model.schema.schema import Schema
from table.format.formats import format_of
from table.format.io.file_io import FileIO
from table.format.io.storage_errors import storage_failure
from table.format.manifests.avro import records_in
from table.format.manifests.entries import DataFile
from table.format.orc import OrcHead, orc_head, orc_parts
from table.format.parquet.batches import bounded_batches, more_than_read, opened, untrusted_batches
from table.format.parquet.footer import layout_fault
from table.format.parquet.identity import TAIL_BYTES, identity_fault
from table.format.parquet.metadata import READ_BYTES, FooterTooLarge, footer_of, metadata_of, summary_of
from table.index.checksum import Checksum
from table.scan.checks.checksums import bytes_fault, recorded
from table.scan.checks.columns import column_fault
from table.scan.checks.orc_times import columns_beyond
from table.scan.checks.statistics import ToldStats, bounds_fault
from table.scan.read import problem_of_rows

_MOST_QUICK_BYTES = 1 << 20
"""A longer footer is not decoded where a file is only looked at."""
_long_footers = BoundedSemaphore(4)
"""Of longer footers than most so many are decoded at a time where files are only looked at: each takes up to eighty times its bytes."""
_ORC_TAIL_BYTES = 4
_AT_ONCE_BYTES = 1 << 20
"""A store gives so much in one request faster than some columns of it in several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedFile:
    """What a manifest tells of a data file."""

    path: str
    size: int
    rows: int
    file: DataFile | None = None
    """All of it; without it nothing is held against statistics."""
    schema: Schema | None = None
    """The one the file was written with; without it its columns are not looked at."""


def footer_fault(io: FileIO, expected: ExpectedFile, shown: Callable[[pq.FileMetaData], None]) -> str | None:
    """What is wrong with a Parquet file by all that its footer tells, None for one that is as it was written; no page is read.

    ``shown`` is shown the footer of a file that is sound.
    Raises `Unavailable` where the store does not tell, and `ResultTooLarge` for a footer that is not read here.
    """

    def look(_: FileIO, source: pa.NativeFile, expected: ExpectedFile) -> int:
        metadata = _sound_footer(source, expected)
        shown(metadata)
        return int(metadata.num_rows)

    return _fault(io, expected, look)


def _nothing(_: pa.RecordBatch) -> None:
    """What sees the rows where nobody asked for them."""


def fault_of(io: FileIO, expected: ExpectedFile, *, deep: bool, shown: Callable[[pa.RecordBatch], None] = _nothing) -> str | None:
    """What is wrong with a data file, None for one that is as it was written.

    Its size and what its footer tells; ``deep``: its columns, all its pages, their checksums where they have any, the rows they hold and
    their values, as far as statistics tell them; ``shown`` is shown all rows then.
    Raises `Unavailable` where the store does not tell, and `ResultTooLarge` for a footer that is not read here.
    """
    return _fault(io, expected, partial(_rows_of_all, shown=shown) if deep else _rows_told)


def orc_columns_fault(
    io: FileIO, expected: ExpectedFile, columns: Callable[[OrcHead], Sequence[str]], shown: Callable[[pa.RecordBatch], None]
) -> str | None:
    """What is wrong with an ORC file as far as its end and some of its columns tell.

    ``columns`` gives those that are read, none of them where the end is enough; ``shown`` is shown their rows.
    Raises `Unavailable` where the store does not tell.
    """

    def look(io: FileIO, _: pa.NativeFile, expected: ExpectedFile) -> int:
        head = orc_head(io, expected.path)
        names = columns(head)
        return _counted_orc(io, expected, head, shown, names) if names else head.rows

    return _fault(io, expected, look)


def bytes_fault_of(io: FileIO, expected: ExpectedFile, checksum: Checksum) -> str | None:
    """What is wrong with a data file by its size and the checksum it was written with; nothing of it is decoded.

    Raises `Unavailable` where the store does not tell.
    """

    def look(_: FileIO, source: pa.NativeFile, expected: ExpectedFile) -> int:
        if problem := bytes_fault(source, checksum):
            raise _Fault(problem)
        return expected.rows

    return _fault(io, expected, look)


def ends_fault(io: FileIO, expected: ExpectedFile) -> str | None:
    """What is wrong with a data file by its size and its ends, None for one that may be what its manifest tells; no page is read.

    Of Parquet: the rows and columns that its footer tells, where that has up to 1 MB. Of ORC and Avro that it begins, and ORC ends, as such
    files do; of other formats the size alone. Raises `Unavailable` where the store does not tell.
    """
    return _fault(io, expected, _looks_right)


def size_fault(io: FileIO, expected: ExpectedFile) -> str | None:
    """What is wrong with a data file by its size alone; raises `Unavailable` where the store does not tell."""
    try:
        return _other_size(io.size(expected.path), expected)
    except FileNotFoundError:
        return MISSING


def _other_size(size: int, expected: ExpectedFile) -> str | None:
    return None if size == expected.size else f"has {size:,} bytes where its manifest tells {expected.size:,}"


def _fault(io: FileIO, expected: ExpectedFile, look: Callable[[FileIO, pa.NativeFile, ExpectedFile], int | None]) -> str | None:
    try:
        with io.open_input(expected.path) as source:
            if (problem_of_size := _other_size(int(source.size()), expected)) is not None:
                return problem_of_size
            rows = look(io, source, expected)
    except FileNotFoundError:
        return MISSING
    except _Fault as fault:
        return str(fault)
    except LakeError:
        raise
    except FooterTooLarge as problem:
        raise more_than_read(expected.path, problem) from problem
    except Exception as problem:  # bytes that were changed make a decoder fail in any way
        if (away := storage_failure(problem, expected.path)) is not None:
            raise away from problem
        return f"cannot be decoded: {problem}"
    if rows is not None and rows != expected.rows:
        return f"holds {rows:,} rows where its manifest tells {expected.rows:,}"
    return None


class _Fault(Exception):
    """What is wrong with the columns or rows of a file."""


def _rows_told(io: FileIO, source: pa.NativeFile, expected: ExpectedFile) -> int | None:
    """The rows of a file as its footer tells; None for a format without one."""
    match format_of(expected.path):
        case "parquet":
            return int(_own(source, expected).metadata.num_rows)
        case "orc":
            return orc_head(io, expected.path).rows
    return None


def _looks_right(_: FileIO, source: pa.NativeFile, expected: ExpectedFile) -> int | None:
    """The rows of a Parquet file as its footer tells; raises `_Fault` for a file that is none of its format."""
    match format_of(expected.path):
        case "parquet":
            return _rows_of_footer(source, expected)
        case "orc":
            has_ends = source.read_at(3, 0) == b"ORC" and _ends_as_orc(source)
        case "avro":
            has_ends = source.read_at(4, 0) == b"Obj\x01"
        case _:
            return None
    if not has_ends:
        raise _Fault(f"is no {format_of(expected.path)} file")
    return None


def _ends_as_orc(source: pa.NativeFile) -> bool:
    """Whether the postscript, whose length is the last byte, ends with the magic of ORC."""
    tail = source.read_at(_ORC_TAIL_BYTES, max(0, source.size() - _ORC_TAIL_BYTES))
    return bool(tail[-4:-1] == b"ORC") and 0 < tail[-1] < source.size()


def _rows_of_footer(source: pa.NativeFile, expected: ExpectedFile) -> int | None:
    """None where the footer is so long that decoding it takes seconds, or hundreds of megabytes."""
    try:
        footer = footer_of(source, most=_MOST_QUICK_BYTES)
    except FooterTooLarge:
        return None
    with _long_footers if len(footer) > READ_BYTES else nullcontext():
        metadata = summary_of(footer)
        problem = None
        if expected.file is not None:
            problem = identity_fault(metadata, expected.file, at=source.size() - len(footer) - TAIL_BYTES)
            if problem is None and expected.schema is not None:
                problem = column_fault(metadata.schema.to_arrow_schema(), expected.file, expected.schema)
        if problem is not None:
            raise _Fault(problem)
        return int(metadata.num_rows)


def _own(source: pa.NativeFile, expected: ExpectedFile) -> pq.ParquetFile:
    """The file; raises `_Fault` where it is another by its footer."""
    file = opened(source)
    at = source.size() - file.metadata.serialized_size - TAIL_BYTES
    if expected.file is not None and (problem := identity_fault(file.metadata, expected.file, at=at)):
        raise _Fault(problem)
    return file


def _sound_footer(source: pa.NativeFile, expected: ExpectedFile) -> pq.FileMetaData:
    """The footer of a Parquet file; raises `_Fault` where its columns, bounds or places are not what was written."""
    assert expected.file is not None
    assert expected.schema is not None
    footer = footer_of(source)
    metadata = metadata_of(footer)
    problem = identity_fault(metadata, expected.file, at=source.size() - len(footer) - TAIL_BYTES)
    problem = problem or column_fault(metadata.schema.to_arrow_schema(), expected.file, expected.schema)
    problem = problem or bounds_fault(metadata, expected.file, expected.schema) or layout_fault(metadata, footer)
    if problem:
        raise _Fault(problem)
    return metadata


def _rows_of_all(
    io: FileIO, source: pa.NativeFile, expected: ExpectedFile, *, shown: Callable[[pa.RecordBatch], None] = _nothing
) -> int | None:
    """The rows a file holds, all of it read; None for a format that is not read here."""
    match format_of(expected.path):
        case "parquet":
            file = _own(source, expected)
            batches = untrusted_batches(source, file) if io.atomic_rename else bounded_batches(source, file=file)
            return _counted(expected, file.schema_arrow, batches, shown)
        case "orc":
            checksum = None if expected.file is None else recorded(io, expected.path, expected.file)
            if checksum is not None and (problem := bytes_fault(source, checksum)):
                raise _Fault(problem)
            return _counted_orc(io, expected, orc_head(io, expected.path), shown)
        case "avro":
            return sum(1 for _ in records_in(source, int(source.size())))
    return None


def _counted_orc(
    io: FileIO, expected: ExpectedFile, head: OrcHead, shown: Callable[[pa.RecordBatch], None], columns: Sequence[str] | None = None
) -> int:
    at_once = columns is not None and expected.size <= _AT_ONCE_BYTES
    batches = (batch for part in orc_parts(io, expected.path, columns, at_once=at_once) for batch in part.batches)
    try:
        return _counted(expected, head.schema, batches, shown, columns)
    except (pa.ArrowException, ValueError) as problem:
        if expected.file is None or expected.schema is None or not columns_beyond(problem, expected.file, expected.schema):
            raise
    return head.rows  # what other readers read is not damage


def _counted(
    expected: ExpectedFile,
    file_schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    shown: Callable[[pa.RecordBatch], None],
    columns: Sequence[str] | None = None,
) -> int:
    """How many rows there are; raises `_Fault` where columns, or values of these columns, are not what was written."""
    stats = None
    if expected.file is not None and expected.schema is not None:
        if problem := column_fault(file_schema, expected.file, expected.schema):
            raise _Fault(problem)
        names = expected.schema.field_names if columns is None else columns
        stats = ToldStats(expected.file, expected.schema, set(names).intersection(file_schema.names))
    rows = 0
    for batch in batches:
        rows += int(batch.num_rows)
        shown(batch)
        if stats is not None and (problem := problem_of_rows(stats, batch)):
            raise _Fault(problem)
    if stats is not None and rows == expected.rows and (problem := stats.end()):
        raise _Fault(problem)
    return rows
