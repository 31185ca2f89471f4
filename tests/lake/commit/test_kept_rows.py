"""What of a client's compaction tells that rows stay: counts by bucket, or the ids that files of data evolution cover."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lake.commit.clients.kept_rows import same_row_ids
from table.format.manifests.entries import EMPTY_ROW, EntryKind, ManifestEntry
from tests.table.write.test_snapshot_builder import a_file

Range = tuple[int | None, int]


def changes(deleted: list[Range], added: list[Range]) -> list[ManifestEntry]:
    """Files of one bucket: their first ids and how many rows they hold."""
    made = []
    for kind, ranges in ((EntryKind.DELETE, deleted), (EntryKind.ADD, added)):
        for number, (first, rows) in enumerate(ranges):
            file = replace(a_file(f"{kind.name}-{number}", rows), first_row_id=first)
            made.append(ManifestEntry(kind=kind, partition=EMPTY_ROW, bucket=0, total_buckets=-1, file=file))
    return made


@pytest.mark.parametrize(
    ("deleted", "added", "shrunk", "kept"),
    [
        ([(0, 10), (0, 10)], [(0, 10)], False, True),
        ([(0, 5), (5, 5)], [(0, 10)], False, True),
        ([(0, 10)], [(0, 4), (6, 4)], False, False),
        ([(0, 10)], [(10, 10)], False, False),
        ([(0, 10)], [(10, 7)], True, True),
        ([(0, 10)], [(10, 7)], False, False),
        ([(0, 10)], [(10, 10)], True, False),
        ([(0, 10)], [], True, True),
        ([(0, 10)], [], False, False),
        ([(None, 10)], [(None, 10)], False, True),
        ([(None, 10)], [(None, 9)], True, True),
    ],
)
def test_ids_of_rows_say_whether_they_stay(deleted: list[Range], added: list[Range], shrunk: bool, kept: bool) -> None:
    assert same_row_ids(changes(deleted, added), gone={(EMPTY_ROW, 0): 1} if shrunk else {}, shrunk=shrunk) == kept
