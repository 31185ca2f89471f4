"""Where streams begin and end (`paimon-append.md` §8.1 and 8.2), on a real catalog."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import CatalogStore
from lake import Lake, LakeTable
from model.errors import InvalidOption, LakeError, SnapshotNotExist
from model.schema import column, new_schema
from model.snapshot import CommitKind, Snapshot
from table.commit import CommitRequest, everything
from table.stream import Cursor
from table.stream_start import Past, start_of
from tests.lake.test_commit import T, append


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    lake.create_table(T, new_schema([column("id", "BIGINT")], options={"bucket": "1", "bucket-key": "id"}))
    return lake.open(T)


SHAPE = Snapshot(
    id=0, uuid=None, schema_id=0, base_manifest_list="b", base_manifest_list_size=1, delta_manifest_list="d", delta_manifest_list_size=1,
    commit_user="u", commit_identifier=1, commit_kind=CommitKind.APPEND, time_millis=0, total_record_count=0, delta_record_count=0,
)  # fmt: skip


def past(*kinds: CommitKind, first: int = 3) -> Past:
    """Snapshots from an id on, each 10 ms after the one before, snapshot n at 10 n."""
    return Past(table="d.t", snapshots=[replace(SHAPE, id=n, commit_kind=kind, time_millis=10 * n) for n, kind in enumerate(kinds, first)])


A, C = CommitKind.APPEND, CommitKind.COMPACT
HISTORY = past(A, A, C, A)  # 3, 4, 5, 6


@pytest.mark.parametrize(
    ("options", "cursor"),
    [
        ({}, Cursor(next_snapshot_id=6, whole=True)),
        ({"scan.mode": "full"}, Cursor(next_snapshot_id=6, whole=True)),
        ({"scan.mode": "latest"}, Cursor(next_snapshot_id=7)),
        ({"scan.mode": "compacted-full"}, Cursor(next_snapshot_id=5, whole=True)),
        ({"scan.timestamp-millis": "35"}, Cursor(next_snapshot_id=4)),
        ({"scan.timestamp-millis": "40"}, Cursor(next_snapshot_id=4)),
        ({"scan.timestamp-millis": "1"}, Cursor(next_snapshot_id=3)),
        ({"scan.timestamp-millis": "99"}, Cursor(next_snapshot_id=7)),
        ({"scan.mode": "from-timestamp", "scan.timestamp": "1970-01-01 00:00:00.045"}, Cursor(next_snapshot_id=5)),
        ({"scan.snapshot-id": "4"}, Cursor(next_snapshot_id=4)),
        ({"scan.snapshot-id": "1"}, Cursor(next_snapshot_id=3)),
        ({"scan.snapshot-id": "9"}, Cursor(next_snapshot_id=9)),
        ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "4"}, Cursor(next_snapshot_id=4, whole=True)),
        ({"scan.file-creation-time-millis": "44"}, Cursor(next_snapshot_id=6, whole=True, created_since=44)),
        ({"scan.creation-time-millis": "44"}, Cursor(next_snapshot_id=5)),
        ({"scan.creation-time-millis": "5"}, Cursor(next_snapshot_id=6, whole=True, created_since=5)),
    ],
)
def test_where_each_mode_begins(options: dict[str, str], cursor: Cursor) -> None:
    assert start_of(HISTORY, options) == cursor


@pytest.mark.parametrize("mode", ["latest-full", "latest", "compacted-full", "default"])
def test_a_table_without_snapshots_is_read_from_its_first(mode: str) -> None:
    assert start_of(past(), {"scan.mode": mode}) == Cursor(next_snapshot_id=1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scan.mode": "from-snapshot"}, "needs the option"),
        ({"scan.mode": "from-timestamp"}, "needs the option"),
        ({"scan.mode": "latest", "scan.snapshot-id": "4"}, "does not go with"),
        ({"scan.mode": "from-timestamp", "scan.snapshot-id": "4"}, "does not go with"),
        ({"scan.snapshot-id": "4", "scan.timestamp-millis": "4"}, "two starting points"),
        ({"scan.mode": "latest-delta"}, "belongs to batch reads"),
        ({"scan.mode": "incremental", "incremental-between": "1,2"}, "belongs to batch reads"),
        ({"scan.tag-name": "x"}, "belongs to batch reads"),
        ({"scan.watermark": "1"}, "belongs to batch reads"),
        ({"scan.version": "1"}, "belongs to batch reads"),
        ({"scan.mode": "sometimes"}, "one of"),
    ],
)
def test_starts_that_contradict_themselves(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        start_of(HISTORY, options)


@given(st.lists(st.sampled_from([A, C]), max_size=8), st.integers(1, 5), st.integers(-10, 150))
def test_a_stream_by_time_misses_nothing_that_is_later(kinds: list[CommitKind], first: int, millis: int) -> None:
    history = past(*kinds, first=first)
    start = start_of(history, {"scan.timestamp-millis": str(millis)}).next_snapshot_id
    assert all((s.id >= start) == (s.time_millis >= millis) for s in history.snapshots)


def test_steps_follow_the_snapshots_and_end_at_the_watermark(lake: Lake, table: LakeTable) -> None:
    for number, watermark in enumerate((None, 100, 200, 300)):
        lake.commit(table, append(f"f{number}", watermark=watermark))
    lake.commit(table, CommitRequest(kind=CommitKind.OVERWRITE, overwrite=everything, commit_user="u"))
    stream = lake.follow(table, {"scan.snapshot-id": "1", "scan.bounded.watermark": "200"})
    steps = list(stream.steps())
    assert [[one.file.file_name for one in step.planned] for step in steps if step] == [["f0"], ["f1"], ["f2"]]
    whole = lake.follow(table, {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "4", "scan.bounded.watermark": "200"})
    (start,) = [step for step in whole.steps() if step]
    assert [one.file.file_name for one in start.planned] == ["f0", "f1", "f2", "f3"], "where it starts, all is read, as Paimon does"
    beyond = lake.follow(table, {"scan.mode": "from-snapshot", "scan.snapshot-id": "5", "scan.bounded.watermark": "200"})
    assert list(beyond.steps()) == []
    assert lake.catalog.notices.waiters == 0


def test_a_consumer_whose_next_snapshot_expired_is_told_what_is_there(
    lake: Lake,
    table: LakeTable,
    catalog: CatalogStore,
    dsn: str,
) -> None:
    import psycopg

    for number in range(4):
        lake.commit(table, append(f"f{number}"))
    lake.reset_consumer(table, "late", 1)
    running = lake.follow(table, {"scan.snapshot-id": "1"}).steps()
    with psycopg.connect(dsn, autocommit=True) as conn:  # what an expiry does to the catalog
        conn.execute("DELETE FROM table_snapshot WHERE snapshot_id < 3")
    with pytest.raises(SnapshotNotExist, match="which has expired; the snapshots 3 to 4 are there"):
        lake.follow(table, {"consumer-id": "late"})
    with pytest.raises(SnapshotNotExist, match="would go on at snapshot 1, which has expired"):
        next(running)
    with pytest.raises(LakeError, match="name"):
        lake.follow(table, {"consumer-id": "../x"})


def test_progress_that_a_crash_left_out_of_the_file_counts(lake: Lake, table: LakeTable, catalog: CatalogStore) -> None:
    from lake.consumers import ConsumerProgress

    progress, stored = ConsumerProgress.take(catalog, table, "c")
    assert stored is None
    progress.tell(table, 5)
    path = table.files.layout.consumer_file("c")
    before = table.files.io.read(path)
    progress.tell(table, 6)
    with catalog.reading() as tx:  # decided, but neither filed nor noted
        tx.consumers.advance(table.table_id, "main", "c", owner=progress._owner, next_snapshot=7)
    assert ConsumerProgress.take(catalog, table, "c")[1] == 7
    table.files.io.write(path, before)  # somebody else went back
    assert ConsumerProgress.take(catalog, table, "c")[1] == 5
    table.files.io.delete(path)
    assert ConsumerProgress.take(catalog, table, "c")[1] is None
