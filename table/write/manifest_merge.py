"""Which old manifests a commit rewrites into fewer (`paimon-append.md` §6.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from model.options.table import TABLE_OPTIONS
from model.schema.schema import Schema
from model.schema.types import DataType
from table.format.manifests.columns import digest_of, many_entries
from table.format.manifests.entries import ManifestEntry, ManifestFile, bounds_of, within
from table.format.rows import binary_row
from table.format.store import TableFiles
from table.scan.planning.live import corrupt, merge_entries

_Row = tuple[object, ...]


def worth_merging(schema: Schema, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
    """The manifests that merging all at once would rewrite: those with deletions and, where there are several, the small ones."""
    target: int = TABLE_OPTIONS.read(schema.options, "manifest.target-file-size")
    picked = [m for m in manifests if m.num_deleted_files or m.file_size < target]
    return picked if len(picked) > 1 or any(m.num_deleted_files for m in picked) else []


def merged(files: TableFiles, schema: Schema, manifests: Sequence[ManifestFile], *, everything: bool = False) -> list[ManifestFile]:
    """The manifests of the next base list: small ones become few of the target size, meaning stays.

    Manifests of the target size without deletions are left alone, so a commit costs the same however large the table is.
    ``everything`` merges however few there are (``sys.compact_manifest``).
    """
    merge = _Merge(files, schema, always=everything)
    full = merge.full(manifests)
    return merge.minor(manifests) if full is None else full


class _Merge:
    def __init__(self, files: TableFiles, schema: Schema, *, always: bool = False) -> None:
        self._files = files
        self._types: list[DataType] = [field.type for field in schema.partition_fields]
        self._ordered = schema.bucket > 0
        self._target: int = TABLE_OPTIONS.read(schema.options, "manifest.target-file-size")
        self._threshold: int = 1 if always else TABLE_OPTIONS.read(schema.options, "manifest.full-compaction-threshold-size")
        self._min_count: int = TABLE_OPTIONS.read(schema.options, "manifest.merge-min-count")

    def full(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile] | None:
        """Rewrite everything small or carrying deletions once that is much; None while it is not."""
        picked = [m for m in manifests if m.num_deleted_files or m.file_size < self._target]
        if sum(m.file_size for m in picked) < self._threshold:
            return None
        live = self._files.live(picked)
        if deletions := {entry.key(): entry for entry in live.orphans()}:
            picked = self._with_targets(manifests, picked, deletions)
            live = self._files.live(picked)
        if orphan := next(live.orphans(), None):
            raise corrupt(self._files.name, orphan, "is removed without having been added")
        entries = live.entries()
        if self._ordered and not many_entries(picked):  # readers that go by manifest order alone (pypaimon) then find a queue's
            listed = list(entries)
            first_seen = {partition: at for at, partition in enumerate(dict.fromkeys(entry.partition for entry in listed))}
            entries = iter(sorted(listed, key=lambda entry: (first_seen[entry.partition], entry.bucket, entry.file.min_sequence_number)))
        rewritten = {m.file_name for m in picked}
        untouched = [m for m in manifests if m.file_name not in rewritten]
        return [*untouched, *self._files.new_manifests(entries, self._types, target=self._target)]

    def minor(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """Rewrite each run of neighbours that reaches the target together, and a last run of many."""
        result: list[ManifestFile] = []
        run: list[ManifestFile] = []
        for manifest in manifests:
            run.append(manifest)
            if sum(m.file_size for m in run) >= self._target:
                result += self._rewritten(run)
                run = []
        return [*result, *(self._rewritten(run) if len(run) >= self._min_count else run)]

    def _rewritten(self, run: Sequence[ManifestFile]) -> list[ManifestFile]:
        if len(run) <= 1:
            return list(run)
        return self._files.new_manifests(list(self._entries(run)), self._types, target=self._target)

    def _entries(self, run: Sequence[ManifestFile]) -> Iterable[ManifestEntry]:
        return merge_entries((entry for meta in run for entry in self._files.manifest(meta)), table=self._files.name)

    def _with_targets(
        self, manifests: Sequence[ManifestFile], picked: Sequence[ManifestFile], deletions: dict[_Row, ManifestEntry]
    ) -> list[ManifestFile]:
        """With the large manifests that hold the deleted files; only those whose partitions and buckets allow it are read."""
        names = {m.file_name for m in picked}
        digests = {digest_of(entry) for entry in deletions.values()}
        places = {(entry.partition, entry.bucket) for entry in deletions.values()}
        wanted = [(binary_row.decode(self._types, partition), bucket) for partition, bucket in places]
        for manifest in manifests:
            if manifest.file_name in names or not self._may_hold(manifest, wanted):
                continue
            if self._files.columns(manifest).of_keys(digests).any():
                names.add(manifest.file_name)
        return [m for m in manifests if m.file_name in names]

    def _may_hold(self, manifest: ManifestFile, wanted: Sequence[tuple[_Row, int]]) -> bool:
        """Whether the ranges of its buckets and partitions allow files of some of these."""
        ends = bounds_of(manifest.partition_stats, self._types)
        bounds = [(None, None)] * len(self._types) if ends is None else list(zip(*ends, strict=True))
        return any(
            within(bucket, manifest.min_bucket, manifest.max_bucket, unbounded=True)
            and all(within(value, low, high, unbounded=False) for value, (low, high) in zip(partition, bounds, strict=True))
            for partition, bucket in wanted
        )
