"""Planning a scan on columns: what `scan.plan_entries` plans, without an object for each file that is left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from model.predicate import Predicate
from model.schema.schema import Schema
from model.schema.types import AtomicType, DataType
from model.snapshot import Snapshot
from table.format.cache import ByteCache
from table.format.deletions import deletions_of
from table.format.manifests.columns import ManifestColumns, Mask, Numbers, many_entries
from table.format.manifests.entries import ManifestFile, bounds_of
from table.format.rows.row_columns import row_column
from table.format.rows.stats import ColumnStats
from table.format.store import TableFiles
from table.index.checksum import CHECKSUM_ALONE_BYTES
from table.index.skip import without_skipped
from table.scan.planning.live import never_added
from table.scan.planning.live_files import ColumnFiles
from table.scan.planning.plan import ManyFiles, PlannedFile, ScanPlan
from table.scan.skipping.column_prune import Bounds, Pruning, Special
from table.scan.skipping.entry_prune import BucketPruning, PartitionPruning, StatsPruning, planned_file
from table.scan.skipping.prune import may_match

_BOUNDS_BYTES = 192 << 20
_AT_ONCE = 4096
"""So many files of a plan are made at once; of more only those that are looked at."""

_BOUNDS: ByteCache[tuple[object, ...], Bounds] = ByteCache(_BOUNDS_BYTES, lambda bounds: bounds.nbytes)


def plan_columns(files: TableFiles, schema: Schema, snapshot: Snapshot, predicate: Predicate | None) -> ScanPlan | None:
    """Plan a read of a snapshot of many files; None for one of few, or whose history only the plain rule tells."""
    manifests = files.manifests_of(snapshot)
    if not many_entries(manifests):
        return None
    partitions = PartitionPruning(schema, predicate)
    wanted = [meta for meta in manifests if _may_hold(schema, partitions.predicate, meta)]
    live = files.column_files(wanted)
    if live is None:
        return None
    selected = _Kept(files, schema, predicate, partitions)
    rows = [selected.rows(meta, columns, alive) for meta, (columns, alive) in zip(wanted, live.masks(), strict=True)]
    _check_orphans(files, snapshot, live, selected, whole=len(wanted) == len(manifests))
    owners = np.repeat(np.arange(len(rows)), np.array(list(map(len, rows)), dtype=np.int64))
    picked = np.concatenate([*rows, np.zeros(0, dtype=np.int64)])
    order = _order(schema, live.manifests, rows)
    deletions = deletions_of(files, schema, snapshot)
    chosen = ManyFiles(
        live.manifests, owners[order], picked[order], lambda entry: planned_file(files, schema, entry, partitions, deletions)
    )
    return ScanPlan(
        snapshot_id=snapshot.id,
        files=_looked_into(files, schema, chosen, predicate, indexed=_indexed(live.manifests, rows)),
        total_files=_count(manifests, wanted, live),
        count_bytes=lambda: _bytes(files, snapshot, live if len(wanted) == len(manifests) else None),
        predicate=predicate,
        deleted=bool(deletions),
    )


def _looked_into(
    files: TableFiles, schema: Schema, many: ManyFiles, predicate: Predicate | None, *, indexed: bool
) -> Sequence[PlannedFile]:
    """The files that their own indexes leave; where none has one, files of a large plan are not made yet."""
    if predicate is not None and indexed:
        return tuple(without_skipped(files, schema, list(many), predicate))
    return tuple(many) if len(many) <= _AT_ONCE else many


def _indexed(manifests: Sequence[ManifestColumns], rows: Sequence[Numbers]) -> bool:
    """Whether an index may lie in the manifests' entries, or files beside them; what is no longer than a checksum is none."""
    return any(
        len(picked) and (columns.beside[picked].any() or (columns.index_bytes[picked] > CHECKSUM_ALONE_BYTES).any())
        for columns, picked in zip(manifests, rows, strict=True)
    )


def _may_hold(schema: Schema, predicate: Predicate | None, meta: ManifestFile) -> bool:
    """Whether a manifest may hold files of the wanted partitions, by the bounds it has of them."""
    stats, types = meta.partition_stats, [field.type for field in schema.partition_fields]
    if predicate is None or len(stats.null_counts) not in (0, len(types)):
        return True
    bounds = bounds_of(stats, types)
    if bounds is None:
        return True
    lows, highs = bounds
    counts = stats.null_counts or [None] * len(types)
    known = {
        name: ColumnStats(null_count=count) if low != low or high != high else ColumnStats(min=low, max=high, null_count=count)
        for name, low, high, count in zip(schema.partition_keys, lows, highs, counts, strict=True)
    }
    return may_match(predicate, known, meta.num_added_files + meta.num_deleted_files)


def _check_orphans(files: TableFiles, snapshot: Snapshot, live: ColumnFiles, selected: _Kept, *, whole: bool) -> None:
    """Raise for a file that is removed without having been added; its ADD may only be in manifests of other partitions."""
    for entry in live.orphans():
        if whole or selected.partitions.keep(entry.partition):
            raise never_added(files.name, snapshot, entry)


def _count(manifests: Sequence[ManifestFile], wanted: Sequence[ManifestFile], live: ColumnFiles) -> int:
    """All live files: those of the manifests that were looked at, and what the others say of themselves."""
    names = {meta.file_name for meta in wanted}
    elsewhere = sum(meta.num_added_files - meta.num_deleted_files for meta in manifests if meta.file_name not in names)
    here = sum(len(columns) if alive is None else int(np.count_nonzero(alive)) for columns, alive in live.masks())
    return elsewhere + here - sum(len(orphans) for orphans in live.netted.orphans)


def _bytes(files: TableFiles, snapshot: Snapshot, live: ColumnFiles | None) -> int:
    return int((live or files.live(files.manifests_of(snapshot))).sizes().sum())


def _order(schema: Schema, manifests: Sequence[ManifestColumns], rows: Sequence[Numbers]) -> Numbers:
    """Partitions as first seen; in a bucket by sequence, ties in manifest order."""
    ranks: dict[bytes, int] = {}
    of_rows = [_ranks(columns, picked, ranks) for columns, picked in zip(manifests, rows, strict=True)]
    ranked = np.concatenate([*of_rows, np.zeros(0, dtype=np.int64)])
    if schema.bucket <= 0:
        return np.argsort(ranked, kind="stable")
    buckets, sequences = (
        np.concatenate([*(columns.numbers(name)[picked] for columns, picked in zip(manifests, rows, strict=True)), np.zeros(0, np.int64)])
        for name in ("bucket", "min_sequence_number")
    )
    return np.lexsort((sequences, buckets, ranked))


def _ranks(columns: ManifestColumns, rows: Numbers, ranks: dict[bytes, int]) -> Numbers:
    """The rank of each row's partition; those met first come next."""
    if not len(rows):
        return np.zeros(0, dtype=np.int64)
    codes, first = np.unique(columns.partition_codes[rows], return_index=True)
    by_code = np.zeros(len(columns.partitions), dtype=np.int64)
    for code in codes[np.argsort(first)].tolist():
        by_code[code] = ranks.setdefault(columns.partitions[code].as_py(), len(ranks))
    ranked: Numbers = by_code[columns.partition_codes[rows]]
    return ranked


class _Kept:
    """Which entries of a manifest a query must read."""

    def __init__(self, files: TableFiles, schema: Schema, predicate: Predicate | None, partitions: PartitionPruning) -> None:
        self.partitions = partitions
        self._files = files
        self._schema = schema
        self._buckets = BucketPruning(files, schema, predicate)
        self._matcher = StatsPruning(files, schema, predicate)

    def rows(self, meta: ManifestFile, columns: ManifestColumns, alive: Mask | None) -> Numbers:
        """The rows of live entries that may match, ascending."""
        mask = np.ones(len(columns), dtype=bool) if alive is None else alive.copy()
        self._prune_buckets(columns, mask)
        path = self._files.layout.manifest(meta.file_name)
        exact = self._prune_partitions(path, columns, mask)
        exact = self._prune_files(path, columns, mask) and exact
        positions = np.flatnonzero(mask)
        if exact or not len(positions):
            return positions
        keep = (self.partitions.keep(entry.partition) and self._matcher.keep(entry) for entry in columns.entries(positions))
        looked: Numbers = positions[np.fromiter(keep, dtype=bool, count=len(positions))]
        return looked

    def _prune_buckets(self, columns: ManifestColumns, mask: Mask) -> None:
        """Take away entries of buckets without a match."""
        if self._buckets.buckets is None:
            return
        wanted = np.isin(columns.numbers("bucket"), np.fromiter(self._buckets.buckets, dtype=np.int64))
        others = mask & ~wanted & (columns.numbers("total_buckets") == self._schema.bucket)
        for schema_id in np.unique(columns.numbers("schema_id")[others]).tolist():
            if self._buckets.routed(schema_id):
                mask &= ~(others & (columns.numbers("schema_id") == schema_id))

    def _prune_partitions(self, path: str, columns: ManifestColumns, mask: Mask) -> bool:
        """Take away entries of other partitions; False where some that stay may be of others, too."""
        predicate = self.partitions.predicate
        if predicate is None:
            return True

        def of(name: str) -> Bounds | Special:
            arity, position = len(self._schema.partition_keys), self._schema.partition_keys.index(name)
            type_ = self._schema.partition_fields[position].type
            key = (path, "partition", position, type_.sql())
            return _BOUNDS.get(key) or _kept_bounds(key, _partition_bounds(columns.partitions, arity, position, type_))

        pruning = Pruning(np.ones(len(columns.partitions), dtype=np.int64), of)
        mask &= pruning.may_match(predicate)[columns.partition_codes]
        return pruning.exact

    def _prune_files(self, path: str, columns: ManifestColumns, mask: Mask) -> bool:
        """Take away entries whose statistics rule a match out; False where some that stay are not looked at closely."""
        predicate = self._matcher.predicate
        if predicate is None:
            return True
        exact = True
        for number, (schema_id, layout, owned) in enumerate(columns.statistics_shapes):
            picked = None if owned is None else np.flatnonzero(owned)
            shape = _Shape(self._matcher, (path, number), columns, picked, schema_id, layout)
            rows = columns.numbers("row_count")
            pruning = Pruning(rows if picked is None else rows[picked], shape.bounds)
            if picked is None:
                mask &= pruning.may_match(predicate)
            else:
                mask[picked] &= pruning.may_match(predicate)
            exact = exact and pruning.exact
        return exact


def _partition_bounds(rows: pa.Array, arity: int, position: int, type_: DataType) -> Bounds | Special:
    """Each partition holds one value of each of its columns."""
    values = row_column(rows, arity, position, type_)
    return Special.UNREAD if values is None else Bounds(type=type_, low=values, high=values, nulls=values.nulls.astype(np.int64))


def _kept_bounds(key: tuple[object, ...], bounds: Bounds | Special) -> Bounds | Special:
    if isinstance(bounds, Bounds):
        _BOUNDS.put(key, bounds)
    return bounds


class _Shape:
    """The bounds of some entries of a manifest, whose statistics are under one schema version and cover the same columns."""

    def __init__(
        self,
        matcher: StatsPruning,
        key: tuple[object, ...],
        columns: ManifestColumns,
        picked: Numbers | None,
        schema_id: int,
        layout: Sequence[str] | None,
    ) -> None:
        self._schema, self._old_names = matcher.mapping(schema_id)
        self._key = key
        self._columns = columns
        self._picked = picked
        self._names = self._schema.field_names if layout is None else tuple(layout)

    def bounds(self, name: str) -> Bounds | Special:
        """What is known of a column of the table in each of the files."""
        if name not in self._old_names:
            return Special.UNKNOWN
        old = self._old_names[name]
        if old is None:
            return Special.ABSENT
        if old not in self._names or any(self._schema.find(covered) is None for covered in self._names):
            return Special.UNKNOWN
        type_ = self._schema.field(old).type
        key = (*self._key, len(self._names), self._names.index(old), type_.sql())
        return _BOUNDS.get(key) or _kept_bounds(key, self._read(self._names.index(old), type_))

    def _read(self, position: int, type_: DataType) -> Bounds | Special:
        nulls = self._null_counts(position)
        arity = len(self._names)
        if isinstance(nulls, Special) or not isinstance(type_, AtomicType):
            return Special.UNREAD
        low = row_column(self._column("min_values"), arity, position, type_)
        high = row_column(self._column("max_values"), arity, position, type_)
        return Special.UNREAD if low is None or high is None else Bounds(type=type_, low=low, high=high, nulls=nulls)

    def _column(self, name: str) -> pa.Array:
        column = self._columns.column(name)
        return column if self._picked is None else column.take(pa.array(self._picked))

    def _null_counts(self, position: int) -> Numbers | Special | None:
        counts = self._column("null_counts")
        lengths = counts.value_lengths().to_numpy()
        if not lengths.any():
            return None
        if np.any(lengths != len(self._names)):
            return Special.UNREAD
        null_counts: Numbers = counts.flatten().fill_null(-1).to_numpy()[position :: len(self._names)]
        return np.ascontiguousarray(null_counts)
