"""A catalog that knows of a drop and not of what came after it, as a lagging standby or a restored backup: rows that came since stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from catalog import CatalogStore
from lake import Lake
from lake.register.after_restore import differences
from model.identifier import Identifier
from model.schema.change import SetOption
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


USES = (insert, into_a_branch, of_the_same_id, back, a_branch, an_option)


@pytest.mark.parametrize("use", USES)
def test_a_table_that_was_brought_back_and_used_is_not_removed(
    lake: Lake, catalog: CatalogStore, dsn: str, warehouse: Path, tmp_path: Path, use: Callable[[Lake], None]
) -> None:
    lake.tags.create(make(lake, T, "a", "b"), "first", snapshot_id=1)
    lake.branches.create(lake.open(T), "side", from_tag="first")
    lake.drop_table(T)
    older(dsn, tmp_path / "old")
    lake.undrop_table(T)
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
