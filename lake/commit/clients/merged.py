"""What manifests that a client has merged, or only listed again, say beside those they stand for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from table.format.manifests.entries import ManifestEntry, ManifestFile

_SAME_TIME_MILLIS = 1_000


def same_manifest(known: ManifestFile, claimed: ManifestFile) -> bool:
    """Whether a line says of a manifest what the base's says; a range left out only makes readers look."""
    exact = all(
        getattr(known, name) == getattr(claimed, name) for name in ("file_size", "num_added_files", "num_deleted_files", "schema_id")
    )
    stats, other = known.partition_stats, claimed.partition_stats
    same_stats = (stats.min_values, stats.max_values, list(stats.null_counts)) == (
        other.min_values,
        other.max_values,
        list(other.null_counts),
    )
    ranges = all(
        getattr(claimed, name) in (None, getattr(known, name))
        for name in ("min_bucket", "max_bucket", "min_level", "max_level", "min_row_id", "max_row_id")
    )
    return exact and same_stats and ranges


def told(entry: ManifestEntry) -> tuple[object, ...]:
    """What readers go by of an entry besides its key."""
    file = entry.file
    stats = file.value_stats
    cols = None if file.value_stats_cols is None else tuple(file.value_stats_cols)
    return (
        entry.total_buckets, file.file_size, file.row_count, file.min_sequence_number, file.max_sequence_number, file.schema_id,
        file.first_row_id, None if file.write_cols is None else tuple(file.write_cols), stats.min_values, stats.max_values,
        tuple(stats.null_counts), cols, file.delete_row_count or 0,
    )  # fmt: skip


def dated_otherwise(before: Iterable[ManifestEntry], after: Iterable[ManifestEntry]) -> str | None:
    """The name of a file that is told to be of another time, by which its partition expires; some clients lose a millisecond."""
    made = {entry.key(): entry.file.creation_time_millis for entry in before}
    for entry in after:
        if abs(entry.file.creation_time_millis - made.get(entry.key(), entry.file.creation_time_millis)) > _SAME_TIME_MILLIS:
            return entry.file.file_name
    return None


def renumbered_rows(before: Iterable[ManifestEntry], after: Iterable[ManifestEntry], *, first: int, end: int) -> int:
    """How many rows have other ids after than before, where nothing else is other; 0 where that is not so.

    The new ones lie between ``first`` and ``end``: nobody has given them out. Files that hold columns of the same rows do so after, too,
    and of no others.
    """
    old, new = ({_but_for_ids(entry): entry for entry in entries} for entries in (before, after))
    if old.keys() != new.keys():
        return 0
    moves: dict[bytes, list[tuple[int, int, int]]] = {}
    for key, entry in old.items():
        was, now, rows = entry.file.first_row_id, new[key].file.first_row_id, entry.file.row_count
        if was is None or now is None:
            if was is not now:
                return 0
            continue
        if was != now and not first <= now <= end - rows:
            return 0
        moves.setdefault(entry.partition, []).append((was, was + rows, now - was))
    taken: list[tuple[int, int]] = []
    for of_partition in moves.values():
        together = _moved_together(of_partition)
        if together is None:
            return 0
        taken += together
    taken.sort()
    apart = all(until <= begin for (_, until), (begin, _) in pairwise(taken))
    return sum(until - begin for begin, until in taken) if apart else 0


def _moved_together(moves: Iterable[tuple[int, int, int]]) -> list[tuple[int, int]] | None:
    """The new ranges of ids of those that moved, by first, end and way of each; None where some went from others of the same rows."""
    ranges: list[tuple[int, int, int]] = []
    for begin, until, way in sorted(moves):
        if ranges and begin < ranges[-1][1]:
            if way != ranges[-1][2]:
                return None
            ranges[-1] = ranges[-1][0], max(until, ranges[-1][1]), way
        else:
            ranges.append((begin, until, way))
    return [(begin + way, until + way) for begin, until, way in ranges if way]


def _but_for_ids(entry: ManifestEntry) -> tuple[object, ...]:
    return entry.kind, entry.key(), told(replace(entry, file=replace(entry.file, first_row_id=None)))
