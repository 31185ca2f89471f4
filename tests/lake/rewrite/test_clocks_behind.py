"""Snapshots by a server whose clock is behind are as old as Postgres's clock says; what was found as files is as old as it says itself."""

from __future__ import annotations

import datetime as dt
import shutil
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
from lake.rewrite.maintenance import maintain
from model.errors import TableDamaged
from model.identifier import Identifier
from model.snapshot import Snapshot
from table.retention.expiry import ExpiryRules
from table.write.snapshot_builder import build_snapshot
from tests.lake.kept import history, with_options
from tests.lake.register.damage import forget_metadata
from tests.lake.rewrite.test_compaction import QUEUE, append
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
