"""Rewriting the files of a compaction task: read in order, written anew, numbered as their inputs were."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from model.options.table import is_on
from model.schema.schema import Schema
from table.compaction.candidates import CompactionRules, CompactionTask
from table.format.discard import discard
from table.format.manifests.entries import DataFile, EntryKind, FileSource, ManifestEntry, NewFile
from table.format.rows import binary_row
from table.format.store import TableFiles
from table.scan.going_on import Check, go_on
from table.scan.planning.entry_scan import PlannedFile
from table.scan.read import read_batches
from table.write.writer import write_bucket


def planned(files: TableFiles, schema: Schema, entries: Iterable[ManifestEntry]) -> list[PlannedFile]:
    """Entries as files to read, in their order; of which rows are deleted, the entries tell."""
    types = [field.type for field in schema.partition_fields]
    return [
        PlannedFile(
            path=files.data_path(schema, entry),
            partition=binary_row.decode(types, entry.partition),
            bucket=entry.bucket,
            file=entry.file,
            vector=entry.vector,
        )
        for entry in entries
    ]


def rewrite(files: TableFiles, schema: Schema, task: CompactionTask, check: Check = go_on) -> list[NewFile]:
    """Merge a task's files; returns the new ones, not yet committed. What it wrote is removed where it fails."""
    rows = _checked(read_batches(files, schema, planned(files, schema, task.inputs)), check)
    written = write_bucket(files, schema, task.partition, task.bucket, rows, source=FileSource.COMPACT)
    if schema.bucket > 0:
        written = numbered(written, [entry.file for entry in task.inputs])
    return [NewFile(partition=task.partition, bucket=task.bucket, file=file) for file in written]


def _checked(batches: Iterable[pa.RecordBatch], check: Check) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        check()
        yield batch


def numbered(written: Sequence[DataFile], inputs: Sequence[DataFile]) -> list[DataFile]:
    """Numbers from the first input's, one a row, but never past the last input's: what follows must stay behind.

    Files of pypaimon have fewer numbers than rows; the outputs then share the last one and stay in manifest order.
    """
    first = min(file.min_sequence_number for file in inputs)
    last = max(file.max_sequence_number for file in inputs)
    numbered = []
    for at, file in enumerate(written):
        low = min(first + file.min_sequence_number, last)
        high = last if at == len(written) - 1 else min(first + file.max_sequence_number, last)
        numbered.append(replace(file, min_sequence_number=low, max_sequence_number=high))
    return numbered


def merged_before_commit(files: TableFiles, schema: Schema, written: Sequence[NewFile]) -> list[NewFile]:
    """`precommit-compact`: neighbouring small files of one write merged before anybody sees them (`paimon-append.md` §7.3).

    The merged-away files are removed; nothing names them. Order and numbers inside each bucket stay.
    """
    if is_on(schema.options, "row-tracking.enabled"):
        return list(written)  # the commit gives ids to the rows of files that were appended alone
    rules = CompactionRules.of(schema)
    total = schema.bucket if schema.bucket > 0 else -1
    result: list[NewFile] = []
    merged: list[ManifestEntry] = []
    try:
        for run in _small_runs(written, rules):
            if len(run) == 1:
                result += run
                continue
            entries = tuple(as_entry(new, total) for new in run)
            result += rewrite(files, schema, CompactionTask(partition=run[0].partition, bucket=run[0].bucket, inputs=entries))
            merged += entries
    except BaseException:
        discard(files, _paths(files, schema, [as_entry(new, total) for new in (*written, *result)]))
        raise
    discard(files, _paths(files, schema, merged))
    return result


def _paths(files: TableFiles, schema: Schema, entries: Iterable[ManifestEntry]) -> list[str]:
    """Where files lie, and what lies beside them."""
    return [path for entry in entries for path in (files.data_path(schema, entry), *files.extra_paths(schema, entry))]


def as_entry(new: NewFile, total_buckets: int) -> ManifestEntry:
    """A file not yet committed as the entry a commit would make of it."""
    return ManifestEntry(kind=EntryKind.ADD, partition=new.partition, bucket=new.bucket, total_buckets=total_buckets, file=new.file)


def _small_runs(written: Sequence[NewFile], rules: CompactionRules) -> Iterator[list[NewFile]]:
    """Files by bucket, in write order; neighbours that are small stand together up to the target size."""
    groups: dict[tuple[bytes, int], list[NewFile]] = {}
    for new in written:
        groups.setdefault((new.partition, new.bucket), []).append(new)
    for group in groups.values():
        run: list[NewFile] = []
        size = 0
        for new in group:
            if run and (new.file.file_size >= rules.small_bytes or size + new.file.file_size > rules.target_bytes):
                yield run
                run, size = [], 0
            run.append(new)
            size += new.file.file_size
            if new.file.file_size >= rules.small_bytes:
                yield run
                run, size = [], 0
        if run:
            yield run
