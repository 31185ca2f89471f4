"""What is worth merging: Paimon's rules, and laws that hold for any files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.schema.schema import column, new_schema
from table.compaction.candidates import CompactionRules, CompactionTask, choose, ordered_full, ordered_minor, unordered_bins
from table.format.manifests.entries import EMPTY_ROW, DataFile, DeletionVector, EntryKind, ManifestEntry, SimpleStats

MB = 1 << 20


def rules(**options: str) -> CompactionRules:
    given_ = {"target-file-size": "10 mb"} | {key.replace("_", "."): value for key, value in options.items()}
    return CompactionRules.of(new_schema([column("id", "INT")], options={"bucket": "-1"} | given_))


def entries(sizes: Sequence[float], *, total_buckets: int = 1, rows: int = 10) -> list[ManifestEntry]:
    made = []
    for at, size in enumerate(sizes):
        file = DataFile(
            file_name=f"f{at}", file_size=int(size * MB), row_count=rows, value_stats=SimpleStats(), value_stats_cols=(),
            min_sequence_number=at * rows, max_sequence_number=at * rows + rows - 1, schema_id=0, creation_time_millis=0,
        )  # fmt: skip
        made.append(ManifestEntry(kind=EntryKind.ADD, partition=EMPTY_ROW, bucket=0, total_buckets=total_buckets, file=file))
    return made


def names(tasks: Sequence[CompactionTask]) -> list[list[int]]:
    return [[int(entry.file.file_name[1:]) for entry in task.inputs] for task in tasks]


def test_few_tiny_files_are_left_alone() -> None:
    assert names(list(ordered_minor(entries([0.01] * 49), rules()))) == []


def test_fifty_files_of_any_size_are_merged() -> None:
    assert names(list(ordered_minor(entries([0.01] * 50), rules()))) == [list(range(50))]


def test_a_bucket_that_fell_behind_is_caught_up_with_at_once() -> None:
    assert names(list(ordered_minor(entries([0.01] * 500), rules()))) == [list(range(500))]
    assert names(list(ordered_minor(entries([0.1] * 150), rules()))) == [list(range(100)), list(range(100, 150))]  # by the target size
    assert names(list(ordered_minor(entries([*[0.01] * 60, 12, 0.01]), rules()))) == [list(range(60))]


def test_five_neighbours_that_reach_the_target_are_merged() -> None:
    assert names(list(ordered_minor(entries([2.5] * 5), rules()))) == [[0, 1, 2, 3, 4]]
    assert names(list(ordered_minor(entries([2.5] * 4), rules()))) == []


def test_large_files_are_passed_over() -> None:
    assert names(list(ordered_minor(entries([12] * 30), rules()))) == []
    assert names(list(ordered_minor(entries([12, 12, *[0.01] * 50]), rules()))) == [list(range(2, 52))]


def test_what_was_merged_is_not_rewritten_for_every_crumb() -> None:
    assert names(list(ordered_minor(entries([5, *[0.01] * 49]), rules()))) == [list(range(1, 50))]


def test_both_knobs_work() -> None:
    assert names(list(ordered_minor(entries([0.01] * 8), rules(**{"compaction.max.file-num": "4"})))) == [list(range(8))]
    assert names(list(ordered_minor(entries([5, 5]), rules(**{"compaction.min.file-num": "2"})))) == [[0, 1]]
    assert names(list(ordered_minor(entries([6, 6, 6, 6, 6, 1]), rules()))) == []


def test_full_takes_all_behind_the_large_ones() -> None:
    assert names(list(ordered_full(entries([9, 1, 1, 9, 1]), rules()))) == [[1, 2, 3, 4]]
    assert names(list(ordered_full(entries([1, 1]), rules()))) == []
    assert names(list(ordered_full(entries([1, 9, 9, 9]), rules()))) == []


def test_files_that_share_numbers_are_taken_along() -> None:
    tied = [entries([0.01])[0] for _ in range(3)]
    (task,) = ordered_minor([*tied, *entries([0.01, 12])[1:]], rules(**{"compaction.max.file-num": "2"}))
    assert [e.file.file_name for e in task.inputs] == ["f0"] * 3


def test_bins_are_paimons() -> None:
    few = rules(**{"source.split.open-file-cost": "4 mb"})
    assert names(list(unordered_bins(entries([1] * 4), few))) == [[0, 1, 2, 3]]  # 4 × (1 + 4) reaches 2 × 10
    light = rules(**{"source.split.open-file-cost": "0 mb"})
    assert names(list(unordered_bins(entries([1] * 4), light))) == []
    assert names(list(unordered_bins(entries([1] * 4), light, all_of_them=True))) == [[0, 1, 2, 3]]
    assert names(list(unordered_bins(entries([1] * 5), light))) == [[0, 1, 2, 3, 4]]
    assert names(list(unordered_bins(entries([8, 1, 12, 1, 1, 1, 1]), light))) == [[1, 3, 4, 5, 6]]


@pytest.mark.parametrize("total", [1, -1])
def test_a_partition_of_another_bucket_number_is_left_alone(total: int) -> None:
    schema = new_schema([column("id", "INT")], options={"bucket": "4", "bucket-key": "id", "target-file-size": "10 mb"})
    assert choose(schema, entries([1] * 60, total_buckets=total), CompactionRules.of(schema), full=True) == []


@given(st.lists(st.floats(0.001, 20), max_size=120), st.booleans(), st.sampled_from([None, 4 * MB]))
def test_runs_are_neighbours_taken_once(sizes: list[float], full: bool, limit: int | None) -> None:
    schema = new_schema([column("id", "INT")], options={"bucket": "1", "bucket-key": "id", "target-file-size": "10 mb"})
    found = names(choose(schema, entries(sizes), CompactionRules.of(schema, task_bytes=limit), full=full))
    flat = [at for run in found for at in run]
    assert flat == sorted(set(flat))
    assert all(run == list(range(run[0], run[0] + len(run))) and len(run) > 1 for run in found)


@given(st.lists(st.floats(0.001, 20), max_size=200))
def test_at_most_so_many_small_files_are_left(sizes: list[float]) -> None:
    """However files come, merging until nothing is worth it leaves fewer than 50 files beside the large ones."""
    limit = rules()
    left = entries(sizes)
    for _ in range(50):
        tasks = list(ordered_minor(left, limit))
        if not tasks:
            break
        for task in tasks:
            at = left.index(task.inputs[0])
            total = task.input_bytes / MB
            merged = entries([min(10.0, total - 10 * n) for n in range(max(1, -(-int(total) // 10)))])
            left[at : at + len(task.inputs)] = merged
        left = entries([entry.file.file_size / MB for entry in left])
    run = 0
    for entry in left:
        run = run + 1 if entry.file.file_size < 0.4 * limit.target_bytes else 0
        assert run < limit.max_files


@pytest.mark.parametrize("bucket", ["1", "-1"])
def test_a_full_compaction_leaves_no_file_whose_rows_are_deleted(bucket: str) -> None:
    """However large or alone: DELETE and sys.erase are refused where vectors are, and this is the way out."""
    options = {"bucket": bucket, "target-file-size": "10 mb"} | ({"bucket-key": "id"} if bucket == "1" else {})
    schema = new_schema([column("id", "INT")], options=options)
    vector = DeletionVector(path="v", offset=1, length=9, cardinality=1)
    files = entries([20, 0.5, 20, 20], total_buckets=int(bucket))
    marked = [replace(entry, vector=vector) if at in (0, 3) else entry for at, entry in enumerate(files)]
    for full in (True, False):
        assert names(choose(schema, files, CompactionRules.of(schema), full=full)) == []
        assert names(choose(schema, marked, CompactionRules.of(schema), full=full)) == ([[0], [3]] if full else [])
    if bucket == "1":  # those that share numbers are written anew together
        tied = [*marked[:3], replace(marked[3], file=replace(marked[3].file, min_sequence_number=20))]
        assert names(choose(schema, tied, CompactionRules.of(schema), full=True)) == [[0], [2, 3]]
    lone = [replace(entries([0.1], total_buckets=int(bucket))[0], vector=vector)]
    assert names(choose(schema, lone, CompactionRules.of(schema), full=True)) == [[0]]


@pytest.mark.parametrize("bucket", ["1", "-1"])
def test_a_file_with_many_deleted_rows_is_rewritten_whatever_its_size(bucket: str) -> None:
    """As `AppendCompactCoordinator.tooHighDeleteRatio`: of ten rows more than the share; a vector that does not tell how many counts."""
    options = {"bucket": bucket, "target-file-size": "10 mb"} | ({"bucket-key": "id"} if bucket == "1" else {})
    deleted = (3, 2, None, 4)
    files = [
        replace(entry, vector=DeletionVector(path="v", offset=1, length=9, cardinality=rows))
        for entry, rows in zip(entries([20, 20, 20, 0.5], total_buckets=int(bucket)), deleted, strict=True)
    ]
    for share, chosen in ((None, [[0], [2], [3]]), ("0.1", [[0], [1], [2], [3]]), ("0.35", [[2], [3]]), ("1", [[2]])):
        given_ = options if share is None else {**options, "compaction.delete-ratio-threshold": share}
        schema = new_schema([column("id", "INT")], options=given_)
        assert names(choose(schema, files, CompactionRules.of(schema), full=False)) == chosen
