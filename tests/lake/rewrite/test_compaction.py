"""Compaction of real tables: rows and order stay, races are lost without harm."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lake import Lake, LakeTable
from lake.commit.write_context import Write
from lake.rewrite.compaction import Compacted, compact, in_this_process, plan
from model.errors import OutcomeUnknown, RewriteConflict, Unavailable
from model.schema.change import AddColumn, RenameColumn
from model.schema.types import VarCharType
from model.snapshot import CommitKind, Snapshot
from sql.execution.writing import append_batches
from table.compaction.task import CompactionTask
from table.format.manifests.entries import FileSource, NewFile
from table.format.rows.arrow import arrow_schema
from table.format.rows.cast import fit
from table.scan.going_on import Check
from table.scan.planning.entry_scan import plan_scan
from table.scan.read import read_batches
from table.write.snapshot_builder import CommitRequest, everything
from table.write.writer import write_batches
from tests.sql.tables import make_table

QUEUE = {"bucket": "1", "bucket-key": "id", "compaction.max.file-num": "4"}


def append(lake: Lake, table: LakeTable, ids: Sequence[int], **columns: Sequence[Any]) -> None:
    rows = {"id": list(ids), **columns}
    batch = pa.RecordBatch.from_pydict({k: list(v) for k, v in rows.items()}, schema=arrow_schema([table.schema.field(n) for n in rows]))
    append_batches(lake, table, [fit(batch, table.schema)])


def rows(table: LakeTable) -> list[dict[str, Any]]:
    planned = plan_scan(table.files, table.schema, table.latest())
    return [row for batch in read_batches(table.files, table.schema, planned.files) for row in batch.to_pylist()]


def ids(table: LakeTable) -> list[int]:
    return [row["id"] for row in rows(table)]


def live(table: LakeTable) -> list[Any]:
    return list(table.files.live_entries(table.latest()))


def merge(lake: Lake, table: LakeTable, **how: Any) -> Compacted:
    return compact(lake.commit, table, plan(table, **({"full": False} | how)))


def test_a_queue_keeps_its_order(lake: Lake) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    for start in range(0, 60, 10):
        append(lake, table, range(start, start + 10))
    done = merge(lake, table)
    assert (done.files_before, done.files_after, done.rows) == (6, 1, 60)
    assert ids(table) == list(range(60))
    latest = table.latest()
    assert latest is not None
    assert (latest.commit_kind, latest.delta_record_count, latest.total_record_count) == (CommitKind.COMPACT, 0, 60)
    merged = next(entry.file for entry in live(table) if entry.file.file_source is FileSource.COMPACT)
    assert (merged.min_sequence_number, merged.max_sequence_number) == (0, 59)
    append(lake, table, [60])
    append(lake, table, [61])
    assert ids(table) == list(range(62))
    merge(lake, table, full=True)
    assert len(live(table)) == 1
    assert ids(table) == list(range(62))


def test_inputs_stay_readable_at_older_snapshots(lake: Lake) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    for n in range(4):
        append(lake, table, [n])
    merge(lake, table)
    planned = plan_scan(table.files, table.schema, table.files.read_snapshot(3))
    assert [r["id"] for b in read_batches(table.files, table.schema, planned.files) for r in b.to_pylist()] == [0, 1, 2]


def test_files_that_share_their_numbers_keep_their_order(lake: Lake) -> None:
    """pypaimon gives every file of a bucket the same number."""
    table = make_table(lake, options=QUEUE, id="INT")
    for n in range(0, 15, 3):
        commit_tied(lake, table, range(n, n + 3))
    assert merge(lake, table).files_before == 5
    assert ids(table) == list(range(15))
    commit_tied(lake, table, [15])
    assert ids(table) == list(range(16))


def commit_tied(lake: Lake, table: LakeTable, values: Sequence[int]) -> None:
    """A file with the number of the one before, as pypaimon writes it."""
    batch = pa.RecordBatch.from_pydict({"id": list(values)}, schema=arrow_schema(table.schema.fields))
    written = write_batches(table.files, table.schema, [batch])
    from table.write import sequences

    tops = sequences.BUCKETS.of(table.files, table.latest()).tops
    top = max(tops.values(), default=-1)
    shift = -1 if tops else 1  # the number before, or 1; the commit adds what comes after the top
    assert top + 1 + shift == (top if tops else 1)
    tied = [replace(new, file=replace(new.file, min_sequence_number=shift, max_sequence_number=shift)) for new in written]
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=tuple(tied), commit_user="pypaimon"))


def test_files_appended_meanwhile_with_a_shared_number_stay_behind_what_is_merged(lake: Lake) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    for n in range(4):
        commit_tied(lake, table, [n])
    for n in range(4, 8):
        tasks = plan(table, full=n > 4)
        commit_tied(lake, table, [n])
        assert compact(lake.commit, table, tasks).conflicts == 0
        assert ids(table) == list(range(n + 1))


def test_a_compaction_loses_to_an_overwrite_and_leaves_nothing(lake: Lake, warehouse: Path) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    for n in range(4):
        append(lake, table, [n])
    tasks = plan(table, full=False)
    lake.commit(table, CommitRequest(kind=CommitKind.OVERWRITE, overwrite=everything, commit_user="u"))
    before = set(warehouse.rglob("*.parquet"))
    assert compact(lake.commit, table, tasks).conflicts == 1
    assert set(warehouse.rglob("*.parquet")) == before
    assert ids(table) == []


def test_of_several_tasks_only_the_losers_are_dropped(lake: Lake) -> None:
    table = make_table(lake, options={"bucket": "-1", "compaction.min.file-num": "2"}, partition="p", id="INT", p="INT")
    for n in range(4):
        append(lake, table, [n, n], p=[0, 1])
    tasks = plan(table, full=False)
    gone = live(table)[0].partition
    lake.commit(table, CommitRequest(kind=CommitKind.OVERWRITE, overwrite=gone.__eq__, commit_user="u"))
    done = compact(lake.commit, table, tasks)
    assert (done.conflicts, done.tasks) == (1, 1)
    assert sorted(ids(table)) == [0, 1, 2, 3]


@pytest.mark.parametrize("fault", ["lost", "doubled"])
@pytest.mark.parametrize("races", [0, 1])
def test_a_rewriter_that_loses_or_doubles_rows_changes_nothing(lake: Lake, warehouse: Path, fault: str, races: int) -> None:
    """Whatever its fault is, and also where the tasks are committed one by one."""
    table = make_table(lake, options=QUEUE, partition="p", id="INT", p="INT")
    for start in range(0, 60, 10):
        append(lake, table, range(start, start + 10), p=[0, 1] * 5)
    before, files = rows(table), sorted(warehouse.rglob("*.parquet"))
    lost = [RewriteConflict("lost", resource_name="t")] * races

    def faulty(table: LakeTable, write: Write, tasks: Sequence[CompactionTask], check: Check) -> list[list[NewFile]]:
        one, two = in_this_process(table, write, tasks, check)
        return {"lost": [one, []], "doubled": [[*one, *one], two]}[fault]

    def commit(table: LakeTable, request: CommitRequest) -> Snapshot:
        if lost:
            raise lost.pop()
        return lake.commit(table, request)

    tasks = plan(table, full=True)
    assert len(tasks) == 2
    with pytest.raises(AssertionError, match="rows of 60; nothing was changed"):
        compact(commit, table, tasks, rewriter=faulty)
    assert rows(table) == before
    assert sorted(warehouse.rglob("*.parquet")) == files


@pytest.mark.parametrize("race", [False, True])
def test_tasks_that_exchanged_rows_are_committed_together_or_not_at_all(lake: Lake, warehouse: Path, *, race: bool) -> None:
    table = make_table(lake, options=QUEUE, partition="p", id="INT", p="INT")
    for start in range(0, 60, 10):
        append(lake, table, range(start, start + 10), p=[0, 1] * 5)
    before, files = sorted(ids(table)), sorted(warehouse.rglob("*.parquet"))
    lost = [RewriteConflict("lost", resource_name="t")] * race

    def together(table: LakeTable, write: Write, tasks: Sequence[CompactionTask], check: Check) -> list[list[NewFile]]:
        one, two = in_this_process(table, write, tasks, check)
        return [[], [*one, *two]]

    def commit(table: LakeTable, request: CommitRequest) -> Snapshot:
        if lost:
            raise lost.pop()
        return lake.commit(table, request)

    done = compact(commit, table, plan(table, full=True), rewriter=together)
    assert (done.conflicts, done.rows) == ((2, 0) if race else (0, 60))
    assert sorted(ids(table)) == before
    assert (sorted(warehouse.rglob("*.parquet")) == files) is race


def test_old_schemas_are_brought_to_the_present_one(lake: Lake) -> None:
    table = make_table(lake, options=QUEUE, id="INT", a="STRING")
    append(lake, table, [0, 1], a=["x", None])
    lake.alter_table(table.identifier, [RenameColumn(name="a", to="b"), AddColumn(name="c", type=VarCharType())])
    table = lake.open(table.identifier)
    for n in range(2, 5):
        append(lake, table, [n], b=["y"], c=["z"])
    before = rows(table)
    merge(lake, table)
    assert rows(table) == before
    assert {entry.file.schema_id for entry in live(table)} == {1}


def test_a_commit_that_fails_leaves_no_files(lake: Lake, warehouse: Path) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    for n in range(4):
        append(lake, table, [n])
    before = set(warehouse.rglob("*.parquet"))

    def refuse(table: LakeTable, request: CommitRequest) -> Any:
        raise Unavailable("Postgres is away.")

    with pytest.raises(Unavailable):
        compact(refuse, table, plan(table, full=False))
    assert set(warehouse.rglob("*.parquet")) == before


def test_files_stay_when_nobody_knows_the_outcome(lake: Lake, warehouse: Path) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    for n in range(4):
        append(lake, table, [n])

    def lost(table: LakeTable, request: CommitRequest) -> Any:
        lake.commit(table, request)
        raise OutcomeUnknown("the answer was lost")

    with pytest.raises(OutcomeUnknown):
        compact(lost, table, plan(table, full=False))
    assert ids(table) == list(range(4))


def test_appends_go_on_while_files_are_merged(lake: Lake) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    stop = threading.Event()
    failures: list[BaseException] = []

    def keep_merging() -> None:
        try:
            while not stop.is_set():
                merge(lake, lake.open(table.identifier))
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=keep_merging)
    thread.start()
    for n in range(60):
        append(lake, table, [n])
    stop.set()
    thread.join()
    assert not failures
    assert ids(table) == list(range(60))
    merge(lake, table)
    assert len(live(table)) < 10


def test_small_files_of_one_commit_are_merged_before_it(lake: Lake, warehouse: Path) -> None:
    options = {"bucket": "1", "bucket-key": "id", "precommit-compact": "true", "target-file-row-num": "10"}
    table = make_table(lake, options=options, id="INT")
    append(lake, table, range(5))
    grown = make_table(lake, "grown", options={**options, "target-file-row-num": "1000"}, id="INT")
    written = write_batches(table.files, table.schema, [batch_of(table, range(at, at + 10)) for at in range(0, 50, 10)])
    assert len(written) == 5
    from table.compaction.rewrite import merged_before_commit

    merged = merged_before_commit(table.files, grown.schema, written)
    assert [(new.file.min_sequence_number, new.file.max_sequence_number, new.file.file_source) for new in merged] == [
        (0, 49, FileSource.COMPACT)
    ]
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=tuple(merged), commit_user="u"))
    assert ids(table) == [*range(5), *range(50)]
    assert len(list(warehouse.joinpath("default.db/t").rglob("*.parquet"))) == 2


def batch_of(table: LakeTable, values: Sequence[int]) -> pa.RecordBatch:
    return fit(pa.RecordBatch.from_pydict({"id": list(values)}, schema=arrow_schema([table.schema.field("id")])), table.schema)
