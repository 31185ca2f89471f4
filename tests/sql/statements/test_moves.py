"""What goes to another database is reached by what is granted there: it takes the right to grant, by every way of moving it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import Forbidden
from model.identifier import Identifier
from model.schema.types import Field, IntType
from model.view import View
from tests.lake.access.test_access import user

Ada = Callable[[str], list[tuple[object, ...]]]


@pytest.fixture
def ada(gateway: Gateway, lake: Lake) -> Ada:
    """Statements of a user with a database of her own, and nothing yet on the table and the view of database `shop`."""
    secret = user(lake, "ada")
    lake.drop_retention = timedelta(days=7)
    gateway.run("CREATE DATABASE shop; CREATE TABLE shop.orders (id INT, card STRING)")
    lake.views.create(Identifier("shop", "v"), View(fields=(Field(id=0, name="id", type=IntType()),), query="SELECT id FROM shop.orders"))
    gateway.run("CREATE POLICY few ON shop.orders TO ada USING (id = 1); GRANT CREATEDATABASE ON CATALOG TO ada")
    gateway.run("CREATE DATABASE mine", caller=lake.access.caller(secret))
    return lambda text: gateway.run(text, caller=lake.access.caller(secret)).collect()


MOVED = {
    "ALTER TABLE shop.orders RENAME TO mine.orders": "ALTER",
    "DROP TABLE shop.orders; UNDROP TABLE shop.orders AS mine.orders": "DROP",
}


@pytest.mark.parametrize("move", MOVED)
def test_a_table_is_moved_by_who_may_grant_on_it(gateway: Gateway, ada: Ada, move: str) -> None:
    gateway.run(f"GRANT {MOVED[move]} ON shop.orders TO ada")
    with pytest.raises(Forbidden, match="it takes GRANT"):
        ada(move)
    assert ada("SHOW TABLES FROM mine") == []
    if MOVED[move] == "DROP":
        assert ada("UNDROP TABLE shop.orders")
    gateway.run("GRANT GRANT ON shop.orders TO ada")
    ada(move)
    ada("DROP POLICY few ON mine.orders; SELECT * FROM mine.orders")


def test_a_database_of_the_name_that_was_made_since_is_another_one(gateway: Gateway, ada: Ada) -> None:
    gateway.run("GRANT DROP ON shop.orders TO ada")
    ada("DROP TABLE shop.orders")
    gateway.run("DROP DATABASE shop CASCADE")
    ada("CREATE DATABASE shop")
    with pytest.raises(Forbidden, match=r"it takes GRANT on the dropped table shop\.orders"):
        ada("UNDROP TABLE shop.orders")
    gateway.run("UNDROP TABLE shop.orders AS `default`.kept")


def test_another_name_in_the_same_database_takes_no_more_than_before(gateway: Gateway, ada: Ada) -> None:
    gateway.run("GRANT ALTER, DROP ON shop.orders TO ada; GRANT CREATETABLE, CREATEVIEW ON DATABASE shop TO ada")
    gateway.run("GRANT ALTER ON VIEW shop.v TO ada")
    ada("ALTER TABLE shop.orders RENAME TO shop.o; ALTER VIEW shop.v RENAME TO shop.w")
    ada("DROP TABLE shop.o; UNDROP TABLE shop.o AS shop.orders")
    with pytest.raises(Forbidden):
        ada("SELECT * FROM shop.orders")


def test_a_view_is_moved_by_who_may_grant_on_it(gateway: Gateway, ada: Ada) -> None:
    gateway.run("GRANT ALTER ON VIEW shop.v TO ada; GRANT SELECT ON VIEW shop.v TO bob")
    with pytest.raises(Forbidden, match=r"may not move view shop\.v to database mine"):
        ada("ALTER VIEW shop.v RENAME TO mine.v")
    assert ("bob", "SELECT", "VIEW `shop`.`v`", None) in gateway.run("SHOW GRANTS ON VIEW shop.v").collect()
    gateway.run("GRANT GRANT ON VIEW shop.v TO ada")
    ada("ALTER VIEW shop.v RENAME TO mine.v")
