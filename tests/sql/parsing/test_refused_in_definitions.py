"""A refused function stays refused where a statement keeps a condition, a default or a query, and where it only looks at one."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from model.errors import InvalidGrant, InvalidOption, SqlError

POSITIONS = [
    "CREATE VIEW w AS SELECT {call} AS x",
    "CREATE VIEW w AS SELECT id FROM t WHERE {call} = 1",
    "CREATE OR REPLACE VIEW w AS SELECT {call} AS x",
    "CREATE TEMPORARY VIEW w AS SELECT {call} AS x",
    "CREATE TABLE d (a INT DEFAULT {call})",
    "ALTER TABLE t ALTER COLUMN id SET DEFAULT {call}",
    "ALTER TABLE t ADD (x INT DEFAULT {call})",
    "CREATE TABLE d AS SELECT {call} AS x",
    "CREATE TABLE d WITH ('bucket' = '-1') AS SELECT {call} AS x",
    "CREATE TEMPORARY TABLE g (a INT, b AS {call}) WITH ('connector' = 'datagen')",
    "CREATE POLICY p ON t TO ada USING ({call} = 1)",
    "CREATE POLICY p ON t TO ada USING (id = 1 OR {call} IS NULL)",
    "CREATE MASKING POLICY p ON t (s) TO ada USING ({call})",
    "INSERT INTO t SELECT {call}, 'a'",
    "INSERT INTO t VALUES ({call}, 'a')",
    "INSERT INTO t (s) VALUES ({call})",
    "INSERT OVERWRITE t SELECT {call}, 'a'",
    "DELETE FROM t WHERE {call} = 1",
    "UPDATE t SET id = {call}",
    "UPDATE t SET id = 1 WHERE {call} = 1",
    "UPDATE t SET id = (SELECT max(a.id) FROM t a WHERE {call} = a.id)",
    "MERGE INTO t USING t s ON t.id = {call} WHEN MATCHED THEN DELETE",
    "MERGE INTO t USING (SELECT {call} AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "MERGE INTO t USING t s ON t.id = s.id WHEN MATCHED AND {call} = 1 THEN DELETE",
    "MERGE INTO t USING t s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = {call}",
    "MERGE INTO t USING t s ON t.id = s.id WHEN NOT MATCHED AND {call} = 1 THEN INSERT (id) VALUES (1)",
    "MERGE INTO t USING t s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES ({call})",
    "MERGE INTO t USING t s ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN UPDATE SET id = {call}",
    "EXPLAIN SELECT {call}",
    "EXPLAIN INSERT INTO t SELECT {call}, 'a'",
    "CALL sys.compact(`table` => 't', `where` => 'id = {bare}(1)')",
    "SELECT * FROM t$files WHERE {call} = 1",
    "SELECT * FROM sys.tables WHERE {call} = 1",
    "SELECT {call} FROM sys.tables",
    "SELECT * FROM t /*+ OPTIONS('scan.snapshot-id' = {call}) */",
    "SET 'a' = {call}",
]
TAKEN = [
    one
    for one in POSITIONS
    if one.startswith(("CREATE VIEW", "CREATE TABLE d WITH", "INSERT", "DELETE", "UPDATE", "MERGE", "EXPLAIN SELECT", "SELECT {call}"))
]
NAMES = ("reflect", "java_method", "try_reflect", "xpath_string", "input_file_name", "current_path", "nosuchfunction")


@pytest.mark.spark
@pytest.mark.parametrize("each", [2, pytest.param(len(NAMES), marks=pytest.mark.torture)])
def test_no_statement_keeps_or_looks_at_a_refused_function(on_spark: Gateway, each: int) -> None:
    on_spark.run("CREATE TABLE t (id INT, s STRING) WITH ('rows.erasable' = 'true')").close()
    for number, position in enumerate(POSITIONS):
        for name in [NAMES[(number + more) % len(NAMES)] for more in range(each)]:
            with pytest.raises((SqlError, InvalidGrant, InvalidOption)):
                on_spark.run(position.format(call=f"{name}('a', 'b')", bare=name)).close()
    assert on_spark.run("SHOW TABLES").collect() == [("t",)]
    assert on_spark.run("SHOW VIEWS").collect() == []
    assert on_spark.run("SHOW POLICIES ON t").collect() == []
    assert on_spark.run("SELECT count(*) FROM t").collect() == [(0,)]


@pytest.mark.spark
def test_the_same_statements_take_a_function_that_is_allowed(on_spark: Gateway) -> None:
    """So that it is the function that was refused."""
    on_spark.run("CREATE TABLE t (id INT, s STRING) WITH ('rows.erasable' = 'true')").close()
    for position in TAKEN:
        on_spark.run(position.format(call="length('ab')")).close()
        on_spark.run("DROP VIEW IF EXISTS w; DROP TABLE IF EXISTS d").close()
