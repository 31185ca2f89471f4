"""Overwriting a table by rows of itself beside other writers: no row goes that was not read, and none comes back that was deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from lake import Lake, LakeTable
from lake.rewrite.change_rows import Changes, change_rows
from lake.rewrite.compaction import compact, plan
from model.errors import RewriteConflict
from model.predicate import Compare, Op, Predicate
from model.snapshot import CommitKind, Snapshot
from table.format.rows.arrow import arrow_schema
from table.scan.planning.entry_scan import PlannedFile, plan_scan
from table.scan.read import read_batches
from table.write.copy_on_write import FileChange
from table.write.seen import Seen
from table.write.writer import write_batches
from tests.lake.rewrite.test_compaction import append, rows
from tests.sql.tables import make_table

IN_A = Compare(column="p", op=Op.EQ, value="a")


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    options = {"bucket": "-1", "compaction.min.file-num": "2", "rows.erasable": "true"}
    made = make_table(lake, options=options, partition="p", id="INT", p="STRING")
    for number, place in ((0, "a"), (1, "a"), (2, "a"), (7, "b")):
        append(lake, made, [number], p=[place])
    return made


def in_a(table: LakeTable) -> list[int]:
    return sorted(row["id"] for row in rows(table) if row["p"] == "a")


def deleted(lake: Lake, table: LakeTable, number: int) -> None:
    def change_of(opened: LakeTable, file: PlannedFile) -> FileChange:
        batch = pa.Table.from_batches(list(read_batches(opened.files, opened.schema, [file])))
        return FileChange(deleted=np.flatnonzero(batch.column("id").to_numpy() == number))

    def find(opened: LakeTable, snapshot: Snapshot | None) -> Changes:
        return Changes(files=[(file, change_of(opened, file)) for file in plan_scan(opened.files, opened.schema, snapshot).files])

    assert change_rows(lake, lake.open(table.identifier), find).rows == 1


def overwritten(lake: Lake, table: LakeTable, happens: Callable[[], object], predicate: Predicate | None = None) -> list[int]:
    """``INSERT OVERWRITE t PARTITION (p = 'a') SELECT id + 10 FROM t WHERE p = 'a'``, and what the partition holds then."""
    opened = lake.open(table.identifier)
    seen = Seen.of(opened.latest(), predicate)
    ids = [number + 10 for number in in_a(opened)]
    happens()
    new = pa.RecordBatch.from_pydict({"id": ids, "p": ["a"] * len(ids)}, schema=arrow_schema(opened.schema.fields))
    with opened.write() as write:
        write.add(write_batches(opened.files, opened.schema, [new]))
        replaced = {file.partition for file in write.files}.__contains__
        own = replace(seen, replaced=replaced)
        lake.commit(opened, write.request(CommitKind.OVERWRITE, overwrite=replaced, operation="OVERWRITE", seen=own))
    return in_a(lake.open(table.identifier))


def test_other_files_of_the_same_rows_and_rows_elsewhere_do_not_matter(lake: Lake, table: LakeTable) -> None:
    assert overwritten(lake, table, lambda: compact(lake.commit, table, plan(table, full=True))) == [10, 11, 12]
    assert overwritten(lake, table, lambda: append(lake, table, [8], p=["b"])) == [20, 21, 22]
    assert overwritten(lake, table, lambda: deleted(lake, table, 8), IN_A) == [30, 31, 32]


def test_rows_that_were_not_read_are_not_replaced_and_those_that_went_stay_away(lake: Lake, table: LakeTable) -> None:
    for happens in (
        lambda: append(lake, table, [5], p=["a"]),
        lambda: deleted(lake, table, 5),
        lambda: deleted(lake, table, 7),  # in another partition, where nothing says that it was not read
    ):
        with pytest.raises(RewriteConflict, match="changed rows that may matter"):
            overwritten(lake, table, happens)
    assert in_a(lake.open(table.identifier)) == [0, 1, 2]
