"""The page of what was dropped: the space it takes, and the button that brings it back for those who may."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from flask.testing import FlaskClient

from gateway.gateway import Gateway
from tests.server.access.test_access import As, ada, admin
from tests.server.pages.conftest import Visitor

__all__ = ["ada", "admin"]


@pytest.fixture(autouse=True)
def kept(gateway: Gateway) -> None:
    gateway.lake.drop_retention = timedelta(days=7)


def drop_id(gateway: Gateway, name: str) -> str:
    lake = gateway.lake
    drops = {one.name: one.drop_id for one in lake.dropped_tables()} | {one.name: one.drop_id for one in lake.dropped_databases()}
    return str(drops[name])


def test_a_table_is_brought_back_from_its_page(visitor: Visitor, gateway: Gateway) -> None:
    assert "Nothing can be brought back." in visitor.get("/ui/dropped")
    assert 'href="/ui/dropped"' in visitor.get("/ui/catalog")
    visitor.sql("CREATE TABLE `odd <b>` (id INT); INSERT INTO `odd <b>` VALUES (1), (2); DROP TABLE `odd <b>`")
    page = visitor.get("/ui/dropped")
    assert "odd &lt;b&gt;" in page
    assert "can be brought back until" in page
    assert "odd <b>" not in page
    told = visitor.act("/ui/dropped", id=drop_id(gateway, "odd <b>"), database="default", table="odd <b>")
    assert "UNDROP TABLE `default`.`odd &lt;b&gt;` WITH ID" in told
    assert "Nothing can be brought back." in told
    assert visitor.client.post("/sql", data="SELECT COUNT(*) FROM `odd <b>`").get_json()["rows"] == [[2]]


def test_another_name_and_a_taken_one(visitor: Visitor, gateway: Gateway) -> None:
    visitor.sql("CREATE TABLE t (id INT); DROP TABLE t; CREATE TABLE t (id INT)")
    number = drop_id(gateway, "t")
    assert "AS … brings it back under another name" in visitor.act("/ui/dropped", id=number, database="default", table="t")
    visitor.act("/ui/dropped", id=number, database="default", table="t", to=" t old ")
    visitor.sql("SELECT * FROM `t old`")
    assert visitor.send("/ui/dropped", id="x", database="default", table="t").status_code == 400


def test_a_database_comes_back_with_its_tables(visitor: Visitor, gateway: Gateway) -> None:
    visitor.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT); DROP DATABASE d CASCADE")
    page = visitor.get("/ui/dropped")
    assert "comes back with its database" in page
    assert page.count(">Undrop</button>") == 1
    visitor.act("/ui/dropped", id=drop_id(gateway, "d"), database="d")
    visitor.sql("SELECT * FROM d.t")


def test_a_table_without_a_name_is_brought_back_from_its_page(visitor: Visitor, gateway: Gateway) -> None:
    """Its button ran UNDROP DATABASE, which found no such drop."""
    visitor.sql("CREATE TABLE t (id INT); INSERT INTO t VALUES (1)")
    with gateway.lake.catalog.transaction() as tx:  # as `restore --as` of an earlier version could make it
        tx.tables._conn.execute("UPDATE table_entry SET name = '' WHERE name = 't'")
    visitor.sql("DROP TABLE ``")
    sent = dict(re.findall(r'name="(id|database|table)" value="([^"]*)"', visitor.get("/ui/dropped")))
    assert "UNDROP TABLE" in visitor.act("/ui/dropped", **sent, to="named")
    assert visitor.client.post("/sql", data="SELECT * FROM named").get_json()["rows"] == [[1]]


def test_each_sees_what_they_saw_and_a_button_where_they_may(client: FlaskClient, gateway: Gateway, admin: As, ada: As) -> None:
    for text in ("CREATE TABLE seen (id INT)", "CREATE TABLE hers (id INT)", "CREATE TABLE others (id INT)"):
        assert admin.sql(text)[0] == 200
    for text in ("GRANT SELECT ON TABLE seen TO ada", "GRANT DROP ON TABLE hers TO ada", "GRANT SELECT ON TABLE hers TO ada"):
        assert admin.sql(text)[0] == 200
    for name in ("seen", "hers", "others"):
        assert admin.sql(f"DROP TABLE {name}")[0] == 200
    visitor = Visitor(client)
    visitor.send("/ui/login", token=str(ada.token))
    page = visitor.get("/ui/dropped")
    assert "default.seen" in page
    assert "default.others" not in page
    assert page.count(">Undrop</button>") == 1
    assert "may not" in visitor.act("/ui/dropped", id=drop_id(gateway, "seen"), database="default", table="seen")
    visitor.act("/ui/dropped", id=drop_id(gateway, "hers"), database="default", table="hers")
    assert ada.sql("SELECT * FROM hers") == (200, [])
