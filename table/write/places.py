"""Where in a queue files stand that are written anew: their numbers are chosen when it is known what came meanwhile.

A bucket is read by the first sequence numbers of its files, files of one number in the order of the manifests. Writers that do not count
rows (pypaimon) give each file the number that the bucket ends with, so that it stands last by its manifest alone. A file that is written
anew is named later than those that came meanwhile: under the same first number it would stand behind them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from model.errors import RewriteConflict
from table.format.deletions import deleted_rows
from table.format.manifests.entries import ManifestEntry
from table.format.store import TableFiles

Keys = set[tuple[object, ...]]


def by_number(entry: ManifestEntry) -> int:
    """What a bucket's files are sorted by, in a sort that leaves ties as the manifests name them."""
    return entry.file.min_sequence_number


def overlapping(live: Sequence[ManifestEntry]) -> Iterator[list[ManifestEntry]]:
    """Files of queues in order; those whose numbers overlap, among which the order in the manifests counts, stand together."""
    run: list[ManifestEntry] = []
    last = 0
    for entry in sorted(live, key=lambda e: (e.partition, e.bucket, by_number(e))):
        same = bool(run) and (run[0].partition, run[0].bucket) == (entry.partition, entry.bucket)
        if run and not (same and by_number(entry) <= last):
            yield run
            run = []
        last = max(last, entry.file.max_sequence_number) if run else entry.file.max_sequence_number
        run.append(entry)
    if run:
        yield run


def placed(live: Sequence[ManifestEntry], gone: Keys, added: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """Added files with first numbers that let them stand where the files stood that go: behind the file before, before the one after.

    ``live``: those of their buckets, as the manifests name them. Raises `RewriteConflict` where no number does.
    """
    buckets: dict[tuple[bytes, int], list[ManifestEntry]] = {}
    for entry in sorted(live, key=by_number):
        buckets.setdefault((entry.partition, entry.bucket), []).append(entry)
    places = {key: _Places.of(bucket, gone) for key, bucket in buckets.items()}
    return [places[key].placed(entry) if (key := (entry.partition, entry.bucket)) in places else entry for entry in added]


@dataclass(frozen=True, slots=True)
class _Places:
    """A bucket in its order: where files stay and where they go, each place with its file's first number."""

    stay: list[int]
    go: list[int]
    numbers: list[int]
    """Of all."""
    going_numbers: list[int]

    @classmethod
    def of(cls, bucket: Sequence[ManifestEntry], gone: Keys) -> _Places:
        numbers = [by_number(entry) for entry in bucket]
        stay: list[int] = []
        go: list[int] = []
        for at, entry in enumerate(bucket):
            (go if entry.key() in gone else stay).append(at)
        return cls(stay=stay, go=go, numbers=numbers, going_numbers=[numbers[at] for at in go])

    def placed(self, added: ManifestEntry) -> ManifestEntry:
        """One file, in the place of the last that goes and is not behind it."""
        if not self.go:
            return added
        number = by_number(added)
        place = self.go[max(bisect_right(self.going_numbers, number) - 1, 0)]
        at = bisect_right(self.stay, place)
        if at == len(self.stay) or number < self.numbers[self.stay[at]]:
            return added
        following = self.numbers[self.stay[at]]
        if at and following <= self.numbers[self.stay[at - 1]]:
            raise _between(added)
        return replace(added, file=replace(added.file, min_sequence_number=following - 1))


def check_places(live: Sequence[ManifestEntry], gone: Keys) -> None:
    """No file that stays stands between files that are written anew as one; raises `RewriteConflict`."""
    ordered = sorted(live, key=lambda entry: (entry.partition, entry.bucket, by_number(entry)))
    places = {entry.key(): at for at, entry in enumerate(ordered)}
    for run in overlapping([entry for entry in live if entry.key() in gone]):
        of_run = [places[entry.key()] for entry in run]
        if max(of_run) - min(of_run) >= len(of_run):
            raise _between(run[0])


def _between(entry: ManifestEntry) -> RewriteConflict:
    return RewriteConflict(
        f"Bucket {entry.bucket} got rows meanwhile that belong between those of {entry.file.file_name}; nothing was changed.",
        resource_name=entry.file.file_name,
    )


def check_order(files: TableFiles, live: Sequence[ManifestEntry], gone: Keys, added: Sequence[ManifestEntry]) -> None:
    """Every file that stays has as many rewritten rows before it as it had; raises `RewriteConflict`.

    A queue's order is its promise, and a file may have come meanwhile whose number lies inside the rewritten ones.
    """
    for key in {(entry.partition, entry.bucket) for entry in live}:
        before = [entry for entry in live if (entry.partition, entry.bucket) == key]
        new = [entry for entry in added if (entry.partition, entry.bucket) == key]
        after = [entry for entry in before if entry.key() not in gone] + new
        fresh = {entry.key() for entry in new}
        if _rows_before(files, before, gone) != _rows_before(files, after, fresh):
            raise RewriteConflict(
                f"Bucket {key[1]} got rows meanwhile that belong between the merged ones; it is merged when it is looked at again.",
                resource_name=before[0].file.file_name,
            )


def _rows_before(files: TableFiles, entries: Sequence[ManifestEntry], marked: Keys) -> list[tuple[object, int]]:
    """In reading order: each file that is not marked, with the marked rows before it."""
    places: list[tuple[object, int]] = []
    rows = 0
    for entry in sorted(entries, key=by_number):
        if entry.key() in marked:
            rows += entry.file.row_count - (0 if entry.vector is None else deleted_rows(files, entry.vector, entry.file.row_count))
        else:
            places.append((entry.key(), rows))
    return places
