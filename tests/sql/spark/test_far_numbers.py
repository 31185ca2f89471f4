"""Numbers with far exponents in topics and files: nothing writes them out, and what looks like one stays what it is."""

from __future__ import annotations

import contextlib
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Column, SparkSession

from gateway.gateway import Gateway, GatewayLimits
from lake import Lake
from model.errors import LakeError
from sql.connectors import ConnectorScope
from sql.connectors.kafka import sides
from sql.connectors.registry import connector_table
from sql.dialect import parse_one
from sql.spark.connectors.formats import decoded_values
from sql.spark.session.pool import SparkPool

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
COLUMNS = "id STRING, d DECIMAL(20, 2), x DOUBLE, n BIGINT, a ARRAY<ROW<p DECIMAL(4, 1), q STRING>>, m MAP<STRING, DECIMAL(4, 1)>"
FAR, SMALL = "1e99999999", "-1E-99999999"
LONG = "123456789012345678.12"
BEYOND = r"NUMERIC_VALUE_OUT_OF_RANGE|NUMERIC_OUT_OF_SUPPORTED_RANGE|cannot be represented as|MALFORMED_RECORD"


def decoded_in(format_: str, columns: str, options: str = "") -> tuple[Column, Column | None]:
    text = f"CREATE TEMPORARY TABLE k ({columns}) WITH ('connector' = 'kafka', 'properties.bootstrap.servers' = 'h:1', 'topic' = 'x', "
    table = connector_table("k", parse_one(f"{text} 'format' = '{format_}'{options})").args["definition"], ConnectorScope())
    return decoded_values("value", sides(table)[1], table)


def read(spark: SparkSession, format_: str, columns: str, values: list[str], options: str = "") -> list[Any]:
    column, sound = decoded_in(format_, columns, options)
    frame = spark.createDataFrame([(value,) for value in values], "value STRING")
    frame = frame if sound is None else frame.where(sound)
    return [row[0].asDict(recursive=True) for row in frame.select(column.alias("v")).collect()]


def test_records_of_json(spark: SparkSession) -> None:
    record = f'"x": 0.30000000000000004, "n": -9007199254740993, "a": [{{"p": 1.25, "q": "1.5e7"}}, null], "m": {{"k": {SMALL}}}'
    values = [
        f'{{"id": "a\\"1:1,2", "d": {FAR}, {record}}}',
        f'{{"id": "12345e6789012345", "d": {LONG}, {record}}}',
        f'{{"id": "12345e6789012345", "d": "1,000.5", {record}}}',
        f'{{"id": "b", "d": "{FAR}", "d": 1}}',
        '{"\\u0064": "1,e9,9,9,9,9,9,9,9", "id": {"y": 1}}',
    ]
    rows = read(spark, "json", COLUMNS, values)
    assert [row["d"] for row in rows] == [None, Decimal(LONG), Decimal("1000.50"), Decimal(1), None]
    assert [row["id"] for row in rows] == ['a"1:1,2', "12345e6789012345", "12345e6789012345", "b", '{"y":1}']
    for row in rows[:3]:
        assert (row["x"], row["n"]) == (0.30000000000000004, -9007199254740993)
        assert row["a"] == [{"p": Decimal("1.3"), "q": "1.5e7"}, None]
        assert row["m"] == {"k": Decimal("0.0")}
    plain = json.dumps({"id": "a", "d": 1.5, "x": 1, "n": 2, "a": [], "m": {}})
    assert read(spark, "json", COLUMNS, [plain])[0]["d"] == Decimal("1.50")


def test_what_is_no_number_is_an_error_or_null(spark: SparkSession) -> None:
    text = f'{{"id": "{FAR}", "d": "x"}}'
    with pytest.raises(Exception, match=r"cannot be cast|CAST_INVALID_INPUT|malformed"):
        read(spark, "json", "id STRING, d DECIMAL(5, 1)", [text])
    (row,) = read(spark, "json", "id STRING, d DECIMAL(5, 1)", [text, "{"], ", 'json.ignore-parse-errors' = 'true'")
    assert row == {"id": FAR, "d": None}


def test_records_of_csv(spark: SparkSession) -> None:
    columns = "id STRING, d DECIMAL(5, 1)"
    rows = read(spark, "csv", columns, [f'"{FAR}",{FAR}', '12345e6789012345,"1e9,9,9,9,9,9,9,9"', 'b,"1,000.25"', f"c,{SMALL}", "d,"])
    assert [(row["id"], row["d"]) for row in rows] == [
        (FAR, None), ("12345e6789012345", None), ("b", Decimal("1000.3")), ("c", Decimal(0)), ("d", None)
    ]  # fmt: skip
    with pytest.raises(Exception, match=r"cannot be cast|CAST_INVALID_INPUT"):
        read(spark, "csv", columns, ["a,x"])
    assert read(spark, "csv", columns, ["a,x"], ", 'csv.ignore-parse-errors' = 'true'") == [{"id": "a", "d": None}]


def test_a_number_beyond_its_decimal_is_an_error_or_null(spark: SparkSession) -> None:
    """As for Spark's readers; NULL stands for far exponents alone."""
    columns = "id STRING, d DECIMAL(5, 1)"
    for format_, values in (
        ("json", ['{"id": "a", "d": 123456.7}', f'{{"id": "{FAR}", "d": 123456.7}}']),
        ("csv", ["a,123456.7", "a,1e9999"]),
    ):
        for value in values:
            with pytest.raises(Exception, match=BEYOND):
                read(spark, format_, columns, [value])
        rows = read(spark, format_, columns, values, f", '{format_}.ignore-parse-errors' = 'true'")
        assert [row["d"] for row in rows] == [None, None]


def test_what_is_no_number_is_told_at_once(spark: SparkSession) -> None:
    """However many digits it has."""
    with pytest.raises(Exception, match=r"cannot be cast|CAST_INVALID_INPUT"):
        read(spark, "csv", "d DECIMAL(5, 1)", ["1" * 1_000_000 + "x"])


@pytest.mark.parametrize(("format_", "parser", "times"), [("csv", "from_csv", 1), ("json", "from_json", 4), ("json", "regexp_replace", 2)])
def test_a_record_is_parsed_once_for_all_its_columns(spark: SparkSession, format_: str, parser: str, times: int) -> None:
    """JSON stands there for texts with a far number, and for all others; and for records that are an array, and for those that are none."""
    columns = COLUMNS if format_ == "json" else "a INT, b INT, d DECIMAL(5, 1)"
    frame = spark.createDataFrame([], "value STRING").select(decoded_in(format_, columns)[0].alias("v"))
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        frame.explain()
    assert told.getvalue().count(f"{parser}(") == times


def test_a_long_text_is_gone_through_once(spark: SparkSession) -> None:
    """A megabyte with what looks like a far number, and none that needs quotes."""
    text = json.dumps({"id": "12345e6789012345", "q": ["1-" * 250_000, list(range(100_000))], "d": 2})
    assert read(spark, "json", "id STRING, d DECIMAL(5, 1)", [text]) == [{"id": "12345e6789012345", "d": Decimal("2.0")}]


def test_a_record_that_is_no_object_is_left_out_where_errors_are_ignored(spark: SparkSession) -> None:
    """It was a row of NULLs, which Flink has none of."""
    values = ['{"id": 1}', "[1]", "[]", "5", '"x"', "null", "{", "", ' \n {"id": "x"}']
    assert read(spark, "json", "id INT", values, ", 'json.ignore-parse-errors' = 'true'") == [{"id": 1}, {"id": None}]


@pytest.mark.parametrize("value", ["INT", "DECIMAL(4, 1)"])
def test_of_a_key_that_an_object_has_twice_the_last_counts(spark: SparkSession, value: str) -> None:
    """As in Flink and in bodies of rows: Spark made a map with both."""
    deep = '{"b": {"k": 1, "j": 5, "k": 2}, "b": {"j": 1, "k": 3, "j": null, "i": 4}, "a": null}'
    values = [
        f'{{"m": {{"k": 1, "j": 2, "k": 3}}, "a": [{{"x": {{"z": 1, "z": null}}}}, null], "d": {deep}}}',
        '{"m": {"j": 1, "k": 2}, "a": [], "d": {}}',
        "{}",
    ]
    columns = f"m MAP<STRING, {value}>, a ARRAY<ROW<x MAP<STRING, {value}>>>, d MAP<STRING, MAP<STRING, {value}>>"
    column, _ = decoded_in("json", columns)
    frame = spark.createDataFrame([(one,) for one in values], "value STRING").select(column.alias("v")).select("v.*").toArrow()
    assert frame.to_pylist() == [
        {"m": [("j", 2), ("k", 3)], "a": [{"x": [("z", None)]}, None], "d": [("b", [("k", 3), ("j", None), ("i", 4)]), ("a", None)]},
        {"m": [("j", 1), ("k", 2)], "a": [], "d": []},
        {"m": None, "a": None, "d": None},
    ]


def test_of_a_key_that_a_map_of_parquet_has_twice_the_last_counts(lake: Lake, pool: SparkPool, tmp_path: Path) -> None:
    """As in Flink, which puts one entry behind the other: a query showed both, and INSERT stored them."""
    entries = pa.array([[("k", 1), ("j", 2), ("k", 3)], [], None], pa.map_(pa.string(), pa.int32()))
    deep = pa.StructArray.from_arrays([entries, pa.array([1, 2, 3])], names=["m", "n"])
    pq.write_table(pa.table({"a": entries, "r": deep}), tmp_path / "m.parquet")
    gateway = Gateway(lake, pool, limits=GatewayLimits(local_threads=2, spark_statements=1, import_dirs=(str(tmp_path),)))
    gateway.start()
    try:
        session = gateway.open_session()
        for columns in ("(a MAP<STRING, INT>, r ROW<m MAP<STRING, INT>, n BIGINT>)", ""):
            options = f"'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{tmp_path}/m.parquet'"
            gateway.run(f"CREATE TEMPORARY TABLE f {columns} WITH ({options})", session=session).close()
            rows = gateway.run("SELECT a, r.m, r.n FROM f ORDER BY 3", session=session).collect()
            assert rows == [([("j", 2), ("k", 3)], [("j", 2), ("k", 3)], 1), ([], [], 2), (None, None, 3)]
            gateway.run("DROP TEMPORARY TABLE f", session=session).close()
    finally:
        gateway.close()


def test_files(lake: Lake, pool: SparkPool, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(f'{{"id": "12345e6789012345", "d": {LONG}, "r": {{"p": {FAR}}}}}\n{{"id": "b", "d": "{FAR}"}}\n')
    (tmp_path / "b.csv").write_text(f'a,{LONG}\nb,"1e9,9,9,9,9,9,9,9"\nc,{SMALL}\n')
    (tmp_path / "c.csv").write_text("a,x\n")
    (tmp_path / "m.json").write_text('{"id": "a", "m": {"k": 1, "k": 2}}\n')
    (tmp_path / "d.csv").write_text("a,123456.7\n")
    gateway = Gateway(lake, pool, limits=GatewayLimits(local_threads=2, spark_statements=1, import_dirs=(str(tmp_path),)))
    gateway.start()

    def rows(columns: str, name: str, format_: str, options: str = "") -> list[Any]:
        session = gateway.open_session()
        path = f"'path' = '{tmp_path}/{name}', 'format' = '{format_}'{options}"
        gateway.run(f"CREATE TEMPORARY TABLE f ({columns}) WITH ('connector' = 'filesystem', {path})", session=session).close()
        return gateway.run("SELECT * FROM f ORDER BY id", session=session).collect()

    try:
        found = rows("id STRING, d DECIMAL(20, 2), r ROW<p DECIMAL(4, 1)>", "a.json", "json")
        assert [(row[0], row[1]) for row in found] == [("12345e6789012345", Decimal(LONG)), ("b", None)]
        assert found[0][2] in ({"p": None}, (None,))
        assert rows("id STRING, d DECIMAL(20, 2)", "b.csv", "csv") == [("a", Decimal(LONG)), ("b", None), ("c", Decimal("0.00"))]
        assert rows("id STRING, m MAP<STRING, INT>", "m.json", "json") == [("a", [("k", 2)])]
        with pytest.raises(LakeError, match=r"cannot be cast|CAST_INVALID_INPUT"):
            rows("id STRING, d DECIMAL(20, 2)", "c.csv", "csv")
        with pytest.raises(LakeError, match=BEYOND):
            rows("id STRING, d DECIMAL(5, 1)", "d.csv", "csv")
        assert rows("id STRING, d DECIMAL(20, 2)", "c.csv", "csv", ", 'csv.ignore-parse-errors' = 'true'") == [("a", None)]
    finally:
        gateway.close()
