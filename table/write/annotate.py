"""Files that lie there already, copied with ids and annotations in their footers; pages, statistics and indexes stay as they are."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from model.options.table import TABLE_OPTIONS
from model.schema.schema import Schema
from model.schema.types import Field
from table.compaction.rewrite import as_entry
from table.format.formats import format_of
from table.format.io.storage_errors import storage_failure, translating
from table.format.manifests.entries import ManifestEntry, NewFile
from table.format.manifests.typed import wrong_size
from table.format.parquet.footer import Marks, marks_of
from table.format.parquet.identity import TAIL_BYTES, identity_fault
from table.format.store import TableFiles
from table.scan.going_on import Check
from table.write.places import overlapping

_CHUNK = 8 << 20
_CODECS = frozenset(("zstd", "snappy", "gzip", "lz4", "brotli", "gz", "zlib"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkTask:
    """Files copied together: one, or in a queue those whose numbers overlap."""

    inputs: tuple[ManifestEntry, ...]
    marks: tuple[Marks | None, ...]
    """How each ends then; None where it stays as it is."""

    @property
    def size(self) -> int:
        """Bytes that are copied."""
        return sum(entry.file.file_size for entry in self.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmarked:
    """What of some files is to be done, and what cannot be."""

    tasks: tuple[MarkTask, ...]
    left: int
    """Files that stay as they are: those elsewhere, with deleted rows, of another number of buckets, and of an unknown form."""


def unmarked(schema: Schema, entries: Sequence[ManifestEntry], marks: Mapping[tuple[object, ...], Marks | None]) -> Unmarked:
    """What is to be copied of live files, by what `marks_to_set` found of each."""
    tasks, left = [], 0
    for run in overlapping(entries) if schema.bucket > 0 else ([entry] for entry in entries):
        marks_of_run = [marks.get(entry.key()) for entry in run]
        wanted = [mark if mark is not None and mark.changed else None for mark in marks_of_run]
        strange = [mark is None and format_of(entry.file.file_name) == "parquet" for mark, entry in zip(marks_of_run, run, strict=True)]
        left += sum(strange)
        if any(wanted):
            if not all(_replaceable(schema, entry) for entry in run):
                left += sum(mark is not None for mark in wanted)
            else:
                tasks.append(MarkTask(inputs=tuple(run), marks=tuple(wanted)))
    return Unmarked(tasks=tuple(tasks), left=left)


def _replaceable(schema: Schema, entry: ManifestEntry) -> bool:
    """Whether a copy may stand in its place: deleted rows are told by a file's name, and no partition mixes numbers of buckets."""
    if entry.vector is not None or entry.file.external_path is not None:
        return False
    return schema.bucket <= 0 or entry.total_buckets == schema.bucket


def marks_to_set(files: TableFiles, schema: Schema, entry: ManifestEntry, fields: Sequence[Field]) -> Marks | None:
    """How a file would end with its columns marked; None for other formats and footers.

    Raises `TableDamaged` for a file that is not what its manifest tells: a copy of it would have the name and the size of a whole one.
    """
    if format_of(entry.file.file_name) != "parquet":
        return None
    path = files.data_path(schema, entry)
    with _source(files, path, entry.file.file_size) as source:
        metadata = _metadata(files, path, source)
        at = source.size() - metadata.serialized_size - TAIL_BYTES
        if (fault := identity_fault(metadata, entry.file, at=at)) is not None:
            raise files.damaged(path, fault)
        return marks_of(source, fields)


def _metadata(files: TableFiles, path: str, source: pa.NativeFile) -> pq.FileMetaData:
    try:
        return pq.read_metadata(source)
    except Exception as problem:  # bytes that were changed make a decoder fail in any way
        if (away := storage_failure(problem, path)) is not None:
            raise away from problem
        raise files.damaged(path, f"cannot be decoded: {problem}") from problem


@contextlib.contextmanager
def _source(files: TableFiles, path: str, size: int | None) -> Iterator[pa.NativeFile]:
    """A file that is copied; raises what `missing` tells, and `TableDamaged` for one of another size."""
    with translating(path), contextlib.ExitStack() as opened:
        try:
            source = opened.enter_context(files.io.open_input(path))
        except FileNotFoundError:
            raise files.missing(path) from None
        if (problem := wrong_size(source.size(), size)) is not None:
            raise files.damaged(path, problem)
        yield source


def marked_copies(files: TableFiles, schema: Schema, task: MarkTask, opening: Callable[[str], None], check: Check) -> list[NewFile]:
    """Copy a task's files under names of their own; ``opening`` hears of each path before it is written."""
    made = []
    for entry, marks in zip(task.inputs, task.marks, strict=True):
        check()
        file = entry.file
        name = f"{TABLE_OPTIONS.read(schema.options, 'data-file.prefix')}{uuid4()}-0.{_extension(file.file_name)}"
        extra = {extra_file: f"{name}-{uuid4()}.{format_of(extra_file)}" for extra_file in file.extra_files}
        marks = _named(files, schema, entry, marks, name)
        size = file.file_size if marks is None else marks.at + len(marks.end)
        new = NewFile(
            partition=entry.partition,
            bucket=entry.bucket,
            file=replace(file, file_name=name, file_size=size, extra_files=tuple(extra.values())),
        )
        target = as_entry(new, schema.bucket)
        sources = [files.data_path(schema, entry), *files.extra_paths(schema, entry)]
        targets = [files.data_path(schema, target), *files.extra_paths(schema, target)]
        for path in targets:
            opening(path)
        for at, (source, path) in enumerate(zip(sources, targets, strict=True)):
            _copy(files, source, path, None if at else marks, size=None if at else file.file_size)
        made.append(new)
    return made


def _named(files: TableFiles, schema: Schema, entry: ManifestEntry, marks: Marks | None, name: str) -> Marks | None:
    """How a file ends whose copy is called so; a Parquet file tells its name even where nothing else of it changes."""
    marks = marks if marks is not None else marks_to_set(files, schema, entry, ())
    return None if marks is None else marks.named(name, entry.file.creation_time_millis)


def _copy(files: TableFiles, source: str, target: str, marks: Marks | None, *, size: int | None) -> None:
    """Copy a file, a data file with the ``size`` that its manifest tells and the end it is to have."""
    io = files.io
    with _source(files, source, size) as reading, translating(target), io.open_output(target) as writing:
        left = marks.at if marks is not None else None
        while data := _read(reading, source, _CHUNK if left is None else min(_CHUNK, left)):
            writing.write(data)
            left = None if left is None else left - len(data)
        if left:
            raise files.damaged(source, f"ends {left:,} bytes before its footer")
        if marks is not None:
            writing.write(marks.end)


def _read(reading: pa.NativeFile, source: str, size: int) -> bytes:
    with translating(source):
        return bytes(reading.read(size))


def _extension(name: str) -> str:
    """With the codec before it, where the name tells one."""
    parts = name.split(".")
    return ".".join(parts[-2:]) if len(parts) > 2 and parts[-2] in _CODECS else parts[-1]
