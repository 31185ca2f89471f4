"""Rows taken out of data files: the files written anew without them, numbered as they were."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from model.schema.schema import Schema
from table.compaction.rewrite import Check, go_on, numbered, planned
from table.format.deletions import alive
from table.format.manifest import FileSource, ManifestEntry, NewFile
from table.format.store import TableFiles
from table.scan.entry_scan import PlannedFile
from table.scan.read import Selection, read_batches
from table.write.writer import write_bucket

if TYPE_CHECKING:
    import pyarrow.dataset as ds  # at run time it would bring pandas along

_ROW = " row"
Positions = npt.NDArray[np.int64]
"""Rows of a file, counted from 0, in ascending order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureTask:
    """Files written anew together: one, or in a queue those whose numbers overlap."""

    inputs: tuple[ManifestEntry, ...]
    erased: tuple[Positions, ...]
    """The rows of each that go."""

    @property
    def rows(self) -> int:
        """Rows that go."""
        return sum(len(rows) for rows in self.erased)


def erasure_tasks(
    schema: Schema, found: Mapping[str, Positions], live: Sequence[ManifestEntry], path: Callable[[ManifestEntry], str]
) -> list[ErasureTask]:
    """What is to be written anew of live files, by the rows found in each path.

    A queue is read by the files' first numbers: where those of several overlap (files of pypaimon may all have one number), the
    order of rows is the order of files in the manifests, which a new file does not keep; so they are written as one.
    """
    if schema.bucket <= 0:
        return [ErasureTask(inputs=(entry,), erased=(found[path(entry)],)) for entry in live if path(entry) in found]
    tasks = []
    for run in overlapping(live):
        rows = tuple(found.get(path(entry), _NONE) for entry in run)
        if any(len(one) for one in rows):
            tasks.append(ErasureTask(inputs=tuple(run), erased=rows))
    return tasks


_NONE: Positions = np.empty(0, np.int64)


def overlapping(live: Sequence[ManifestEntry]) -> Iterator[list[ManifestEntry]]:
    """Files of queues in order; those whose numbers overlap, among which the order in the manifests counts, stand together."""
    run: list[ManifestEntry] = []
    last = -1
    for entry in sorted(live, key=lambda e: (e.partition, e.bucket, e.file.min_sequence_number)):  # stable: ties in manifest order
        same = bool(run) and (run[0].partition, run[0].bucket) == (entry.partition, entry.bucket)
        if run and not (same and entry.file.min_sequence_number <= last):
            yield run
            run, last = [], -1
        run.append(entry)
        last = max(last, entry.file.max_sequence_number)
    if run:
        yield run


def rewrite_without(files: TableFiles, schema: Schema, task: ErasureTask, check: Check = go_on) -> list[NewFile]:
    """Write a task's files anew without the rows that go; returns the new ones, none where no row is left."""
    first = task.inputs[0]

    def rows() -> Iterator[pa.RecordBatch]:
        for one, erased in zip(planned(files, schema, task.inputs), task.erased, strict=True):
            if len(erased) < one.file.row_count:
                for batch in alive(read_batches(files, schema, [one]), erased):
                    check()
                    if batch.num_rows:
                        yield batch

    written = write_bucket(files, schema, first.partition, first.bucket, rows(), source=first.file.file_source or FileSource.APPEND)
    if schema.bucket > 0:
        written = numbered(written, [entry.file for entry in task.inputs])
    # What one file held in order, at a level of a clustered table, its rest still holds so.
    written = [replace(file, level=first.file.level) for file in written] if len(task.inputs) == 1 else written
    return [NewFile(partition=first.partition, bucket=first.bucket, file=file) for file in written]


def matching_rows(
    files: TableFiles, schema: Schema, one: PlannedFile, condition: ds.Expression, columns: Collection[str], check: Check = go_on
) -> Positions:
    """The rows of a file for which a condition over these columns is true."""
    found = [_NONE]
    start = 0
    for batch in read_batches(files, schema, [one], Selection(columns=sorted(columns))):
        check()
        numbers = pa.array(np.arange(start, start + batch.num_rows))
        kept = pa.Table.from_batches([batch]).append_column(_ROW, numbers).filter(condition)
        found.append(kept.column(_ROW).to_numpy())
        start += batch.num_rows
    return np.concatenate(found)
