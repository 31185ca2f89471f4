"""Expiry, rollback, tags, orphans: what is kept stays readable, what nothing needs goes, whenever the process dies."""

from __future__ import annotations

import datetime as dt
import errno
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.rewrite.expiry import create_tag, delete_tag, expire_snapshots, rollback, tags_of
from lake.rewrite.maintenance import maintain
from lake.rewrite.orphans import remove_orphan_files
from model.errors import InvalidOption, SnapshotNotExist, TableDamaged
from table.format import store
from table.format.consumers import read_consumers, write_consumer
from table.retention.expiry import ExpiryRules, expired_before
from tests.faults.failing_io import FailingFileIO, Faults
from tests.lake.kept import all_files, at, data_files, go_on, history, keep, overwrite, six_commits, with_options
from tests.lake.rewrite.test_compaction import QUEUE, append, ids
from tests.lake.tables.test_tables import Crash, crashing_at
from tests.sql.tables import make_table


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    return six_commits(lake)


def test_age_is_that_of_the_successor() -> None:
    seven = dict(enumerate([0, 10, 20, 30, 40, 50, 60], 1))
    old = ExpiryRules(at_least=1, at_most=None, retained=dt.timedelta(milliseconds=30), per_run=None)
    assert expired_before(seven, old, first_unread=None, now_millis=65) == 4  # 4 was current at 35
    assert expired_before(seven, replace(old, at_least=5), first_unread=None, now_millis=1000) == 3
    assert expired_before(seven, replace(old, per_run=2), first_unread=None, now_millis=1000) == 3
    assert expired_before(seven, old, first_unread=2, now_millis=1000) == 2
    assert expired_before(seven, replace(old, at_most=3), first_unread=None, now_millis=0) == 5
    assert expired_before({}, old, first_unread=None, now_millis=0) == 0


def test_expired_snapshots_take_their_files_along(lake: Lake, table: LakeTable) -> None:
    overwrite(lake, table, [100])
    dry = expire_snapshots(lake, table, keep(1), dry_run=True)
    assert history(lake, table) == [1, 2, 3, 4, 5, 6, 7]
    done = expire_snapshots(lake, table, keep(1))
    assert done == dry
    assert (done.snapshots, done.data_files) == ((1, 2, 3, 4, 5, 6), 6)
    assert history(lake, table) == [7]
    assert ids(table) == [100]
    assert len(data_files(table)) == 1
    assert table.files.snapshot_ids() == [7]
    assert table.files.read_hint(table.files.layout.earliest_hint()) == 7
    with pytest.raises(SnapshotNotExist):
        lake.resolve(table, {"scan.snapshot-id": "3"})
    left = remove_orphan_files(lake, table, older_than_millis=time.time_ns() // 1_000_000, dry_run=True, check=go_on)
    assert left.paths == ()


def test_what_expires_does_not_stay_in_memory(lake: Lake, table: LakeTable) -> None:
    overwrite(lake, table, [100])
    expired = [str(file) for kind in ("manifest-list-", "manifest-") for file in Path(table.files.location, "manifest").glob(f"{kind}*")]
    store._LISTS.clear()
    store._MANIFESTS.clear()
    done = expire_snapshots(lake, table, keep(1))
    assert (done.snapshots, done.data_files) == ((1, 2, 3, 4, 5, 6), 6)
    assert expired
    assert [path for path in expired if store._LISTS.get(path) or store._MANIFESTS.get(path)] == []


def test_consumers_keep_what_they_have_not_read(lake: Lake, table: LakeTable) -> None:
    write_consumer(table.files, "reader", 3)
    expire_snapshots(lake, table, keep(1))
    assert history(lake, table) == [3, 4, 5, 6]
    write_consumer(table.files, "reader", 7)
    expire_snapshots(lake, table, keep(1))
    assert history(lake, table) == [6]


@pytest.mark.parametrize("step", ["expiry decided", "tag dropped"])
def test_a_crash_leaves_only_orphans(catalog: CatalogStore, lake: Lake, table: LakeTable, warehouse: Path, step: str) -> None:
    create_tag(lake, table, "one", snapshot_id=1)
    overwrite(lake, table, [100])
    if step == "tag dropped":
        expire_snapshots(lake, table, keep(1))
    dying = crashing_at(step, catalog, warehouse)
    opened = dying.open(table.identifier)
    with pytest.raises(Crash):
        expire_snapshots(dying, opened, keep(1)) if step == "expiry decided" else delete_tag(dying, opened, "one")
    assert ids(table) == [100]
    append(lake, table, [101])
    expire_snapshots(lake, table, keep(1))
    if step == "expiry decided":
        delete_tag(lake, table, "one")
    assert table.files.snapshot_ids() == [8]
    for path in Path(table.location).rglob("*"):
        os.utime(path, (0, 0))
    remove_orphan_files(lake, table, check=go_on)
    assert len(data_files(table)) == 2
    assert ids(table) == [100, 101]


def test_rollback(lake: Lake, table: LakeTable) -> None:
    create_tag(lake, table, "late", snapshot_id=6)
    to = lake.snapshots(table)[2]
    dry = rollback(lake, table, to, dry_run=True)
    assert history(lake, table)[-1] == 6
    done = rollback(lake, table, to)
    assert done == dry
    assert (done.snapshots, done.tags, done.data_files) == ((4, 5, 6), ("late",), 3)
    assert ids(table) == [0, 1, 2]
    assert table.files.snapshot_ids() == [1, 2, 3]
    assert (Path(table.location) / "snapshot" / "LATEST").read_text() == "3"
    assert len(data_files(table)) == 3
    append(lake, table, [50])
    assert ids(table) == [0, 1, 2, 50]
    assert history(lake, table) == [1, 2, 3, 4]


def test_rollback_to_a_tag_whose_snapshot_has_expired(lake: Lake, table: LakeTable) -> None:
    tag = create_tag(lake, table, "two", snapshot_id=2)
    overwrite(lake, table, [100])
    expire_snapshots(lake, table, keep(1))
    rollback(lake, table, tag.snapshot, tag="two")
    assert ids(table) == [0, 1]
    assert table.files.snapshot_ids() == [2]
    append(lake, table, [7])
    assert ids(table) == [0, 1, 7]


def test_a_crash_after_a_rollback_leaves_only_orphans(catalog: CatalogStore, lake: Lake, table: LakeTable, warehouse: Path) -> None:
    dying = crashing_at("rolled back", catalog, warehouse)
    opened, to = dying.open(table.identifier), lake.snapshots(table)[1]
    with pytest.raises(Crash):
        rollback(dying, opened, to)
    again = Lake(catalog, str(warehouse))
    assert ids(again.open(table.identifier)) == [0, 1]
    append(again, again.open(table.identifier), [6])
    again.close()
    for path in Path(table.location).rglob("*"):
        os.utime(path, (0, 0))
    remove_orphan_files(lake, table, check=go_on)
    assert len(data_files(table)) == 3
    assert ids(table) == [0, 1, 6]


def test_a_round_catches_up_with_many_commits(lake: Lake) -> None:
    options = {**QUEUE, "snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3", "snapshot.expire.limit": "4"}
    table = make_table(lake, options=options, id="INT")
    for n in range(20):
        append(lake, table, [n])
    assert expire_snapshots(lake, table, ExpiryRules.of(table.schema), dry_run=True).snapshots == (1, 2, 3, 4)
    assert maintain(lake, table).snapshots.snapshots == tuple(range(1, 18))
    assert history(lake, table) == [18, 19, 20]
    assert ids(table) == list(range(20))


def test_maintenance_after_a_commit(lake: Lake) -> None:
    options = {
        "bucket": "-1", "partition.expiration-time": "7 d", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2",
        "consumer.expiration-time": "1 h",
    }  # fmt: skip
    table = make_table(lake, options=options, partition="dt", id="INT", dt="STRING")
    today = dt.datetime.now().strftime("%Y-%m-%d")
    append(lake, table, [1, 2, 3], dt=["2020-01-01", today, "no date"])
    write_consumer(table.files, "gone", 1)
    os.utime(table.files.layout.consumer_file("gone"), (0, 0))
    done = maintain(lake, table)
    assert done.partitions_gone == ("dt=2020-01-01",)
    assert done.consumers_gone == ("gone",)
    assert read_consumers(table.files) == []
    assert sorted(ids(table)) == [2, 3]
    for n in range(4):
        append(lake, table, [n], dt=[today])
    maintain(lake, table)
    assert len(history(lake, table)) == 2
    silent = with_options(lake, table, **{"write-only": "true"})
    append(lake, silent, [9], dt=["2020-01-01"])
    assert maintain(lake, silent).partitions_gone == ()


def test_nothing_expires_while_a_consumer_cannot_be_read(lake: Lake, table: LakeTable) -> None:
    """Java's clients write over the file of theirs, and may be killed meanwhile: it holds snapshots all the same."""
    write_consumer(table.files, "whole", 5)
    torn = Path(table.files.layout.consumer_file("torn"))
    torn.write_text("")
    with pytest.raises(TableDamaged, match=r"consumer-torn tells no consumer.* CALL sys\.reset_consumer"):
        expire_snapshots(lake, table, keep(1))
    assert history(lake, table) == [1, 2, 3, 4, 5, 6]
    lake.reset_consumer(table, "torn", 3)
    expire_snapshots(lake, table, keep(1))
    assert history(lake, table) == [3, 4, 5, 6]


def test_one_part_of_a_round_that_cannot_be_done_leaves_the_others(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    options = {
        "bucket": "-1", "partition.expiration-time": "7 d", "partition.timestamp-formatter": "EEE d", "consumer.expiration-time": "1 h",
        "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1",
    }  # fmt: skip
    table = make_table(lake, options=options, partition="dt", id="INT", dt="STRING")
    for n in range(3):
        append(lake, table, [n], dt=["2020-01-01"])
    write_consumer(table.files, "gone", 1)
    os.utime(table.files.layout.consumer_file("gone"), (0, 0))
    done = maintain(lake, table)
    assert (done.partitions_gone, done.consumers_gone) == ((), ("gone",))
    assert history(lake, table) == [3]
    assert "'partition.timestamp-formatter' = 'EEE d': only yyyy" in caplog.text


def test_a_part_that_fails_is_told_when_the_others_are_done(lake: Lake) -> None:
    options = {
        "bucket": "-1", "partition.idle-time-to-done": "0 s", "partition.time-interval": "1 d", "snapshot.num-retained.min": "1",
        "snapshot.num-retained.max": "1", "snapshot.time-retained": "0 s",
    }  # fmt: skip
    table = make_table(lake, options=options, partition="dt", id="INT", dt="STRING")
    for n in range(3):
        append(lake, table, [n], dt=["2020-01-01"])
    marker = Path(table.files.layout.success_file(table.schema, "dt=2020-01-01"))
    marker.mkdir()  # something no marker can be written over
    with pytest.raises(FileNotFoundError):
        maintain(lake, table)
    assert history(lake, table) == [3]


@pytest.mark.damages
def test_orphans_are_found_and_nothing_else(lake: Lake, table: LakeTable) -> None:
    create_tag(lake, table, "two", snapshot_id=2)
    overwrite(lake, table, [100])
    expire_snapshots(lake, table, keep(1))
    before = all_files(table)
    root = Path(table.location)
    orphans = [
        "bucket-0/data-x-0.parquet",
        "manifest/manifest-x-0",
        "snapshot/.snapshot-9.tmp",
        "_staging/u/part-0.parquet",
        "index/index-1",
    ]
    for name in orphans:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"xyz")
    kept = ["schema/notes", "tag/notes", "README"]
    for name in kept:
        (root / name).write_bytes(b"x")
    assert remove_orphan_files(lake, table, check=go_on).paths == ()  # too young
    for path in root.rglob("*"):
        os.utime(path, (0, 0))
    dry = remove_orphan_files(lake, table, dry_run=True, check=go_on)
    assert sorted(p.removeprefix(f"{table.location}/") for p in dry.paths) == sorted(orphans)
    assert dry.size == 15
    assert remove_orphan_files(lake, table, check=go_on) == dry
    assert all_files(table) == before | set(kept)
    assert at(table, tags_of(lake, table)[0].snapshot) == [0, 1]
    with pytest.raises(InvalidOption, match="future"):
        remove_orphan_files(lake, table, older_than_millis=2**50, check=go_on)


class _NoRoomForHint(Faults):
    """Who freed the space did not get it: another writer was first."""

    def come(self, path: str, data: bytes | None = None) -> None:
        if self.armed and path.endswith("/EARLIEST"):
            self._fail(errno.ENOSPC, path)


def test_files_of_expired_snapshots_go_though_the_hint_cannot_be_written(catalog: CatalogStore, tmp_path: Path) -> None:
    faults = _NoRoomForHint()
    full = Lake(catalog, str(tmp_path / "warehouse"), file_io=FailingFileIO(faults))
    try:
        table = six_commits(full)
        faults.arm()
        done = expire_snapshots(full, table, keep(1))
        assert done.snapshots == (1, 2, 3, 4, 5)
        assert done.metadata_files > 0
        assert table.files.snapshot_ids() == [6]
        assert remove_orphan_files(full, table, older_than_millis=time.time_ns() // 1_000_000, dry_run=True, check=go_on).paths == ()
    finally:
        full.close()
