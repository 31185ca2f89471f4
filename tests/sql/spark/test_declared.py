"""A column keeps the type its table declares, whichever way a query takes it through Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest

from gateway.gateway import Gateway, GatewayLimits
from lake import Lake
from sql.spark.session.pool import SparkPool

pytestmark = pytest.mark.spark
COLUMNS = {
    "k": "INT", "ts": "TIMESTAMP(3)", "z": "TIMESTAMP(0) WITH LOCAL TIME ZONE", "t": "TIME(0)", "c": "CHAR(2)", "v": "VARCHAR(5)",
    "b": "BINARY(2)", "w": "VARBINARY(9)", "a": "ARRAY<VARCHAR(3)>", "m": "MAP<INT NOT NULL, TIMESTAMP(3)>",
    "r": "ROW<`x` TIMESTAMP(3), `y` CHAR(1)>", "micros": "TIMESTAMP(6)", "s": "STRING",
}  # fmt: skip
ROW = """1, TIMESTAMP '2024-01-02 03:04:05.678', TIMESTAMP_LTZ '2024-01-02 03:04:05', TIME '01:02:03', 'ab', 'hello', X'0102', X'01',
    array('abc'), map(1, TIMESTAMP '2024-01-01 00:00:00.001'), named_struct('x', TIMESTAMP '2024-01-01 00:00:00.002', 'y', 'q'),
    TIMESTAMP '2024-01-01 00:00:00.000003', 'text'"""


@pytest.fixture
def on_spark(lake: Lake, pool: SparkPool) -> Iterator[Gateway]:
    gateway = Gateway(lake, pool, limits=GatewayLimits(local_threads=2, spark_statements=2))
    gateway.start()
    for name, format_ in (("p", "parquet"), ("o", "orc")):
        columns = ", ".join(f"{column} {type_}" for column, type_ in COLUMNS.items())
        gateway.run(f"CREATE TABLE {name} ({columns}) WITH ('bucket' = '-1', 'file.format' = '{format_}')").close()
    gateway.run(f"INSERT INTO p SELECT {ROW}; INSERT INTO o SELECT * FROM p").close()
    yield gateway
    gateway.close()


def types(gateway: Gateway, text: str) -> list[str]:
    with gateway.run(text) as result:
        return [column.type.sql() for column in result.columns]


def test_declared_types_come_back_through_spark(on_spark: Gateway) -> None:
    everything = list(COLUMNS.values())
    local = on_spark.run("SELECT * FROM p").collect()
    for text in (
        "SELECT * FROM p WHERE k + 0 = 1",
        "SELECT * FROM o WHERE k + 0 = 1",
        "WITH x AS (SELECT * FROM p) SELECT * FROM x ORDER BY k",
    ):
        result = on_spark.run(text)
        assert [column.type.sql() for column in result.columns] == everything
        assert result.collect() == local
    one = ["TIMESTAMP(3)", "VARCHAR(5)"]
    for text in (
        "SELECT ts AS x, v AS y FROM p ORDER BY k",
        "SELECT l.ts, r.v FROM p l LEFT JOIN o r ON l.k = r.k",
        "SELECT x, y FROM (SELECT ts AS x, v AS y, k FROM p) WHERE k + 0 > 0",
        "SELECT ts, v FROM p GROUP BY ts, v",
        "SELECT min(ts), max(v) FROM p WHERE k + 0 > 0",
        "SELECT min(ts) AS n, max(v) AS x FROM p HAVING max(ts) IS NOT NULL ORDER BY n",
        "SELECT max(x), any_value(y) FROM (SELECT min(ts) FILTER (WHERE k = 1) AS x, min_by(v, k) AS y FROM p)",
        "SELECT lag(ts) OVER (ORDER BY k), first_value(v) IGNORE NULLS OVER (ORDER BY k) FROM p",
        "SELECT ts, v FROM p UNION ALL SELECT ts, v FROM o",
        "SELECT ts, v FROM p UNION SELECT ts, v FROM o UNION SELECT ts, v FROM p",
        "SELECT ts, v FROM p INTERSECT SELECT ts, v FROM o",
    ):
        assert types(on_spark, text) == one, text


def test_what_is_not_a_plain_column_has_sparks_type(on_spark: Gateway) -> None:
    for text in (
        "SELECT ts + INTERVAL '1' DAY, upper(v) FROM p",
        "SELECT ts, v FROM p UNION ALL SELECT micros, s FROM p",
        "SELECT ts, v FROM p UNION ALL SELECT TIMESTAMP '2024-01-01 00:00:00.123456', 'longer text'",
        "SELECT ts, v FROM p UNION ALL SELECT ts, v FROM o UNION ALL SELECT micros, s FROM o UNION ALL SELECT ts, v FROM o",
        "SELECT x, y FROM (SELECT ts AS x, v AS y FROM p UNION ALL SELECT micros, s FROM p) UNION ALL SELECT ts, v FROM o",
        "SELECT max(x), lag(y, 1, 'a longer one') OVER (ORDER BY y) FROM (SELECT micros AS x, v AS y FROM p) GROUP BY y",
        "WITH RECURSIVE x AS (SELECT ts AS a, v AS b, 1 AS n FROM p UNION ALL "
        "SELECT a + INTERVAL '1' MICROSECOND, b || b, n + 1 FROM x WHERE n < 3) SELECT a, b FROM x",
    ):
        assert types(on_spark, text) == ["TIMESTAMP(6)", "STRING"], text
    rows = on_spark.run("SELECT ts FROM p UNION ALL SELECT micros FROM p").collect()
    assert sorted(rows) == [(datetime(2024, 1, 1, 0, 0, 0, 3),), (datetime(2024, 1, 2, 3, 4, 5, 678000),)]


def test_a_table_made_from_a_query_has_the_declared_types_and_a_changed_one_the_present(on_spark: Gateway) -> None:
    on_spark.run("CREATE TABLE c WITH ('bucket' = '-1') AS SELECT *, upper(v) AS u FROM p").close()
    assert types(on_spark, "SELECT * FROM c") == [*COLUMNS.values(), "STRING"]
    on_spark.run("ALTER TABLE p MODIFY v VARCHAR(9); ALTER TABLE p MODIFY ts TIMESTAMP(6); ALTER TABLE p ADD (n VARCHAR(4))").close()
    assert types(on_spark, "SELECT ts, v, n FROM p WHERE k + 0 = 1") == ["TIMESTAMP(6)", "VARCHAR(9)", "VARCHAR(4)"]
