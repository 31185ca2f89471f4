"""A catalog older than its warehouse, which went back to a tag whose snapshot had expired: its line goes on below the catalog's ids."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.rewrite.expiry import create_tag, expire_snapshots
from lake.rewrite.orphans import remove_orphan_files
from model.errors import TableDiverged
from tests.lake.kept import keep
from tests.lake.register.test_standing import older
from tests.lake.test_commit import T, append, names, snapshot_file
from tests.lake.test_commit import table as table
from tests.short import one_in

LINE = ["f1", "f2", "new3", "new4"]


@pytest.fixture
def old(lake: Lake, table: LakeTable, dsn: str, tmp_path: Path) -> Path:
    """A dump with the snapshots 5 to 8, and a tag on 2."""
    del table
    for number in range(1, 9):
        lake.commit(lake.open(T), append(f"f{number}"))
        if number == 2:
            create_tag(lake, lake.open(T), "two", snapshot_id=2)
    lake.branches.create(lake.open(T), "b", from_tag="two")
    expire_snapshots(lake, lake.open(T), keep(4))
    lake._publisher._notifier.close()
    older(dsn, tmp_path / "old")
    return tmp_path / "old"


def went_on(lake: Lake, dsn: str, old: Path) -> None:
    lake.history.rollback_to_tag(lake.open(T), "two")  # as by REST: data and manifests of the later ones stay
    for name in ("new3", "new4"):
        lake.commit(lake.open(T), append(name))
    lake._publisher.close()
    older(dsn, old, back=True)


def young_orphans(lake: Lake) -> None:
    remove_orphan_files(lake, lake.open(T), check=lambda: None)


def all_orphans(lake: Lake) -> None:
    remove_orphan_files(lake, lake.open(T), older_than_millis=time.time_ns() // 1_000_000, check=lambda: None)


def expiry(lake: Lake) -> None:
    with pytest.raises(TableDiverged):
        expire_snapshots(lake, lake.open(T), keep(1))


def forward(lake: Lake) -> None:
    with pytest.raises(TableDiverged):
        lake.branches.fast_forward(lake.open(T), "b", dry_run=True)
    with pytest.raises(TableDiverged):
        lake.branches.fast_forward(lake.open(T), "b")


@pytest.mark.parametrize("sweep", one_in(2, [young_orphans, all_orphans, expiry, forward]))
def test_a_line_below_the_catalogs_ids_stays_and_is_registered(
    lake: Lake, catalog: CatalogStore, warehouse: Path, dsn: str, old: Path, sweep: Callable[[Lake], None]
) -> None:
    went_on(lake, dsn, old)
    fresh = Lake(catalog, str(warehouse))
    sweep(fresh)
    assert all(snapshot_file(warehouse, number).exists() for number in (2, 3, 4))
    fresh.repair_table(T)
    assert names(fresh.open(T)) == LINE
    fresh.close()


def test_it_stays_where_the_catalogs_newest_was_not_known_to_be_published(
    lake: Lake, catalog: CatalogStore, warehouse: Path, dsn: str, old: Path
) -> None:
    """It is published then, and nothing but their time tells the files below from expired ones."""
    went_on(lake, dsn, old)
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE table_snapshot SET published = false WHERE snapshot_id = 8")
    fresh = Lake(catalog, str(warehouse))
    for sweep in (young_orphans, all_orphans):
        sweep(fresh)
        stored = fresh.open(T).files.read_snapshot(4)
        assert stored is not None
        assert names(fresh.open(T), stored) == LINE
    fresh.close()


def test_what_a_killed_expiry_left_goes_as_before(lake: Lake, warehouse: Path, old: Path) -> None:
    del old
    left = snapshot_file(warehouse, 4)
    left.write_bytes(snapshot_file(warehouse, 5).read_bytes().replace(b'"id" : 5', b'"id" : 4'))
    snapshot_file(warehouse, 3).write_bytes(b"")
    young_orphans(lake)
    assert not left.exists()
    assert not snapshot_file(warehouse, 3).exists()
