"""A catalog that knows of a drop and not of what came after it, as a lagging standby or a restored backup: rows that came since stay."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from catalog import CatalogStore
from lake import Lake
from lake.register.restored.after_restore import differences
from lake.rewrite.expiry import replace_tag
from model.errors import InvalidName
from model.identifier import Identifier
from model.schema.change import SetOption
from table.format.io.file_io import LocalFileIO
from tests.lake.register.test_standing import older
from tests.lake.tables.test_drops import age, drops, make
from tests.lake.test_commit import T, append, names

SIDE = Identifier("default", "t", "side")


@pytest.fixture
def lake(catalog: CatalogStore, warehouse: Path) -> Iterator[Lake]:
    made = Lake(catalog, str(warehouse), drop_retention=timedelta(days=7))
    yield made
    made.close()


def insert(lake: Lake) -> None:
    lake.commit(lake.open(T), append("late"))


def into_a_branch(lake: Lake) -> None:
    lake.commit(lake.open(SIDE), append("late"))


def back(lake: Lake) -> None:
    lake.history.rollback_to_snapshot(lake.open(T), 1)


def of_the_same_id(lake: Lake) -> None:
    back(lake)
    insert(lake)


def a_branch(lake: Lake) -> None:
    lake.branches.create(lake.open(T), "new", from_tag="first")
    lake.open(Identifier("default", "t", "new"))


def an_option(lake: Lake) -> None:
    lake.alter_table(T, [SetOption(key="drop.retention", value="30 d")])


def a_version_behind_another_branchs(lake: Lake) -> None:
    lake.alter_table(SIDE, [SetOption(key="drop.retention", value="30 d")])
    lake.branches.drop(lake.open(T), ["side"])
    an_option(lake)


def a_tag(lake: Lake) -> None:
    lake.tags.create(lake.open(T), "new")


def another_tag(lake: Lake) -> None:
    replace_tag(lake, lake.open(T), "first", snapshot_id=2)


def one_branch_less(lake: Lake) -> None:
    lake.branches.drop(lake.open(T), ["side"])


USES = (
    insert,
    into_a_branch,
    of_the_same_id,
    back,
    a_branch,
    an_option,
    a_version_behind_another_branchs,
    a_tag,
    another_tag,
    one_branch_less,
)


@pytest.mark.parametrize("use", USES)
def test_a_table_that_was_brought_back_and_used_is_not_removed(
    lake: Lake, catalog: CatalogStore, dsn: str, warehouse: Path, tmp_path: Path, use: Callable[[Lake], None]
) -> None:
    lake.tags.create(make(lake, T, "a", "b"), "first", snapshot_id=1)
    lake.branches.create(lake.open(T), "side", from_tag="first")
    assert lake.open(SIDE).latest() is not None
    lake._publisher._notifier.close()
    lake.drop_table(T)
    older(dsn, tmp_path / "old")
    lake.undrop_table(T)
    (warehouse / "default.db/t/_undropped").unlink()  # as by earlier versions
    use(lake)
    older(dsn, tmp_path / "old", back=True)
    (difference,) = differences(catalog, str(warehouse))
    assert "is dropped in the catalog, and seems to have been used since" in difference.what
    age(dsn, 8)
    fresh = Lake(catalog, str(warehouse))
    assert (fresh.sweep_drops(), drops(fresh)) == (0, ["default.t"])
    (trouble,) = fresh.standing.troubles()
    assert trouble.statement == difference.statement
    assert trouble.statement.startswith("UNDROP TABLE `default`.`t` WITH ID ")
    fresh.undrop_table(T)
    fresh.repair_table(T)
    if use is insert:
        assert names(fresh.open(T)) == ["a", "b", "late"]
    assert (fresh.sweep_drops(), fresh.standing.troubles()) == (0, [])
    fresh.close()


@pytest.mark.parametrize("whole", [False, True])
def test_a_table_that_was_brought_back_and_only_read_is_not_removed(
    lake: Lake, catalog: CatalogStore, dsn: str, warehouse: Path, tmp_path: Path, whole: bool
) -> None:
    lake.create_database("d")
    table = make(lake, Identifier("d", "t"), "a")
    for _ in range(2):
        lake.drop_database("d", cascade=True) if whole else lake.drop_table(table.identifier)
        lake.undrop_database("d") if whole else lake.undrop_table(table.identifier)
    lake.drop_database("d", cascade=True) if whole else lake.drop_table(table.identifier)
    older(dsn, tmp_path / "old")
    lake.undrop_database("d") if whole else lake.undrop_table(table.identifier)
    older(dsn, tmp_path / "old", back=True)
    age(dsn, 8)
    fresh = Lake(catalog, str(warehouse), drop_retention=timedelta(days=7))
    assert (fresh.sweep_drops(), drops(fresh)) == (0, ["d.t"])
    (trouble,) = fresh.standing.troubles()
    assert "its drop was taken back" in trouble.problem
    fresh.undrop_database("d") if whole else fresh.undrop_table(table.identifier)
    assert names(fresh.open(table.identifier)) == ["a"]
    fresh.drop_table(table.identifier)  # which the file does not tell of
    age(dsn, 8)
    assert fresh.sweep_drops() == 1
    fresh.close()


@pytest.mark.parametrize("rows", [True, False])
def test_another_table_in_the_place_of_a_dropped_one_is_not_removed(
    lake: Lake, catalog: CatalogStore, dsn: str, warehouse: Path, tmp_path: Path, rows: bool
) -> None:
    """The dropped one had gone for good meanwhile, which the older catalog does not know."""
    make(lake, T, *(["a"] if rows else []))
    lake.drop_table(T)
    older(dsn, tmp_path / "old")
    lake.purge_dropped_table(T)
    place = Path(make(lake, T).location)
    older(dsn, tmp_path / "old", back=True)
    age(dsn, 8)
    fresh = Lake(catalog, str(warehouse))
    assert fresh.sweep_drops() == 0
    assert (place / "schema/schema-0").exists()
    fresh.purge_dropped_table(T)
    assert (place / "schema/schema-0").exists()
    fresh.close()


def test_a_clients_tag_of_before_the_drop_is_no_use_since(lake: Lake, dsn: str, warehouse: Path) -> None:
    """Nobody has looked at the tags between it and the drop; a tag that is written later is one."""
    lake.tags.create(make(lake, T, "a"), "first", snapshot_id=1)
    tags = warehouse / "default.db/t/tag"
    (tags / "tag-clients").write_bytes((tags / "tag-first").read_bytes())
    lake.drop_table(T)
    age(dsn, 8)
    assert lake.sweep_drops() == 0
    before = time.time() - 120
    os.utime(tags / "tag-clients", (before, before))
    assert lake.sweep_drops() == 1
    assert not tags.exists()


class FullIO(LocalFileIO):
    """A disk from which nothing can be removed for now."""

    refuses = True

    def delete_tree(self, path: str) -> None:
        if self.refuses:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        super().delete_tree(path)


@pytest.mark.parametrize("made_again", [True, False])
def test_a_directory_on_record_is_not_removed_once_a_later_table_lies_there(
    catalog: CatalogStore, dsn: str, warehouse: Path, tmp_path: Path, made_again: bool, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FullIO()
    lake = Lake(catalog, str(warehouse), file_io=disk)
    make(lake, T, "old")
    lake.drop_table(T, purge=True)
    older(dsn, tmp_path / "old")
    disk.refuses = False
    if made_again:
        assert make(lake, T, "new").location == str(warehouse / "default.db/t")
    older(dsn, tmp_path / "old", back=True)
    fresh = Lake(catalog, str(warehouse))
    fresh.recover()
    fresh.sweep_drops()
    assert (warehouse / "default.db/t").exists() is made_again
    assert ("default.db/t/snapshot/snapshot-1 is not of what was dropped" in caplog.text) is made_again
    if made_again:
        with pytest.raises(InvalidName, match="already holds a table's files the catalog does not know"):
            make(fresh, T)
        (difference,) = differences(catalog, str(warehouse))
        assert difference.statement == f"CALL sys.register_table('default.t', '{warehouse}/default.db/t')"
        fresh.register_table(Identifier("default", "found"), str(warehouse / "default.db/t"))
        assert names(fresh.open(Identifier("default", "found"))) == ["new"]
    fresh.close()
    lake.close()


def test_a_branch_made_since_where_another_was_being_removed_stays(
    catalog: CatalogStore, dsn: str, warehouse: Path, tmp_path: Path
) -> None:
    disk = FullIO()
    lake = Lake(catalog, str(warehouse), file_io=disk)
    lake.tags.create(make(lake, T, "a"), "first", snapshot_id=1)
    lake.branches.create(lake.open(T), "side", from_tag="first")
    lake.open(SIDE)
    lake.branches.drop(lake.open(T), ["side"])
    older(dsn, tmp_path / "old")
    disk.refuses = False
    lake.branches.create(lake.open(T), "side", from_tag="first")
    into_a_branch(lake)
    older(dsn, tmp_path / "old", back=True)
    fresh = Lake(catalog, str(warehouse))
    with pytest.raises(InvalidName, match=r"branch/branch-side holds one that this catalog, .* does not have"):
        fresh.branches.create(fresh.open(T), "side", from_tag="first")
    fresh.recover()
    assert fresh.repair_table(T).branches == ("side",)
    assert names(fresh.open(SIDE)) == ["a", "late"]
    fresh.close()
    lake.close()


def test_other_drops_are_swept_beside_one_that_is_kept(
    lake: Lake, catalog: CatalogStore, dsn: str, warehouse: Path, tmp_path: Path
) -> None:
    lake.create_database("d")
    for table in (T, Identifier("d", "t"), Identifier("default", "u")):
        make(lake, table, "a")
    lake.drop_table(T)
    lake.drop_table(Identifier("default", "u"))
    lake.drop_database("d", cascade=True)
    older(dsn, tmp_path / "old")
    lake.undrop_table(T)
    insert(lake)
    older(dsn, tmp_path / "old", back=True)
    age(dsn, 8)
    assert (lake.sweep_drops(), drops(lake)) == (3, ["default.t"])
    lake.purge_dropped_table(T)  # who wants it gone says so
    assert not (warehouse / "default.db/t").exists()
