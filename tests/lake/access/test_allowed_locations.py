"""Where tables may be put: no spelling and no link leads into another table's directory, around one, or to the place of a future one."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from catalog import CatalogStore
from lake import Lake
from lake.access.callers import Caller
from model.access import EVERYTHING, Access, Grant, database_resource
from model.errors import Forbidden, InvalidName, InvalidOption, LakeError
from model.identifier import Identifier
from model.schema.schema import Schema, column, new_schema
from tests.lake.test_commit import append, names

T, U = Identifier("default", "t"), Identifier("default", "u")


def a_schema() -> Schema:
    return new_schema([column("id", "BIGINT"), column("v", "STRING")], options={"bucket": "1", "bucket-key": "id"})


@pytest.fixture
def imports(tmp_path: Path) -> Path:
    (tmp_path / "imports").mkdir()
    return tmp_path / "imports"


@pytest.fixture
def lake(catalog: CatalogStore, warehouse: Path, imports: Path) -> Iterator[Lake]:
    made = Lake(catalog, str(warehouse), import_dirs=[str(imports)])
    yield made
    made.close()


SPELLED = [
    "{}",
    "/{}",
    "//{}",
    "file:{}",
    "file://{}",
    "file:///{}",
    "file:////{}",
    "FILE:{}",
    "{}/",
    "{}/.",
    "{}//",
    "{}/x/..",
    "{}/bucket-0",
    "{}/..",
]


@pytest.mark.parametrize("spelled", SPELLED)
def test_a_table_is_registered_once_however_its_place_is_spelled(lake: Lake, spelled: str) -> None:
    lake.create_table(T, a_schema())
    with pytest.raises((InvalidName, Forbidden)):
        lake.register_table(U, spelled.format(lake.open(T).location))
    assert lake.list_tables("default") == ["t"]


def test_links_lead_to_the_place_they_mean(lake: Lake, warehouse: Path, imports: Path) -> None:
    lake.create_table(T, a_schema())
    lying = imports / "lying"
    shutil.copytree(warehouse / "default.db" / "t", lying)
    (imports / "alias").symlink_to(lying)
    (imports / "around").symlink_to(imports)
    (imports / "ours").symlink_to(warehouse / "default.db" / "t")
    (warehouse / "away").symlink_to(warehouse / "default.db")
    for path in (imports / "ours", warehouse / "away" / "t"):
        with pytest.raises((InvalidName, Forbidden)):
            lake.register_table(U, str(path))
    with pytest.raises(InvalidName):
        lake.create_table(U, a_schema(), path=f"{warehouse}/away/future")
    lake.register_table(U, str(imports / "alias"))
    assert lake.open(U).location == os.path.realpath(lying)
    for path in (lying, imports / "around" / "lying", imports / "around" / "around" / "alias"):
        with pytest.raises(InvalidName, match="already"):
            lake.register_table(Identifier("default", "v"), str(path))


def test_no_new_table_lies_in_around_or_in_the_way_of_another(lake: Lake, warehouse: Path) -> None:
    lake.create_table(T, a_schema())
    lake.create_table(U, a_schema(), path=f"file:///{warehouse}/apart/deep/u")
    assert lake.open(U).location == f"{warehouse}/apart/deep/u"
    nobody = Identifier("default", "nobody")
    for path in (
        "default.db/future", "default.db/t/sub", "default.db", "apart", "apart/deep", "apart/deep/u", "apart//deep/./u/sub",
        "x.db/t", "x/y.db/t", ".sluice/t", "", "../outside", "a/../default.db/future",
    ):  # fmt: skip
        with pytest.raises(InvalidName):
            lake.create_table(nobody, a_schema(), path=f"{warehouse}/{path}")
    for path in ("relative", "s3:x", "file://host/x", f"{warehouse}/a\0b"):
        with pytest.raises(LakeError):
            lake.create_table(nobody, a_schema(), path=path)
    lake.create_table(Identifier("default", "future"), a_schema())


def test_what_was_left_in_a_databases_directory_takes_its_right(lake: Lake, warehouse: Path) -> None:
    lake.create_database("mine")
    lake.create_database("theirs")
    lake.create_table(T, a_schema())
    left = warehouse / "theirs.db" / "left"
    shutil.copytree(warehouse / "default.db" / "t", left)
    grant = Grant(resource=database_resource("mine"), access=Access.CREATETABLE, principal="ada")
    ada = lake.for_caller(Caller(principal="ada", grants=(grant,)))
    with pytest.raises(Forbidden, match="CREATETABLE"):
        ada.register_table(Identifier("mine", "t"), str(left))
    with pytest.raises(Forbidden):
        ada.register_table(Identifier("mine", "t"), "/etc")
    with pytest.raises(InvalidOption):
        ada.register_table(Identifier("mine", "t"), "etc")
    lake.register_table(Identifier("theirs", "left"), str(left))


def test_a_migration_takes_no_tables_files(catalog: CatalogStore, lake: Lake, warehouse: Path, imports: Path) -> None:
    lake.create_table(T, a_schema())
    lake.commit(lake.open(T), append("a"))
    wide = Lake(catalog, str(warehouse), import_dirs=[str(warehouse.parent)])
    for source in (warehouse / "default.db" / "t" / "bucket-0", warehouse / "default.db", warehouse.parent):
        with pytest.raises(InvalidName):
            wide.migrate_table(U, str(source))
    (imports / "hive").mkdir()
    data = next((warehouse / "default.db" / "t").rglob("*.parquet"), None) or warehouse / "default.db" / "t" / "schema" / "schema-0"
    (imports / "hive" / "x.parquet").symlink_to(data)
    with pytest.raises(Forbidden):
        wide.migrate_table(U, str(imports / "hive"))
    wide.close()


def test_a_name_given_back_and_forth_keeps_one_place(lake: Lake, warehouse: Path) -> None:
    """A late file in the directory of the old name once tore the table in two."""
    lake.create_table(T, a_schema())
    lake.commit(lake.open(T), append("a"))
    lake.rename_table(T, U)
    late = warehouse / "default.db" / "t" / "bucket-0" / "late.parquet"
    late.parent.mkdir(parents=True, exist_ok=True)
    late.write_bytes(b"late")
    lake.rename_table(U, T)
    assert names(lake.open(T)) == ["a"]
    lake.commit(lake.open(T), append("b"))
    assert names(lake.open(T)) == ["a", "b"]
    lake.drop_table(T)
    assert not list((warehouse / "default.db").iterdir())


def test_renames_beside_four_writers_tear_nothing(lake: Lake) -> None:
    lake.create_table(T, a_schema())
    done, acknowledged, lock = threading.Event(), [], threading.Lock()
    odd: list[BaseException] = []

    def write(writer: int) -> None:
        number = 0
        while not done.is_set():
            row = f"{writer}-{number}"
            for name in (T, U):
                try:
                    lake.commit(lake.open(name), append(row))
                except LakeError as problem:
                    if problem.status not in (404, 409):
                        odd.append(problem)
                        return
                else:
                    with lock:
                        acknowledged.append(row)
                    number += 1
                    break

    writers = [threading.Thread(target=write, args=(at,)) for at in range(4)]
    for thread in writers:
        thread.start()
    for _ in range(15):
        lake.rename_table(T, U)
        lake.rename_table(U, T)
    while len(acknowledged) < 20 and not odd:
        done.wait(0.05)
    done.set()
    for thread in writers:
        thread.join()
    assert not odd
    assert sorted(names(lake.open(T))) == sorted(acknowledged)


@pytest.mark.parametrize("moved", [False, True])
def test_a_table_an_earlier_version_was_moving_opens_where_its_files_lie(
    catalog: CatalogStore, lake: Lake, warehouse: Path, moved: bool
) -> None:
    lake.create_table(T, a_schema())
    lake.commit(lake.open(T), append("a"))
    directory = warehouse / "default.db"
    with catalog.transaction() as tx:
        tx.tables._conn.execute(
            "UPDATE sluice_table SET name = 'u', location = %s, moving_from = %s", (str(directory / "u"), str(directory / "t"))
        )
    if moved:
        (directory / "t").rename(directory / "u")
    else:
        (directory / "u" / "bucket-0").mkdir(parents=True)
    lake.recover()
    with catalog.reading() as tx:
        row = tx.tables.get(U)
    assert (row.location, row.moving_from) == (str(directory / ("u" if moved else "t")), None)
    assert names(lake.open(U)) == ["a"]
    lake.commit(lake.open(U), append("b"))
    assert names(lake.open(U)) == ["a", "b"]


def only_creates_in(lake: Lake, database: str) -> Lake:
    """As somebody who has CREATETABLE on one database, and nothing else."""
    grant = Grant(resource=database_resource(database), access=Access.CREATETABLE, principal="ada")
    return lake.for_caller(Caller(principal="ada", grants=(grant,)))


@pytest.mark.parametrize("left", ["ext/pay", "pay", "deep/er/pay", "x/y.db/pay"])
def test_what_an_external_table_left_in_the_warehouse_is_not_everybodys(lake: Lake, warehouse: Path, left: str) -> None:
    """Nobody reads files of the warehouse as they lie, and what a dropped table's rules kept is there still."""
    lake.create_database("mine")
    place = warehouse / left
    lake.create_table(T, a_schema(), path=f"{warehouse}/lies/here")
    lake.commit(lake.open(T), append("secret"))
    lake.drop_table(T, purge=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    (warehouse / "lies" / "here").rename(place)
    name = Identifier("mine", "pay")
    ada = only_creates_in(lake, "mine")
    for path in (str(place), f"file://{place}", f"{place}/", f"{warehouse}/mine.db/../{left}"):
        with pytest.raises(Forbidden, match="CREATETABLE on all in the catalog"):
            ada.register_table(name, path)
        with pytest.raises(LakeError):
            ada.create_table(name, a_schema(), path=path)
    everywhere = Grant(resource=EVERYTHING, access=Access.CREATETABLE, principal="eve")
    lake.for_caller(Caller(principal="eve", grants=(everywhere,))).register_table(name, str(place))
    assert names(lake.open(name)) == ["secret"]


def test_an_import_directory_in_the_warehouse_is_one(catalog: CatalogStore, lake: Lake, warehouse: Path) -> None:
    lake.create_table(T, a_schema())
    shutil.copytree(warehouse / "default.db" / "t", warehouse / "incoming" / "t")
    lake.create_database("mine")
    inside = Lake(catalog, str(warehouse), import_dirs=[str(warehouse / "incoming")])
    around = Lake(catalog, str(warehouse), import_dirs=[str(warehouse.parent)])
    with pytest.raises(Forbidden, match="CREATETABLE on all in the catalog"):
        only_creates_in(around, "mine").register_table(Identifier("mine", "t"), str(warehouse / "incoming" / "t"))
    only_creates_in(inside, "mine").register_table(Identifier("mine", "t"), str(warehouse / "incoming" / "t"))
    inside.close()
    around.close()
