"""Records of Kafka as rows, without a broker: what Spark's connector gives is made here."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sql.connectors import ConnectorScope, ConnectorTable
from sql.connectors.kafka import topics_of
from sql.connectors.registry import connector_table
from sql.dialect import parse_one
from sql.spark.connectors import kafka

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
RECORD = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
Headers = list[tuple[str, bytes | None]]


def table(columns: str, options: str) -> ConnectorTable:
    text = f"CREATE TEMPORARY TABLE k ({columns}) WITH ('connector' = 'kafka', 'properties.bootstrap.servers' = 'h:1', {options})"
    return connector_table("k", parse_one(text).args["definition"], ConnectorScope())


def shown(spark: SparkSession, made: ConnectorTable, *records: tuple[bytes | None, bytes, Headers | None]) -> list[tuple[Any, ...]]:
    at = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
    rows = [(key, value, "x", 0, number, at, 0, headers) for number, (key, value, headers) in enumerate(records)]
    return [tuple(row) for row in kafka._shown(spark.createDataFrame(rows, RECORD), made).collect()]


def test_a_column_that_key_and_value_hold_shows_the_values(spark: SparkSession) -> None:
    """As in Flink, which puts the value's over the key's; where the value has none it is the key's, and always with EXCEPT_KEY."""
    records = [(None, b'{"id": "7", "v": 1}', None), (b"x", b'{"id": "8", "v": 2}', None)]
    without = [(b"y", b'{"v": 3}', None), (b"z", b'{"id": null, "v": 4}', None), (None, b'{"v": 5}', None)]
    sides = "'topic' = 'x', 'key.format' = 'raw', 'key.fields' = 'id', 'value.format' = 'json'"
    expected = [("7", 1), ("8", 2), ("y", 3), ("z", 4), (None, 5)]
    assert shown(spark, table("id STRING, v INT", sides), *records, *without) == expected
    except_key = table("id STRING, v INT", f"{sides}, 'value.fields-include' = 'EXCEPT_KEY'")
    assert shown(spark, except_key, *records) == [(None, 1), ("x", 2)]


def test_an_array_is_a_row_for_each_of_its_objects(spark: SparkSession) -> None:
    """As in Flink, with the key and the metadata of its record in each."""
    values = [b'{"v": 1}', b' [{"v": 2, "d": 1.5}, null, {"v": 3, "d": 123456789012345678.12}]', b"[]", b'[{"v": 4, "d": 1e99999999}, {}]']
    sides = "'topic' = 'x', 'key.format' = 'raw', 'key.fields' = 'id', 'value.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY'"
    made = table("id STRING, v INT, d DECIMAL(20, 2), o BIGINT METADATA FROM 'offset'", sides)
    large = Decimal("123456789012345678.12")
    assert shown(spark, made, *[(b"k", value, None) for value in values]) == [
        ("k", 1, None, 0), ("k", 2, Decimal("1.50"), 1), ("k", 3, large, 1), ("k", 4, None, 3), ("k", None, None, 3)
    ]  # fmt: skip
    for wrong in (b"[1]", b'[{"v": "x"}]', b'[{"v": 1}'):
        with pytest.raises(Exception, match=r"MALFORMED_RECORD"):
            shown(spark, made, (b"k", wrong, None))
    ignoring = table("v INT", "'topic' = 'x', 'format' = 'json', 'json.ignore-parse-errors' = 'true'")
    several = [(None, value, None) for value in (b'[{"v": "x"}, {"v": 5}]', b"[1]", b"[[]]", b"[", b"5", b'{"v": 6}')]
    assert shown(spark, ignoring, *several) == [(None,), (5,), (6,)]


def test_of_headers_of_one_name_the_last_one_counts(spark: SparkSession) -> None:
    made = table("v INT, h MAP<STRING, BYTES> METADATA FROM 'headers'", "'topic' = 'x', 'format' = 'json'")
    several: Headers = [("trace", b"1"), ("b", b"z"), ("trace", None), ("a", b"y"), ("b", b"w")]
    many: Headers = [("a", b"%d" % n) for n in range(100_000)]
    value = b'{"v": 1}'
    found = shown(spark, made, (None, value, None), (None, value, [("b", b"1"), ("a", b"2")]), (None, value, several), (None, value, many))
    plain = [{name: header if header is None else bytes(header) for name, header in row[1].items()} for row in found]
    assert plain == [{}, {"b": b"1", "a": b"2"}, {"trace": None, "a": b"y", "b": b"w"}, {"a": b"99999"}]


def test_a_row_names_one_of_the_tables_topics(spark: SparkSession) -> None:
    for options in ("'topic' = 'a;b'", "'topic-pattern' = '[ab]'"):
        made = table("v INT, t STRING METADATA FROM 'topic'", f"{options}, 'format' = 'json'")
        frame = spark.createDataFrame([("a",), ("b",)], "t STRING")
        topic = kafka._topic(frame["t"], made, topics_of(made))
        assert [row[0] for row in frame.select(topic).collect()] == ["a", "b"]
        for wrong in ("ab", None):
            frame = spark.createDataFrame([(wrong,)], "t STRING")
            with pytest.raises(Exception, match=f"none of the table's: {wrong or 'NULL'}"):
                frame.select(kafka._topic(frame["t"], made, topics_of(made))).collect()


def test_a_long_topic_is_not_tried_on_the_pattern(spark: SparkSession) -> None:
    """The pattern is judged for names as Kafka has them."""
    made = table("v INT, t STRING METADATA FROM 'topic'", "'topic-pattern' = 'a*a*a*b', 'format' = 'json'")
    frame = spark.createDataFrame([("a" * 1_000_000,)], "t STRING")
    with pytest.raises(Exception, match=r"none of the table's: a{249}(?!a)"):
        frame.select(kafka._topic(frame["t"], made, topics_of(made))).collect()
