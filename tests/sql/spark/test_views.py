"""Views through SQL: made, read, nested, changed, dropped; and those other engines made."""

from __future__ import annotations

import json
import re

import httpx
import pytest

from tests.running import Refused, RunningServer
from tests.short import short

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


def test_names_of_with_are_each_view_s_own(server: RunningServer, database: str) -> None:
    use = f"USE {database}; "
    server.sql(f"{use}CREATE TABLE t (id BIGINT)")
    server.sql(f"{use}INSERT INTO t VALUES (1), (2)")
    server.sql(f"{use}CREATE VIEW v1 AS WITH c AS (SELECT id FROM t WHERE id > 1) SELECT id FROM c")
    server.sql(f"{use}CREATE VIEW v2 AS WITH c AS (SELECT id * 10 AS ten FROM t) SELECT ten FROM c")
    statement = "WITH c AS (SELECT 7 AS x) SELECT c.x, a.id, b.id, v2.ten FROM c, v1 a JOIN v1 b ON a.id = b.id JOIN v2 ON ten = a.id * 10"
    assert server.sql(use + statement) == [[7, 2, 2, 20]]
    outer = "SELECT id FROM t WHERE EXISTS (WITH c AS (SELECT * FROM v1 WHERE v1.id = t.id) SELECT 1 FROM c)"
    assert server.sql(use + outer) == [[2]]
    stream = (
        f"{use}SET 'execution.runtime-mode' = 'streaming'; WITH c AS (SELECT 1 AS x) SELECT id + x AS n FROM t, (SELECT * FROM c) LIMIT 2"
    )
    assert sorted(server.post(stream, accept="text/csv").text.split()) == ["2", "3", "n"]


def test_a_star_stands_for_the_columns_of_when_the_view_was_made(server: RunningServer, database: str) -> None:
    def ask(text: str) -> list[list[object]]:
        return server.sql(text.replace("$", f"{database}."))

    ask("CREATE TABLE $t (id INT, a INT, b INT); INSERT INTO $t VALUES (1, 10, 20)")
    ask("CREATE VIEW $v AS SELECT * FROM $t")
    ask("CREATE VIEW $named (k, x, y COMMENT 'last') AS SELECT * FROM $t UNION ALL SELECT * FROM $t")
    ask("CREATE VIEW $twice (k, a1, a2) AS SELECT id, a, a FROM $t")
    ask("CREATE VIEW $repeated (k, x, y, k2, x2, y2) AS SELECT * FROM $t AS l JOIN $t AS r ON l.id = r.id")
    ask("ALTER TABLE $t MODIFY b INT AFTER id")
    assert ask("SELECT a, b FROM $v") == [[10, 20]]
    assert ask("SELECT * FROM $v") == [[1, 10, 20]]
    assert ask("SELECT q, r FROM $v AS x (p, q, r)") == [[10, 20]]
    assert ask("SELECT k, x, y FROM $named") == [[1, 10, 20]] * 2
    assert ask("SELECT a1, a2 FROM $twice") == [[10, 10]]
    assert ask("SELECT y, y2 FROM $repeated") == [[10, 10]], "where names repeat places count"
    ask("ALTER TABLE $t ADD (z INT)")
    assert ask("SELECT * FROM $v") == [[1, 10, 20]]
    ask("ALTER VIEW $named AS SELECT id AS k, * EXCEPT (id) FROM $t")
    assert ask("SELECT k, b, a, z FROM $named") == [[1, 20, 10, None]]
    ask("ALTER TABLE $t DROP b; ALTER TABLE $t ADD (c INT)")
    with pytest.raises(Refused, match="`b`"):
        ask("SELECT b FROM $v")
    changed = {"changes": [{"action": "updateDialect", "dialect": "sluice", "query": "SELECT * FROM (SELECT 1, 2, 3) AS x (p, q, r)"}]}
    httpx.post(f"{server.url}/v1/sluice/databases/{database}/views/v", json=changed).raise_for_status()
    assert ask("SELECT id, a, b FROM $v") == [[1, 2, 3]], "a client's query is read by its columns' places"


def test_another_query_keeps_what_is_said_of_columns(server: RunningServer, database: str) -> None:
    server.sql(f"CREATE VIEW {database}.v (a COMMENT 'first', b COMMENT 'second') COMMENT 'said' AS SELECT 1, 2")
    server.sql(f"ALTER VIEW {database}.v SET ('owner' = 'ada')")
    server.sql(f"ALTER VIEW {database}.v AS SELECT 3 AS b, 4 AS c")
    got = httpx.get(f"{server.url}/v1/sluice/databases/{database}/views/v").json()["schema"]
    assert [(field["name"], field.get("description")) for field in got["fields"]] == [("b", "second"), ("c", None)]
    assert (got["comment"], got["options"]["owner"]) == ("said", "ada")


def test_other_engines_read_a_query_without_bare_names(server: RunningServer, database: str) -> None:
    server.sql(f"USE {database}; CREATE TABLE t (id INT); CREATE TABLE `o'r` (id INT)")
    server.sql(
        f"USE {database}; CREATE VIEW v (k) AS WITH t AS (SELECT id FROM `o'r`) SELECT t.id FROM t JOIN `o'r` AS o ON o.id = t.id "
        f"JOIN {database}.t AS other ON true"
    )
    server.sql(f"USE {database}; CREATE VIEW w (k) AS SELECT * FROM t")
    q = f"`{database}`"
    got = {name: httpx.get(f"{server.url}/v1/sluice/databases/{database}/views/{name}").json()["schema"] for name in "vw"}
    assert got["v"]["query"] == (
        f"WITH t AS (SELECT id FROM {q}.`o'r`) SELECT t.id FROM t JOIN {q}.`o'r` AS o ON o.id = t.id JOIN {database}.t AS other ON true"
    )
    assert got["v"]["dialects"]["sluice"].startswith("WITH t AS (SELECT id FROM `o'r`)")
    assert got["w"]["query"] == f"SELECT `id` AS `k` FROM (\nSELECT * FROM {q}.t\n) AS `__view`"


UNNAMED = [
    ("SELECT *, id + 1 FROM t", "`id`, `(id + 1)`"),
    ("SELECT * FROM (SELECT id + 1 FROM t) AS s", "`(id + 1)`"),
    ("WITH s AS (SELECT 1) SELECT * FROM s", "`1`"),
    ("SELECT l.*, r.* FROM t AS l CROSS JOIN t AS r", "`k`, `other`"),
]


@pytest.mark.parametrize(("query", "columns"), short(UNNAMED, UNNAMED[::3]))
def test_other_engines_are_told_no_name_that_spark_gave(server: RunningServer, database: str, query: str, columns: str) -> None:
    """Flink calls a column without a name EXPR$1: columns are taken by their places, and are no others when a table gets one more."""
    server.sql(f"USE {database}; CREATE TABLE t (id INT); INSERT INTO t VALUES (1)")
    named = columns.replace("`", "") if columns == "`k`, `other`" else ""
    server.sql(f"USE {database}; CREATE VIEW v {named and f'({named})'} AS {query}")
    got = httpx.get(f"{server.url}/v1/sluice/databases/{database}/views/v").json()["schema"]
    text = re.sub(r"\bt\b", f"`{database}`.t", query)
    assert got["query"] == f"SELECT * FROM (\n{text}\n) AS `__view` ({columns})"
    rows = server.sql(f"SELECT * FROM {database}.v")
    assert server.sql(got["query"]) == rows
    if query.startswith("SELECT *, ") or " JOIN " in query:
        server.sql(f"ALTER TABLE {database}.t ADD (z INT)")
        with pytest.raises(Refused):
            server.sql(got["query"])


def test_a_view_names_no_temporary_table(server: RunningServer, database: str) -> None:
    made = f"USE {database}; CREATE TEMPORARY TABLE raw (id INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1'); "
    for query in ("SELECT * FROM raw", "WITH a AS (SELECT id FROM raw) SELECT * FROM a", "SELECT 1 AS one WHERE 1 IN (SELECT id FROM raw)"):
        with pytest.raises(Refused, match="raw is a temporary table of this one"):
            server.sql(f"{made} CREATE VIEW v AS {query}")
    server.sql(f"{made} CREATE VIEW v AS WITH raw AS (SELECT 1 AS id) SELECT id FROM raw")
    with pytest.raises(Refused, match="raw is a temporary table of this one"):
        server.sql(f"{made} ALTER VIEW v AS SELECT * FROM raw")


EARLIER = [
    ("SELECT *, upper(CAST(s AS VARCHAR(1))) FROM t", ["id", "s", "upper(CAST(s AS STRING))"], [1, "ab", "A"]),
    ("SELECT * FROM (SELECT CAST(s AS VARCHAR(1)), id FROM t)", ["s", "id"], ["a", 1]),
    (
        "WITH c AS (SELECT concat(CAST(s AS CHAR(3)), '|'), id + 1 FROM t) "
        "SELECT * FROM (SELECT lower(CAST(s AS VARCHAR(1))), id AS i FROM t) AS l JOIN c AS r ON true JOIN t ON t.id = l.i "
        "UNION ALL SELECT 'x', 1, 'y', 2, 3, 'z' WHERE false",
        ["lower(CAST(s AS STRING))", "i", "concat(CAST(s AS STRING), |)", "(id + 1)", "id", "s"],
        ["a", 1, "ab |", 2, 1, "ab"],
    ),
]


@pytest.mark.parametrize(("query", "names", "row"), EARLIER)
def test_a_view_of_an_earlier_version_finds_columns_that_spark_named(
    server: RunningServer, database: str, query: str, names: list[str], row: list[object]
) -> None:
    """Each is what a version that cut no texts in casts kept for such a view; ``names`` are those that Spark gave its columns then."""
    server.sql(f"USE {database}; CREATE TABLE t (id INT, s STRING); INSERT INTO t VALUES (1, 'ab')")
    fields = [{"id": at, "name": f"c{at}", "type": "INT" if isinstance(value, int) else "STRING"} for at, value in enumerate(row)]
    options = {"sluice.database": database, "sluice.columns": json.dumps(names)}
    schema = {"fields": fields, "query": "", "dialects": {"sluice": query}, "options": options}
    body = {"identifier": {"database": database, "object": "v"}, "schema": schema}
    httpx.post(f"{server.url}/v1/sluice/databases/{database}/views", json=body).raise_for_status()
    assert server.sql(f"SELECT * FROM {database}.v") == [row]
