"""What incremental clustering picks: Paimon's universal compaction over levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InvalidOption
from model.schema.schema import Schema, column, new_schema
from model.schema.types import ArrayType, IntType
from table.compaction.clustering import Clustering, choose_clusters, history_clusters
from table.compaction.task import CompactionTask
from table.format.manifests.entries import ManifestEntry
from table.format.rows import binary_row
from tests.table.compaction.test_candidates import entries

OPTIONS = {"bucket": "-1", "clustering.incremental": "true", "clustering.columns": "a,b"}


def schema_of(**options: str) -> Schema:
    given = OPTIONS | options
    return new_schema(
        [column("a", "INT"), column("b", "STRING"), replace(column("c", "INT"), type=ArrayType(element=IntType()))], options=given
    )


def rules_of(**options: str) -> Clustering:
    found = Clustering.of(schema_of(**options))
    assert found is not None
    return found


def at(level: int, size: int, n: int, partition: bytes = b"", created: int = 0) -> ManifestEntry:
    (made,) = entries([1], total_buckets=-1)
    file = replace(made.file, file_size=size, level=level, file_name=f"data-{level}-{n}.parquet", creation_time_millis=created)
    return replace(made, file=file, partition=partition or made.partition)


def picked(files: Sequence[ManifestEntry], *, full: bool = False) -> tuple[list[tuple[int, int]], int] | None:
    """Level and number of the files taken, and the level they go to."""
    tasks: list[CompactionTask] = list(choose_clusters(rules_of(), files, full=full, columns_at=lambda schema_id: ("a", "b")))
    if not tasks:
        return None
    (task,) = tasks
    assert task.level is not None
    return [(e.file.level, e.file.file_size) for e in task.inputs], task.level


@pytest.mark.parametrize(
    ("files", "taken"),
    [
        ([(0, 10)] * 4, None),  # fewer runs than the trigger
        ([(0, 10)] * 5, 5),  # the young ones weigh more than twice the oldest: everything, to the top
    ],
)
def test_unsorted_files_wait_for_enough_runs(files: list[tuple[int, int]], taken: int | None) -> None:
    found = picked([at(level, size, n) for n, (level, size) in enumerate(files)])
    assert (found and (len(found[0]), found[1])) == (taken and (taken, 5))


def test_what_was_sorted_long_ago_stays() -> None:
    """Five small files before a large top run go together, just below it."""
    files = [at(0, 10, n) for n in range(5)] + [at(5, 1000, 9)]
    assert picked(files) == ([(0, 10)] * 5, 4)
    assert picked([at(0, 10, n) for n in range(4)] + [at(4, 50, 8), at(5, 10000, 9)]) == ([(0, 10)] * 4, 3)


def test_nothing_is_put_out_at_level_zero() -> None:
    files = [at(0, size, n) for n, size in enumerate((1, 1, 1, 100, 100))] + [at(1, 5000, 8), at(5, 10**6, 9)]
    found = picked(files)
    assert found is not None
    assert found[1] >= 1


def test_full_takes_all_until_it_is_one_run_of_these_columns() -> None:
    files = [at(0, 10, 1), at(3, 10, 2), at(5, 10, 3)]
    assert picked(files, full=True) == ([(0, 10), (3, 10), (5, 10)], 5)
    top = [at(5, 10, n) for n in range(3)]
    assert picked(top, full=True) is None
    (again,) = choose_clusters(rules_of(), top, full=True, columns_at=lambda schema_id: ("b",))
    assert (len(again.inputs), again.level) == (3, 5)


def test_each_bucket_is_sorted_by_itself() -> None:
    """Those of another number of buckets than the table's are left out."""
    rules = rules_of(**{"bucket": "2", "bucket-key": "a", "bucket-append-ordered": "false"})
    files = [replace(at(0, 10, n), bucket=n % 3, total_buckets=3 if n % 3 == 2 else 2) for n in range(12)]
    assert [({e.bucket for e in task.inputs}, task.bucket, len(task.inputs)) for task in choose_clusters(rules, files, full=True)] == [
        ({0}, 0, 4),
        ({1}, 1, 4),
    ]
    old = replace(rules, history_idle=timedelta(seconds=1))
    assert [task.bucket for task in history_clusters(old, files, set(), now_millis=10**9)] == [0, 1]


def test_what_buckets_may_have() -> None:
    """As Paimon: sorting needs that order is given up; the columns alone do not, which without it have no effect there."""
    assert rules_of(**{"bucket": "2", "bucket-key": "a", "bucket-append-ordered": "false"}).buckets == 2
    assert schema_of(**{"bucket": "2", "bucket-key": "a", "clustering.incremental": "false"}).bucket == 2


def test_old_partitions_are_sorted_as_a_whole() -> None:
    rules = rules_of(**{"clustering.history-partition.idle-to-full-sort": "1 s", "clustering.history-partition.limit": "2"})
    files = [at(0, 10, n, partition=bytes([n]), created=n * 100) for n in range(1, 6)] + [at(5, 10, 9, partition=b"\x09")]
    tasks = list(history_clusters(rules, files, {b"\x01"}, now_millis=1450))
    assert [task.partition for task in tasks] == [b"\x02", b"\x03"]
    assert [task.level for task in tasks] == [5, 5]
    assert not list(history_clusters(rules_of(), files, set(), now_millis=10**9))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 10**6)), max_size=30))
def test_any_pick_keeps_the_order_of_levels(files: list[tuple[int, int]]) -> None:
    """What is taken is the youngest, a level above 0 is taken whole, and no older data lies below the outputs."""
    live = [at(level, size, n) for n, (level, size) in enumerate(files)]
    for task in choose_clusters(rules_of(), live, full=False):
        assert task.level is not None
        assert 1 <= task.level <= 5
        taken = {e.file.file_name for e in task.inputs}
        rest = [e.file.level for e in live if e.file.file_name not in taken]
        deepest = max(e.file.level for e in task.inputs)
        assert all(level >= deepest for level in rest)
        assert all(level > task.level for level in rest)


def test_what_cannot_be_clustered_is_refused() -> None:
    for options, words in (
        ({"clustering.columns": ""}, "needs 'clustering.columns'"),
        ({"clustering.columns": "x"}, "no column x"),
        ({"clustering.columns": "c"}, "cannot be sorted"),
        ({"bucket": "2", "bucket-key": "a"}, "'bucket-append-ordered' = 'false' gives it up"),
    ):
        with pytest.raises(InvalidOption, match=words):
            schema_of(**options)


@pytest.mark.parametrize("spelled", ["TIMESTAMP(6)", "TIMESTAMP_LTZ(5)", "DECIMAL(20, 2)"])
def test_a_partition_that_clients_write_in_two_ways_is_one_place(spelled: str) -> None:
    """pypaimon leaves out the slot of a NULL that is long."""
    schema = new_schema([column("a", "INT"), column("b", "STRING"), column("p", spelled)], options=OPTIONS, partition_keys=["p"])
    rules = Clustering.of(schema)
    assert rules is not None
    ours = binary_row.encode_prefixed([schema.partition_fields[0].type], [None])
    theirs = ours[: 4 + 8 + 8]
    assert ours != theirs
    files = [at(0, 10, n, theirs if n % 2 else ours) for n in range(6)]
    for order in (files, files[::-1]):
        (task,) = choose_clusters(rules, order, full=True)
        assert (task.partition, len(task.inputs)) == (ours, 6)
        old = replace(rules, history_idle=timedelta(hours=1))
        assert not list(history_clusters(old, order, {theirs}, now_millis=10**9))
        assert len(list(history_clusters(old, order, set(), now_millis=10**9))) == 1
