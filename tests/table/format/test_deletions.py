"""Rows that are deleted by deletion vectors, and rows with ids (`paimon-append.md` §3, 4.8)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from model.errors import RewriteConflict, TableDamaged
from model.predicate import Compare, Op
from model.schema.schema import Schema, column, new_schema
from model.snapshot import CommitKind, Snapshot
from table.compaction.candidates import CompactionTask
from table.compaction.rewrite import merged_before_commit, rewrite
from table.format.deletions import alive, with_vectors
from table.format.io.file_io import LocalFileIO
from table.format.manifests.entries import FileSource, ManifestEntry, NewFile
from table.format.rows.cast import fit
from table.format.store import TableFiles
from table.retention.named_files import metadata_of
from table.scan.aggregates import Aggregate, Function, exact_aggregates
from table.scan.planning.entry_scan import plan_entries, plan_scan
from table.scan.read import Selection, read_batches
from table.write.snapshot_builder import CommitRequest, build_snapshot, everything, metadata_written
from table.write.writer import write_batches
from tests.table.vectors import read_in_turn, with_deleted

ROWS = 70_000
GONE = [0, 1, 65_535, 65_536, *range(66_000, 69_000), ROWS - 1]
LEFT = sorted(set(range(ROWS)).difference(GONE))


@pytest.fixture
def files(tmp_path: Path) -> TableFiles:
    return TableFiles(LocalFileIO(), str(tmp_path / "t"))


def table(files: TableFiles, **options: str) -> Schema:
    schema = new_schema([column("id", "BIGINT"), column("s", "STRING")], options={"bucket": "-1"} | options)
    files.write_schema(schema)
    return schema


def written(files: TableFiles, schema: Schema, ids: list[int]) -> list[NewFile]:
    rows = pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64()), "s": [f"s{n}" for n in ids]})
    return write_batches(files, schema, [fit(rows, schema)])


def insert(files: TableFiles, schema: Schema, latest: Snapshot | None, *batches: list[int], **request: Any) -> Snapshot:
    requests = [
        CommitRequest(**{"kind": CommitKind.APPEND, "adds": tuple(written(files, schema, ids)), "commit_user": "u"} | request)
        for ids in batches
    ]
    return build_snapshot(files, schema, latest, requests, uuid=f"u{latest.id if latest else 0}", time_millis=5)


def ids(files: TableFiles, schema: Schema, snapshot: Snapshot, selection: Selection | None = None) -> list[int]:
    planned = plan_scan(files, schema, snapshot).files
    return [n for batch in read_batches(files, schema, planned, selection) for n in batch.column("id").to_pylist()]


def entries(files: TableFiles, schema: Schema, snapshot: Snapshot) -> list[ManifestEntry]:
    return with_vectors(files, schema, snapshot, files.live_entries(snapshot))


def some_deleted(files: TableFiles, schema: Schema, **how: bool) -> Snapshot:
    """Two files: one of many rows, of which some are deleted, and one of three."""
    snapshot = insert(files, schema, insert(files, schema, None, list(range(ROWS))), [ROWS, ROWS + 1, ROWS + 2])
    return with_deleted(files, snapshot, {next(files.live_entries(snapshot)).file.file_name: GONE}, **how)


@pytest.mark.parametrize("how", [{}, {"wide": True}, {"told": False}], ids=["32 bits", "64 bits", "not counted"])
@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_deleted_rows_are_not_read(files: TableFiles, format_: str, how: dict[str, bool]) -> None:
    schema = table(files, **{"file.format": format_})
    snapshot = some_deleted(files, schema, **how)
    left = [*LEFT, ROWS, ROWS + 1, ROWS + 2]
    assert ids(files, schema, snapshot) == left
    plan = plan_scan(files, schema, snapshot)
    count = Aggregate(Function.COUNT)
    assert exact_aggregates(files, schema, plan, [count]) == [len(left)]
    assert exact_aggregates(files, schema, plan, [count, Aggregate(Function.MIN, "id")]) is None, "the smallest may be deleted"
    limit = len(LEFT) + 2
    assert ids(files, schema, snapshot, Selection(columns=["id"], limit=limit)) == left[:limit]
    added = replace(schema, id=1, fields=(*schema.fields, column("new", "INT")), highest_field_id=2)
    files.write_schema(added)
    batches = list(read_batches(files, added, plan.files, Selection(columns=["new"])))
    assert sum(batch.num_rows for batch in batches) == len(left), "no file is opened for a column that none of them has"
    found = plan_scan(files, schema, snapshot, Compare("id", Op.EQ, ROWS + 1))
    assert [one.vector for one in found.files] == [None]


def test_files_of_very_many_are_planned_with_their_vectors(files: TableFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("table.format.manifests.columns._MANY_ENTRIES", 2)
    monkeypatch.setattr("table.scan.planning.column_scan._AT_ONCE", 1)
    schema = table(files)
    snapshot = some_deleted(files, schema)
    plan = plan_scan(files, schema, snapshot)
    assert plan.files[0].vector is not None
    assert list(plan.files) == list(plan_entries(files, schema, snapshot, files.live_entries(snapshot)).files)
    assert exact_aggregates(files, schema, plan, [Aggregate(Function.COUNT)]) == [len(LEFT) + 3]


def test_batches_without_columns_lose_rows_too() -> None:
    rows = pa.RecordBatch.from_arrays([pa.nulls(4)], ["x"]).select([])
    assert [batch.num_rows for batch in alive([rows, rows], pa.array([1, 2, 7]).to_numpy())] == [2, 3]


@pytest.mark.parametrize("harm", ["torn", "flipped", "of another file", "gone"])
def test_a_vector_that_is_not_what_was_written_is_damage(files: TableFiles, harm: str) -> None:
    schema = table(files)
    snapshot = insert(files, schema, None, list(range(10)))
    name = next(files.live_entries(snapshot)).file.file_name
    snapshot = with_deleted(files, snapshot, {name: [3, 20] if harm == "of another file" else [3]})
    (index,) = (Path(path) for path, _ in metadata_of(files, snapshot) if "/index/" in path)
    data = bytearray(index.read_bytes())
    if harm == "flipped":
        data[-6] ^= 1
    if harm == "gone":
        index.unlink()
    else:
        index.write_bytes(data[:-3] if harm == "torn" else data)
    with pytest.raises(TableDamaged, match=index.name) if harm != "gone" else pytest.raises(Exception, match=index.name):
        ids(files, schema, snapshot)


def test_an_append_leaves_vectors_as_they_are(files: TableFiles) -> None:
    schema = table(files, **{"deletion-vectors.enabled": "true"})
    before = some_deleted(files, schema)
    after = insert(files, schema, before, [-1])
    assert after.index_manifest == before.index_manifest
    assert ids(files, schema, after) == [*LEFT, ROWS, ROWS + 1, ROWS + 2, -1]


@pytest.mark.parametrize("bucket", ["-1", "1"])
def test_a_merge_writes_the_rows_that_are_left(files: TableFiles, bucket: str) -> None:
    schema = table(files, bucket=bucket, **({} if bucket == "-1" else {"bucket-key": "id"}))
    before = some_deleted(files, schema)
    inputs = tuple(entries(files, schema, before))
    task = CompactionTask(partition=inputs[0].partition, bucket=inputs[0].bucket, inputs=inputs)
    request = CommitRequest(kind=CommitKind.COMPACT, adds=tuple(rewrite(files, schema, task)), deletes=inputs, commit_user="c")

    def commit(on: Snapshot, **changed: Any) -> Snapshot:
        return build_snapshot(files, schema, on, [replace(request, **changed)], uuid="c", time_millis=6)

    merged = commit(before)
    assert merged.index_manifest is None
    assert ids(files, schema, merged) == [*LEFT, ROWS, ROWS + 1, ROWS + 2]
    first, second = (entry.file.file_name for entry in inputs)
    later = with_deleted(files, before, {first: GONE, second: [1]})
    with pytest.raises(RewriteConflict, match="were deleted, or brought back, while"):
        commit(later)
    with pytest.raises(RewriteConflict, match="were deleted, or brought back, while"):
        commit(before, deletes=tuple(files.live_entries(before)))
    undone = replace(before, index_manifest=None)  # as a rollback to before the table's first deleted row leaves it
    with pytest.raises(RewriteConflict, match="were deleted, or brought back, while"):
        commit(undone)


def test_what_leaves_the_table_takes_its_vectors_along(files: TableFiles) -> None:
    schema = table(files)
    snapshot = insert(files, schema, insert(files, schema, None, [1, 2, 3]), [4, 5, 6])
    names = [entry.file.file_name for entry in files.live_entries(snapshot)]
    snapshot = with_deleted(files, snapshot, {names[0]: [0], names[1]: [1]})
    one = entries(files, schema, snapshot)[0]
    left = insert(files, schema, snapshot, [7], kind=CommitKind.OVERWRITE, deletes=(one,))
    assert left.index_manifest not in (None, snapshot.index_manifest)
    assert ids(files, schema, left) == [4, 6, 7]
    assert files.layout.manifest(left.index_manifest or "") in metadata_written(files, schema, snapshot, left), (
        "it is synced before the decision"
    )
    (record,) = files.index_manifest(left.index_manifest or "")
    assert ([r["f0"] for r in record["_DELETIONS_VECTORS_RANGES"]], record["_ROW_COUNT"], record["_VERSION"]) == ([names[1]], 1, 1)
    indexed = replace(one.file, embedded_file_index=b"x")
    made = (NewFile(partition=one.partition, bucket=one.bucket, file=indexed),)
    again = insert(files, schema, snapshot, [], kind=CommitKind.COMPACT, adds=made, deletes=(one,))
    assert sorted(ids(files, schema, again)) == [2, 3, 4, 6], "a file that only got another index keeps its vector"
    assert insert(files, schema, snapshot, [], kind=CommitKind.OVERWRITE, overwrite=everything).index_manifest is None


def queue_of_three(files: TableFiles, *, wide: bool = False) -> tuple[Schema, Snapshot, dict[str, list[int]]]:
    """A bucket of three files with one index file, and what is deleted of each."""
    schema = table(files, bucket="1", **{"bucket-key": "id"})
    snapshot = insert(files, schema, insert(files, schema, insert(files, schema, None, [1, 2, 3]), [4, 5, 6]), [7, 8, 9])
    names = [entry.file.file_name for entry in files.live_entries(snapshot)]
    deleted = dict(zip(names, ([0], [1, 2], [1]), strict=True))
    return schema, with_deleted(files, snapshot, deleted, wide=wide), deleted


@pytest.mark.parametrize("wide", [False, True], ids=["32 bits", "64 bits"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_vectors_left_in_a_bucket_are_read_one_after_another(files: TableFiles, wide: bool, place: int) -> None:
    """As Paimon's writers read all of a bucket before 2.0."""
    schema, before, deleted = queue_of_three(files, wide=wide)
    one = entries(files, schema, before)[place]
    after = insert(files, schema, before, [], kind=CommitKind.OVERWRITE, deletes=(one,))
    (record,) = files.index_manifest(after.index_manifest or "")
    (index,) = (path for path, _ in metadata_of(files, after) if "/index/" in path)
    data = files.io.read(index)
    assert len(data) == record["_FILE_SIZE"]
    del deleted[one.file.file_name]
    assert read_in_turn(data, record["_DELETIONS_VECTORS_RANGES"]) == deleted
    assert ids(files, schema, after) == [n for at, left in enumerate(([2, 3], [4], [7, 9])) if at != place for n in left]
    assert ids(files, schema, before) == [2, 3, 4, 7, 9]
    synced = metadata_written(files, schema, before, after)
    assert (index in synced) is (place < 2), "what was read so before stays where it is"


def test_a_rewrite_goes_on_beside_another_that_moved_its_vectors(files: TableFiles) -> None:
    schema, before, _ = queue_of_three(files)
    first, second, third = entries(files, schema, before)
    after = insert(files, schema, before, [], kind=CommitKind.OVERWRITE, deletes=(first,))
    assert insert(files, schema, after, [], kind=CommitKind.OVERWRITE, deletes=(second, third)).index_manifest is None
    changed = with_deleted(files, after, {second.file.file_name: [0, 2], third.file.file_name: [1]})
    with pytest.raises(RewriteConflict, match="were deleted, or brought back, while"):
        insert(files, schema, changed, [], kind=CommitKind.OVERWRITE, deletes=(second, third))


def test_rows_of_new_files_get_ids(files: TableFiles) -> None:
    """As Paimon's commit gives them: one after the other, and the number of the snapshot as their sequence."""
    schema = table(files, **{"row-tracking.enabled": "true"})
    first = insert(files, schema, None, [1, 2, 3])
    second = insert(files, schema, first, [4, 5], [6])
    assert (first.next_row_id, second.next_row_id) == (3, 6)
    found = [(e.file.first_row_id, e.file.min_sequence_number, e.file.max_sequence_number) for e in files.live_entries(second)]
    assert found == [(0, 1, 1), (3, 2, 2), (5, 2, 2)]
    third = insert(files, schema, second, [], kind=CommitKind.OVERWRITE, deletes=tuple(files.live_entries(second))[:1])
    assert third.next_row_id == 6
    new = written(files, schema, [7])[0]
    merged = replace(new, file=replace(new.file, file_source=FileSource.COMPACT))
    rewritten = replace(new, file=replace(new.file, file_name="x", write_cols=("id", "s", "_ROW_ID"), min_sequence_number=2))
    fourth = insert(files, schema, third, [], adds=(merged, replace(rewritten, file=replace(rewritten.file, max_sequence_number=0))))
    told = [(e.file.first_row_id, e.file.min_sequence_number, e.file.max_sequence_number) for e in files.delta_entries(fourth)]
    assert (told, fourth.next_row_id) == ([(None, 4, 4), (None, 2, 4)], 6)


def test_files_of_rows_with_ids_are_not_merged_before_the_commit(files: TableFiles) -> None:
    small = {"precommit-compact": "true"}
    schema = table(files, **{"row-tracking.enabled": "true"}, **small)
    made = [*written(files, schema, [1]), *written(files, schema, [2])]
    assert merged_before_commit(files, schema, made) == made
    assert len(merged_before_commit(files, table(files, **small), made)) == 1
