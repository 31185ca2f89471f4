"""Nothing but known functions over our own views reaches Spark, however it is spelled."""

from __future__ import annotations

import pytest

from model.errors import SqlError, UnsupportedStatement
from sql.analysis.allow_list import checked_sql
from sql.dialect import parse_one

ATTACKS = [
    "SELECT reflect('java.lang.System', 'exit', 0)",
    "SELECT ReFlEcT('java.lang.System', 'getenv', 'HOME')",
    "SELECT `reflect`('a', 'b')",
    "SELECT reflect/**/('a', 'b')",
    "SELECT reflect -- x\n ('a', 'b')",
    "SELECT java_method('a', 'b')",
    "SELECT try_reflect('a', 'b')",
    "SELECT system.builtin.reflect('a', 'b')",
    "SELECT `system`.`builtin`.`reflect`('a', 'b')",
    "SELECT (SELECT reflect('a', 'b'))",
    "WITH x AS (SELECT reflect('a', 'b') AS r) SELECT r FROM x",
    "WITH reflect(a) AS (SELECT 1) SELECT reflect('a', 'b')",
    "SELECT * FROM v AS reflect(a) WHERE reflect('a', 'b') = 1",
    "SELECT * FROM v WHERE a IN (SELECT reflect('a', 'b'))",
    "SELECT transform(array(1), x -> reflect('a', 'b'))",
    "SELECT * FROM v LATERAL VIEW explode(array(reflect('a', 'b'))) t AS c",
    "SELECT a FROM v ORDER BY reflect('a', 'b')",
    "SELECT sum(a) OVER (ORDER BY reflect('a', 'b')) FROM v",
    "SELECT * FROM parquet.`/etc/passwd`",
    "SELECT * FROM `json`.`/etc/passwd`",
    "SELECT * FROM text.`/etc/passwd`",
    "SELECT * FROM csv.`file:///etc/passwd` AS v",
    "SELECT * FROM spark_catalog.default.v",
    "SELECT * FROM global_temp.v",
    "SELECT * FROM IDENTIFIER('v')",
    "SELECT IDENTIFIER('reflect')('a', 'b')",
    "SELECT * FROM read_files('/etc/passwd')",
    "SELECT * FROM read_kafka(bootstrapServers => 'x')",
    "SELECT TRANSFORM (a) USING 'cat' FROM v",
    "SELECT * FROM other",
    "SELECT ${env:HOME}",
    "SELECT input_file_name() FROM v",
    "SELECT from_protobuf(a, 'x', '/etc/passwd') FROM v",
    "SELECT nosuchfunction(1)",
    "SELECT xpath('<a/>', '/a')",
    "WITH xpath_string(a) AS (SELECT 1) SELECT xpath_string('<a/>', '/a')",
    "WITH nosuch(a) AS (SELECT 1) SELECT nosuch('a')",
    "SELECT * FROM v AS nosuch(a) WHERE nosuch('a') = 1",
    "SELECT * FROM v LATERAL VIEW explode(array(1)) nosuch AS nosuch WHERE nosuch(1) = 1",
    'SELECT from_json(\'{}\', \'{"type":"struct","fields":[{"name":"a","type":"string","metadata":{"EXISTS_DEFAULT":"1"}}]}\')',
    "SELECT from_json('{}', concat('{', '}'))",
    "SELECT from_csv('', 'a STRING DEFAULT version()')",
    "SELECT from_xml('', 'a STRING', map('rowValidationXSDPath', '/etc/passwd'))",
    "SELECT CAST(a AS STRUCT<b INT DEFAULT version()>) FROM v",
    "SELECT _metadata.file_path FROM v",
    "SELECT v._metadata FROM v AS _metadata",
    "SELECT current_user(1)",
    "SELECT current_path()",
    "SELECT `%`(5, 3)",
    "SELECT {fn reflect('a', 'b')}",
    "SELECT 1 LIMIT reflect('a', 'b')",
    "SELECT * FROM v TABLESAMPLE (10 PERCENT) REPEATABLE (reflect('a', 'b'))",
    "SELECT /*+ BROADCAST(reflect('a', 'b')) */ * FROM v",
    "SELECT /*+ COALESCE(reflect('a', 'b')) */ * FROM v",
    "SELECT /*+ REPARTITION(reflect('a', 'b')) */ * FROM v",
    "SELECT /*+ foo bar ( */ 1",
    "SELECT /*+ nosuch(v) */ * FROM v",
]
FINE = [
    "SELECT count(*), max(a), percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM v GROUP BY GROUPING SETS ((a), (b))",
    "WITH x(a) AS (SELECT 1), y(b) AS (SELECT a FROM x) SELECT b FROM y",
    "SELECT t.a FROM v AS t(a, b) WHERE EXISTS (SELECT 1 FROM v WHERE a IN (1, 2)) AND (a = 1 OR NOT (b = 2))",
    "SELECT CAST(a AS DECIMAL(10, 2)), CASE WHEN (a) > 1 THEN (2) ELSE (3) END, array(1)[0], map('a', 1)['a'] FROM v",
    "SELECT transform(array(1), x -> x + 1), filter(array(1), x -> (x > 0)), aggregate(array(1), 0, (x, y) -> x + y)",
    "SELECT row_number() OVER (PARTITION BY a ORDER BY b DESC) FROM v",
    "SELECT * FROM v LATERAL VIEW explode(array(1)) t AS c",
    "SELECT * FROM range(10)",
    "SELECT extract(YEAR FROM a), trim(BOTH 'x' FROM b), a || b, interval '1' day + a FROM v",
    "SELECT get_json_object(a, '$.b'), from_json(a, 'x INT') FROM v",
    "SELECT * FROM v TABLESAMPLE (10 PERCENT)",
    "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t(x, y)",
    "SELECT * FROM v PIVOT (sum(a) FOR b IN (1, 2))",
    "SELECT /*+ BROADCAST(v), REPARTITION(3, a), REBALANCE */ * FROM v",
    "SELECT from_json(a, 'b STRUCT<c: DECIMAL(10, 2), `d e` ARRAY<STRING>>'), from_json(a, schema_of_json('{\"b\": 1}')) FROM v",
    "SELECT a RLIKE 'b', a LIKE 'b' ESCAPE '!', a ILIKE 'c', a <=> b, a DIV b, -a, NOT a, a & b | c ^ ~d FROM v",
    "SELECT sum(a) OVER w FROM v WINDOW w AS (PARTITION BY b ORDER BY c ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "SELECT a FROM v GROUP BY CUBE (a), ROLLUP (b) HAVING count(*) > 1 ORDER BY a NULLS LAST LIMIT 10 OFFSET 5",
    "SELECT * FROM v UNPIVOT (x FOR y IN (a, b))",
    "SELECT * EXCEPT (a) FROM v WHERE a BETWEEN 1 AND 2 AND b LIKE ANY ('x', 'y') OR c IS NOT NULL",
    "SELECT a FROM v DISTRIBUTE BY a SORT BY b",
    "SELECT a FROM v CLUSTER BY a",
    "SELECT timestampdiff(HOUR, a, b), timestampadd(HOUR, 1, a) FROM v",
]


@pytest.mark.parametrize("text", ATTACKS)
def test_an_attack_is_refused(text: str) -> None:
    with pytest.raises(SqlError):
        checked_sql(parse_one(text), {"v"})


@pytest.mark.parametrize("text", FINE)
def test_honest_queries_pass(text: str) -> None:
    checked_sql(parse_one(text), {"v"})


@pytest.mark.parametrize("text", ["INSERT INTO v SELECT 1", "DROP TABLE v", "SET 'a' = 'b'"])
def test_only_queries_reach_spark(text: str) -> None:
    with pytest.raises(UnsupportedStatement, match=r"not a query|not run"):
        checked_sql(parse_one(text), {"v"})


def test_a_refusal_explains_itself() -> None:
    with pytest.raises(UnsupportedStatement, match="calls any method") as refused:
        checked_sql(parse_one("SELECT reflect('a')"), ())
    assert refused.value.fragment == "reflect"
    with pytest.raises(UnsupportedStatement, match="Did you mean upper"):
        checked_sql(parse_one("SELECT uper('a')"), ())
