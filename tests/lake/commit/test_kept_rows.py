"""What of a client's compaction tells that rows stay: counts by bucket, or the ids that files of data evolution cover."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lake.commit.clients.kept_rows import same_counts, same_row_ids
from model.schema.types import DecimalType
from table.format.manifests.entries import EMPTY_ROW, EntryKind, ManifestEntry
from table.format.rows import binary_row
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
    assert same_row_ids(changes(deleted, added), (), gone={(EMPTY_ROW, 0): 1} if shrunk else {}, shrunk=shrunk) == kept


@pytest.mark.parametrize("first", [0, None], ids=["ids", "counts"])
@pytest.mark.parametrize("marked", [0, 2])
def test_a_partition_of_null_is_one_in_whatever_bytes(first: int | None, marked: int) -> None:
    """pypaimon leaves out the slot of a NULL that is long, and so does what it writes anew of others' files."""
    types = [DecimalType(precision=20, scale=2)]
    long = binary_row.encode_prefixed(types, [None])
    short = long[:20]
    gone, new = changes([(first, 10)], [(first, 10 - marked)])
    moved = [replace(gone, partition=long), replace(new, partition=short)]
    assert same_row_ids(moved, types, gone={(long, 0): marked}, shrunk=marked > 0)
    assert same_counts(moved, types, gone={(short, 0): marked})
    assert not same_counts(moved, types, gone={(long, 0): marked + 1})
