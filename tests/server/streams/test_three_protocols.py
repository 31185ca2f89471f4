"""What is done through one of the doors is seen through all of them (`style.md` 28): Python, REST, SQL over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from flask.testing import FlaskClient

from gateway.gateway import Gateway
from model.catalog_errors import BranchAlreadyExist, BranchNotExist, TagAlreadyExist, ViewAlreadyExist, ViewNotExist
from model.errors import (
    ColumnAlreadyExist,
    ColumnNotExist,
    DatabaseAlreadyExist,
    DatabaseNotExist,
    InvalidOption,
    InvalidSchemaChange,
    LakeError,
    SnapshotNotExist,
    TableAlreadyExist,
    TableNotExist,
    TagNotExist,
)
from tests.server.protocols import Door, PythonDoor, RestDoor, SqlDoor, refusal

DOORS = (PythonDoor, RestDoor, SqlDoor)
COLUMNS = [("id", "BIGINT NOT NULL"), ("s", "STRING")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """All doors of one catalog."""

    doors: tuple[Door, ...]

    def all_see(self, expected: object, look: Callable[[Door], Any]) -> None:
        """Every door shows the same, and this."""
        assert {type(door).__name__: look(door) for door in self.doors} == {type(door).__name__: expected for door in self.doors}

    def all_refuse(self, expected: type[LakeError], act: Callable[[Door], object]) -> None:
        """Every door refuses with the same words, as far as it has them."""
        for door in self.doors:
            told = refusal(lambda door=door: act(door))  # type: ignore[misc] # mypy does not infer a default of a lambda
            assert told.is_of(expected), (type(door).__name__, told, expected)


@pytest.fixture
def house(gateway: Gateway, client: FlaskClient) -> Environment:
    doors: tuple[Door, ...] = tuple(made(gateway.lake, client) for made in DOORS)
    doors[0].create_database("d", {})
    return Environment(doors=doors)


@pytest.fixture(params=range(len(DOORS)), ids=[door.__name__ for door in DOORS])
def door(request: pytest.FixtureRequest, house: Environment) -> Door:
    """Through which a test acts."""
    chosen: int = request.param
    return house.doors[chosen]


@pytest.fixture
def table(door: Door) -> str:
    """A table made through it."""
    door.create_table("d.t", COLUMNS, options={"bucket": "-1"}, comment="said")
    return "d.t"


def test_databases(house: Environment, door: Door) -> None:
    door.create_database("e", {"k": "v"})
    house.all_see(["d", "default", "e"], lambda one: one.databases())
    house.all_refuse(DatabaseAlreadyExist, lambda one: one.create_database("e", {"k": "v"}))
    door.alter_database("e", {"k": "w", "more": "1"})
    house.all_see({"k": "w", "more": "1"}, lambda one: one.database_options("e"))
    door.drop_database("e")
    house.all_see(["d", "default"], lambda one: one.databases())
    house.all_refuse(DatabaseNotExist, lambda one: one.drop_database("e"))
    house.all_refuse(DatabaseNotExist, lambda one: one.tables("e"))


def test_tables(house: Environment, door: Door, table: str) -> None:
    house.all_see(["t"], lambda one: one.tables("d"))
    house.all_see([("id", "BIGINT NOT NULL"), ("s", "STRING")], lambda one: one.columns(table))
    house.all_refuse(TableAlreadyExist, lambda one: one.create_table(table, COLUMNS, options={"bucket": "-1"}, comment=""))
    house.all_refuse(DatabaseNotExist, lambda one: one.create_table("no.t", COLUMNS, options={"bucket": "-1"}, comment=""))
    door.rename_table(table, "d.u")
    house.all_see(["u"], lambda one: one.tables("d"))
    house.all_refuse(TableNotExist, lambda one: one.columns(table))
    house.all_refuse(TableNotExist, lambda one: one.rename_table(table, "d.v"))
    door.drop_table("d.u")
    house.all_see([], lambda one: one.tables("d"))
    house.all_refuse(TableNotExist, lambda one: one.drop_table("d.u"))


def test_columns(house: Environment, door: Door, table: str) -> None:
    door.add_column(table, "n", "DECIMAL(10, 2)")
    door.rename_column(table, "s", "text")
    house.all_see([("id", "BIGINT NOT NULL"), ("text", "STRING"), ("n", "DECIMAL(10, 2)")], lambda one: one.columns(table))
    house.all_refuse(ColumnAlreadyExist, lambda one: one.add_column(table, "n", "INT"))
    house.all_refuse(ColumnNotExist, lambda one: one.rename_column(table, "none", "x"))
    door.drop_column(table, "n")
    house.all_see([("id", "BIGINT NOT NULL"), ("text", "STRING")], lambda one: one.columns(table))
    house.all_refuse(ColumnNotExist, lambda one: one.drop_column(table, "n"))


def test_options(house: Environment, door: Door, table: str) -> None:
    door.set_option(table, "snapshot.num-retained.max", "70")
    house.all_see({"bucket": "-1", "snapshot.num-retained.max": "70"}, lambda one: one.options(table))
    door.reset_option(table, "snapshot.num-retained.max")
    house.all_see({"bucket": "-1"}, lambda one: one.options(table))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bucket", "many"), ("bucket", "0"), ("target-file-size", "lots"), ("snapshot.num-retained.min", "few"),
        ("snapshot.time-retained", "soon"), ("write-only", "maybe"),
    ],
)  # fmt: skip
def test_values_no_client_could_read(house: Environment, table: str, key: str, value: str) -> None:
    house.all_refuse(InvalidOption, lambda one: one.set_option(table, key, value))
    house.all_refuse(InvalidOption, lambda one: one.create_table("d.u", COLUMNS, options={key: value}, comment=""))
    house.all_see({"bucket": "-1"}, lambda one: one.options(table))


def test_rows_and_snapshots(house: Environment, door: Door, table: str) -> None:
    house.all_see(0, lambda one: one.records(table))
    house.all_see([], lambda one: one.snapshots(table))
    door.append(table)
    house.all_see(2, lambda one: one.records(table))
    door.append(table)
    house.all_see(4, lambda one: one.records(table))
    house.all_see([1, 2], lambda one: one.snapshots(table))
    door.rollback(table, 1)
    house.all_see(2, lambda one: one.records(table))
    house.all_see([1], lambda one: one.snapshots(table))
    house.all_refuse(SnapshotNotExist, lambda one: one.rollback(table, 9))


def test_all_doors_write_one_table(house: Environment, table: str) -> None:
    for turn, door in enumerate([*house.doors, *house.doors], start=1):
        door.append(table)
        house.all_see(2 * turn, lambda one: one.records(table))
    house.all_see([1, 2, 3, 4, 5, 6], lambda one: one.snapshots(table))


def test_partitions(house: Environment, door: Door) -> None:
    door.create_table("d.p", COLUMNS, options={"bucket": "-1"}, comment="", partition="s")
    house.all_see([], lambda one: one.partitions("d.p"))
    door.append("d.p")
    house.all_see(["s=x"], lambda one: one.partitions("d.p"))


def test_tags(house: Environment, door: Door, table: str) -> None:
    door.append(table)
    door.append(table)
    door.create_tag(table, "first", 1)
    house.all_see(["first"], lambda one: one.tags(table))
    house.all_refuse(TagAlreadyExist, lambda one: one.create_tag(table, "first", 1))
    house.all_refuse(SnapshotNotExist, lambda one: one.create_tag(table, "ninth", 9))
    door.delete_tag(table, "first")
    house.all_see([], lambda one: one.tags(table))
    house.all_refuse(TagNotExist, lambda one: one.delete_tag(table, "first"))


def test_branches(house: Environment, door: Door, table: str) -> None:
    door.append(table)
    door.create_tag(table, "one", 1)
    door.create_branch(table, "b", "one")
    house.all_see(["b"], lambda one: one.branches(table))
    house.all_refuse(BranchAlreadyExist, lambda one: one.create_branch(table, "b", "one"))
    house.all_refuse(TagNotExist, lambda one: one.create_branch(table, "c", "none"))
    door.append("d.t$branch_b")
    house.all_see((4, 2), lambda one: (one.records("d.t$branch_b"), one.records(table)))
    door.rename_branch(table, "b", "c")
    house.all_see(["c"], lambda one: one.branches(table))
    door.fast_forward(table, "c")
    house.all_see(4, lambda one: one.records(table))
    door.drop_branch(table, "c")
    house.all_see([], lambda one: one.branches(table))
    house.all_refuse(BranchNotExist, lambda one: one.drop_branch(table, "c"))
    house.all_refuse(BranchNotExist, lambda one: one.fast_forward(table, "c"))


def test_views(house: Environment, door: Door, table: str) -> None:
    door.create_view("d.v", "SELECT id FROM t")
    house.all_see(["v"], lambda one: one.views("d"))
    house.all_refuse(ViewAlreadyExist, lambda one: one.create_view("d.v", "SELECT id FROM t"))
    door.rename_view("d.v", "d.w")
    house.all_see(["w"], lambda one: one.views("d"))
    house.all_refuse(ViewNotExist, lambda one: one.rename_view("d.v", "d.x"))
    house.all_refuse(TableAlreadyExist, lambda one: one.create_table("d.w", COLUMNS, options={"bucket": "-1"}, comment=""))
    door.drop_view("d.w")
    house.all_see([], lambda one: one.views("d"))
    house.all_refuse(ViewNotExist, lambda one: one.drop_view("d.w"))


def test_what_no_table_may_do(house: Environment, table: str) -> None:
    house.all_refuse(InvalidSchemaChange, lambda one: one.add_column(table, "n", "INT NOT NULL"))
