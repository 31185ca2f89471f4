"""Whether a compaction of a client keeps the rows of each bucket, as far as its entries tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from model.schema.types import DataType
from table.format.manifests.entries import EntryKind, ManifestEntry
from table.scan.skipping.partition_filter import by_value

Place = tuple[bytes, int]
"""A partition's row bytes, and a bucket of it."""


def same_counts(changes: Sequence[ManifestEntry], types: Sequence[DataType], *, gone: Mapping[Place, int] | None) -> bool:
    """Whether each bucket keeps its rows, but for those of the files that are taken away that were deleted already (``gone``).

    None where it is not known how many these are. ``types``: of the partition, which clients write in several ways.
    """
    one = by_value(types)
    counts: Counter[Place] = Counter()
    for (partition, bucket), rows in (gone or {}).items():
        counts[one(partition), bucket] += rows
    for entry in changes:
        counts[one(entry.partition), entry.bucket] += entry.file.row_count if entry.kind is EntryKind.ADD else -entry.file.row_count
    return all(rows == 0 or (rows < 0 and gone is None) for rows in counts.values())


def same_row_ids(changes: Sequence[ManifestEntry], types: Sequence[DataType], *, gone: Mapping[Place, int] | None, shrunk: bool) -> bool:
    """Whether the files cover the rows that those they replace covered: in data evolution some hold a part of the columns of others' rows.

    Java's compaction writes one file for all that hold columns of the same rows, so that files' counts shrink and rows stay. Where marks of
    deleted rows are gone (``shrunk``, as by ``materialize_deletion_vectors``) the rows that are left have new ids, and are fewer.
    """
    one = by_value(types)
    covered: dict[EntryKind, dict[Place, list[tuple[int, int]]]] = {EntryKind.ADD: {}, EntryKind.DELETE: {}}
    for entry in changes:
        if (first := entry.file.first_row_id) is None:
            return same_counts(changes, types, gone=gone)
        covered[entry.kind].setdefault((one(entry.partition), entry.bucket), []).append((first, first + entry.file.row_count))
    added, deleted = ({place: _joined(ranges) for place, ranges in of_kind.items()} for of_kind in covered.values())
    if added == deleted:
        return True
    return shrunk and all(_count(ranges) < _count(deleted.get(place, [])) for place, ranges in added.items())


def _count(ranges: list[tuple[int, int]]) -> int:
    return sum(end - first for first, end in ranges)


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same numbers in as few ranges as can be, in order."""
    joined: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if joined and first <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((first, end))
    return joined
