"""How the files of a table without order are parted among the tasks of the Spark source."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from model.schema.schema import column, new_schema
from pyspark_sluice.pieces import Piece, splits
from table.format.io.file_io import file_io_for
from table.format.store import TableFiles
from table.scan.planning.entry_scan import PlannedFile
from tests.table.write.test_snapshot_builder import a_file

MB = 1 << 20
SCHEMA = new_schema([column("id", "INT")], options={"bucket": "-1"})


def pieces(sizes: list[int]) -> list[Piece]:
    made = [replace(a_file(f"data-{at}.parquet", 1000), file_size=size) for at, size in enumerate(sizes)]
    return [Piece(planned=PlannedFile(path=one.file_name, partition=(), bucket=0, file=one), start=0, stop=1000) for one in made]


def parted(sizes: list[int], parallelism: int) -> list[list[int]]:
    files = TableFiles(file_io_for("/nowhere"), "/nowhere", "main")
    found = splits(files, SCHEMA, pieces(sizes), parallelism=parallelism)
    return [[piece.nbytes for piece in split.pieces] for split in found]


@given(sizes=st.lists(st.integers(1, 300 * MB), max_size=60), parallelism=st.integers(1, 64))
def test_every_file_is_read_once_and_no_task_has_too_much(sizes: list[int], parallelism: int) -> None:
    packs = parted(sizes, parallelism)
    assert [size for pack in packs for size in pack] == sizes
    assert all(len(pack) == 1 or sum(pack) <= 128 * MB for pack in packs)
    least = max(4 * MB, sum(sizes) // (3 * parallelism))
    assert all(sum(one) + two[0] > min(least, 128 * MB) for one, two in itertools.pairwise(packs))


def test_tasks_are_as_many_as_can_share_the_work_evenly() -> None:
    assert parted([64 * MB] * 4 + [44 * MB], 2) == [[64 * MB]] * 4 + [[44 * MB]]  # a file each, and not 128 + 128 + 44
    assert [len(pack) for pack in parted([MB] * 96, 2)] == [16] * 6
    assert len(parted([1000] * 4000, 8)) == 1  # 4 MB: not worth eight tasks
    assert parted([], 4) == []
