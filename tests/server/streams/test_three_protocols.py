"""What is done through one of the endpoints is seen through all of them (`style.md` 28): Python, REST, SQL over HTTP."""

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
from tests.server.protocols import Endpoint, PythonDoor, RestDoor, SqlDoor, refusal

ENDPOINTS = (PythonDoor, RestDoor, SqlDoor)
COLUMNS = [("id", "BIGINT NOT NULL"), ("s", "STRING")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """All endpoints of one catalog."""

    endpoints: tuple[Endpoint, ...]

    def all_see(self, expected: object, look: Callable[[Endpoint], Any]) -> None:
        """Every endpoint shows the same, and this."""
        assert {type(endpoint).__name__: look(endpoint) for endpoint in self.endpoints} == {
            type(endpoint).__name__: expected for endpoint in self.endpoints
        }

    def all_refuse(self, expected: type[LakeError], act: Callable[[Endpoint], object]) -> None:
        """Every endpoint refuses with the same words, as far as it has them."""
        for endpoint in self.endpoints:
            told = refusal(lambda endpoint=endpoint: act(endpoint))  # type: ignore[misc] # mypy does not infer a default of a lambda
            assert told.is_of(expected), (type(endpoint).__name__, told, expected)


@pytest.fixture
def house(gateway: Gateway, client: FlaskClient) -> Environment:
    endpoints: tuple[Endpoint, ...] = tuple(made(gateway.lake, client) for made in ENDPOINTS)
    endpoints[0].create_database("d", {})
    return Environment(endpoints=endpoints)


@pytest.fixture(params=range(len(ENDPOINTS)), ids=[endpoint.__name__ for endpoint in ENDPOINTS])
def endpoint(request: pytest.FixtureRequest, house: Environment) -> Endpoint:
    """Through which a test acts."""
    chosen: int = request.param
    return house.endpoints[chosen]


@pytest.fixture
def table(endpoint: Endpoint) -> str:
    """A table made through it."""
    endpoint.create_table("d.t", COLUMNS, options={"bucket": "-1"}, comment="said")
    return "d.t"


def test_databases(house: Environment, endpoint: Endpoint) -> None:
    endpoint.create_database("e", {"k": "v"})
    house.all_see(["d", "default", "e"], lambda one: one.databases())
    house.all_refuse(DatabaseAlreadyExist, lambda one: one.create_database("e", {"k": "v"}))
    endpoint.alter_database("e", {"k": "w", "more": "1"})
    house.all_see({"k": "w", "more": "1"}, lambda one: one.database_options("e"))
    endpoint.drop_database("e")
    house.all_see(["d", "default"], lambda one: one.databases())
    house.all_refuse(DatabaseNotExist, lambda one: one.drop_database("e"))
    house.all_refuse(DatabaseNotExist, lambda one: one.tables("e"))


def test_tables(house: Environment, endpoint: Endpoint, table: str) -> None:
    house.all_see(["t"], lambda one: one.tables("d"))
    house.all_see([("id", "BIGINT NOT NULL"), ("s", "STRING")], lambda one: one.columns(table))
    house.all_refuse(TableAlreadyExist, lambda one: one.create_table(table, COLUMNS, options={"bucket": "-1"}, comment=""))
    house.all_refuse(DatabaseNotExist, lambda one: one.create_table("no.t", COLUMNS, options={"bucket": "-1"}, comment=""))
    endpoint.rename_table(table, "d.u")
    house.all_see(["u"], lambda one: one.tables("d"))
    house.all_refuse(TableNotExist, lambda one: one.columns(table))
    house.all_refuse(TableNotExist, lambda one: one.rename_table(table, "d.v"))
    endpoint.drop_table("d.u")
    house.all_see([], lambda one: one.tables("d"))
    house.all_refuse(TableNotExist, lambda one: one.drop_table("d.u"))


def test_columns(house: Environment, endpoint: Endpoint, table: str) -> None:
    endpoint.add_column(table, "n", "DECIMAL(10, 2)")
    endpoint.rename_column(table, "s", "text")
    house.all_see([("id", "BIGINT NOT NULL"), ("text", "STRING"), ("n", "DECIMAL(10, 2)")], lambda one: one.columns(table))
    house.all_refuse(ColumnAlreadyExist, lambda one: one.add_column(table, "n", "INT"))
    house.all_refuse(ColumnNotExist, lambda one: one.rename_column(table, "none", "x"))
    endpoint.drop_column(table, "n")
    house.all_see([("id", "BIGINT NOT NULL"), ("text", "STRING")], lambda one: one.columns(table))
    house.all_refuse(ColumnNotExist, lambda one: one.drop_column(table, "n"))


def test_options(house: Environment, endpoint: Endpoint, table: str) -> None:
    endpoint.set_option(table, "snapshot.num-retained.max", "70")
    house.all_see({"bucket": "-1", "snapshot.num-retained.max": "70"}, lambda one: one.options(table))
    endpoint.reset_option(table, "snapshot.num-retained.max")
    house.all_see({"bucket": "-1"}, lambda one: one.options(table))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bucket", "many"), ("bucket", "0"), ("target-file-size", "lots"), ("target-file-size", "0"),
        ("spill-compression", "nonsense"), ("spill-compression.zstd-level", "23"), ("snapshot.num-retained.min", "few"),
        ("snapshot.time-retained", "soon"), ("write-only", "maybe"),
    ],
)  # fmt: skip
def test_values_no_client_could_read(house: Environment, table: str, key: str, value: str) -> None:
    house.all_refuse(InvalidOption, lambda one: one.set_option(table, key, value))
    house.all_refuse(InvalidOption, lambda one: one.create_table("d.u", COLUMNS, options={key: value}, comment=""))
    house.all_see({"bucket": "-1"}, lambda one: one.options(table))


def test_rows_and_snapshots(house: Environment, endpoint: Endpoint, table: str) -> None:
    house.all_see(0, lambda one: one.records(table))
    house.all_see([], lambda one: one.snapshots(table))
    endpoint.append(table)
    house.all_see(2, lambda one: one.records(table))
    endpoint.append(table)
    house.all_see(4, lambda one: one.records(table))
    house.all_see([1, 2], lambda one: one.snapshots(table))
    endpoint.rollback(table, 1)
    house.all_see(2, lambda one: one.records(table))
    house.all_see([1], lambda one: one.snapshots(table))
    house.all_refuse(SnapshotNotExist, lambda one: one.rollback(table, 9))


def test_all_doors_write_one_table(house: Environment, table: str) -> None:
    for turn, endpoint in enumerate([*house.endpoints, *house.endpoints], start=1):
        endpoint.append(table)
        house.all_see(2 * turn, lambda one: one.records(table))
    house.all_see([1, 2, 3, 4, 5, 6], lambda one: one.snapshots(table))


def test_partitions(house: Environment, endpoint: Endpoint) -> None:
    endpoint.create_table("d.p", COLUMNS, options={"bucket": "-1"}, comment="", partition="s")
    house.all_see([], lambda one: one.partitions("d.p"))
    endpoint.append("d.p")
    house.all_see(["s=x"], lambda one: one.partitions("d.p"))


def test_tags(house: Environment, endpoint: Endpoint, table: str) -> None:
    endpoint.append(table)
    endpoint.append(table)
    endpoint.create_tag(table, "first", 1)
    house.all_see(["first"], lambda one: one.tags(table))
    house.all_refuse(TagAlreadyExist, lambda one: one.create_tag(table, "first", 1))
    house.all_refuse(SnapshotNotExist, lambda one: one.create_tag(table, "ninth", 9))
    endpoint.delete_tag(table, "first")
    house.all_see([], lambda one: one.tags(table))
    house.all_refuse(TagNotExist, lambda one: one.delete_tag(table, "first"))


def test_branches(house: Environment, endpoint: Endpoint, table: str) -> None:
    endpoint.append(table)
    endpoint.create_tag(table, "one", 1)
    endpoint.create_branch(table, "b", "one")
    house.all_see(["b"], lambda one: one.branches(table))
    house.all_refuse(BranchAlreadyExist, lambda one: one.create_branch(table, "b", "one"))
    house.all_refuse(TagNotExist, lambda one: one.create_branch(table, "c", "none"))
    endpoint.append("d.t$branch_b")
    house.all_see((4, 2), lambda one: (one.records("d.t$branch_b"), one.records(table)))
    endpoint.rename_branch(table, "b", "c")
    house.all_see(["c"], lambda one: one.branches(table))
    endpoint.fast_forward(table, "c")
    house.all_see(4, lambda one: one.records(table))
    endpoint.drop_branch(table, "c")
    house.all_see([], lambda one: one.branches(table))
    house.all_refuse(BranchNotExist, lambda one: one.drop_branch(table, "c"))
    house.all_refuse(BranchNotExist, lambda one: one.fast_forward(table, "c"))


def test_views(house: Environment, endpoint: Endpoint, table: str) -> None:
    endpoint.create_view("d.v", "SELECT id FROM t")
    house.all_see(["v"], lambda one: one.views("d"))
    house.all_refuse(ViewAlreadyExist, lambda one: one.create_view("d.v", "SELECT id FROM t"))
    endpoint.rename_view("d.v", "d.w")
    house.all_see(["w"], lambda one: one.views("d"))
    house.all_refuse(ViewNotExist, lambda one: one.rename_view("d.v", "d.x"))
    house.all_refuse(TableAlreadyExist, lambda one: one.create_table("d.w", COLUMNS, options={"bucket": "-1"}, comment=""))
    endpoint.drop_view("d.w")
    house.all_see([], lambda one: one.views("d"))
    house.all_refuse(ViewNotExist, lambda one: one.drop_view("d.w"))


def test_what_no_table_may_do(house: Environment, table: str) -> None:
    house.all_refuse(InvalidSchemaChange, lambda one: one.add_column(table, "n", "INT NOT NULL"))
