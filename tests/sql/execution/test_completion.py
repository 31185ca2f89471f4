"""Completion: names of the lake where names may stand, keywords where they may."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.identifier import Identifier
from model.schema.types import Field, VarCharType
from model.view import View
from tests.sql.tables import make_table


def fill(gateway: Gateway, lake: Lake) -> str:
    """Make the tables that are completed; a session."""
    make_table(lake, "orders", options=None, partition="", **{"id": "BIGINT", "amount": "INT", "odd name": "STRING"})
    make_table(lake, "people", id="BIGINT")
    gateway.run("CREATE DATABASE shop; CREATE TABLE shop.items (sku STRING)").close()
    return gateway.open_session()


@pytest.fixture
def session(gateway: Gateway, lake: Lake) -> str:
    return fill(gateway, lake)


@pytest.fixture(scope="module")
def shared(module_gateway: Gateway) -> str:
    """The session of those that only look."""
    return fill(module_gateway, module_gateway.lake)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("SELECT * FROM |", ["orders", "people", "default", "shop"]),
        ("SELECT * FROM o|", ["orders"]),
        ("SELECT * FROM ORD|", ["orders"]),
        ("select * from shop.|", ["shop.items"]),
        ("select * from sluice.shop.i|", ["sluice.shop.items"]),
        ("SELECT 1; INSERT INTO pe|", ["people"]),
        ("SELECT am| FROM orders", ["amount"]),
        ("SELECT o.am| FROM orders o", ["o.amount"]),
        ("SELECT od| FROM orders", ["`odd name`"]),
        ("SELECT s| FROM shop.items", ["sku", "SELECT", "SUM"]),
        ("SELECT id FROM orders WHE|", ["WHEN", "WHERE"]),
        ("USE |", ["default", "shop"]),
        ("DROP DATABASE s|", ["shop"]),
        ("SHOW C|", ["CATALOGS", "COLUMNS FROM", "CREATE TABLE", "CREATE VIEW", "CURRENT CATALOG", "CURRENT DATABASE"]),
        ("TRUNC|", ["TRUNCATE TABLE"]),
        ("SELECT * FROM nowhere.|", []),
    ],
)
def test_what_may_stand_there(module_gateway: Gateway, shared: str, typed: str, expected: list[str]) -> None:
    position = typed.index("|")
    assert module_gateway.complete(shared, typed.replace("|", ""), position) == expected


def test_the_sessions_database_counts(gateway: Gateway, session: str) -> None:
    gateway.run("USE shop", session=session).close()
    assert gateway.complete(session, "DESCRIBE ", 9) == ["items", "default", "shop"]


def test_names_that_mean_nothing_are_no_error(gateway: Gateway, session: str) -> None:
    assert gateway.complete(session, "SELECT zz FROM a.b.c.d, nowhere", 9) == []
    assert gateway.complete(session, "", 0)[:2] == ["ALTER DATABASE", "ALTER JOB"]
    assert gateway.complete(session, "SELECT", 999) == ["SELECT"]


def test_views_are_completed_behind_tables(gateway: Gateway, lake: Lake, session: str) -> None:
    fields = (Field(id=0, name="sku", type=VarCharType()),)
    lake.views.create(
        Identifier("shop", "fresh"), View(fields=fields, query="SELECT sku FROM items", dialects={}, comment=None, options={})
    )
    assert gateway.complete(session, "SELECT * FROM shop.", 19) == ["shop.items", "shop.fresh"]
    gateway.run("USE shop", session=session).close()
    assert gateway.complete(session, "DROP VIEW fr", 12) == ["fresh"]


@pytest.mark.parametrize("before", [" " * 300_000 + "!", "a" * 300_000 + " ", "FROM " * 100_000 + "x ", "a ." * 100_000 + "`"])
def test_a_long_text_holds_up_nobody(module_gateway: Gateway, shared: str, before: str) -> None:
    """Expressions that looked at it from every place took minutes, and nothing else ran meanwhile."""
    module_gateway.complete(shared, before, len(before))
    asked = f"{before}; SELECT * FROM o"
    assert module_gateway.complete(shared, asked, len(asked)) == ["orders"]
