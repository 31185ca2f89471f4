"""Calls that are rewritten on their way to Spark, and those Flink users type most, mean what Flink's documentation says."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import SparkRuntimeException

from sql.dialect import parse_one
from sql.spark.session.pool import SparkPool
from sql.spark.session.texts import frame_of

pytestmark = pytest.mark.spark
AT = dt.datetime(2024, 3, 5, 6, 7, 8)
EXAMPLES: dict[str, Any] = {
    # rewritten types and literals
    "CAST('2024-03-05 06:07:08.9876' AS TIMESTAMP(3))": AT.replace(microsecond=987000),
    "CAST('2024-03-05 06:07:08.9876' AS TIMESTAMP(0))": AT,
    "CAST(TIMESTAMP '2024-03-05 06:07:08.987654' AS TIMESTAMP(6))": AT.replace(microsecond=987654),
    "CAST('2024-03-05 06:07:08' AS TIMESTAMP_LTZ(3))": AT.replace(tzinfo=dt.UTC),
    "CAST(TIMESTAMP '2024-03-05 06:07:08' AS DATE)": dt.date(2024, 3, 5),
    "CAST('abc' AS BYTES)": b"abc",
    "CAST(ROW(1, 'b') AS ROW<x INT, y STRING>)": {"x": 1, "y": "b"},
    "CAST(7 AS STRING)": "7",
    "CAST('aä😀d' AS VARCHAR(3))": "aä😀",
    "CAST('a' AS VARCHAR(3))": "a",
    "CAST('aä😀d' AS CHAR(3))": "aä😀",
    "CAST('😀' AS CHAR(3))": "😀  ",
    "CAST('abc' AS CHAR)": "a",
    "CAST('abc' AS VARCHAR)": "abc",
    "CAST(CAST('abc' AS VARCHAR(2147483647)) AS CHAR(2147483647))": "abc",
    "CAST(CAST('abc' AS VARCHAR(2)) AS CHAR(4))": "ab  ",
    "'abc'::VARCHAR(2)": "ab",
    "CAST(12345 AS VARCHAR(2))": "12",
    "CAST(DATE '2024-03-05' AS CHAR(4))": "2024",
    "TRY_CAST(1.5 AS CHAR(5))": "1.5  ",
    "CAST(NULL AS CHAR(3))": None,
    "CAST(X'010203' AS VARBINARY(2))": b"\1\2",
    "CAST('abc' AS BINARY(2))": b"ab",
    "TRY_CAST(X'01' AS BINARY(3))": b"\1\0\0",
    "CAST(ARRAY['abc', NULL] AS ARRAY<VARCHAR(2)>)": ["ab", None],
    "TRY_CAST(ARRAY['1', 'x', NULL] AS CHAR(2) ARRAY)": ["1 ", "x ", None],
    "CAST(ARRAY[TIMESTAMP '1960-03-05 06:07:08.9876'] AS ARRAY<TIMESTAMP(3)>)": [dt.datetime(1960, 3, 5, 6, 7, 8, 987000)],
    "CAST(ROW('abc', 7) AS ROW<x VARCHAR(2), `y z` INT>)": {"x": "ab", "y z": 7},
    "CAST(MAP['abc', ROW(ARRAY['a'])] AS MAP<VARCHAR(2), ROW<x ARRAY<CHAR(2)>>>)": [("ab", {"x": ["a "]})],
    "CAST(MAP['abc', 'def'] AS MAP<VARCHAR(2), STRING>)": [("ab", "def")],
    "CAST(MAP['1', 2] AS MAP<INT, STRING>)": [(1, "2")],
    "CAST(NULL AS MAP<INT, STRING>)": None,
    "CAST(NULL AS ROW<x VARCHAR(2)>)": None,
    "CAST(ROW('abc') AS ROW<x VARCHAR(2)>).x || ROW(1, 'b').col2": "abb",
    "length(CAST(ROW('abc') AS ROW<x CHAR(70000)>).x)": 70000,
    "CAST(ARRAY[ROW('abc'), NULL] AS ARRAY<ROW<x VARCHAR(2)>>)": [{"x": "ab"}, None],
    "(SELECT CAST(ROW(max(a), count(*)) AS ROW<x VARCHAR(1), y INT>) FROM (VALUES ('abc')) AS v(a))": {"x": "a", "y": 1},
    """from_json('{"m":{"a":{"x":1},"b":null}}', 'm MAP<STRING, MAP<STRING, INT>>, `n o` TIMESTAMP')""": {
        "m": [("a", [("x", 1)]), ("b", None)],
        "n o": None,
    },
    "from_json(CAST(NULL AS STRING), 'm MAP<STRING, INT>')": None,
    """(SELECT from_json(max(s), 'MAP<STRING, INT>')['a'] FROM (VALUES ('{"a":1}'), (NULL)) AS v(s))""": 1,
    # ORDER BY of what SELECT DISTINCT has computed, guarded, cut or plain
    "(SELECT array_join(collect_list(r), ',') FROM (SELECT DISTINCT upper(repeat(a, n)) AS r FROM (VALUES ('x', 2), ('a', 1)) AS v(a, n)"
    " ORDER BY upper(repeat(a, n)) DESC))": "XX,A",
    "(SELECT max(r) FROM (SELECT DISTINCT CAST(a AS CHAR(1)) AS r, upper(a) FROM (VALUES ('x'), ('xy'), ('a')) AS v(a)"
    " ORDER BY upper(a), CAST(a AS CHAR(1)) LIMIT 1))": "a",
    "(SELECT array_join(collect_list(r), ',') FROM (SELECT DISTINCT upper(a || b) AS r FROM (VALUES ('x', 'xx'), ('a', ''), ('a', ''))"
    " AS v(a, b) ORDER BY -length(upper(a || b))))": "XXX,A",
    # NOT NULL inside a type
    "CAST(ARRAY[1, 2] AS ARRAY<BIGINT NOT NULL>)": [1, 2],
    "CAST(MAP['1', ARRAY['abc']] AS MAP<INT NOT NULL, ARRAY<VARCHAR(2) NOT NULL> NOT NULL>)": [(1, ["ab"])],
    "CAST(ROW(CAST('1' AS STRING), NULL) AS ROW<x INT NOT NULL, y ARRAY<INT NOT NULL>>)": {"x": 1, "y": None},
    "CAST(NULL AS ROW<x INT NOT NULL>)": None,
    "TRY_CAST(named_struct('x', 1) AS ROW<x INT NOT NULL>)": {"x": 1},
    "CAST(ARRAY[ROW(1)] AS ARRAY<ROW<x INT NOT NULL> NOT NULL>)": [{"x": 1}],
    # VALUES, whose rows are evaluated also where Spark's inline tables cannot
    "(SELECT max(b) FROM (VALUES (CAST(ARRAY['abc'] AS ARRAY<VARCHAR(2)>), 1), (NULL, 2.5)) AS v(a, b) WHERE a IS NULL)": Decimal("2.5"),
    "(SELECT max(concat_ws('|', col1)) FROM (VALUES transform(ARRAY['a'], x -> x || 'b'), ARRAY['c']))": "c",
    "(SELECT max(l.x || r.x) FROM (SELECT 'a' AS x) AS l JOIN (VALUES (repeat(upper('b'), CAST('2' AS INT)))) AS r(x) ON true)": "aBB",
    "ARRAY['ab'] IN (VALUES (CAST(ARRAY['abc'] AS ARRAY<VARCHAR(2)>)))": True,
    "TRY_CAST('x' AS INT)": None,
    "TIMESTAMP '2024-03-05 06:07:08' + INTERVAL '1 02:03:04.005' DAY TO SECOND": dt.datetime(2024, 3, 6, 8, 10, 12, 5000),
    "DATE '2024-01-31' + INTERVAL '1-1' YEAR TO MONTH": dt.date(2025, 2, 28),
    "X'0aFF'": b"\x0a\xff",
    "'it''s'": "it's",
    # calls whose arguments are no plain list
    "EXTRACT(DAY FROM DATE '2006-06-05')": 5,
    "EXTRACT(WEEK FROM DATE '1994-09-27')": 39,
    "POSITION('b' IN 'abc')": 2,
    "POSITION('x' IN 'abc')": 0,
    "OVERLAY('xxxxxtest' PLACING 'xxxx' FROM 6)": "xxxxxxxxx",
    "OVERLAY('xxxxxtest' PLACING 'xxxx' FROM 6 FOR 2)": "xxxxxxxxxst",
    "SUBSTRING('abcd' FROM 2)": "bcd",
    "SUBSTRING('abcd' FROM 2 FOR 2)": "bc",
    "SUBSTR('abcd', 2, 2)": "bc",
    "TRIM(LEADING 'x' FROM 'xxax')": "ax",
    "TRIM(TRAILING 'x' FROM 'xxax')": "xxa",
    "TRIM(BOTH 'x' FROM 'xxax')": "a",
    "TRIM('  a ')": "a",
    "CASE WHEN 1 = 2 THEN 'a' WHEN 1 = 1 THEN 'b' END": "b",
    "'a_c' LIKE 'a!_c' ESCAPE '!'": True,
    "3 BETWEEN 1 AND 3": True,
    "'a' || 'b'": "ab",
    # constructors and what sqlglot has nodes for
    "ARRAY[1, 2]": [1, 2],
    "MAP['a', 1]": [("a", 1)],
    "ROW(1, 'b')": {"col1": 1, "col2": "b"},
    "CARDINALITY(ARRAY[1, 2])": 2,
    "(SELECT COUNT(*) FROM (VALUES (1), (NULL)) AS v(a))": 2,
    "(SELECT COUNT(DISTINCT a) FROM (VALUES (1), (1), (NULL)) AS v(a))": 1,
    "(SELECT MIN(a) FROM (VALUES (2), (1)) AS v(a))": 1,
    "(SELECT MAX(a) FROM (VALUES (2), (1)) AS v(a))": 2,
    "(SELECT SUM(a) FROM (VALUES (2), (1)) AS v(a))": 3,
    "(SELECT AVG(a) FROM (VALUES (2.0), (1.0)) AS v(a))": Decimal("1.50000"),
    "(SELECT LISTAGG(a, '|') FROM (VALUES ('x'), ('y')) AS v(a))": "x|y",
    "(SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY a) FROM (VALUES (1), (2)) AS v(a))": 1.5,
    "(SELECT SUM(b) FROM (VALUES (1)) AS v(a), LATERAL TABLE(explode(ARRAY[1, 2])) AS t(b))": 3,
    "(SELECT SUM(b) FROM (VALUES (1)) AS v(a) CROSS JOIN UNNEST(ARRAY[1, 2]) AS t (b))": 3,
    # times
    "CAST(LOCALTIMESTAMP AS DATE) = CURRENT_DATE": True,
    "LOCALTIME IS NOT NULL AND CURRENT_TIME IS NOT NULL": True,
    "CAST(CURRENT_TIMESTAMP AS DATE) = CURRENT_DATE": True,
    "TIMESTAMPDIFF(DAY, TIMESTAMP '2003-01-02 10:00:00', TIMESTAMP '2003-01-03 10:00:00')": 1,
    "TIMESTAMPADD(WEEK, 1, TIMESTAMP '2003-01-02 00:00:00')": dt.datetime(2003, 1, 9),
    "QUARTER(DATE '1994-09-27')": 3,
    "DAYOFWEEK(DATE '1994-09-27')": 3,
    "DAYOFYEAR(DATE '1994-09-27')": 270,
    "HOUR(TIMESTAMP '1994-09-27 13:14:15')": 13,
    "DATE_FORMAT(TIMESTAMP '2024-03-05 06:07:08', 'yyyy-MM-dd')": "2024-03-05",
    "TO_DATE('2023-01-01')": dt.date(2023, 1, 1),
    "TO_TIMESTAMP('2024-03-05 06:07:08')": AT,
    "FROM_UNIXTIME(44)": "1970-01-01 00:00:44",
    "UNIX_TIMESTAMP('1970-01-01 00:00:44')": 44,
    # texts and numbers
    "CHAR_LENGTH('abc')": 3,
    "INITCAP('ab cd')": "Ab Cd",
    "LPAD('hi', 4, '??')": "??hi",
    "LPAD('hi', 1, '??')": "h",
    "REGEXP_EXTRACT('foothebar', 'foo(.*?)(bar)', 2)": "bar",
    "REGEXP_REPLACE('foobar', 'oo|ar', '')": "fb",
    "CONCAT_WS('~', 'AA', NULL, 'BB', '', 'CC')": "AA~BB~~CC",
    "INSTR('abc', 'c')": 3,
    "LOCATE('b', 'abc')": 2,
    "CHR(97)": "a",
    "BIN(4)": "100",
    "HEX(20)": "14",
    "HEX('hello,world')": "68656C6C6F2C776F726C64",
    "MOD(-7, 3)": -1,
    "ROUND(2.5)": Decimal("3"),
    "CEIL(1.2)": Decimal("2"),
    "FLOOR(-1.2)": Decimal("-2"),
    "COALESCE(NULL, 5)": 5,
    "NULLIF(5, 5)": None,
    "GREATEST(1, 2)": 2,
    "IF(5 > 3, 5, 3)": 5,
}
DIFFERENT: dict[str, Any] = {"1 / 2": 0.5, "ARRAY['a', 'b'][0]": "a", "(SELECT AVG(a) FROM (VALUES (2), (1)) AS v(a))": 1.5}
"""Where Spark's meaning is another one; docs/sql.md says so."""


@pytest.fixture(scope="module")
def answers(pool: SparkPool) -> dict[str, Any]:
    """All examples in one query, so that Spark is asked once."""
    calls = [*EXAMPLES, *DIFFERENT]
    tree = parse_one("SELECT " + ", ".join(f"{call} AS c{i}" for i, call in enumerate(calls)))
    session = pool.session()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    row = frame_of(session, tree).toArrow().to_pylist()[0]
    return dict(zip(calls, row.values(), strict=True))


@pytest.mark.parametrize(("call", "meant"), [*EXAMPLES.items(), *DIFFERENT.items()])
def test_a_call_means_what_is_documented(answers: dict[str, Any], call: str, meant: Any) -> None:
    assert answers[call] == meant
    assert type(answers[call]) is type(meant)


@pytest.mark.parametrize(
    "call",
    [
        "CAST(MAP['1', 1, '01', 2] AS MAP<INT, INT>)",
        "CAST(MAP['ab', 1, 'ac', 2] AS MAP<CHAR(1), INT>)",
        "CAST(ARRAY[MAP['1', 1, '01', 2]] AS ARRAY<MAP<INT, INT>>)",
        """from_json('{"1":1,"1":2}', 'MAP<STRING, INT>')""",
        """from_json('{"m":{"1":1,"1":2}}', 'select INT, m MAP/* > */<STRING, VOID>')""",
        """from_json('{"a":[{"m":{"x":{"y":1,"y":2}}}]}', 'a ARRAY<STRUCT<n: INT, m: MAP<STRING, MAP<STRING, INT>>>> COMMENT \\'c\\'')""",
    ],
)
def test_a_call_makes_no_map_with_one_key_twice(pool: SparkPool, call: str) -> None:
    with pytest.raises(SparkRuntimeException, match="DUPLICATED_MAP_KEY"):
        frame_of(pool.session(), parse_one(f"SELECT {call}")).toArrow()


@pytest.mark.parametrize(
    ("cast", "part"),
    [
        ("CAST(ARRAY[1, NULL] AS ARRAY<BIGINT NOT NULL>)", "BIGINT"),
        ("CAST(MAP['a', CAST(NULL AS INT)] AS MAP<STRING NOT NULL, INT NOT NULL>)", "INT"),
        ("CAST(ARRAY[ROW(1), ROW(CAST(NULL AS INT))] AS ARRAY<ROW<x VARCHAR(2) NOT NULL>>)", r"VARCHAR\(2\)"),
        ("CAST(ARRAY[ROW(1), NULL] AS ARRAY<ROW<x INT> NOT NULL>)", "STRUCT<x: INT>"),
    ],
)
def test_a_null_in_what_takes_none_is_an_error(pool: SparkPool, cast: str, part: str) -> None:
    with pytest.raises(SparkRuntimeException, match=f"A cast met NULL in what is {part} NOT NULL"):
        frame_of(pool.session(), parse_one(f"SELECT {cast}")).toArrow()
