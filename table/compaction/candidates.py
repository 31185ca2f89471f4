"""Which files of a table are worth merging (`paimon-append.md` §7.1, 7.2); reads nothing and writes nothing.

Of the rules Paimon had over time both knobs work: a run of `compaction.min.file-num` neighbours that reach the target
size, or of `compaction.max.file-num` of any size, is merged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from model.options.table import TABLE_OPTIONS
from model.schema.schema import Schema
from table.compaction.clustering import Clustering, ColumnsAt, choose_clusters
from table.compaction.task import CompactionTask as CompactionTask
from table.format.formats import FileFormat
from table.format.manifests.entries import ManifestEntry
from table.scan.skipping.partition_filter import by_value

BucketKey = tuple[bytes, int]


def _option(schema: Schema, key: str) -> Any:
    return TABLE_OPTIONS.read(schema.options, key)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRules:
    """What a table's options say about merging."""

    target_bytes: int
    small_bytes: int
    """Files below are candidates."""
    min_files: int
    max_files: int
    open_cost: int
    """Bytes a file weighs beside its own, in bins."""
    most_candidates: int
    every_file: bool
    """Whether a full compaction takes files of the right size, too."""
    deleted_share: float
    """A file of which a larger share of rows is deleted is rewritten, however large or alone."""
    task_bytes: int | None = None
    """Input of one task at most; None for no limit."""

    @classmethod
    def of(cls, schema: Schema, *, task_bytes: int | None = None) -> CompactionRules:
        """The rules of a table; raises `InvalidOption` for options that do not parse."""
        target = FileFormat.of(schema).target_bytes
        return cls(
            target_bytes=target,
            small_bytes=int(target * _option(schema, "compaction.small-file-ratio")),
            min_files=max(2, _option(schema, "compaction.min.file-num")),
            max_files=max(2, _option(schema, "compaction.max.file-num")),
            open_cost=_option(schema, "source.split.open-file-cost"),
            most_candidates=_option(schema, "compaction.file-num-limit"),
            every_file=_option(schema, "compaction.force-rewrite-all-files"),
            deleted_share=_option(schema, "compaction.delete-ratio-threshold"),
            task_bytes=task_bytes,
        )

    def small(self, entry: ManifestEntry) -> bool:
        """Whether a file is worth merging with others."""
        return entry.file.file_size < self.small_bytes

    def mostly_deleted(self, entry: ManifestEntry) -> bool:
        """Whether so many rows of a file are deleted that it is rewritten; one whose vector does not tell how many counts."""
        vector = entry.vector
        if vector is None:
            return False
        return vector.cardinality is None or vector.cardinality > self.deleted_share * entry.file.row_count


def by_bucket(schema: Schema, entries: Iterable[ManifestEntry]) -> dict[BucketKey, list[ManifestEntry]]:
    """Live files by partition and bucket, those of ordered buckets in sequence.

    Files of a bucket number the table does not have any more are left out: a partition holds one number only, and
    gets the new one when it is overwritten. A partition is one in whatever bytes clients wrote it; ordered buckets are read by these bytes.
    """
    total = schema.bucket if schema.bucket > 0 else -1
    one = by_value([field.type for field in schema.partition_fields] if total < 0 else ())
    buckets: dict[BucketKey, list[ManifestEntry]] = defaultdict(list)
    for entry in entries:
        if entry.total_buckets == total:
            buckets[(one(entry.partition), entry.bucket)].append(entry)
    if total > 0:
        for files in buckets.values():
            files.sort(key=lambda e: e.file.min_sequence_number)  # stable: ties stay in manifest order
    return dict(buckets)


def ordered_minor(files: Sequence[ManifestEntry], rules: CompactionRules) -> Iterator[CompactionTask]:
    """Runs of neighbours of one ordered bucket that are worth merging."""
    start, total = 0, 0
    for at, entry in enumerate(files):
        if at < start:
            continue  # taken along by the run before
        if at == start and not rules.small(entry):
            start += 1  # large enough as it is, and nothing before it to be merged with
            continue
        total += entry.file.file_size
        count = at + 1 - start
        if (count >= rules.min_files and total >= rules.target_bytes) or count >= rules.max_files:
            first = _without_giants(files, start, at + 1, rules)
            end = _past_ties(files, _with_small(files, at + 1, total, rules))
            yield from _cut(files[first:end], rules)
            start, total = end, 0
        elif total >= 2 * rules.target_bytes:  # its head is large enough
            total -= files[start].file.file_size
            start += 1


def _without_giants(files: Sequence[ManifestEntry], start: int, end: int, rules: CompactionRules) -> int:
    """Where the run begins when leading files larger than all behind them stay: what was merged is not rewritten for every small file."""
    rest = sum(entry.file.file_size for entry in files[start:end])
    while end - start > rules.min_files:
        size = files[start].file.file_size
        rest -= size
        if size <= rest:
            break
        start += 1
    return start


def _with_small(files: Sequence[ManifestEntry], end: int, total: int, rules: CompactionRules) -> int:
    """Take along the small files that follow, up to the target size: a bucket that fell behind is caught up with in one commit."""
    while end < len(files) and rules.small(files[end]) and total + files[end].file.file_size <= rules.target_bytes:
        total += files[end].file.file_size
        end += 1
    return end


def _past_ties(files: Sequence[ManifestEntry], end: int) -> int:
    """Take along followers whose numbers lie inside the run's: pypaimon gives all its files one number."""
    while 0 < end < len(files) and files[end].file.min_sequence_number <= files[end - 1].file.max_sequence_number:
        end += 1
    return end


def ordered_full(files: Sequence[ManifestEntry], rules: CompactionRules) -> Iterator[CompactionTask]:
    """One run of everything behind the leading files of the right size, where most of it is small."""
    if len(files) < 3 and not rules.every_file:
        return
    start = 0
    if not rules.every_file:
        while start < len(files) and not rules.small(files[start]):
            start += 1
    rest = files[start:]
    small = sum(rules.small(entry) for entry in rest)
    if rules.every_file or (len(rest) >= 3 and small > len(rest) - small):
        yield from _cut(rest, rules)


def _cut(run: Sequence[ManifestEntry], rules: CompactionRules) -> Iterator[CompactionTask]:
    """A run as tasks of at most the allowed bytes; neighbours that share numbers stay together."""
    pieces: list[list[ManifestEntry]] = [[]]
    size = 0
    for before, entry in pairwise((None, *run)):
        assert entry is not None
        free = before is None or entry.file.min_sequence_number > before.file.max_sequence_number
        if rules.task_bytes is not None and pieces[-1] and free and size + entry.file.file_size > rules.task_bytes:
            pieces.append([])
            size = 0
        pieces[-1].append(entry)
        size += entry.file.file_size
    for piece in pieces:
        if len(piece) > 1 or (piece and rules.every_file):
            yield CompactionTask(partition=piece[0].partition, bucket=piece[0].bucket, inputs=tuple(piece))


def unordered_bins(files: Iterable[ManifestEntry], rules: CompactionRules, *, all_of_them: bool = False) -> Iterator[CompactionTask]:
    """Bins of one partition's small files, packed as Paimon does; ``all_of_them`` empties the last bin however few it holds."""
    candidates = sorted((e for e in files if rules.every_file or rules.small(e)), key=lambda e: e.file.file_size)
    entries_of_bin: list[ManifestEntry] = []
    weight = size = 0
    for entry in candidates[: rules.most_candidates]:
        if rules.task_bytes is not None and len(entries_of_bin) > 1 and size + entry.file.file_size > rules.task_bytes:
            yield _bin(entries_of_bin)
            entries_of_bin, weight, size = [], 0, 0
        entries_of_bin.append(entry)
        size += entry.file.file_size
        weight += entry.file.file_size + rules.open_cost
        if len(entries_of_bin) > 1 and weight >= 2 * rules.target_bytes:
            yield _bin(entries_of_bin)
            entries_of_bin, weight, size = [], 0, 0
    if len(entries_of_bin) >= rules.min_files or (all_of_them and len(entries_of_bin) > 1):
        yield _bin(entries_of_bin)


def _bin(entries: Sequence[ManifestEntry]) -> CompactionTask:
    return CompactionTask(partition=entries[0].partition, bucket=entries[0].bucket, inputs=tuple(entries))


def choose(
    schema: Schema,
    entries: Iterable[ManifestEntry],
    rules: CompactionRules,
    *,
    full: bool,
    all_of_them: bool = False,
    columns_at: ColumnsAt | None = None,
) -> list[CompactionTask]:
    """The merges worth doing among live files; a clustered table's are those of `table.compaction.clustering`."""
    clustering = Clustering.of(schema)
    tasks: list[CompactionTask] = []
    if clustering is not None:
        entries = list(entries)
        tasks += choose_clusters(clustering, entries, full=full, columns_at=columns_at)
        return tasks + (_with_deleted_rows(schema, by_bucket(schema, entries).values(), tasks, rules) if full else [])
    buckets = by_bucket(schema, entries)
    for files in buckets.values():
        if schema.bucket > 0:
            tasks += (ordered_full if full else ordered_minor)(files, rules)
        else:
            tasks += unordered_bins(files, rules, all_of_them=all_of_them)
    return tasks + _with_deleted_rows(schema, buckets.values(), tasks, rules, full=full)


def _with_deleted_rows(
    schema: Schema,
    buckets: Iterable[Sequence[ManifestEntry]],
    tasks: Sequence[CompactionTask],
    rules: CompactionRules,
    *,
    full: bool = True,
) -> list[CompactionTask]:
    """Files of which rows are deleted and that no task takes, however large or alone.

    A full compaction leaves no deleted row behind; any other takes those with more than `compaction.delete-ratio-threshold`.
    """
    taken = {entry.key() for task in tasks for entry in task.inputs}
    more: list[CompactionTask] = []
    for files in buckets:
        for run in _apart(schema, files):
            wanted = any(entry.vector is not None if full else rules.mostly_deleted(entry) for entry in run)
            if wanted and not any(entry.key() in taken for entry in run):
                more.append(_bin(run))
    return more


def _apart(schema: Schema, files: Sequence[ManifestEntry]) -> Iterator[Sequence[ManifestEntry]]:
    """What can be rewritten alone: each file; in an ordered bucket those that share sequence numbers stay together."""
    run: list[ManifestEntry] = []
    for entry in files:
        shared = schema.bucket > 0 and run and entry.file.min_sequence_number <= run[-1].file.max_sequence_number
        if run and not shared:
            yield run
            run = []
        run.append(entry)
    if run:
        yield run
