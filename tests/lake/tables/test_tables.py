"""Databases and tables: what the catalog decides, the files follow, also after a crash."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from catalog import CatalogStore
from lake import Lake
from model.errors import (
    ColumnNotExist,
    DatabaseAlreadyExist,
    DatabaseNotEmpty,
    DatabaseNotExist,
    InvalidName,
    InvalidOption,
    TableAlreadyExist,
    TableNotExist,
)
from model.identifier import Identifier
from model.schema.change import AddColumn, DropColumn
from model.schema.schema import Schema, column, new_schema
from model.schema.types import IntType
from model.view import SetViewOption, View

T = Identifier("default", "t")


def a_schema() -> Schema:
    return new_schema([column("id", "BIGINT"), column("v", "STRING")], options={"bucket": "1", "bucket-key": "id"})


class Crash(BaseException):
    """The process ends here."""


def crashing_at(step: str, catalog: CatalogStore, warehouse: Path) -> Lake:
    def hook(name: str) -> None:
        if name == step:
            raise Crash(name)

    return Lake(catalog, str(warehouse), hook=hook)


def test_options_of_databases_and_views_have_a_length_that_fits(lake: Lake) -> None:
    long, view = {"k": "v" * 1_000_000}, Identifier("default", "v")
    with pytest.raises(InvalidOption, match="at most"):
        lake.create_database("d", options=long)
    with pytest.raises(InvalidOption, match="at most"):
        lake.alter_database("default", set_options=long)
    with pytest.raises(InvalidOption, match="at most"):
        lake.views.create(view, View(fields=(), query="SELECT 1", options=long))
    lake.views.create(view, View(fields=(), query="SELECT 1"))
    with pytest.raises(InvalidOption, match="at most"):
        lake.views.alter(view, [SetViewOption(key="k", value="v" * 1_000_000)])


def test_databases_come_and_go(lake: Lake) -> None:
    assert lake.list_databases() == ["default"]
    assert lake.create_database("d", options={"a": "b"}, comment="c")
    assert not lake.create_database("d", if_not_exists=True)
    with pytest.raises(DatabaseAlreadyExist):
        lake.create_database("d")
    lake.alter_database("d", set_options={"x": "y"}, remove=["a"])
    assert lake.database("d").options == {"x": "y"}
    lake.create_table(Identifier("d", "t"), a_schema())
    with pytest.raises(DatabaseNotEmpty, match="holds 1 table"):
        lake.drop_database("d")
    lake.drop_database("d", cascade=True)
    assert lake.list_databases() == ["default"]
    lake.drop_database("d", if_exists=True)
    with pytest.raises(DatabaseNotExist):
        lake.drop_database("d")


@pytest.mark.parametrize("name", ["", " x", "a/b", "a\\b", "..", "a$b", "x" * 300, "a\nb"])
def test_names_no_directory_can_have(lake: Lake, name: str) -> None:
    with pytest.raises(InvalidName):
        lake.create_table(Identifier("default", name), a_schema())
    with pytest.raises(InvalidName):
        lake.create_database(name)


def test_a_table_lies_where_paimon_looks(lake: Lake, warehouse: Path) -> None:
    lake.create_table(T, a_schema())
    stored = json.loads((warehouse / "default.db" / "t" / "schema" / "schema-0").read_text())
    assert stored["options"] == {"bucket": "1", "bucket-key": "id"}
    assert lake.open(T).schema.to_json() == stored
    with pytest.raises(TableAlreadyExist):
        lake.create_table(T, a_schema())
    assert not lake.create_table(T, a_schema(), if_not_exists=True)
    with pytest.raises(DatabaseNotExist):
        lake.create_table(Identifier("nope", "t"), a_schema())


def test_a_foreign_table_is_not_built_over(lake: Lake, warehouse: Path) -> None:
    (warehouse / "default.db" / "t" / "schema").mkdir(parents=True)
    with pytest.raises(InvalidName, match="already holds"):
        lake.create_table(T, a_schema())
    assert lake.list_tables("default") == []


def test_alter_makes_one_version_or_none(lake: Lake, warehouse: Path) -> None:
    lake.create_table(T, a_schema())
    assert lake.alter_table(T, [AddColumn(name="x", type=IntType())]).id == 1
    with pytest.raises(ColumnNotExist):
        lake.alter_table(T, [AddColumn(name="y", type=IntType()), DropColumn(name="nope")])
    assert lake.open(T).schema.field_names == ("id", "v", "x")
    assert (warehouse / "default.db" / "t" / "schema" / "schema-1").exists()


def test_a_renamed_tables_files_stay_where_they_are(lake: Lake, warehouse: Path) -> None:
    lake.create_database("d")
    lake.create_table(T, a_schema())
    first = lake.open(T)
    lake.rename_table(T, Identifier("d", "u"))
    assert lake.open(Identifier("d", "u")).location == first.location == str(warehouse / "default.db" / "t")
    assert not (warehouse / "d.db").exists()
    with pytest.raises(TableNotExist):
        lake.open(T)
    lake.create_table(T, a_schema())
    second = lake.open(T)
    assert second.location == f"{first.location}-{second.table_id.hex[:8]}", "a name's place may be another table's"
    lake.drop_table(Identifier("d", "u"))
    assert Path(second.location, "schema", "schema-0").exists()
    lake.rename_table(T, Identifier("d", "u"))
    lake.create_table(T, a_schema())
    assert lake.open(T).location == first.location, "it is free again"
    with pytest.raises(TableAlreadyExist):
        lake.rename_table(T, Identifier("d", "u"))


@pytest.mark.parametrize("step", ["table decided", "schema decided", "rename decided", "drop decided"])
def test_what_a_crash_left_is_finished(catalog: CatalogStore, lake: Lake, warehouse: Path, step: str) -> None:
    dying = crashing_at(step, catalog, warehouse)
    if step != "table decided":
        lake.create_table(T, a_schema())
    steps: dict[str, Callable[[], object]] = {
        "table decided": lambda: dying.create_table(T, a_schema()),
        "schema decided": lambda: dying.alter_table(T, [AddColumn(name="x", type=IntType())]),
        "rename decided": lambda: dying.rename_table(T, Identifier("default", "u")),
        "drop decided": lambda: dying.drop_table(T),
    }
    with pytest.raises(Crash):
        steps[step]()
    dying.close()
    lake.recover()
    directory = warehouse / "default.db"
    if step == "drop decided":
        assert not (directory / "t").exists()
        lake.create_table(T, a_schema())
    elif step == "rename decided":
        assert lake.open(Identifier("default", "u")).location == str(directory / "t")
    else:
        newest = lake.open(T).schema
        assert json.loads((directory / "t" / "schema" / f"schema-{newest.id}").read_text()) == newest.to_json()


def test_a_name_is_free_again_while_the_old_files_still_go(catalog: CatalogStore, lake: Lake, warehouse: Path) -> None:
    lake.create_table(T, a_schema())
    dying = crashing_at("drop decided", catalog, warehouse)
    with pytest.raises(Crash):
        dying.drop_table(T)
    dying.close()
    lake.create_table(T, a_schema())
    lake.recover()
    assert lake.open(T).schema.id == 0
    assert (warehouse / "default.db" / "t" / "schema" / "schema-0").exists()
