"""What batch reads of the past cover (`paimon-append.md` §8.1 batch column, and 8.3), on a real catalog."""

from __future__ import annotations

import time

import pytest

from lake import Lake, LakeTable
from model.errors import InvalidOption, LakeError, SnapshotNotExist
from model.options.table import check_hint
from model.schema.schema import column, new_schema
from model.snapshot import CommitKind
from table.format.io.file_io import LocalFileIO
from table.scan.time_travel import plan_batch
from table.write.snapshot_builder import CommitRequest, everything
from tests.lake.conftest import flush_made
from tests.lake.test_commit import T, append

HOUR = 3_600_000
OPTIONS = {"bucket": "1", "bucket-key": "id", "tag.automatic-creation": "process-time", "tag.creation-period": "daily"}


def make(lake: Lake) -> LakeTable:
    """Snapshots: 1 +a, 2 +b, 3 compacts a and b into c, 4 +d, 5 overwrites all with e, 6 +f."""
    lake.create_table(T, new_schema([column("id", "BIGINT")], options=OPTIONS))
    table = lake.open(T)
    lake.commit(table, append("a"))
    lake.commit(table, append("b"))
    lake.tags.create(table, "old", snapshot_id=1)
    old = tuple(table.files.live_entries(table.latest()))
    lake.commit(table, CommitRequest(kind=CommitKind.COMPACT, adds=append("c", rows=2).adds, deletes=old, commit_user="u"))
    lake.commit(table, append("d"))
    lake.commit(table, CommitRequest(kind=CommitKind.OVERWRITE, adds=append("e").adds, overwrite=everything, commit_user="u"))
    lake.commit(table, append("f"))
    for name, snapshot in (("new", 6), ("2026-01-01", 2), ("2026-01-02", 4), ("2026-01-04", 6)):
        lake.tags.create(table, name, snapshot_id=snapshot)
    return table


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    return make(lake)


@pytest.fixture(scope="module")
def shared(module_lake: Lake) -> LakeTable:
    """For those that only read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalFileIO, "sync", flush_made)  # as for each test of this package: its files are named and not there
        return make(module_lake)


def times(lake: Lake, table: LakeTable) -> dict[str, str]:
    """``{t3}`` for the time of snapshot 3."""
    return {f"t{s.id}": str(s.time_millis) for s in lake.history.page(table, below=None, limit=9)}


@pytest.mark.parametrize(
    ("options", "files"),
    [
        ({}, "e f"),
        ({"scan.mode": "latest"}, "e f"),
        ({"scan.mode": "latest-delta"}, "f"),
        ({"scan.mode": "compacted-full"}, "c"),
        ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "2"}, "a b"),
        ({"scan.file-creation-time-millis": "1"}, "e f"),
        ({"scan.file-creation-time-millis": "2"}, ""),
        ({"scan.creation-time-millis": "9999999999999"}, ""),
        ({"scan.creation-time-millis": "1"}, "e f"),
        ({"incremental-between": "0,2"}, "a b"),
        ({"incremental-between": "1,4"}, "b d"),
        ({"incremental-between": "3,6"}, "d f"),
        ({"incremental-between": "2,2"}, ""),
        ({"incremental-between": "1,6", "incremental-between-scan-mode": "diff"}, "e f"),
        ({"incremental-between": "old,new"}, "e f"),
        ({"incremental-between": "old,new", "incremental-between-tag-to-snapshot": "true"}, "b d f"),
        ({"incremental-between-timestamp": "{t1},{t1}"}, ""),
        ({"incremental-between-timestamp": "0,{t6}"}, "a b d f"),
        ({"incremental-between-timestamp": "1970-01-01,2999-01-01"}, "a b d f"),
        ({"incremental-between-timestamp": "1,2"}, ""),
        ({"incremental-to-auto-tag": "2026-01-02"}, "c d"),
        ({"incremental-to-auto-tag": "2026-01-04"}, "e f"),
        ({"incremental-to-auto-tag": "2026-01-01"}, ""),
        ({"incremental-to-auto-tag": "2026-01-03"}, ""),
    ],
)
def test_what_each_option_covers(module_lake: Lake, shared: LakeTable, options: dict[str, str], files: str) -> None:
    given = {key: value.format(**times(module_lake, shared)) for key, value in options.items()}
    check_hint(given)
    plan = plan_batch(shared.files, shared.schema, module_lake.scan(shared, given))
    assert [one.file.file_name for one in plan.files] == files.split()


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"scan.mode": "incremental"}, InvalidOption, "needs the option"),
        ({"incremental-between": "1"}, InvalidOption, "two values"),
        ({"incremental-between": "4,1"}, InvalidOption, "earlier one comes first"),
        ({"incremental-between": "new,old"}, InvalidOption, "younger"),
        ({"incremental-between": "1,9"}, SnapshotNotExist, "It has the snapshots 1"),
        ({"incremental-between": "none,new"}, LakeError, "none"),
        ({"incremental-between": "1,2", "scan.snapshot-id": "1"}, InvalidOption, "two starting points"),
        ({"incremental-between": "1,2", "incremental-between-scan-mode": "changelog"}, InvalidOption, "no changelog"),
        ({"incremental-to-auto-tag": "old"}, InvalidOption, "no name of a tag"),
        ({"scan.mode": "from-snapshot-full", "scan.tag-name": "old"}, InvalidOption, "goes with 'scan.snapshot-id'"),
    ],
)
def test_what_cannot_be_read(module_lake: Lake, shared: LakeTable, options: dict[str, str], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        module_lake.scan(shared, options)


def test_options_stored_with_the_table_count_and_a_part_is_no_snapshot(lake: Lake, table: LakeTable) -> None:
    from model.schema.change import SetOption

    lake.alter_table(T, [SetOption(key="scan.mode", value="compacted-full")])
    lake.commit(table, CommitRequest(kind=CommitKind.COMPACT, commit_user="flink", commit_identifier=7))
    for every, id_ in (("7", 7), ("5", 3)):
        lake.alter_table(T, [SetOption(key="full-compaction.delta-commits", value=every)])
        table = lake.open(T)
        found = lake.resolve(table, {})
        assert found is not None
        assert found.id == id_
    with pytest.raises(InvalidOption, match="one whole snapshot"):
        lake.resolve(table, {"scan.mode": "latest-delta"})


def test_files_are_asked_for_by_the_moment_they_were_made(lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files tell the local wall clock; the option is milliseconds since 1970, as at Paimon (`creationTimeEpochMillis`)."""
    with monkeypatch.context() as zone:
        zone.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        for since, files in ((1 - 9 * HOUR, "e f"), (2 - 9 * HOUR, "")):
            scan = lake.scan(table, {"scan.file-creation-time-millis": str(since)})
            assert [one.file.file_name for one in plan_batch(table.files, table.schema, scan).files] == files.split()
    time.tzset()
