"""Which old manifests a commit rewrites into fewer (`paimon-append.md` §6.4)."""

from __future__ import annotations

from collections.abc import Sequence

from model.option import memory_size
from model.schema import Schema
from model.types import DataType
from table.manifest import ManifestFile
from table.store import TableFiles, merge_entries

TARGET_SIZE = 8 << 20
FULL_THRESHOLD = 16 << 20
MIN_COUNT = 30


def worth_merging(schema: Schema, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
    """The manifests that merging all at once would rewrite: those with deletions and, where there are several, the small ones."""
    target = _size(schema, "manifest.target-file-size", TARGET_SIZE)
    picked = [m for m in manifests if m.num_deleted_files or m.file_size < target]
    return picked if len(picked) > 1 or any(m.num_deleted_files for m in picked) else []


def merged(files: TableFiles, schema: Schema, manifests: Sequence[ManifestFile], *, everything: bool = False) -> list[ManifestFile]:
    """The manifests of the next base list: runs of small ones become one, order and meaning stay.

    ``everything`` merges however few there are (``sys.compact_manifest``).
    """
    if everything:
        types = [field.type for field in schema.partition_fields]
        target = _size(schema, "manifest.target-file-size", TARGET_SIZE)
        return _full(files, manifests, types, target=target, threshold=1) or list(manifests)
    target = _size(schema, "manifest.target-file-size", TARGET_SIZE)
    types = [field.type for field in schema.partition_fields]
    full = _full(files, manifests, types, target=target, threshold=_size(schema, "manifest.full-compaction-threshold-size", FULL_THRESHOLD))
    if full is not None:
        return full
    return _minor(files, manifests, types, target=target, min_count=int(schema.options.get("manifest.merge-min-count", MIN_COUNT)))


def _size(schema: Schema, key: str, default: int) -> int:
    text = schema.options.get(key)
    return default if text is None else memory_size().parse(text)


def _full(
    files: TableFiles, manifests: Sequence[ManifestFile], types: Sequence[DataType], *, target: int, threshold: int
) -> list[ManifestFile] | None:
    """Rewrite everything small or carrying deletions once that is much; None while it is not."""
    picked = [m for m in manifests if m.num_deleted_files or m.file_size < target]
    if not picked or sum(m.file_size for m in picked) < threshold:
        return None
    # A deletion may aim at a file of an untouched manifest only where deletions exist at all.
    if any(m.num_deleted_files for m in picked):
        picked = list(manifests)
    untouched = [m for m in manifests if m not in picked]
    return [*untouched, *_rewrite(files, picked, types, target)]


def _minor(
    files: TableFiles, manifests: Sequence[ManifestFile], types: Sequence[DataType], *, target: int, min_count: int
) -> list[ManifestFile]:
    result: list[ManifestFile] = []
    run: list[ManifestFile] = []
    for manifest in manifests:
        run.append(manifest)
        if sum(m.file_size for m in run) >= target:
            result += _rewrite(files, run, types, target)
            run = []
    result += _rewrite(files, run, types, target) if len(run) >= min_count else run
    return result


def _rewrite(files: TableFiles, run: Sequence[ManifestFile], types: Sequence[DataType], target: int) -> list[ManifestFile]:
    if len(run) <= 1:
        return list(run)
    entries = list(merge_entries(entry for meta in run for entry in files.manifest(meta.file_name)))
    if not entries:
        return []
    total = sum(meta.file_size for meta in run)
    pieces = max(1, round(total / target))
    size = -(-len(entries) // pieces)
    return [files.new_manifest(entries[at : at + size], types) for at in range(0, len(entries), size)]
