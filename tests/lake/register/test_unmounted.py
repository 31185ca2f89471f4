"""A warehouse whose disk is away, an empty directory in its place: nothing is written into that, and nothing concluded from it."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from catalog import CatalogStore
from catalog.records import PointerRow
from lake import Lake, LakeTable
from lake.register import standing
from lake.register.belonging import MARKER
from lake.register.expired import forget_expired
from model.catalog_errors import WarehouseMismatch
from model.errors import LakeError, TableDamaged, Unavailable
from model.identifier import Identifier
from model.schema.change import UpdateComment
from model.schema.schema import Schema
from tests.lake.test_commit import T, append, names
from tests.lake.test_commit import table as table


@pytest.fixture
def unpublished(lake: Lake, table: LakeTable, dsn: str) -> LakeTable:
    """A table with a tag and three snapshots, of the last of which Postgres was not told that its file is there."""
    for name in "abc":
        lake.commit(table, append(name))
    lake.tags.create(table, "kept", snapshot_id=1)
    lake.standing.compare()
    lake._publisher.close()
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE table_snapshot SET published = (snapshot_id < 3)")
    return table


@pytest.fixture
def begun_anew(catalog: CatalogStore, warehouse: Path, unpublished: LakeTable) -> Iterator[Lake]:
    """A server that was started while the disk was away."""
    warehouse.rename(warehouse.with_name("away"))
    warehouse.mkdir()
    made = Lake(catalog, str(warehouse))
    yield made
    made.close()


def mounted(warehouse: Path) -> None:
    warehouse.rmdir()  # raises where something was written
    warehouse.with_name("away").rename(warehouse)


def commented(lake: Lake) -> Schema:
    return lake.alter_table(T, [UpdateComment(comment="new")])


CHANGES: dict[str, Callable[[Lake], object]] = {
    "alter": commented,
    "rollback": lambda lake: lake.history.rollback_to_snapshot(lake.open(T), 2),
    "rollback to tag": lambda lake: lake.history.rollback_to_tag(lake.open(T), "kept"),
    "rollback schema": lambda lake: lake.history.rollback_schema(lake.open(T), 0),
    "tag": lambda lake: lake.tags.create(lake.open(T), "new"),
    "tag removed": lambda lake: lake.tags.delete(lake.open(T), "kept"),
    "replace": lambda lake: lake.replace_table(T, lake.open(T).schema),
    "rename": lambda lake: lake.rename_table(T, Identifier("default", "other")),
    "consumer": lambda lake: lake.reset_consumer(lake.open(T), "c", 1),
    "repair": lambda lake: lake.repair_table(T),
    "commit": lambda lake: lake.commit(lake.open(T), append("d")),
    "recovery": lambda lake: lake.finish_half_done(),
}


def read_all(lake: Lake) -> None:
    opened = lake.open(T)
    assert [snapshot.id for snapshot in lake.snapshots(opened)] == [1, 2, 3]
    assert [snapshot.id for snapshot in lake.history.page(opened, below=None, limit=9)] == [3, 2, 1]
    assert lake.history.version(opened, "LATEST").id == 3
    assert [tag.name for tag in lake.tags.all(opened)] == ["kept"]
    assert not forget_expired(lake.catalog, opened)
    with contextlib.suppress(LakeError):
        list(lake.check_table(opened, deep=False, threads=1, checked=lambda files, size: None))


def test_nothing_is_written_while_the_disk_is_away(begun_anew: Lake, warehouse: Path) -> None:
    begun_anew.standing.compare()
    assert "If its disk is not mounted, mount it" in (begun_anew.standing.mismatch or "")
    for change, run in CHANGES.items():
        with pytest.raises(WarehouseMismatch):
            pytest.fail(f"{change}: {run(begun_anew)}")
        read_all(begun_anew)
        begun_anew.standing.compare()
        assert begun_anew.standing.mismatch is not None, change
        assert list(warehouse.iterdir()) == [], change
    mounted(warehouse)
    begun_anew.standing.compare()
    assert names(begun_anew.open(T)) == ["a", "b", "c"]
    begun_anew.finish_half_done()
    assert (warehouse / "default.db/t/snapshot/snapshot-3").exists()
    assert [snapshot.id for snapshot in begun_anew.snapshots(begun_anew.open(T))] == [1, 2, 3]
    begun_anew.commit(begun_anew.open(T), append("d"))
    assert names(begun_anew.open(T)) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("change", sorted(CHANGES.keys() - {"rename"}))
def test_a_table_is_not_made_anew_before_anybody_has_noticed(begun_anew: Lake, warehouse: Path, change: str) -> None:
    """As in the seconds between two looks at the warehouse."""
    read_all(begun_anew)
    if change == "recovery":
        begun_anew.finish_half_done()
    else:
        with pytest.raises(Unavailable if change != "repair" else TableDamaged):
            CHANGES[change](begun_anew)
    read_all(begun_anew)
    if change != "commit":  # whose manifests lie there, named by nothing
        assert list(warehouse.iterdir()) == []
    begun_anew.standing.compare()
    assert begun_anew.standing.mismatch is not None


def test_a_disk_that_goes_while_thousands_of_tables_are_looked_at_is_noticed(
    lake: Lake, unpublished: LakeTable, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del unpublished
    begun, end = threading.Event(), threading.Event()

    def slow(**_: object) -> None:
        begun.set()
        end.wait(300)

    monkeypatch.setattr(standing, "_ROUND_SECONDS", 0.1)
    monkeypatch.setattr(lake.standing, "look_around", slow)
    stop = lake.standing.watch()
    try:
        assert begun.wait(120)
        warehouse.rename(warehouse.with_name("away"))
        warehouse.mkdir()
        until = time.monotonic() + 120
        while lake.standing.mismatch is None and time.monotonic() < until:
            time.sleep(0.05)
        assert lake.standing.mismatch is not None
    finally:
        stop()
        end.set()


def test_a_look_at_all_tables_that_broke_off_is_begun_anew(
    lake: Lake, unpublished: LakeTable, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it took hours until each had its turn, a few at a time."""
    del unpublished
    looked: list[int | None] = []
    look_around, look_at, compare = lake.standing.look_around, lake.standing._look_at, lake.standing.compare

    def away(row: PointerRow, *, anew: bool) -> bool:
        if looked == [None]:
            warehouse.rename(warehouse.with_name("away"))
            warehouse.mkdir()
            compare()
        return look_at(row, anew=anew)

    def seen(*, tables: int | None) -> bool:
        looked.append(tables)
        whole = look_around(tables=tables)
        if looked == [None]:
            mounted(warehouse)
            compare()
        return whole

    lake.create_table(Identifier("default", "other"), lake.open(T).schema)
    for name, replaced in (("_look_at", away), ("look_around", seen), ("compare", lambda: None)):
        monkeypatch.setattr(lake.standing, name, replaced)
    monkeypatch.setattr(standing, "_ROUND_SECONDS", 0.1)
    stop = lake.standing.watch()
    try:
        until = time.monotonic() + 120
        while len(looked) < 3 and time.monotonic() < until:
            time.sleep(0.05)
    finally:
        stop()
    assert looked[:3] == [None, None, lake.standing.looked_at]


def test_the_older_of_two_tables_tells_whether_the_disk_is_there(
    lake: Lake, table: LakeTable, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other may have been made while it was away, by a version that noticed that a few seconds later."""
    lake.standing.compare()
    warehouse.rename(warehouse.with_name("away"))
    warehouse.mkdir()
    with monkeypatch.context() as earlier:
        earlier.setattr(lake.standing, "require_own_now", lambda: None)
        lake.create_table(Identifier("default", "later"), table.schema)
    (warehouse / MARKER).unlink(missing_ok=True)
    lake.standing.compare()
    assert lake.standing.mismatch is not None
    assert not (warehouse / MARKER).exists()
    shutil.copytree(warehouse.with_name("away") / "default.db/t", warehouse / "default.db/t")
    shutil.rmtree(warehouse / "default.db/later")
    lake.standing.compare()
    assert lake.standing.mismatch is None


def test_a_table_that_could_not_be_listed_is_listed_soon(lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.commit(table, append("a"))
    asked = []

    def away(*args: object) -> None:
        asked.append(args)
        raise Unavailable("The store cannot be reached.")

    monkeypatch.setattr(standing, "listed_damage", away)
    for _ in range(2):
        lake.standing.look_around(tables=None)
    assert len(asked) == 2


def test_directories_and_snapshots_alone_are_no_warehouse(begun_anew: Lake, warehouse: Path) -> None:
    """What an earlier version wrote there; a schema of a table that the catalog knows is one."""
    there = warehouse.with_name("away") / "default.db/t"
    here = warehouse / "default.db/t"
    (here / "snapshot").mkdir(parents=True)
    (here / "snapshot/snapshot-3").write_bytes((there / "snapshot/snapshot-3").read_bytes())
    begun_anew.standing.compare()
    assert begun_anew.standing.mismatch is not None
    begun_anew.standing._mismatch = None  # as where nobody has looked yet
    assert not forget_expired(begun_anew.catalog, begun_anew.open(T))
    (here / "schema").mkdir()
    (here / "schema/schema-0").write_bytes((there / "schema/schema-0").read_bytes())
    begun_anew.standing.compare()
    assert begun_anew.standing.mismatch is None
    assert (warehouse / MARKER).exists()
