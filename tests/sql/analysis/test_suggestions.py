"""Misspelt names: the error says which table or database may be meant, of those the caller sees."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import LakeError
from model.identifier import Identifier
from model.schema.types import Field, IntType
from model.view import View
from tests.lake.access.test_access import user

TABLES = "CREATE DATABASE shop; CREATE TABLE orders (id INT); CREATE TABLE ordersold (id INT); CREATE TABLE shop.orders2 (id INT)"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT * FROM ordrs", "Table default.ordrs does not exist. Did you mean default.orders?"),
        ("SELECT COUNT(*) FROM `default`.Orders", "Table default.Orders does not exist. Did you mean default.orders?"),
        ("INSERT INTO oders VALUES (1)", "Table default.oders does not exist. Did you mean default.orders?"),
        ("DROP TABLE ordersx", "Table default.ordersx does not exist. Did you mean default.orders?"),
        ("CALL sys.compact('shop.order')", "Table shop.order does not exist. Did you mean shop.orders2?"),
        ("SELECT * FROM lates", "Table default.lates does not exist. Did you mean default.late?"),
        ("SELECT * FROM weather", "Table default.weather does not exist."),
        ("SELECT * FROM nowhere.orders", "Database nowhere does not exist."),
        ("USE shp", "Database shp does not exist. Did you mean shop?"),
        ("SELECT * FROM orders$snapshot", "Table orders$snapshot does not exist. Did you mean $snapshots?"),
    ],
)
def test_the_nearest_name_is_told(gateway: Gateway, lake: Lake, statement: str, message: str) -> None:
    gateway.run(TABLES)
    lake.views.create(Identifier("default", "late"), View(fields=(Field(id=0, name="id", type=IntType()),), query="SELECT id FROM orders"))
    with pytest.raises(LakeError) as caught:
        gateway.run(statement)
    assert caught.value.message == str(caught.value) == message


def test_what_the_caller_does_not_see_is_not_told(gateway: Gateway, lake: Lake) -> None:
    gateway.run(TABLES)
    ada = user(lake, "ada")
    gateway.run("GRANT SELECT ON ordersold TO ada")
    with pytest.raises(LakeError) as caught:
        gateway.run("SELECT * FROM orderss", caller=lake.access.caller(ada))
    assert caught.value.message == "Table default.orderss does not exist. Did you mean default.ordersold?"
