"""Random sequences of create, insert, drop, undrop, purge and sweep, against a model of what must be there."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from catalog import CatalogStore
from lake import Lake
from model.catalog_errors import DropNotExist
from model.errors import AlreadyExist, NotExist
from model.identifier import Identifier
from tests.lake.tables.test_drops import age
from tests.lake.tables.test_tables import a_schema
from tests.lake.test_commit import append, names

DATABASES, TABLES = ("d", "e"), ("t", "u")
STEPS = 60


@dataclass
class Model:
    """What exists and what can be brought back: rows of tables, by database and table."""

    live: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    dropped: list[tuple[str, object, str, list[str], object]] = field(default_factory=list)
    """Oldest first: database's name, the database it was in, table's name, rows, and the drop of the database it went with."""
    databases: list[tuple[str, object, object]] = field(default_factory=list)
    """Dropped ones, oldest first: name, which one it was, and its drop."""
    which: dict[str, object] = field(default_factory=dict)
    """Which database of a name is there."""


def step(rng: Random, lakes: list[Lake], model: Model, number: int, dsn: str) -> None:
    lake = rng.choice(lakes)
    database, table = rng.choice(DATABASES), rng.choice(TABLES)
    name = Identifier(database, table)
    there = model.live.get(database)
    match rng.choice(["create", "insert", "insert", "drop", "undrop", "undrop", "purge", "make", "cascade", "restore", "sweep"]):
        case "make":
            assert lake.create_database(database, if_not_exists=True) is (there is None)
            if there is None:
                model.live[database], model.which[database] = {}, object()
        case "create":
            try:
                lake.create_table(name, a_schema())
                assert there is not None
                assert table not in there
                there[table] = []
            except (AlreadyExist, NotExist):
                assert there is None or table in there
        case "insert":
            try:
                lake.commit(lake.open(name), append(str(number)))
                assert there is not None
                there[table].append(str(number))
            except NotExist:
                assert there is None or table not in there
        case "drop":
            lake.drop_table(name, if_exists=True) if there is not None else None
            if there is not None and table in there:
                model.dropped.append((database, model.which[database], table, there.pop(table), None))
        case "purge":
            mine = [one for one in model.dropped if (one[0], one[2]) == (database, table)]
            try:
                lake.purge_dropped_table(name)
                model.dropped.remove(mine[-1])
            except DropNotExist:
                assert not mine
        case "undrop":
            mine = [one for one in model.dropped if (one[0], one[2]) == (database, table)]
            try:
                lake.undrop_table(name)
                assert there is not None
                assert table not in there
                there[table] = mine[-1][3]
                model.dropped.remove(mine[-1])
            except DropNotExist:
                assert not mine
            except (AlreadyExist, NotExist):
                assert there is None or table in there
        case "cascade":
            lake.drop_database(database, if_exists=True, cascade=True)
            if there is not None:
                drop, which = object(), model.which.pop(database)
                model.databases.append((database, which, drop))
                model.dropped += [(database, which, own, rows, drop) for own, rows in sorted(model.live.pop(database).items())]
        case "restore":
            of_name = [one for one in model.databases if one[0] == database]
            try:
                lake.undrop_database(database)
                newest = of_name[-1]
                assert there is None
                model.databases.remove(newest)
                back = [one for one in model.dropped if one[4] is newest[2]]
                model.dropped = [one for one in model.dropped if one not in back]
                model.live[database], model.which[database] = {own: rows for _, _, own, rows, _ in back}, newest[1]
            except DropNotExist:
                assert not of_name
            except AlreadyExist:
                assert there is not None
        case "sweep":
            if rng.random() < 0.3:
                age(dsn, 8)
                lake.sweep_drops()
                model.dropped, model.databases = [], []


def look(lake: Lake, model: Model) -> None:
    assert lake.list_databases() == sorted(["default", *model.live])
    for database, tables in model.live.items():
        assert lake.list_tables(database) == sorted(tables)
        for table, rows in tables.items():
            opened = lake.open(Identifier(database, table))
            assert names(opened) == rows
            assert Path(opened.location, "schema/schema-0").exists()
    assert sorted(str(one.identifier) for one in lake.dropped_tables()) == sorted(f"{one[0]}.{one[2]}" for one in model.dropped)
    assert sorted(one.name for one in lake.dropped_databases()) == sorted(one[0] for one in model.databases)


@pytest.mark.parametrize("seed", [1, 2])
def test_what_exists_and_what_can_be_brought_back(catalog: CatalogStore, warehouse: Path, dsn: str, seed: int) -> None:
    lakes = [Lake(catalog, str(warehouse), drop_retention=timedelta(days=7)) for _ in range(2)]
    rng, model = Random(seed), Model()
    for number in range(STEPS):
        step(rng, lakes, model, number, dsn)
        if number % 5 == 0:
            look(lakes[0], model)
    look(lakes[1], model)
    age(dsn, 8)
    lakes[0].sweep_drops()
    left = {str(path.parent) for path in warehouse.rglob("schema")}
    assert left == {lakes[0].open(Identifier(d, t)).location.removeprefix("file://") for d, ts in model.live.items() for t in ts}
    for lake in lakes:
        lake.close()
