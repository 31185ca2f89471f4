"""INSERT … VALUES without Spark: every literal's meaning, every refusal with its place, and nothing changed after one."""

import datetime as dt
import itertools
import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.gateway import Gateway
from lake import Lake
from model.errors import AnalysisError, ExecutionError, InvalidData, LakeError, SqlError, TableNotExist
from model.schema.schema import column
from sql.dialect import parse_one
from sql.local.assign import Assignment
from sql.local.insert import values_of
from sql.local.literals import NotLocal
from sql.local.values import read_values
from tests.sql.tables import make_table

_NUMBERS = itertools.count()
"""Of tables that share a lake."""


def rows_of(gateway: Gateway, table: str = "t") -> list[tuple[Any, ...]]:
    return gateway.run(f"SELECT * FROM {table}").collect()


LITERALS: list[tuple[str, str, Any]] = [
    ("TINYINT", "-128", -128),
    ("SMALLINT", "32767", 32767),
    ("INT", "007", 7),
    ("BIGINT", "-9223372036854775808", -(2**63)),
    ("BIGINT", "CAST('12' AS INT)", 12),
    ("FLOAT", "1.5", 1.5),
    ("FLOAT", "0.1", 0.10000000149011612),
    ("DOUBLE", "1e3", 1000.0),
    ("DOUBLE", "0.1", 0.1),
    ("DOUBLE", "CAST('2.5' AS DOUBLE)", 2.5),
    ("DECIMAL(10, 2)", "1", Decimal("1.00")),
    ("DECIMAL(10, 2)", "1.005", Decimal("1.01")),
    ("DECIMAL(10, 2)", "-1.005", Decimal("-1.01")),
    ("DECIMAL(38, 0)", "99999999999999999999999999999999999999", Decimal("9" * 38)),
    ("STRING", "'it''s'", "it's"),
    ("STRING", "''", ""),
    ("STRING", "'ä€😀'", "ä€😀"),
    ("STRING", "42", "42"),
    ("VARCHAR(3)", "'äöü'", "äöü"),
    ("CHAR(3)", "'ab'", "ab"),
    ("CHAR(3)", "CAST('ab' AS CHAR(3))", "ab "),
    ("VARCHAR(3)", "CAST('aä😀d' AS VARCHAR(3))", "aä😀"),
    ("STRING", "CAST(1234 AS CHAR(3))", "123"),
    ("STRING", "CAST('abc' AS VARCHAR)", "abc"),
    ("BOOLEAN", "TRUE", True),
    ("BOOLEAN", "false", False),
    ("BYTES", "X'00fF'", b"\x00\xff"),
    ("BYTES", "X''", b""),
    ("DATE", "DATE '2024-02-29'", dt.date(2024, 2, 29)),
    ("DATE", "CAST('2024-2-9' AS DATE)", dt.date(2024, 2, 9)),
    ("TIME(3)", "TIME '23:59:59.999'", dt.time(23, 59, 59, 999000)),
    ("TIMESTAMP(3)", "TIMESTAMP '2024-02-29 10:00:00.5'", dt.datetime(2024, 2, 29, 10, 0, 0, 500000)),
    ("TIMESTAMP(6)", "TIMESTAMP '2024-02-29T10:00:00.123456'", dt.datetime(2024, 2, 29, 10, 0, 0, 123456)),
    ("TIMESTAMP(6)", "TIMESTAMP '2024-02-29'", dt.datetime(2024, 2, 29)),
    ("TIMESTAMP_LTZ(3)", "TIMESTAMP '2024-02-29 10:00:00'", dt.datetime(2024, 2, 29, 10, tzinfo=dt.UTC)),
    ("INT", "NULL", None),
    ("INT", "(5)", 5),
    ("INT", "CAST(5 AS BIGINT)", 5),
    ("ARRAY<INT>", "ARRAY[1, NULL, 3]", [1, None, 3]),
    ("ARRAY<STRING>", "ARRAY['a']", ["a"]),
    ("MAP<STRING, INT>", "MAP['a', 1, 'b', NULL]", [("a", 1), ("b", None)]),
]


@pytest.mark.parametrize(("type_", "literal", "value"), LITERALS, ids=[f"{type_}={literal}" for type_, literal, _ in LITERALS])
def test_a_literal_lands_as_its_value(module_gateway: Gateway, type_: str, literal: str, value: Any) -> None:
    name = f"t{next(_NUMBERS)}"
    make_table(module_gateway.lake, name, k="INT", c=type_)
    result = module_gateway.run(f"INSERT INTO {name} VALUES (1, {literal})")
    assert result.collect() == [(1, 1)]
    assert rows_of(module_gateway, name) == [(1, value)]


def test_rows_inside_rows(gateway: Gateway) -> None:
    gateway.run("CREATE TABLE r (k INT, r ROW<a INT, b ARRAY<STRING>>, n ROW<x ROW<y INT>>)").close()
    gateway.run("INSERT INTO r VALUES (1, ROW(1, ARRAY['x', NULL]), ROW(ROW(7))), (2, NULL, ROW(NULL))").close()
    assert rows_of(gateway, "r") == [(1, {"a": 1, "b": ["x", None]}, {"x": {"y": 7}}), (2, None, {"x": None})]


def test_keys_of_maps_that_are_arrays_or_rows(gateway: Gateway) -> None:
    """They were an internal error: Python's lists have no hash."""
    gateway.run("CREATE TABLE m (k INT, a MAP<ARRAY<INT>, INT>, r MAP<ROW<x INT>, INT>)").close()
    gateway.run("INSERT INTO m VALUES (1, MAP[ARRAY[1], 2, ARRAY[1, 2], 3], MAP[ROW(1), 2])").close()
    assert rows_of(gateway, "m") == [(1, [([1], 2), ([1, 2], 3)], [({"x": 1}, 2)])]


REFUSED: list[tuple[str, str, type[LakeError], str, int]] = [
    ("TINYINT", "128", ExecutionError, r"128 is out of range for column c of type TINYINT \(-128 to 127\)", 26),
    ("INT", "-2147483649", ExecutionError, "-2147483649 is out of range for column c", 26),
    ("DECIMAL(4, 2)", "100", ExecutionError, r"100 is out of range for column c of type DECIMAL\(4, 2\)", 26),
    ("DECIMAL(4, 2)", "99.995", ExecutionError, "99.995 is out of range", 26),
    ("INT", "'abc'", AnalysisError, "Column c is INT, and 'abc' is a string", 26),
    ("INT", "TRUE", AnalysisError, "is a boolean", 26),
    ("BOOLEAN", "1", AnalysisError, "Column c is BOOLEAN, and 1 is an integer", 26),
    ("DATE", "'2024-01-01'", AnalysisError, "Column c is DATE, and '2024-01-01' is a string", 26),
    ("INT NOT NULL", "NULL", ExecutionError, "Column c is NOT NULL, and row 1 gives it NULL", 26),
]


@pytest.mark.parametrize(("type_", "literal", "error", "message", "column"), REFUSED, ids=[f"{case[0]}={case[1]}" for case in REFUSED])
def test_a_literal_that_does_not_fit_is_named_with_its_place(
    gateway: Gateway, lake: Lake, type_: str, literal: str, error: type[LakeError], message: str, column: int
) -> None:
    table = make_table(lake, k="INT", c=type_)
    with pytest.raises(error, match=message) as caught:
        gateway.run(f"INSERT INTO t VALUES (1, {literal})")
    assert isinstance(caught.value, SqlError)
    assert (caught.value.line, caught.value.column, caught.value.fragment) == (1, column, literal)
    assert table.latest() is None


def test_text_too_long_is_named(gateway: Gateway, lake: Lake) -> None:
    table = make_table(lake, k="INT", c="VARCHAR(2)")
    with pytest.raises(InvalidData, match=r"Column c, row 2: a value of length 3 does not fit VARCHAR\(2\)"):
        gateway.run("INSERT INTO t VALUES (1, 'ab'), (2, 'abc')")
    assert table.latest() is None


@pytest.mark.parametrize(
    ("type_", "literal"),
    [
        ("MAP<INT, INT>", "MAP[1, 2, 1, 3]"),
        ("MAP<FLOAT, INT>", "MAP[16777217, 2, 16777216, 3]"),
        ("ARRAY<MAP<DOUBLE, INT>>", "ARRAY[MAP[0E0, 2, -0E0, 3]]"),
        ("MAP<ARRAY<INT>, INT>", "MAP[ARRAY[1], 2, ARRAY[1], 3]"),
    ],
)
def test_a_map_with_one_key_twice_is_refused(gateway: Gateway, lake: Lake, type_: str, literal: str) -> None:
    gateway.run(f"CREATE TABLE t (k INT, c {type_})").close()
    with pytest.raises(InvalidData, match=r"Column c.*, row 1: the MAP has the key .* twice"):
        gateway.run(f"INSERT INTO t VALUES (1, {literal})")
    assert rows_of(gateway) == []


def test_places_count_lines(gateway: Gateway, lake: Lake) -> None:
    make_table(lake, k="INT", c="TINYINT")
    for text in ("INSERT INTO t VALUES\n  (1, 2),\n  (3, 400)", "INSERT INTO t VALUES /* slow */\n  (1, 2),\n  (3, 400)"):
        with pytest.raises(ExecutionError, match="400 is out of range") as caught:
            gateway.run(text)
        assert (caught.value.line, caught.value.column, caught.value.fragment) == (3, 7, "400")


def test_places_are_those_of_the_whole_text(gateway: Gateway, lake: Lake) -> None:
    make_table(lake, k="INT", c="TINYINT")
    with pytest.raises(ExecutionError) as caught:
        gateway.run("INSERT INTO t VALUES (1, 1);\nSET 'pipeline.name' = 'x'; INSERT INTO t VALUES (3, 400)")
    assert (caught.value.line, caught.value.column, caught.value.statement_index) == (2, 53, 2)
    assert caught.value.completed == ("INSERT INTO t VALUES (1, 1)", "SET 'pipeline.name' = 'x'")


def test_columns_named_in_another_order_and_left_out(gateway: Gateway, lake: Lake) -> None:
    make_table(lake, a="INT", b="STRING", c="INT NOT NULL")
    gateway.run("INSERT INTO t (c, a) VALUES (1, 2)").close()
    assert rows_of(gateway) == [(2, None, 1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("INSERT INTO t VALUES (1)", r"Row 1 has 1 values for the 3 columns of default.t \(a, b, c\)"),
        ("INSERT INTO t VALUES (1, 'x', 1), (1, 'x', 1, 1)", "Row 2 has 4 values"),
        ("INSERT INTO t (a, c) VALUES (1, 2, 3)", r"3 values for the 2 columns of default.t \(a, c\)"),
        ("INSERT INTO t (a, bb, c) VALUES (1, 'x', 3)", "Column bb does not exist in table default.t"),
        ("INSERT INTO t (a, a) VALUES (1, 2)", "Column a is named twice"),
        ("INSERT INTO t (a) VALUES (1)", "Column c of default.t is NOT NULL, and the INSERT gives it no value"),
    ],
)
def test_a_list_of_columns_that_does_not_fit_is_refused(gateway: Gateway, lake: Lake, text: str, message: str) -> None:
    table = make_table(lake, a="INT", b="STRING", c="INT NOT NULL")
    with pytest.raises(SqlError, match=message):
        gateway.run(text)
    assert table.latest() is None


def test_an_unknown_table_is_named(gateway: Gateway) -> None:
    with pytest.raises(TableNotExist, match=r"default\.nowhere"):
        gateway.run("INSERT INTO nowhere VALUES (1)")


def test_order_inside_a_bucket_is_the_order_of_writing(gateway: Gateway, lake: Lake) -> None:
    make_table(lake, k="INT", c="INT")
    for first in range(0, 30, 10):
        gateway.run("INSERT INTO t VALUES " + ", ".join(f"({n}, {n})" for n in range(first, first + 10))).close()
    assert [row[0] for row in rows_of(gateway)] == list(range(30))


def test_rows_go_to_their_partitions(gateway: Gateway, lake: Lake) -> None:
    make_table(lake, partition="p", k="INT", p="STRING")
    gateway.run("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, NULL), (4, 'a')").close()
    assert sorted(rows_of(gateway), key=str) == [(1, "a"), (2, "b"), (3, None), (4, "a")]


ODD = ["1L", "'a' 'b'", "''''", "+1", "- 1", "--1\n2"]
SQL_LITERALS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**6), max_value=10**6).map(lambda d: f"{d:f}"),
    st.sampled_from(["1e3", "-1.5E-3", ".5", "5.", "NULL", "null", "TRUE", "False", "X'00ff'", "x'AB'"]),
    st.sampled_from(ODD),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="'"), max_size=8).map(lambda s: f"'{s}'"),
    st.dates().map(lambda d: f"DATE '{d}'"),
    st.datetimes().map(lambda t: f"timestamp '{t}'"),
    st.times().map(lambda t: f"TIME '{t}'"),
)


@settings(deadline=None)
@given(
    st.lists(st.lists(SQL_LITERALS, min_size=1, max_size=4), min_size=1, max_size=3),
    st.sampled_from(["t", "d.t", "`my table`", "sluice.d.t"]),
    st.sampled_from(["", "(a, `b c`)", " ( a ) "]),
    st.sampled_from([" ", "\n", "  \t"]),
)
def test_what_the_quick_reader_reads_the_full_parser_reads_alike(rows: list[list[str]], target: str, columns: str, space: str) -> None:
    text = f"INSERT INTO {target}{space}{columns}{space}VALUES{space}" + ",".join(f"({', '.join(row)})" for row in rows)
    quick = read_values(text)
    if quick is None:
        return
    try:
        full = values_of(parse_one(text))  # type: ignore[arg-type]
    except NotLocal:
        pytest.fail(f"only the quick reader reads {text!r}")
    assert quick.target == full.target
    assert [name for name, _ in quick.columns or ()] == [name for name, _ in full.columns or ()]
    assert (quick.columns is None) == (full.columns is None)
    assert [[(v.kind, v.value, type(v.value)) for v in row] for row in quick.rows] == [
        [(v.kind, v.value, type(v.value)) for v in row] for row in full.rows
    ]


@settings(deadline=None)
@given(st.lists(st.lists(SQL_LITERALS, min_size=1, max_size=3), min_size=1, max_size=3))
def test_the_quick_reader_reads_the_plain_spellings(rows: list[list[str]]) -> None:
    plain = all(value not in ODD and "\\" not in value and len(value) < 30 for row in rows for value in row)
    if plain:
        assert read_values("INSERT INTO t VALUES " + ",".join(f"({', '.join(row)})" for row in rows)) is not None


def test_a_number_becomes_the_nearest_float_or_is_left_to_spark() -> None:
    """Numbers near the middle between two FLOATs: as a DOUBLE one may be the middle itself, from which neither is nearer."""
    rng = random.Random(20261129)
    wrong, kept = [], 0
    for _ in range(2000):
        low = np.float32(rng.choice([-1, 1]) * rng.uniform(1, 2) * 2.0 ** rng.randrange(-20, 20))
        ends = [float(low), float(np.nextafter(low, low * 2))]
        text = f"{Decimal(f'{sum(ends) / 2:.{rng.choice([9, 13, 15])}g}'):f}"
        read = read_values(f"INSERT INTO t VALUES ({text})")
        assert read is not None
        try:
            (stored,) = Assignment(utc=True).column(column("c", "FLOAT"), read.rows[0])
        except NotLocal:
            continue
        kept += 1
        if abs(Fraction(stored) - Fraction(text)) != min(abs(Fraction(end) - Fraction(text)) for end in ends):
            wrong.append((text, stored))
    assert kept > 1000
    assert not wrong


@pytest.mark.parametrize(("type_", "literal"), [("TIME(0)", "10:00:00.5"), ("TIME(2)", "10:00:00.125"), ("TIME(3)", "10:00:00.0001")])
def test_digits_that_a_time_has_not_are_left_to_spark(type_: str, literal: str) -> None:
    read = read_values(f"INSERT INTO t VALUES (TIME '{literal}')")
    assert read is not None
    with pytest.raises(NotLocal):
        Assignment(utc=True).column(column("c", type_), read.rows[0])
