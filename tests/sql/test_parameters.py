"""Values of placeholders: literals of the tree with the type they were sent with, or an error that tells where and what to do."""

from __future__ import annotations

import base64
import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from gateway.gateway import Gateway
from model.errors import InvalidParameter, LakeError
from sql.analysis.to_spark import spark_sql
from sql.dialect import parse_one, split
from sql.local.literals import evaluate
from sql.parameters.parameters import Parameters, bind, placeholders


def bound(text: str, values: Any) -> str:
    """The Spark SQL of a text with its values."""
    return spark_sql(bind([one.text for one in split(text)], Parameters.from_json(values))[0])


@given(st.lists(st.one_of(st.text(), st.integers(-(2**63), 2**63 - 1), st.booleans(), st.floats(allow_nan=False, allow_infinity=False))))
def test_any_value_comes_back_from_the_text_spark_gets(values: list[Any]) -> None:
    spelled = bound(f"VALUES ({', '.join(['?'] * len(values)) or '0'})", values)
    read = [evaluate(part).value for part in parse_one(spelled).expressions[0].expressions] if values else []
    assert [(type(value), value) for value in read] == [(type(value), value) for value in values]


_MAP = "CAST(MAP_FROM_ARRAYS(ARRAY('a'), ARRAY(1)) AS MAP<STRING, INT>)"
TYPED = [
    ("BIGINT", 7, "CAST(7 AS BIGINT)"),
    ("DECIMAL(10,2)", "1.20", "CAST('1.20' AS DECIMAL(10, 2))"),
    ("DECIMAL(10,2)", "0e600000000", "CAST('0.00' AS DECIMAL(10, 2))"),
    ("DECIMAL(10,2)", "1.5" + "0" * 300_000, "CAST('1.50' AS DECIMAL(10, 2))"),
    ("date", "2024-02-29", "CAST('2024-02-29' AS DATE)"),
    ("TIMESTAMP", "2024-02-29T01:02:03.5", "CAST('2024-02-29 01:02:03.500000' AS TIMESTAMP)"),
    ("TIMESTAMP_LTZ(3)", "2024-02-29T01:02:03+02:00", "CAST('2024-02-28 23:02:03Z' AS TIMESTAMP_LTZ)"),
    ("TIMESTAMP(3)", "2024-02-29T01:02:03.5", "CAST('2024-02-29 01:02:03.500000' AS TIMESTAMP)"),
    ("TIMESTAMP(1)", "2024-02-29T01:02:03.456789", "CAST('2024-02-29 01:02:03.400000' AS TIMESTAMP)"),
    ("TIMESTAMP_LTZ(0)", "2024-02-29T01:02:03.5Z", "CAST('2024-02-29 01:02:03Z' AS TIMESTAMP_LTZ)"),
    ("TIME(3)", "12:34:56", "CAST('12:34:56' AS TIME(3))"),
    ("TIME(0)", "12:34:56.5", "CAST('12:34:56' AS TIME(0))"),
    ("ARRAY<TIMESTAMP(3)>", ["2024-02-29T01:02:03.456789"],
     "CAST(ARRAY(CAST('2024-02-29 01:02:03.456000' AS TIMESTAMP)) AS ARRAY<TIMESTAMP>)"),
    ("BYTES", "AP8=", "X'00FF'"),
    ("DOUBLE", "-Infinity", "CAST('-Infinity' AS DOUBLE)"),
    ("ARRAY<INT>", [1, None], "CAST(ARRAY(1, CAST(NULL AS INT)) AS ARRAY<INT>)"),
    ("MAP<STRING, INT>", {"a": 1}, f"transform_keys({_MAP}, (__cut0, __other0) -> __cut0) AS `{_MAP}`"),
    ("ROW<a INT, `b c` STRING>", {"b c": "x", "a": 1}, "CAST(struct(1, 'x') AS STRUCT<`a`: INT, `b c`: STRING>)"),
    ("DATE", None, "CAST(NULL AS DATE)"),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "value", "spelled"), TYPED)
def test_a_value_with_a_type(type_: str, value: Any, spelled: str) -> None:
    assert bound("SELECT ?", [{"type": type_, "value": value}]) == f"SELECT {spelled}"


@pytest.mark.parametrize(
    ("text", "values", "spelled"),
    [
        ("SELECT a FROM t WHERE b IN (:x, :y) AND c = :x LIMIT :n", {"x": "1' OR 1=1 --", "y": -2, "n": 3},
         "SELECT a FROM t WHERE b IN ('1\\' OR 1=1 --', -2) AND c = '1\\' OR 1=1 --' LIMIT 3"),
        ("SELECT '?', `:x`, ? /* ? */ -- :x", [1], "SELECT '?', `:x`, 1"),
        ("SELECT ?::STRING, a LIKE ? ESCAPE ?", [1, "a", "b"], "SELECT CAST(1 AS STRING), a LIKE 'a' ESCAPE 'b'"),
        ("SELECT a - INTERVAL :n DAY :n HOURS, a + INTERVAL '1' DAY + :n, INTERVAL :t", {"n": -3, "t": "1 day"},
         "SELECT a - INTERVAL '-3 DAY -3 HOURS', a + INTERVAL '1' DAY + -3, INTERVAL '1' DAY"),
        ("SELECT a - INTERVAL '1' DAY + ?, INTERVAL ? HOUR, INTERVAL -? HOUR", [None, {"type": "BIGINT", "value": 2}, "2"],
         "SELECT a - INTERVAL '1' DAY + NULL, INTERVAL '2' HOUR, INTERVAL '-2' HOUR"),
        ("SELECT * FROM t FOR SYSTEM_TIME AS OF ?", ["2024-01-01 00:00:00"], "SELECT * FROM t TIMESTAMP AS OF '2024-01-01 00:00:00'"),
    ],
)  # fmt: skip
def test_where_literals_stand_placeholders_do(text: str, values: Any, spelled: str) -> None:
    assert bound(text, values) == spelled


def test_hints_options_and_calls_take_them_by_position_in_the_text() -> None:
    query = bind(["SELECT ? FROM t /*+ OPTIONS('k' = ?, 'l' = '?') */ WHERE a = ?"], Parameters.from_json(["x", 7, True]))[0]
    table = query.find(exp.Table)
    assert table is not None
    assert table.meta["options"] == {"k": "7", "l": "?"}
    assert spark_sql(query) == "SELECT 'x' FROM t WHERE a = TRUE"
    [call] = bind(["CALL sys.compact(?, dry_run => ?, n => ?)"], Parameters.from_json(["d.t", True, 1.5]))
    assert call.args["arguments"] == ((None, "d.t"), ("dry_run", True), ("n", Decimal("1.5")))
    [option] = bind(["SET 'k' = :v"], Parameters.from_json({"v": {"type": "DATE", "value": "2024-02-29"}}))
    assert option.args["value"] == "2024-02-29"


def test_placeholders_are_found_wherever_they_may_stand() -> None:
    texts = ["SELECT a - INTERVAL ? DAY :n HOURS FROM t /*+ OPTIONS('k' = ?) */", "SET 'k' = :n", "CALL sys.compact(?)"]
    assert [[one.written for one in placeholders(text)] for text in texts] == [["?", ":n", "?"], [":n"], ["?"]]


@pytest.mark.parametrize(
    ("text", "values", "said", "place"),
    [
        ("SELECT ?,\n  ?", [1], "Parameter 2 (? at line 2, column 3) has no value: 1 sent by position", (2, 3)),
        ("SELECT :a", {"b": 1}, "Parameter :a (at line 1, column 8) has no value: values were sent for b", (1, 8)),
        ("SELECT ?", [1, 2], "placeholders (?) for 1; leave out the rest", (None, None)),
        ("SELECT 1", {"a": 1}, "No :a stands in the text", (None, None)),
        ("SELECT ?", [[1]], "others tell their type", (1, 8)),
        ("SELECT ?", [{"type": "INT"}], 'an object of "type" and "value"', (1, 8)),
        ("SELECT ?", [{"type": "NUMBER", "value": 1}], "'NUMBER' is no type", (1, 8)),
        ("SELECT ?", [{"type": "INT); DROP TABLE t", "value": 1}], "is no type", (1, 8)),
        ("SELECT ?", [{"type": "VARIANT", "value": 1}], "no literals of VARIANT", (1, 8)),
        ("SELECT ?", [{"type": "DECIMAL(4,2)", "value": "1.205"}], 'as text to be exact, not "1.205" as DECIMAL(4,2)', (1, 8)),
        ("SELECT ?", [{"type": "TIMESTAMP_LTZ", "value": "2024-02-29T01:02:03"}], 'like "2024-02-29T12:00:00.5Z"', (1, 8)),
        ("SELECT ?", [{"type": "TINYINT", "value": 128}], "a whole number from -128 to 127", (1, 8)),
        ("SELECT ?", [{"type": "DECIMAL(4,2)", "value": "1_0"}], "as text to be exact", (1, 8)),
        ("SELECT ?", [{"type": "DOUBLE", "value": "1_0"}], 'a number, or "NaN"', (1, 8)),
        ("SELECT ?", [{"type": "BYTES", "value": "?"}], "base64", (1, 8)),
        ("SELECT * FROM ?", ["t"], "Expected table name", (1, 15)),
        ("SELECT a AS ?", ["t"], "the end of the statement", (1, 13)),
        ("CREATE VIEW v AS SELECT ?", [1], "kept as text", (1, 18)),
        ("SELECT 1; SELECT ?", [1], "name them (:name)", (None, None)),
    ],
)  # fmt: skip
def test_what_will_not_do_is_told_with_its_place_and_the_way_out(
    text: str, values: Any, said: str, place: tuple[int | None, int | None]
) -> None:
    with pytest.raises(LakeError) as caught:
        bound(text, values)
    assert said in caught.value.message
    assert (caught.value.line, caught.value.column) == place


def test_arrow_values_are_the_same_parameters() -> None:
    moment = dt.datetime(2024, 2, 29, 12, 0, 0, 5000)
    batch = pa.record_batch(
        {
            "i": pa.array([0, 7], pa.int64()),
            "s": pa.array(["", "a'b"], pa.large_string()),
            "d": pa.array([None, Decimal("1.20")], pa.decimal128(10, 2)),
            "t": pa.array([None, moment], pa.timestamp("ns")),
            "z": pa.array([None, moment.replace(tzinfo=dt.UTC)], pa.timestamp("us", "Asia/Tokyo")),
            "b": pa.array([b"", b"\x00\xff"], pa.binary()),
            "l": pa.array([[], [{"x": 1}]], pa.list_(pa.struct([("x", pa.int32())]))),
            "n": pa.array([None, None], pa.float64()),
            "k": pa.array(["u", "v"]).dictionary_encode(),
        }
    )
    parameters = Parameters.from_arrow(batch, 1)
    spelled = spark_sql(bind([f"SELECT {', '.join('?' * 9)}"], parameters)[0])
    assert spelled == (
        "SELECT CAST(7 AS BIGINT), 'a\\'b', CAST('1.20' AS DECIMAL(10, 2)), CAST('2024-02-29 12:00:00.005000' AS TIMESTAMP), "
        "CAST('2024-02-29 12:00:00.005000Z' AS TIMESTAMP_LTZ), X'00FF', "
        "CAST(ARRAY(CAST(struct(1) AS STRUCT<`x`: INT>)) AS ARRAY<STRUCT<`x`: INT>>), "
        "CAST(NULL AS DOUBLE), 'v'"
    )
    assert spark_sql(bind(["SELECT :s"], Parameters.from_arrow(batch.select(["s"]), 0, named=True))[0]) == "SELECT ''"
    with pytest.raises(InvalidParameter, match="would lose data"):
        Parameters.from_arrow(pa.record_batch({"t": pa.array([1], pa.timestamp("ns"))}), 0)
    assert [one.written for one in placeholders("SELECT ?, :a; SELECT :b")] == ["?", ":a", ":b"]


def test_a_script_runs_whole_or_not_at_all(gateway: Gateway) -> None:
    """Values by name are for all statements, and what is wrong with one is known before the first runs."""
    gateway.run("CREATE TABLE t (a INT, s STRING, b BYTES, d DATE, z TIMESTAMP_LTZ)").close()
    with pytest.raises(InvalidParameter) as caught:
        gateway.run("INSERT INTO t (a) VALUES (:a);\nINSERT INTO t (a) VALUES (:b)", parameters=Parameters.from_json({"a": 1}))
    assert (caught.value.statement_index, caught.value.line, caught.value.column) == (1, 2, 27)
    assert gateway.run("SELECT COUNT(*) FROM t").collect() == [(0,)]
    row = [1, "it's", {"type": "BYTES", "value": base64.b64encode(b"\0x").decode()}, {"type": "DATE", "value": None},
           {"type": "TIMESTAMP_LTZ", "value": "2024-02-29T12:00:00+01:00"}]  # fmt: skip
    gateway.run("INSERT INTO t VALUES (?, ?, ?, ?, ?)", parameters=Parameters.from_json(row)).close()
    found = gateway.run(
        "SELECT * FROM t WHERE s = :s AND a IN (:a, 5) LIMIT :n", parameters=Parameters.from_json({"s": "it's", "a": 1, "n": 1})
    )
    assert found.collect() == [(1, "it's", b"\0x", None, dt.datetime(2024, 2, 29, 11, tzinfo=dt.UTC))]
    assert gateway.run("SELECT a FROM t WHERE s = ?", parameters=Parameters.from_json(["it's' OR 'a' = 'a"])).collect() == []


def test_an_idempotency_key_stands_for_the_values_too(gateway: Gateway) -> None:
    gateway.run("CREATE TABLE t (a INT)").close()
    text, one, two = "INSERT INTO t VALUES (?)", Parameters.from_json([1]), Parameters.from_json([2])
    for _ in range(2):
        gateway.run(text, parameters=one, idempotency_key="k").close()
    with pytest.raises(LakeError, match="another"):
        gateway.run(text, parameters=two, idempotency_key="k")
    assert gateway.run("SELECT a FROM t").collect() == [(1,)]


@pytest.mark.parametrize(
    "type_", [pa.date32(), pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.list_(pa.date32()), pa.map_(pa.string(), pa.date32())]
)
def test_a_time_that_python_has_not_is_refused(type_: pa.DataType) -> None:
    plain = type_.item_type if pa.types.is_map(type_) else type_.value_type if pa.types.is_list(type_) else type_
    beyond = pa.array([3_000_000 if pa.types.is_date(plain) else 2**62], pa.int32() if pa.types.is_date(plain) else pa.int64()).cast(plain)
    if pa.types.is_map(type_):
        column = pa.MapArray.from_arrays([0, 1], ["k"], beyond)
    else:
        column = pa.ListArray.from_arrays([0, 1], beyond) if pa.types.is_list(type_) else beyond
    with pytest.raises(InvalidParameter, match=r"parameter a .* a time outside the years 1 to 9999"):
        Parameters.from_arrow(pa.record_batch({"a": column}), 0)


@pytest.mark.parametrize("within", ["itself", "list", "map", "struct"])
@pytest.mark.parametrize("parts", [[], ["a", "a"]])
def test_a_row_whose_parts_cannot_be_told_apart_is_refused(parts: list[str], within: str) -> None:
    row = pa.struct([(part, pa.int32()) for part in parts])
    types = {"itself": row, "list": pa.list_(row), "map": pa.map_(pa.string(), row), "struct": pa.struct([("b", row)])}
    with pytest.raises(InvalidParameter, match=r"parameter a .* cannot be a literal: a ROW has parts, each of a name of its own"):
        Parameters.from_arrow(pa.record_batch({"a": pa.nulls(1, types[within])}), 0)
