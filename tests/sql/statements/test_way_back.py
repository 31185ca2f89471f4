"""The matrix of repair: catalogs older, as old as, newer than and without their warehouse; what can be read stays readable."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from catalog import CatalogStore
from catalog.backup.archive import restore_archive, write_archive
from gateway.gateway import Gateway
from lake import Lake
from lake.rewrite.orphans import remove_orphan_files
from model.errors import InvalidSchema, StorageFull, TableDamaged
from model.identifier import Identifier
from table.format.io.file_io import LocalFileIO
from tests.lake.register.damage import forget_metadata, metadata_files
from tests.waiting import eventually

T = Identifier("default", "t")
Copy = Callable[[], None]


class World:
    """One catalog and warehouse, with copies of each taken at some moment."""

    def __init__(self, gateway: Gateway, lake: Lake, dsn: str, warehouse: Path, tmp_path: Path) -> None:
        self.gateway, self.lake, self.dsn, self.warehouse, self._tmp = gateway, lake, dsn, warehouse, tmp_path

    def run(self, *texts: str) -> None:
        for text in texts:
            self.gateway.run(text).close()

    def rows(self) -> list[int]:
        forget_metadata()
        return sorted(row[0] for row in self.gateway.run("SELECT id FROM t").collect())

    def insert(self, *ids: int) -> None:
        self.run(*(f"INSERT INTO t VALUES ({one})" for one in ids))

    def noted(self) -> None:
        """Wait until the catalog knows that each snapshot's file is on disk; until then a missing one is written, not told."""
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            assert eventually(lambda: conn.execute("SELECT 1 FROM table_snapshot WHERE NOT published").fetchone() is None)

    def expire(self) -> None:
        self.run("CALL sys.expire_snapshots(`table` => 't', retain_max => 1, retain_min => 1)")

    def copy_catalog(self) -> Copy:
        write_archive(self.dsn, self._tmp / "catalog", warehouse="")
        return self._old_catalog

    def _old_catalog(self) -> None:
        restore_archive(self.dsn, self._tmp / "catalog")

    def copy_warehouse(self) -> Copy:
        shutil.copytree(self.warehouse, self._tmp / "copy")
        return self._old_warehouse

    def _old_warehouse(self) -> None:
        shutil.rmtree(self.warehouse)
        shutil.copytree(self._tmp / "copy", self.warehouse)

    def swept(self) -> None:
        """Remove what nothing refers to; where a snapshot in the middle is damaged, that is refused."""
        forget_metadata()
        with contextlib.suppress(TableDamaged):
            remove_orphan_files(self.lake, self.lake.open(T), older_than_millis=time.time_ns() // 1_000_000, check=lambda: None)

    def lose_lists(self, *snapshot_ids: int) -> None:
        """Take away the manifest lists of snapshots."""
        for snapshot_id in snapshot_ids:
            snapshot = self.lake.open(T).files.read_snapshot(snapshot_id)
            assert snapshot is not None
            for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
                (self.warehouse / "default.db/t/manifest" / name).unlink()
        forget_metadata()

    def readable(self, version: str) -> int:
        """How many rows a snapshot or tag has, its data files being there."""
        forget_metadata()
        table = self.lake.open(T)
        snapshot = self.lake.history.version(table, version)
        entries = list(table.files.live_entries(snapshot))
        assert all(Path(table.files.data_path(table.schema, entry)).exists() for entry in entries)
        return sum(entry.file.row_count for entry in entries)

    def repaired(self) -> list[int]:
        self.run("CALL sys.repair_table('t')")
        found = self.rows()
        assert self.gateway.run("CALL sys.check_table('t', deep => true)").collect() == []
        self.insert(100)
        assert self.rows() == [*found, 100]
        assert self.lake.repair_table(T, dry_run=True).set_aside == ()
        return found


@pytest.fixture
def world(gateway: Gateway, lake: Lake, dsn: str, warehouse: Path, tmp_path: Path) -> World:
    made = World(gateway, lake, dsn, warehouse, tmp_path)
    made.run("CREATE TABLE t (id INT) WITH ('bucket' = '1', 'bucket-key' = 'id')")
    made.insert(1, 2)
    return made


def test_a_catalog_older_than_its_warehouse(world: World) -> None:
    back = world.copy_catalog()
    world.insert(3, 4)
    back()
    assert world.rows() == [1, 2]
    assert world.repaired() == [1, 2, 3, 4]


@pytest.mark.parametrize("query", ["SELECT id FROM t", "SELECT COUNT(*) FROM t"])
def test_who_reads_a_table_behind_its_warehouse_is_told(world: World, query: str) -> None:
    back = world.copy_catalog()
    world.insert(3, 4)
    back()
    world.lake.standing.look_around(tables=None)
    world.run("CREATE TABLE other (id INT)")
    with world.gateway.run("SELECT id FROM other") as fine, world.gateway.run(query) as told:
        assert fine.notices == ()
        assert len(told.notices) == 1
    assert "default.t is shown as the catalog knows it: snapshot-3 " in told.notices[0]
    assert "CALL sys.repair_table('default.t') mends it" in told.notices[0]
    world.run("CALL sys.repair_table('t')")
    world.lake.standing.look_around(tables=None)
    with world.gateway.run(query) as whole:
        assert whole.notices == ()


def test_a_catalog_older_than_its_warehouse_by_a_schema(world: World) -> None:
    back = world.copy_catalog()
    world.run("ALTER TABLE t ADD s STRING", "INSERT INTO t VALUES (3, 'x')")
    back()
    world.run("CALL sys.repair_table('t')")
    forget_metadata()
    assert sorted(world.gateway.run("SELECT * FROM t").collect()) == [(1, None), (2, None), (3, "x")]


def test_a_catalog_whose_newest_snapshot_expired_since(world: World) -> None:
    """The backup's snapshot is gone: the newest run of the files is registered, and nothing of it is moved aside."""
    back = world.copy_catalog()
    world.insert(*range(3, 9))
    world.expire()
    back()
    with pytest.raises(TableDamaged):
        world.rows()
    plan = world.lake.repair_table(T, dry_run=True)
    assert (plan.registered, plan.set_aside) == ((8,), ())
    assert world.repaired() == list(range(1, 9))


def test_what_the_catalog_could_read_beside_a_newer_warehouse_stays_readable(world: World) -> None:
    """Snapshots in between are gone, the catalog's newest is kept by a tag and so are its files: both can be read."""
    world.run("CALL sys.create_tag('t', 'old')")
    back = world.copy_catalog()
    world.insert(3, 4)
    world.noted()
    snapshots = world.warehouse / "default.db/t/snapshot"
    (snapshots / "snapshot-3").unlink()
    back()
    done = world.lake.repair_table(T)
    assert (done.registered, done.set_aside, done.kept) == ((4,), (), (("before-repair-2", 2), ("before-repair-1", 1)))
    assert world.rows() == [1, 2, 3, 4]
    kept = world.lake.resolve(world.lake.open(T), {"scan.tag-name": "before-repair-2"})
    assert kept is not None
    assert len(list(world.lake.open(T).files.live_entries(kept))) == 2
    tag = world.lake.tags.all(world.lake.open(T))
    assert {row.name for row in tag} == {"old", "before-repair-1", "before-repair-2"}
    world.swept()
    assert world.readable("before-repair-1") == 1


@pytest.mark.parametrize("lost", [(8, 10), (10,), (1, 10), (2, 3, 5, 9, 10)])
def test_damage_in_the_middle_takes_nothing_away(world: World, lost: tuple[int, ...]) -> None:
    """What could be read before a repair can be read after it, and after what follows it."""
    world.insert(*range(3, 11))
    world.noted()
    world.lose_lists(*lost)
    left = [i for i in range(1, 11) if i not in lost]
    assert [world.readable(str(i)) for i in left] == left
    done = world.lake.repair_table(T)
    assert (done.registered, done.set_aside, done.back_from, done.kept) == ((), tuple(range(left[-1] + 1, 11)), 10, ())
    assert world.rows() == list(range(1, left[-1] + 1))
    world.insert(100)
    world.swept()
    assert [world.readable(str(i)) for i in left] == left
    for broken in (i for i in lost if i < left[-1]):
        with pytest.raises(TableDamaged):
            world.readable(str(broken))
    world.expire()
    world.swept()
    assert world.rows() == [*range(1, left[-1] + 1), 100]
    assert world.gateway.run("CALL sys.check_table('t', deep => true)").collect() == []


def test_damage_in_the_middle_of_what_came_later_takes_nothing_away(world: World) -> None:
    """The catalog is older, its own snapshots have expired, and of the newer ones some cannot be read."""
    back = world.copy_catalog()
    world.insert(3, 4)
    world.expire()
    world.insert(*range(5, 11))
    world.noted()
    back()
    world.lose_lists(8, 10)
    done = world.lake.repair_table(T)
    assert (done.registered, done.set_aside, done.kept) == ((4, 5, 6, 7, 8, 9), (10,), ())
    world.insert(100)
    world.swept()
    assert [world.readable(str(i)) for i in (4, 5, 6, 7, 9)] == [4, 5, 6, 7, 9]


def test_files_of_another_line_are_not_mixed_with_the_catalogs(world: World) -> None:
    """Expiry goes by what each snapshot took away: mixed, it would take files that are needed."""
    files = world.copy_warehouse()
    other = world.copy_catalog()
    world.insert(3, 4)
    world.noted()
    ours = world._tmp / "ours"
    shutil.copytree(world.warehouse, ours)
    mine = world._tmp / "mine"
    write_archive(world.dsn, mine, warehouse="")
    files()
    other()
    world.run("TRUNCATE TABLE t")
    world.insert(5, 6, 7)
    world.noted()
    theirs = world.warehouse / "default.db/t/snapshot"
    held = {path.name: path.read_bytes() for path in theirs.glob("snapshot-*")}
    shutil.copytree(ours, world.warehouse, dirs_exist_ok=True)
    restore_archive(world.dsn, mine)
    for name in ("snapshot-3", "snapshot-4", "snapshot-5", "snapshot-6"):
        (theirs / name).write_bytes(held[name])
    snapshot = world.lake.history.version(world.lake.open(T), "4")
    assert snapshot.total_record_count == 4
    (world.warehouse / "default.db/t/manifest" / snapshot.delta_manifest_list).unlink()
    forget_metadata()
    done = world.lake.repair_table(T)
    assert world.rows() == [5, 6, 7]
    assert ("before-repair-3", 3) in done.kept
    assert world.readable("before-repair-3") == 3
    world.insert(100)
    world.expire()
    world.swept()
    assert world.rows() == [5, 6, 7, 100]
    assert world.readable("before-repair-3") == 3


def test_a_warehouse_older_than_its_catalog(world: World) -> None:
    back = world.copy_warehouse()
    world.insert(3, 4)
    back()
    with pytest.raises(TableDamaged):
        world.rows()
    done = world.lake.repair_table(T, dry_run=True)
    assert (done.back_from, done.set_aside) == (4, ())
    assert world.repaired() == [1, 2]


def test_catalog_and_warehouse_of_one_time(world: World) -> None:
    catalog, files = world.copy_catalog(), world.copy_warehouse()
    world.insert(3, 4)
    catalog()
    files()
    assert world.repaired() == [1, 2]


def test_an_empty_catalog_takes_over_what_lies_there(world: World, dsn: str) -> None:
    world.insert(3)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("TRUNCATE table_entry CASCADE")
    with pytest.raises(Exception, match="does not exist"):
        world.rows()
    world.run(f"CALL sys.register_table('t', '{world.warehouse}/default.db/t')")
    assert world.repaired() == [1, 2, 3]


def test_an_empty_catalog_and_a_damaged_table_is_refused_with_the_reason(world: World, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("TRUNCATE table_entry CASCADE")
    for file in metadata_files(world.warehouse / "default.db/t", "list"):
        file.unlink()
    forget_metadata()
    with pytest.raises(InvalidSchema, match="cannot be read"):
        world.run(f"CALL sys.register_table('t', '{world.warehouse}/default.db/t')")


def test_nothing_that_can_be_read_is_refused_and_nothing_changes(world: World) -> None:
    for file in metadata_files(world.warehouse / "default.db/t", "list"):
        file.unlink()
    before = sorted(path.name for path in (world.warehouse / "default.db/t/snapshot").iterdir())
    forget_metadata()
    with pytest.raises(TableDamaged, match="no other snapshot can; nothing was changed"):
        world.lake.repair_table(T)
    assert sorted(path.name for path in (world.warehouse / "default.db/t/snapshot").iterdir()) == before


def test_what_is_lost_in_the_middle_is_written_again_from_the_catalog(world: World) -> None:
    world.insert(3, 4)
    world.run("ALTER TABLE t ADD s STRING")
    place = world.warehouse / "default.db/t"
    world.noted()
    kept = {name: (place / name).read_bytes() for name in ("snapshot/snapshot-3", "schema/schema-0")}
    for name in kept:
        (place / name).unlink()
    found = world.gateway.run("CALL sys.check_table('t')").collect()
    assert {row[3].rpartition("/")[2] for row in found} == {"snapshot-3", "schema-0"}
    assert all("sys.repair_table" in row[5] for row in found)
    world.run("CALL sys.repair_table('t')")
    assert world.gateway.run("CALL sys.check_table('t')").collect() == []
    assert all((place / name).exists() for name in kept)
    (place / "snapshot/snapshot-1").unlink()  # a beginning: a client's expiry
    assert world.gateway.run("CALL sys.check_table('t')").collect() == []


@pytest.mark.parametrize("lost", ["snapshot/snapshot-3", "schema/schema-0"])
def test_a_repair_that_cannot_write_changes_nothing_and_the_next_one_does(world: World, lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table is still told as diverged: an error says that nothing was decided."""
    world.insert(3, 4)
    world.run("ALTER TABLE t ADD s STRING")
    world.noted()
    place = world.warehouse / "default.db/t"
    (place / lost).unlink()
    with world.lake.catalog.transaction() as tx:
        tx.tables.set_diverged(tx.tables.lock(T).table_id, "snapshot-9")
    create = LocalFileIO.create

    def full(self: LocalFileIO, path: str, data: bytes) -> bool:
        if path.endswith(lost):
            raise StorageFull("The disk is full.")
        return create(self, path, data)

    with monkeypatch.context() as broken:
        broken.setattr(LocalFileIO, "create", full)
        with pytest.raises(StorageFull):
            world.lake.repair_table(T)
    with world.lake.catalog.transaction() as tx:
        assert tx.tables.lock(T).diverged_at == "snapshot-9"
    assert lost.rpartition("/")[2] in world.lake.repair_table(T).rewritten[0][1]
    assert world.rows() == [1, 2, 3, 4]
    assert (place / lost).exists()


def test_the_catalog_of_another_store_is_not_touched(world: World, catalog: CatalogStore) -> None:
    before = world.lake.open(T).latest()
    assert world.lake.repair_table(T).registered == ()
    assert world.lake.open(T).latest() == before
