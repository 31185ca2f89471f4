"""What servers and stores whose clocks are behind have written is no older for it.

Snapshots are as old as Postgres's clock says, but those found as files as old as they say; files are as old as their store's clock says.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.register.whole import require_whole
from lake.rewrite.auto_tags import create_automatic_tags
from lake.rewrite.expiry import create_tag, expire_snapshots, rollback, tags_of
from lake.rewrite.maintenance import expire_consumers, maintain
from lake.rewrite.orphans import remove_orphan_files
from model.errors import TableDamaged, Unavailable
from model.identifier import Identifier
from model.snapshot import CommitKind, Snapshot
from table.format.consumers import write_consumer
from table.format.io.file_io import FileStatus, LocalFileIO
from table.retention.expiry import ExpiryRules
from table.write.snapshot_builder import CommitRequest, build_snapshot
from table.write.writer import write_batches
from tests.lake.kept import go_on, history, with_options
from tests.lake.register.damage import forget_metadata
from tests.lake.rewrite.test_compaction import QUEUE, append, batch_of, ids
from tests.lake.test_clock import moved
from tests.lake.test_commit import append as append_of
from tests.sql.tables import make_table

DAYS = 2 * 86_400
HOUR = ExpiryRules(at_least=1, at_most=None, retained=dt.timedelta(hours=1), per_run=None)
LAZY = {"snapshot.num-retained.min": "1"}


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    return make_table(lake, options=QUEUE | LAZY, id="INT")


@pytest.fixture
def other(catalog: CatalogStore, warehouse: Path) -> Iterator[Lake]:
    """The server whose clock is right."""
    lake = Lake(catalog, str(warehouse))
    yield lake
    lake.close()


def behind(lake: Lake, table: LakeTable, *values: int) -> None:
    """One commit for each value, by a server whose clock is two days behind."""
    with pytest.MonkeyPatch.context() as patch:
        moved(patch, -DAYS)
        for value in values:
            append(lake, table, [value])


def newest(table: LakeTable) -> Snapshot:
    latest = table.latest()
    assert latest is not None
    return latest


def decided(dsn: str, ago: str, *ids: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE table_snapshot SET decided_at = now() - %s::interval WHERE snapshot_id = ANY(%s)", (ago, list(ids)))


def expired(lake: Lake, table: LakeTable) -> tuple[int, ...]:
    return expire_snapshots(lake, lake.open(table.identifier), HOUR).snapshots


def test_another_server_leaves_what_was_just_committed(lake: Lake, other: Lake, table: LakeTable, dsn: str) -> None:
    behind(lake, table, 1, 2, 3)
    assert newest(table).time_millis < dt.datetime.now().timestamp() * 1000 - DAYS * 900
    assert maintain(other, other.open(table.identifier)).snapshots.snapshots == ()
    assert history(lake, table) == [1, 2, 3]
    decided(dsn, "2 hours", 1, 2)
    assert maintain(other, other.open(table.identifier)).snapshots.snapshots == (1,), "2 was current an hour ago"


def test_a_branch_and_what_main_goes_forward_to_are_no_older(lake: Lake, other: Lake, table: LakeTable) -> None:
    behind(lake, table, 1, 2)
    create_tag(lake, table, "two", snapshot_id=2)
    lake.branches.create(table, "b", from_tag="two")
    branch = lake.open(Identifier(table.identifier.database, table.identifier.table, "b"))
    behind(lake, branch, 3, 4)
    assert expired(other, branch) == ()
    lake.branches.fast_forward(table, "b")
    assert expired(other, table) == ()
    assert history(lake, table) == [1, 2, 3, 4]


def test_a_rollback_changes_nothing_of_it(lake: Lake, other: Lake, table: LakeTable) -> None:
    behind(lake, table, 1, 2, 3)
    rollback(lake, table, lake.snapshots(table)[1])
    behind(lake, table, 4)
    assert expired(other, table) == ()
    assert history(lake, table) == [1, 2, 3]


def test_a_repair_keeps_what_the_catalog_knows_of_it(lake: Lake, other: Lake, table: LakeTable) -> None:
    behind(lake, table, 1, 2, 3, 4)
    Path(table.files.layout.manifest(newest(table).base_manifest_list)).unlink()
    Path(table.files.layout.manifest(newest(table).delta_manifest_list)).unlink()
    forget_metadata()
    with pytest.raises(TableDamaged):
        require_whole(table, newest(table))
    lake.repair_table(table.identifier)
    assert history(lake, table) == [1, 2, 3]
    assert expired(other, table) == ()


def test_what_a_client_wrote_past_the_catalog_makes_nothing_older(lake: Lake, other: Lake, table: LakeTable) -> None:
    append(lake, table, [1])
    made = build_snapshot(table.files, table.schema, newest(table), [append_of("theirs")], uuid=str(uuid4()), time_millis=0)
    with table.files.snapshots() as place:
        table.files.publish_snapshot(replace(made, time_millis=newest(table).time_millis - DAYS * 1000), place)
    assert lake.repair_table(table.identifier).registered == (2,)
    assert expired(other, table) == ()


def test_what_is_registered_is_as_old_as_its_files_say(lake: Lake, table: LakeTable, warehouse: Path) -> None:
    """It has lain there since then: who registers a table of ten thousand old snapshots need not wait for their time once more."""
    behind(lake, table, 1, 2, 3)
    shutil.copytree(table.location, warehouse / "outside")
    there = Identifier("default", "there")
    lake.register_table(there, str(warehouse / "outside"))
    assert expired(lake, lake.open(there)) == (1, 2)


def test_a_batch_of_today_takes_no_tag_of_the_day_before(lake: Lake, other: Lake, table: LakeTable) -> None:
    tagged = with_options(lake, table, **{"tag.automatic-creation": "batch", "sink.process-time-zone": "UTC"})
    behind(lake, tagged, 1)
    day = dt.datetime.now(dt.UTC)
    before = f"batch-write-{day - dt.timedelta(seconds=DAYS):%Y-%m-%d}"
    create_tag(lake, tagged, before, snapshot_id=1)
    behind(lake, tagged, 2)
    made = create_automatic_tags(other, tagged)
    assert made == [f"batch-write-{day:%Y-%m-%d}"]
    assert {tag.name: tag.snapshot.id for tag in tags_of(lake, tagged)} == {before: 1, made[0]: 2}


class StoreBehind(LocalFileIO):
    """A store that takes it for two days ago."""

    hides_probes = False
    """Whether it shows new files late."""

    def list(self, path: str) -> list[FileStatus]:
        return [self._by_its_clock(status) for status in super().list(path) if not self._is_hidden(status.path)]

    def status(self, path: str) -> FileStatus:
        if self._is_hidden(path):
            raise FileNotFoundError(path)
        return self._by_its_clock(super().status(path))

    def _by_its_clock(self, status: FileStatus) -> FileStatus:
        return replace(status, mtime_millis=status.mtime_millis - DAYS * 1000)

    def _is_hidden(self, path: str) -> bool:
        return self.hides_probes and "/.probe." in path


@pytest.fixture
def on_it(catalog: CatalogStore, warehouse: Path) -> Iterator[Lake]:
    lake = Lake(catalog, str(warehouse), file_io=StoreBehind())
    yield lake
    lake.close()


def aged(path: str | Path) -> None:
    """Let a file be from five days ago."""
    ago = time.time() - 5 * 86_400
    os.utime(path, (ago, ago))


def test_what_is_being_written_to_a_store_that_is_behind_is_no_orphan(on_it: Lake, caplog: pytest.LogCaptureFixture) -> None:
    table = make_table(on_it, options=QUEUE, id="INT")
    append(on_it, table, [1])
    written = write_batches(table.files, table.schema, [batch_of(table, [2])])
    left = Path(table.location) / "bucket-0" / "data-dead-0.parquet"
    left.touch()
    assert remove_orphan_files(on_it, on_it.open(table.identifier), check=go_on).paths == ()
    assert "s behind this machine" in caplog.text
    aged(left)
    assert remove_orphan_files(on_it, on_it.open(table.identifier), check=go_on).paths == (str(left),)
    on_it.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=tuple(written), commit_user="u"))
    assert ids(on_it.open(table.identifier)) == [1, 2]
    assert not list(Path(table.location).rglob(".probe*"))


def test_a_consumer_that_told_its_progress_to_a_store_that_is_behind_stays(on_it: Lake) -> None:
    table = make_table(on_it, options=QUEUE | {"consumer.expiration-time": "1 d"}, id="INT")
    append(on_it, table, [1])
    write_consumer(table.files, "me", 1)
    assert expire_consumers(on_it.catalog, table) == []
    aged(table.files.layout.consumer_file("me"))
    assert expire_consumers(on_it.catalog, table) == ["me"]


def test_nothing_goes_by_age_where_the_store_does_not_show_what_was_put_there(on_it: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StoreBehind, "hides_probes", True)
    table = make_table(on_it, options=QUEUE | {"consumer.expiration-time": "1 d"}, id="INT")
    append(on_it, table, [1])
    write_consumer(table.files, "me", 1)
    being_written = Path(table.location) / "bucket-0" / "data-new-0.parquet"
    being_written.touch()
    with pytest.raises(Unavailable, match="cannot be told now"):
        remove_orphan_files(on_it, table, check=go_on)
    assert remove_orphan_files(on_it, table, dry_run=True, check=go_on).paths == (str(being_written),)
    assert expire_consumers(on_it.catalog, table) == []
    assert (being_written.exists(), list(Path(table.location).rglob(".probe*"))) == (True, [])


def test_a_store_that_takes_no_writes_has_no_orphans_where_all_is_in_use(on_it: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(on_it, options=QUEUE, id="INT")
    append(on_it, table, [1])
    monkeypatch.setattr(StoreBehind, "add", lambda *_: pytest.fail("asked to write"))
    assert remove_orphan_files(on_it, table, check=go_on).paths == ()


def test_what_a_killed_write_did_not_name_yet_is_an_orphan_wherever_it_lies(lake: Lake, table: LakeTable) -> None:
    append(lake, table, [1])
    create_tag(lake, table, "one")
    left = [Path(table.location) / name for name in ("consumer/.consumer-c.1.tmp", "schema/.schema-1.1.tmp", "tag/.tag-two.1.tmp")]
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert remove_orphan_files(lake, table, check=go_on).paths == ()
    for path in (*left, left[1].with_name("schema-0"), left[2].with_name("tag-one")):
        aged(path)
    assert sorted(remove_orphan_files(lake, table, check=go_on).paths) == [str(path) for path in left]
    assert (left[1].with_name("schema-0").exists(), left[2].with_name("tag-one").exists()) == (True, True)
