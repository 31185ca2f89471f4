"""Incremental clustering: which files of a table are worth sorting together (`clustering.*`); reads nothing and writes nothing.

As Paimon does it: a new file is unsorted and lies at level 0, where each is a run of its own; what was sorted together is one
run at a level above. Runs are chosen as universal compaction does, so that data sorted long ago is seldom sorted again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from model.options.clustering import cluster_columns
from model.options.table import TABLE_OPTIONS
from model.schema.schema import Schema
from table.compaction.task import CompactionTask
from table.format.manifests.entries import ManifestEntry
from table.scan.skipping.partition_filter import by_value

ColumnsAt = Callable[[int], Sequence[str]]
"""The clustering columns of a version of the schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustering:
    """What a table's options say about sorting it bit by bit."""

    columns: tuple[str, ...]
    strategy: str
    """``order``, ``zorder`` or ``hilbert``."""
    local: bool
    """Whether each task sorts what it reads, without an exchange before."""
    levels: int
    trigger: int
    """Runs of a bucket from which some are sorted together."""
    amplification: int
    """Per cent of the oldest run's size the younger ones may reach before all are sorted together."""
    ratio: int
    """Per cent by which the next run may be larger than those taken so far."""
    history_idle: timedelta | None
    history_limit: int
    buckets: int = -1
    """Buckets of the table: files of another number wait until they are rescaled; -1 without buckets."""
    written_as: Callable[[bytes], bytes] = bytes
    """Makes one of all the bytes in which clients write a partition: its rows are sorted together, and come back under ours."""

    @classmethod
    def of(cls, schema: Schema) -> Clustering | None:
        """The rules of a table; None for one that is not clustered bit by bit."""
        options = schema.options
        if not TABLE_OPTIONS.read(options, "clustering.incremental"):
            return None
        columns = cluster_columns(options)
        trigger = TABLE_OPTIONS.read(options, "num-sorted-run.compaction-trigger")
        return cls(
            columns=columns,
            strategy=strategy_of(schema, columns),
            local=TABLE_OPTIONS.read(options, "clustering.incremental.mode") == "local-sort",
            levels=TABLE_OPTIONS.read(options, "num-levels") or trigger + 1,
            trigger=trigger,
            amplification=TABLE_OPTIONS.read(options, "compaction.max-size-amplification-percent"),
            ratio=TABLE_OPTIONS.read(options, "compaction.size-ratio"),
            history_idle=TABLE_OPTIONS.read(options, "clustering.history-partition.idle-to-full-sort"),
            history_limit=TABLE_OPTIONS.read(options, "clustering.history-partition.limit"),
            buckets=schema.bucket,
            written_as=by_value([field.type for field in schema.partition_fields]),
        )


def strategy_of(schema: Schema, columns: Sequence[str]) -> str:
    """How rows are sorted: `clustering.strategy`, or what suits so many columns."""
    strategy: str = TABLE_OPTIONS.read(schema.options, "clustering.strategy")
    if strategy != "auto":
        return strategy
    return "order" if len(columns) == 1 else "zorder" if len(columns) < 5 else "hilbert"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    level: int
    files: tuple[ManifestEntry, ...]

    @property
    def size(self) -> int:
        return sum(entry.file.file_size for entry in self.files)


def choose_clusters(
    rules: Clustering, entries: Iterable[ManifestEntry], *, full: bool, columns_at: ColumnsAt | None = None
) -> Iterator[CompactionTask]:
    """What is worth sorting together, bucket by bucket of each partition; ``full`` takes everything that is not one sorted run yet."""
    for place, files in _by_place(rules, entries).items():
        runs = _runs(files)
        picked = _everything(rules, runs, columns_at) if full else _pick(rules, runs)
        if picked is not None:
            yield _task(place, *picked)


def history_clusters(
    rules: Clustering, entries: Iterable[ManifestEntry], chosen: Collection[bytes], *, now_millis: int, columns_at: ColumnsAt | None = None
) -> Iterator[CompactionTask]:
    """Partitions besides the chosen ones to which nothing came for long and that are not sorted as a whole, oldest first.

    ``now_millis`` is on the clock files carry (`DataFile.creation_time_millis`).
    """
    if rules.history_idle is None:
        return
    limit = now_millis - int(rules.history_idle.total_seconds() * 1000)
    last: dict[bytes, int] = {}
    chosen = set(map(rules.written_as, chosen))
    places = _by_place(rules, entries)
    parts: dict[bytes, list[ManifestEntry]] = defaultdict(list)
    for (partition, _), files in places.items():
        parts[partition] += files
    for partition, files in parts.items():
        unsorted = [entry.file.creation_time_millis for entry in files if entry.file.level < rules.levels - 1]
        if unsorted and max(unsorted) < limit and partition not in chosen:
            last[partition] = max(unsorted)
    for partition in sorted(last, key=lambda p: last[p])[: rules.history_limit]:
        for place, files in ((place, files) for place, files in places.items() if place[0] == partition):
            picked = _everything(rules, _runs(files), columns_at)
            if picked is not None:
                yield _task(place, *picked)


def _by_place(rules: Clustering, entries: Iterable[ManifestEntry]) -> dict[tuple[bytes, int], list[ManifestEntry]]:
    """Files by partition and bucket; a bucket is sorted by itself, as each is read by itself."""
    places: dict[tuple[bytes, int], list[ManifestEntry]] = defaultdict(list)
    for entry in entries:
        if rules.buckets <= 0 or entry.total_buckets == rules.buckets:
            places[(rules.written_as(entry.partition), entry.bucket)].append(entry)
    return places


def _runs(files: Sequence[ManifestEntry]) -> list[_Run]:
    """A bucket's runs, unsorted files first, then by level."""
    levels: dict[int, list[ManifestEntry]] = defaultdict(list)
    for entry in files:
        levels[entry.file.level].append(entry)
    unsorted = [_Run(level=0, files=(entry,)) for entry in levels.pop(0, ())]
    return unsorted + [_Run(level=level, files=tuple(levels[level])) for level in sorted(levels)]


_Picked = tuple[Sequence[_Run], int]


def _task(place: tuple[bytes, int], runs: Sequence[_Run], level: int) -> CompactionTask:
    partition, bucket = place
    inputs = tuple(entry for run in runs for entry in run.files)
    return CompactionTask(partition=partition, bucket=bucket, inputs=inputs, level=level)


def _everything(rules: Clustering, runs: Sequence[_Run], columns_at: ColumnsAt | None) -> _Picked | None:
    top = rules.levels - 1
    if not runs:
        return None
    if len(runs) == 1 and runs[0].level == top:
        by = rules.columns if columns_at is None else tuple(columns_at(runs[0].files[0].file.schema_id))
        if by == rules.columns:
            return None
    return runs, top


def _pick(rules: Clustering, runs: Sequence[_Run]) -> _Picked | None:
    """Universal compaction's choice: all runs where the young outweigh the oldest, else the youngest of like size, else some."""
    if len(runs) < rules.trigger:
        return None
    young = sum(run.size for run in runs[:-1])
    if young * 100 > rules.amplification * runs[-1].size:
        return runs, rules.levels - 1
    count = _of_like_size(rules, runs, 1)
    if count > 1:
        return _up_to(rules, runs, count)
    if len(runs) > rules.trigger:
        return _up_to(rules, runs, _of_like_size(rules, runs, len(runs) - rules.trigger + 1))
    return None


def _of_like_size(rules: Clustering, runs: Sequence[_Run], count: int) -> int:
    """How many of the first runs go together: each next one is not much larger than all before it."""
    size = sum(run.size for run in runs[:count])
    going = count > 1
    for run in runs[count:]:
        if size * (100 + rules.ratio) / 100 < run.size and (not going or run.level > 1):
            break
        size += run.size
        count += 1
        going = True
    return count


def _up_to(rules: Clustering, runs: Sequence[_Run], count: int) -> _Picked:
    """The first runs and the level of what they become: just below the next run, but never the unsorted level 0."""
    level = rules.levels - 1 if count == len(runs) else max(0, runs[count].level - 1)
    while level == 0 and count < len(runs):
        level = runs[count].level
        count += 1
    return runs[:count], rules.levels - 1 if count == len(runs) else level
