"""Catalog and warehouse that do not belong together, and tables that do not fit: noticed, told, and nothing made worse."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from catalog import CatalogStore
from catalog.backup.archive import restore_archive, write_archive
from lake import Lake, LakeTable
from lake.register.belonging import MARKER
from lake.rewrite.expiry import create_tag, delete_tag, expire_snapshots
from lake.rewrite.orphans import remove_orphan_files
from migrations import newest
from model.access import Access, Grant, Policy, database_resource
from model.catalog_errors import CatalogLost, WarehouseMismatch
from model.errors import TableDamaged, TableDiverged, Unavailable
from model.identifier import Identifier
from model.schema.change import UpdateComment
from model.schema.schema import column, new_schema
from model.view import View
from table.format.io.file_io import LocalFileIO
from table.retention.expiry import ExpiryRules
from tests.fix_postgres import database
from tests.lake.kept import keep
from tests.lake.register.damage import wait_for_notes
from tests.lake.test_commit import T, append, names, snapshot_file
from tests.lake.test_commit import table as table

V, VIEW = Identifier("default", "v"), View(fields=(column("id", "BIGINT"),), query="SELECT id FROM t")
SCHEMA = new_schema([column("id", "BIGINT")], options={"bucket": "1", "bucket-key": "id"})


@pytest.fixture
def other(server_dsn: str, template: str, warehouse: Path) -> Iterator[Lake]:
    """Another, empty catalog on the same warehouse: what a server has whose Postgres was emptied, or whose DSN is mistyped."""
    with database(server_dsn, template) as dsn:
        catalog = CatalogStore(dsn)
        with catalog.transaction() as tx:
            tx.state.become(uuid4())  # databases of tests are copies of one, its identity too
        made = Lake(catalog, str(warehouse))
        yield made
        made.close()
        catalog.close()


def test_another_catalog_writes_nothing_until_it_is_meant(lake: Lake, other: Lake, warehouse: Path) -> None:
    lake.standing.compare()
    assert lake.standing.mismatch is None
    other.standing.compare()
    assert "which is empty" in (other.standing.mismatch or "")
    with pytest.raises(WarehouseMismatch, match=r"sluice restore.*CALL sys.claim_warehouse"):
        other.create_table(T, SCHEMA)
    with pytest.raises(WarehouseMismatch):
        other.create_database("more")  # with a name in it, the backup would not be restored into an empty catalog
    lake.create_table(T, SCHEMA)
    lake.commit(lake.open(T), append("a"))
    lake.views.create(V, VIEW)
    other.claim_warehouse()
    other.standing.compare()
    assert other.standing.mismatch is None
    lake.standing.compare()
    opened = lake.open(T)
    with pytest.raises(WarehouseMismatch):
        lake.commit(opened, append("b"))
    with pytest.raises(WarehouseMismatch):
        remove_orphan_files(lake, opened, check=lambda: None)
    with pytest.raises(WarehouseMismatch):
        lake.drop_table(T)
    for change in (
        lambda: lake.views.create(Identifier("default", "w"), VIEW),
        lambda: lake.views.rename(V, Identifier("default", "w")),
        lambda: lake.views.drop(V),
        lambda: lake.functions.create(Identifier("default", "f"), {}),
        lambda: lake.permissions.create_role("readers"),
        lambda: lake.permissions.grant(Grant(access=Access.DESCRIBE, resource=database_resource("default"), principal="ann")),
        lambda: lake.permissions.create_policy(T, Policy(name="p", column=None, principals=(), sql="id = 1", rule={})),
    ):
        with pytest.raises(WarehouseMismatch):
            change()
    lake.permissions.create_token("root", administrator=True)  # somebody has to come in
    assert names(lake.open(T)) == ["a"]  # reads go on
    assert lake.views.names("default") == ["v"]
    lake.claim_warehouse()
    lake.commit(lake.open(T), append("b"))


DEFINITIONS: dict[str, Callable[[Lake], object]] = {
    "a database": lambda lake: lake.create_database("more"),
    "a table": lambda lake: lake.create_table(Identifier("default", "more"), SCHEMA),
    "another version of a schema": lambda lake: lake.alter_table(T, [UpdateComment(comment="new")]),
    "a replaced table": lambda lake: lake.replace_table(T, lake.open(T).schema),
    "a branch": lambda lake: lake.branches.create(lake.open(T), "b"),
}


def files_below(warehouse: Path) -> set[str]:
    return {str(path.relative_to(warehouse)) for path in warehouse.rglob("*")}


@pytest.mark.parametrize("made", DEFINITIONS)
def test_nothing_is_defined_in_a_warehouse_that_became_anothers_just_now(lake: Lake, other: Lake, warehouse: Path, made: str) -> None:
    """As in the seconds between two looks at the warehouse."""
    lake.create_table(T, SCHEMA)
    lake.commit(lake.open(T), append("a"))
    lake.standing.compare()
    other.claim_warehouse()
    before = files_below(warehouse)
    with pytest.raises(WarehouseMismatch):
        DEFINITIONS[made](lake)
    assert files_below(warehouse) == before
    assert lake.standing.mismatch is not None
    lake.claim_warehouse()
    DEFINITIONS[made](lake)


@pytest.mark.parametrize("made", ["a database", "a table", "another version of a schema"])
def test_nothing_is_defined_where_the_disk_is_away_since_just_now(lake: Lake, warehouse: Path, made: str) -> None:
    lake.create_table(T, SCHEMA)
    lake.standing.compare()
    warehouse.rename(warehouse.with_name("away"))
    warehouse.mkdir()
    with pytest.raises(WarehouseMismatch, match="mount it"):
        DEFINITIONS[made](lake)
    assert list(warehouse.iterdir()) == []
    warehouse.rmdir()
    warehouse.with_name("away").rename(warehouse)
    DEFINITIONS[made](lake)


def test_a_directory_stays_where_the_warehouse_became_anothers_just_now(lake: Lake, other: Lake, warehouse: Path) -> None:
    lake.create_table(T, SCHEMA)
    lake.commit(lake.open(T), append("a"))
    lake.standing.compare()
    other.claim_warehouse()
    before = files_below(warehouse)
    with contextlib.suppress(WarehouseMismatch):
        lake.drop_table(T, purge=True)
    assert files_below(warehouse) == before


def test_a_server_that_could_not_compare_at_its_start_removes_and_writes_nothing(
    lake: Lake, other: Lake, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its catalog has a directory on record as garbage that is, by now, another catalog's table."""
    lake.standing.compare()
    lake.create_table(T, SCHEMA)
    lake.commit(lake.open(T), append("a"))
    with other.catalog.transaction() as tx:
        tx.directories.discard(lake.open(T).location)
    read, marker = LocalFileIO.read, warehouse / MARKER

    def refuses(io: LocalFileIO, path: str) -> bytes:
        if path == str(marker):
            raise Unavailable("The warehouse cannot be used: Input/output error.")
        return read(io, path)

    monkeypatch.setattr(LocalFileIO, "read", refuses)
    other.standing.compare_at_start()
    assert "could not be told at the start" in (other.standing.mismatch or "")
    with pytest.raises(Unavailable, match="Nothing is written until it is"):
        other.finish_half_done()
    with pytest.raises(Unavailable):
        other.create_database("more")
    monkeypatch.undo()
    other.standing.compare()
    with pytest.raises(WarehouseMismatch):
        other.finish_half_done()
    assert names(lake.open(T)) == ["a"]
    lake.standing.compare_at_start()
    assert not lake.finish_half_done().any


def test_a_first_look_at_a_full_warehouse_says_so_and_claims_nothing(lake: Lake, table: object, other: Lake, warehouse: Path) -> None:
    other.standing.compare()
    assert other.standing.mismatch is None
    assert "CALL sys.register_table" in (other.standing.warning or "")
    assert not (warehouse / MARKER).exists()
    lake.standing.compare(look_only=True)
    assert not (warehouse / MARKER).exists()
    lake.standing.compare()
    assert json.loads((warehouse / MARKER).read_text())["revision"] == newest()
    (warehouse / MARKER).write_text("")  # torn by a loss of power
    lake.standing.compare()
    assert lake.standing.mismatch is None


def test_an_emptied_postgres_is_named(lake: Lake, catalog: CatalogStore, dsn: str) -> None:
    lake.standing.compare()
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    for look in (lake.standing.compare, catalog.ping, lake.list_databases):
        with pytest.raises(CatalogLost, match="sluice restore"):
            look()


def older(dsn: str, file: Path, *, back: bool = False) -> None:
    """Keep the catalog as it is, or go ``back`` to it, as a promoted standby that lagged."""
    restore_archive(dsn, file) if back else write_archive(dsn, file, warehouse="")


def test_a_catalog_older_than_its_warehouse_stops_commits_to_the_table_alone(
    lake: Lake, table: object, dsn: str, catalog: CatalogStore, warehouse: Path, tmp_path: Path
) -> None:
    """Snapshots in between have expired: the next id is free, and only the hint tells."""
    for name in ("a", "b"):
        lake.commit(lake.open(T), append(name))
    wait_for_notes(lake)
    older(dsn, tmp_path / "old")
    for name in ("c", "d", "e"):
        lake.commit(lake.open(T), append(name))
    wait_for_notes(lake)
    older(dsn, tmp_path / "old", back=True)
    for snapshot_id in (1, 2, 3):
        snapshot_file(warehouse, snapshot_id).unlink()
    fresh = Lake(catalog, str(warehouse))
    fresh.standing.look_around()
    (trouble,) = fresh.standing.troubles()
    assert (str(trouble.table), trouble.statement) == ("default.t", "CALL sys.repair_table('default.t')")
    assert "snapshot-5" in trouble.problem
    with pytest.raises(TableDiverged, match="older than the warehouse"):
        fresh.commit(fresh.open(T), append("lost"))
    assert fresh.repair_table(T).registered == (4, 5)
    fresh.standing.look_around()
    assert fresh.standing.troubles() == []
    fresh.commit(fresh.open(T), append("f"))
    assert names(fresh.open(T)) == ["a", "b", "c", "d", "e", "f"]
    fresh.close()


def test_a_commit_notices_it_before_anybody_looked(
    lake: Lake, table: object, dsn: str, catalog: CatalogStore, warehouse: Path, tmp_path: Path
) -> None:
    lake.commit(lake.open(T), append("a"))
    wait_for_notes(lake)
    older(dsn, tmp_path / "old")
    for name in ("b", "c"):
        lake.commit(lake.open(T), append(name))
    wait_for_notes(lake)
    older(dsn, tmp_path / "old", back=True)
    snapshot_file(warehouse, 2).unlink()
    fresh = Lake(catalog, str(warehouse))
    with pytest.raises(TableDiverged):
        fresh.commit(fresh.open(T), append("lost"))
    with catalog.reading() as tx:
        assert [name for _, _, name, _ in tx.overview.diverged()] == ["t"]
    fresh.close()


def test_expiry_of_a_diverged_table_takes_nothing(
    lake: Lake, table: object, dsn: str, catalog: CatalogStore, warehouse: Path, tmp_path: Path
) -> None:
    lake.commit(lake.open(T), append("a"))
    older(dsn, tmp_path / "old")
    lake.commit(lake.open(T), append("b"))
    older(dsn, tmp_path / "old", back=True)
    lake.standing.look_around()
    before = sorted(p.name for p in (warehouse / "default.db/t").rglob("*"))
    rules = ExpiryRules.of(lake.open(T).schema)
    assert expire_snapshots(lake, lake.open(T), rules).snapshots == ()
    assert sorted(p.name for p in (warehouse / "default.db/t").rglob("*")) == before


@pytest.mark.parametrize("to", ["snapshot", "tag"])
def test_a_catalog_older_than_all_that_is_left_of_a_table_is_not_rolled_back(
    lake: Lake, table: object, dsn: str, catalog: CatalogStore, warehouse: Path, tmp_path: Path, to: str
) -> None:
    """The dump was made just after a commit, before it was noted that its file is there; all it knows has expired since."""
    for name in ("a", "b"):
        lake.commit(lake.open(T), append(name))
    create_tag(lake, lake.open(T), "two", snapshot_id=2)
    lake._publisher.close()
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE table_snapshot SET published = false WHERE snapshot_id = 2")
    older(dsn, tmp_path / "old")
    for name in ("c", "d"):
        lake.commit(lake.open(T), append(name))
    delete_tag(lake, lake.open(T), "two")
    expire_snapshots(lake, lake.open(T), keep(1))
    older(dsn, tmp_path / "old", back=True)
    fresh = Lake(catalog, str(warehouse))
    opened = fresh.open(T)
    assert fresh.history.page(opened, below=None, limit=9)  # which tells what it knows
    go_back = (
        partial(fresh.history.rollback_to_tag, opened, "two") if to == "tag" else partial(fresh.history.rollback_to_snapshot, opened, 1)
    )
    with pytest.raises(TableDiverged, match="older than the warehouse"):
        go_back()
    fresh.close()


def test_rollback_and_the_next_commit_are_no_divergence(lake: Lake, table: object, warehouse: Path) -> None:
    for name in ("a", "b", "c"):
        lake.commit(lake.open(T), append(name))
    lake.history.rollback_to_snapshot(lake.open(T), 1)
    lake.standing.look_around()
    assert lake.standing.troubles() == []
    lake.commit(lake.open(T), append("d"))


def test_two_damaged_tables_among_many(lake: Lake, warehouse: Path, caplog: pytest.LogCaptureFixture) -> None:
    tables = [Identifier("default", f"t{i}") for i in range(60)]
    for one in tables:
        lake.create_table(one, SCHEMA)
        lake.commit(lake.open(one), append("a"))
    damaged = [tables[7], tables[41]]
    kept = {one: warehouse / "kept" / one.table for one in damaged}
    for one, copy in kept.items():
        place = warehouse / "default.db" / one.table / "manifest"
        shutil.copytree(place, copy)
        for file in place.glob("manifest-list-*"):
            file.unlink()
    caplog.set_level(logging.WARNING)
    for _ in range(6):
        lake.standing.look_around()
    assert [one.table for one in lake.standing.troubles()] == sorted(damaged, key=lambda one: one.table)
    for one in damaged:
        told = [record for record in caplog.records if f"{one} is damaged" in record.getMessage()]
        assert len(told) == 1
    for one in tables:
        if one not in damaged:
            lake.commit(lake.open(one), append("b"))
    for one, copy in kept.items():
        shutil.copytree(copy, warehouse / "default.db" / one.table / "manifest", dirs_exist_ok=True)
    lake.standing.look_around()
    assert lake.standing.troubles() == []


def test_damage_somebody_met_is_remembered_until_the_file_is_back(lake: Lake, table: object, warehouse: Path) -> None:
    lake.commit(lake.open(T), append("a"))
    (file,) = (warehouse / "default.db/t").glob("bucket-*/*")
    moved = file.rename(warehouse / "moved")
    lake.standing.met(TableDamaged("default.t", file=str(file), problem="is missing"))
    lake.standing.look_around()
    assert [str(one.table) for one in lake.standing.troubles()] == ["default.t"]
    moved.rename(file)
    lake.standing.look_around()
    assert lake.standing.troubles() == []


def test_a_table_of_many_damaged_files_has_one_line_and_is_well_once_a_deep_check_says_so(
    lake: Lake, table: LakeTable, caplog: pytest.LogCaptureFixture
) -> None:
    name = str(table.identifier)
    for number in range(3):
        lake.standing.met(TableDamaged(name, file=f"/w/data-{number}.parquet", problem="cannot be decoded: bytes"))
    lake.standing.met(TableDamaged("default.other", file="/w/data.parquet", problem="cannot be decoded: bytes"))
    assert sum(f"Table {name} is damaged" in line for line in caplog.messages) == 1
    for deep, left in ((False, 2), (True, 1)):
        assert list(lake.check_table(table, deep=deep, threads=1, checked=lambda files, size: None)) == []
        assert len(lake.standing.troubles()) == left
    lake.standing.met(TableDamaged(name, file="/w/data-4.parquet", problem="cannot be decoded: bytes"))
    assert sum(f"Table {name} is damaged" in line for line in caplog.messages) == 2


def test_a_warehouse_whose_disk_is_away_is_not_begun_anew(lake: Lake, table: LakeTable, warehouse: Path) -> None:
    """An empty directory lies where it was mounted: nothing is written there, and no tag is taken for removed."""
    lake.commit(table, append("a"))
    lake.tags.create(table, "kept")
    lake.standing.compare()
    away = warehouse.with_name("away")
    warehouse.rename(away)
    warehouse.mkdir()
    lake.standing.compare()
    assert "If its disk is not mounted, mount it" in (lake.standing.mismatch or "")
    with pytest.raises(WarehouseMismatch):
        lake.commit(lake.open(T), append("b"))
    with pytest.raises(WarehouseMismatch):
        lake.create_table(Identifier("default", "other"), SCHEMA)
    assert [tag.name for tag in lake.tags.all(table)] == ["kept"]
    assert list(warehouse.iterdir()) == []
    warehouse.rmdir()
    away.rename(warehouse)
    lake.standing.compare()
    assert lake.standing.mismatch is None
    lake.commit(lake.open(T), append("b"))
    assert names(table) == ["a", "b"]
    (warehouse / MARKER).unlink()  # as where somebody removed it: the tables are there
    lake.standing.compare()
    assert (lake.standing.mismatch, (warehouse / MARKER).exists()) == (None, True)
