"""What a catalog that is older than its warehouse changes of tags, branches and schemas: nothing that only a newer one knows may go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.rewrite.expiry import create_tag, delete_tags, rename_tag, replace_tag
from model.errors import InvalidName, TableDiverged
from model.schema.change import AddColumn
from model.schema.types import BigIntType
from tests.lake.register.test_standing import older
from tests.lake.test_commit import T, append, names
from tests.lake.test_commit import table as table
from tests.short import one_in

B = replace(T, branch="b")
Change = Callable[[Lake], object]


def on_disk(warehouse: Path) -> set[tuple[str, bytes]]:
    files = (path for path in (warehouse / "default.db/t").rglob("*") if path.is_file())
    return {(str(path), path.read_bytes()) for path in files}


TAGS: dict[str, Change] = {
    "create": lambda lake: create_tag(lake, lake.open(T), "new"),
    "create by REST": lambda lake: lake.tags.create(lake.open(T), "new"),
    "replace": lambda lake: replace_tag(lake, lake.open(T), "one", snapshot_id=2),
    "rename": lambda lake: rename_tag(lake, lake.open(T), "one", "new"),
    "delete": lambda lake: delete_tags(lake, lake.open(T), ["one"]),
    "delete by REST": lambda lake: lake.tags.delete(lake.open(T), "one"),
    "schema": lambda lake: lake.history.rollback_schema(lake.open(T), 0),
}


@pytest.mark.parametrize("change", one_in(3, TAGS))
def test_tags_and_schemas_stay_while_files_are_ahead(
    lake: Lake, table: LakeTable, dsn: str, catalog: CatalogStore, warehouse: Path, tmp_path: Path, change: str
) -> None:
    lake.commit(table, append("a"))
    create_tag(lake, table, "one", snapshot_id=1)
    lake.alter_table(T, [AddColumn(name="c", type=BigIntType())])
    lake.commit(table, append("b"))  # by whoever opened the table before
    lake._publisher._notifier.close()
    older(dsn, tmp_path / "old")
    lake.commit(lake.open(T), append("c"))  # the first of version 1
    create_tag(lake, lake.open(T), "new", snapshot_id=2)
    lake._publisher.close()
    older(dsn, tmp_path / "old", back=True)
    before = on_disk(warehouse)
    fresh = Lake(catalog, str(warehouse))
    with pytest.raises(TableDiverged):
        TAGS[change](fresh)
    assert on_disk(warehouse) == before
    fresh.repair_table(T)
    assert (names(fresh.open(T)), [tag.name for tag in fresh.tags.all(fresh.open(T))]) == (["a", "b", "c"], ["new", "one"])
    fresh.close()


BRANCHES: dict[str, Change] = {
    "drop": lambda lake: lake.branches.drop(lake.open(T), ["b"]),
    "rename": lambda lake: lake.branches.rename(lake.open(T), "b", "c"),
}


@pytest.mark.parametrize("change", BRANCHES)
def test_a_branch_whose_files_are_ahead_stays(
    lake: Lake, table: LakeTable, dsn: str, catalog: CatalogStore, warehouse: Path, tmp_path: Path, change: str
) -> None:
    lake.branches.create(table, "b")
    lake.commit(lake.open(B), append("a"))
    lake._publisher._notifier.close()
    older(dsn, tmp_path / "old")
    lake.commit(lake.open(B), append("b"))
    lake._publisher.close()
    older(dsn, tmp_path / "old", back=True)
    before = on_disk(warehouse)
    fresh = Lake(catalog, str(warehouse))
    with pytest.raises(TableDiverged, match=r"repair_table\('default.t\$branch_b'"):
        BRANCHES[change](fresh)
    assert on_disk(warehouse) == before
    fresh.repair_table(B)
    assert names(fresh.open(B)) == ["a", "b"]
    BRANCHES[change](fresh)
    fresh.close()


NAMES: dict[str, Change] = {
    "create": lambda lake: lake.branches.create(lake.open(T), "new", from_tag="one"),
    "rename": lambda lake: lake.branches.rename(lake.open(T), "b", "new"),
}


@pytest.mark.parametrize("change", NAMES)
def test_no_branch_comes_in_the_place_of_one_that_the_catalog_does_not_have(
    lake: Lake, table: LakeTable, dsn: str, catalog: CatalogStore, warehouse: Path, tmp_path: Path, change: str
) -> None:
    lake.commit(table, append("a"))
    create_tag(lake, table, "one")
    lake.branches.create(table, "b", from_tag="one")
    lake._publisher._notifier.close()
    older(dsn, tmp_path / "old")
    lake.branches.create(table, "new")
    lake.commit(lake.open(replace(T, branch="new")), append("x"))
    lake._publisher.close()
    older(dsn, tmp_path / "old", back=True)
    fresh = Lake(catalog, str(warehouse))
    with pytest.raises(InvalidName, match=r"repair_table\('default.t'\) registers it; or"):
        NAMES[change](fresh)
    assert fresh.repair_table(T).branches == ("new",)
    assert names(fresh.open(replace(T, branch="new"))) == ["x"]
    fresh.close()
