"""What is answered without Spark is what Spark itself answers, over the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from gateway.gateway import Gateway
from lake import Lake, LakeTable
from sql.execution.writing import append_batches
from table.format.rows.arrow import arrow_schema
from tests.short import one_in, share
from tests.sql.local.test_scan import COLUMNS, CONDITIONS, ROWS, Condition
from tests.sql.tables import make_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def table(lake: Lake, spark: SparkSession, tmp_path: Path) -> LakeTable:
    """The rows as a table here, and as the view ``t`` in Spark."""
    made = make_table(lake, "t", options=None, partition="", **COLUMNS)
    rows = pa.RecordBatch.from_pylist(ROWS, schema=arrow_schema(made.schema.fields))
    append_batches(lake, made, [rows])
    pq.write_table(pa.Table.from_batches([rows]), tmp_path / "rows.parquet")
    spark.read.parquet(str(tmp_path / "rows.parquet")).createOrReplaceTempView("t")
    return made


@settings(deadline=None, max_examples=share(60), phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))
@given(condition=CONDITIONS)
def test_a_random_filter_keeps_the_rows_spark_keeps(gateway: Gateway, spark: SparkSession, table: LakeTable, condition: Condition) -> None:
    text = f"SELECT k FROM t WHERE {condition.sql}"
    theirs = sorted(row[0] for row in spark.sql(text).collect())
    assert sorted(k for (k,) in gateway.run(text).collect()) == theirs


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(*), COUNT(1), COUNT(s), COUNT(d) FROM t",
        "SELECT MIN(i), MAX(i), MIN(y), MAX(n), MIN(n), MIN(a), MAX(a), MIN(t), MAX(t), MIN(b), MAX(b) FROM t",
        "SELECT COUNT(*) AS c, MAX(k) FROM t",
    ],
)
def test_counts_and_bounds_have_spark_s_names_and_values(gateway: Gateway, spark: SparkSession, table: LakeTable, text: str) -> None:
    result = gateway.run(text)
    theirs = spark.sql(text)
    assert [column.name for column in result.columns] == theirs.columns
    assert result.collect() == [tuple(row) for row in theirs.collect()]


LITERALS: list[tuple[str, str, str]] = [
    ("TINYINT", "tinyint", "-128"),
    ("BIGINT", "bigint", "CAST(' 12 ' AS INT)"),
    ("FLOAT", "float", "0.1"),
    ("FLOAT", "float", "1e39"),
    ("FLOAT", "float", "16777217"),
    ("DOUBLE", "double", "0.1"),
    ("DOUBLE", "double", "-1.5E-3"),
    ("DOUBLE", "double", "12345678901234567890"),
    ("DOUBLE", "double", "-0.0"),
    ("DOUBLE", "double", "-0e0"),
    ("DOUBLE", "double", "CAST('-0' AS DECIMAL(10, 2))"),
    ("FLOAT", "float", "-0.0"),
    ("DECIMAL(10, 2)", "decimal(10,2)", "1.005"),
    ("DECIMAL(10, 2)", "decimal(10,2)", "-1.005"),
    ("DECIMAL(10, 2)", "decimal(10,2)", "CAST('1.25' AS DECIMAL(5, 2))"),
    ("DECIMAL(38, 0)", "decimal(38,0)", "99999999999999999999999999999999999999"),
    ("STRING", "string", "42"),
    ("STRING", "string", "'it''s'"),
    ("STRING", "string", "'a\\tb'"),
    ("STRING", "string", "CAST(7 AS STRING)"),
    ("BYTES", "binary", "X'00fF'"),
    ("DATE", "date", "DATE '2024-2-9'"),
    ("DATE", "date", "CAST('0001-01-01' AS DATE)"),
    ("TIMESTAMP(6)", "timestamp_ntz", "TIMESTAMP_NTZ '2024-02-29T10:00:00.123456'"),
    ("TIMESTAMP(6)", "timestamp_ntz", "TIMESTAMP_NTZ '2024-02-29'"),
    ("ARRAY<INT>", "array<int>", "ARRAY(1, NULL)"),
    ("MAP<STRING, INT>", "map<string,int>", "MAP('a', 1)"),
]


@pytest.mark.parametrize(("ours", "theirs", "literal"), one_in(2, LITERALS), ids=[f"{case[0]}={case[2]}" for case in LITERALS])
def test_a_literal_is_stored_as_spark_stores_it(
    gateway: Gateway, lake: Lake, spark: SparkSession, ours: str, theirs: str, literal: str
) -> None:
    make_table(lake, "stored", k="INT", c=ours)
    gateway.run(f"INSERT INTO stored VALUES (1, {literal})").close()
    spark.sql("DROP TABLE IF EXISTS stored")
    spark.sql(f"CREATE TABLE stored (c {theirs}) USING parquet")
    spark.sql(f"INSERT INTO stored VALUES ({literal})")
    stored: list[Any] = spark.table("stored").toArrow().column(0).to_pylist()
    assert repr([value for _, value in gateway.run("SELECT * FROM stored").collect()]) == repr(stored)
