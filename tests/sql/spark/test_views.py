"""Views through SQL: made, read, nested, changed, dropped; and those other engines made."""

from __future__ import annotations

import httpx
import pytest

from tests.running import Refused, RunningServer

pytestmark = pytest.mark.spark


def rest_view(server: RunningServer, database: str, name: str, query: str, **dialects: str) -> None:
    fields = [{"id": 0, "name": "n", "type": "BIGINT"}]
    body = {"identifier": {"database": database, "object": name}, "schema": {"fields": fields, "query": query, "dialects": dialects}}
    httpx.post(f"{server.url}/v1/sluice/databases/{database}/views", json=body).raise_for_status()


def test_a_view_lives(server: RunningServer, database: str) -> None:
    server.sql(f"CREATE TABLE {database}.t (id BIGINT, name STRING)")
    server.sql(f"INSERT INTO {database}.t VALUES (1, 'a'), (2, 'b'), (3, 'b')")
    server.sql(f"CREATE VIEW {database}.v (k COMMENT 'key', c) COMMENT 'said' AS SELECT name, count(*) FROM {database}.t GROUP BY name")
    assert server.sql(f"SELECT k, c FROM {database}.v ORDER BY k") == [["a", 1], ["b", 2]]
    assert server.sql(f"SELECT v.k FROM {database}.v WHERE c > 1") == [["b"]]
    server.sql(f"CREATE VIEW {database}.w AS SELECT x.c * 10 AS ten FROM {database}.v AS x JOIN {database}.t ON x.k = t.name")
    assert server.sql(f"SELECT sum(ten) FROM {database}.w") == [[50]]
    server.sql(f"INSERT INTO {database}.t SELECT c, k FROM {database}.v")
    assert server.sql(f"SELECT count(*) FROM {database}.t") == [[5]]
    assert server.sql(f"SHOW VIEWS FROM {database}") == [["v"], ["w"]]
    assert server.sql(f"SHOW TABLES FROM {database}") == [["t"], ["v"], ["w"]]
    assert server.sql(f"DESCRIBE {database}.v")[0][:3] == ["k", "STRING", True]
    assert f"`{database}`.`v` (`k` COMMENT 'key', `c`)" in server.value(f"SHOW CREATE VIEW {database}.v")
    got = httpx.get(f"{server.url}/v1/sluice/databases/{database}/views/v").json()["schema"]
    assert ([field["name"] for field in got["fields"]], got["comment"], list(got["dialects"])) == (["k", "c"], "said", ["sluice"])
    with pytest.raises(Refused, match="already exists"):
        server.sql(f"CREATE VIEW {database}.v AS SELECT 1 AS a")
    server.sql(f"CREATE VIEW IF NOT EXISTS {database}.v AS SELECT 1 AS a")
    server.sql(f"CREATE OR REPLACE VIEW {database}.v AS SELECT 1 AS a")
    assert server.sql(f"SELECT * FROM {database}.v") == [[1]]
    server.sql(f"ALTER VIEW {database}.v AS SELECT 2 AS b")
    server.sql(f"ALTER VIEW {database}.v RENAME TO z")
    assert server.sql(f"SELECT b FROM {database}.z") == [[2]]
    server.sql(f"DROP VIEW {database}.z")
    server.sql(f"DROP VIEW IF EXISTS {database}.z")
    with pytest.raises(Refused, match="does not exist"):
        server.sql(f"SELECT * FROM {database}.z")


def test_views_of_other_engines(server: RunningServer, database: str) -> None:
    server.sql(f"CREATE TABLE {database}.t (id BIGINT)")
    server.sql(f"INSERT INTO {database}.t VALUES (7)")
    rest_view(server, database, "spark_view", "nonsense here", spark="SELECT id FROM t", trino="also nonsense")
    rest_view(server, database, "plain_view", "SELECT `id` FROM t")
    rest_view(server, database, "foreign_view", "SELECT FROM WHERE", trino="x")
    assert server.sql(f"SELECT n FROM {database}.spark_view") == [[7]]
    assert server.sql(f"SELECT n + 1 FROM {database}.plain_view") == [[8]]
    with pytest.raises(Refused, match="cannot be read here"):
        server.sql(f"SELECT * FROM {database}.foreign_view")
    rest_view(server, database, "a", f"SELECT n FROM {database}.b")
    rest_view(server, database, "b", f"SELECT n FROM {database}.a")
    with pytest.raises(Refused, match="in a circle"):
        server.sql(f"SELECT * FROM {database}.a")


def test_what_a_view_cannot_be(server: RunningServer, database: str) -> None:
    with pytest.raises(Refused, match="same name"):
        server.sql(f"CREATE VIEW {database}.v AS SELECT 1 AS a, 2 AS a")
    with pytest.raises(Refused, match="names 1 columns"):
        server.sql(f"CREATE VIEW {database}.v (x) AS SELECT 1 AS a, 2 AS b")
    with pytest.raises(Refused):
        server.sql(f"CREATE VIEW {database}.v AS SELECT nothing FROM {database}.none")
    server.sql(f"CREATE TABLE {database}.t (id BIGINT)")
    with pytest.raises(Refused, match="already exists"):
        server.sql(f"CREATE VIEW {database}.t AS SELECT 1 AS a")
    with pytest.raises(Refused, match="does not exist"):
        server.sql(f"INSERT INTO {database}.none VALUES (1)")
