"""SELECTs read by Arrow give the rows a plain reading of SQL's rules gives: NULLs, NaN, minus zero and all."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.gateway import Gateway
from lake import Lake, LakeTable
from model.errors import LakeError
from sql.execution.writing import append_batches
from sql.local.literals import NotLocal
from sql.local.scan import plan_select
from table.format.rows.arrow import arrow_schema
from tests.short import share
from tests.sql.tables import context_of, make_table

COLUMNS = {
    "k": "BIGINT",
    "i": "INT",
    "y": "TINYINT",
    "d": "DOUBLE",
    "f": "FLOAT",
    "s": "STRING",
    "n": "DECIMAL(10, 2)",
    "a": "DATE",
    "t": "TIMESTAMP(3)",
    "b": "BOOLEAN",
}
DOUBLES = [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 1e300, 0.1]
FLOATS = [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf]
STRINGS = ["", "a", "A", "ab", "abc", "b", "ä", "z", "😀", "%", "a_b", "a\nb"]
DAYS = [dt.date(2024, 2, 28), dt.date(2024, 2, 29), dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31)]
TIMES = [dt.datetime(2024, 2, 29, 10), dt.datetime(2024, 2, 29, 10, 0, 0, 500000), dt.datetime(1969, 12, 31, 23, 59, 59, 999000)]
VALUES: dict[str, list[Any]] = {
    "i": [0, 1, -1, 7, 2**31 - 1, -(2**31)],
    "y": [0, 1, -1, 127, -128],
    "d": DOUBLES,
    "f": FLOATS,
    "s": STRINGS,
    "n": [Decimal("0.00"), Decimal("1.50"), Decimal("-1.50"), Decimal("99999999.99")],
    "a": DAYS,
    "t": TIMES,
    "b": [True, False],
}


def some_rows(count: int) -> list[dict[str, Any]]:
    dice = random.Random(7)
    return [
        {"k": k} | {name: None if dice.random() < 0.15 else dice.choice(values) for name, values in VALUES.items()} for k in range(count)
    ]


ROWS = some_rows(240)


@pytest.fixture(scope="module")
def gateway(module_gateway: Gateway) -> Gateway:
    """One for all: nothing but the table's fixture writes to what it reads."""
    return module_gateway


@pytest.fixture(scope="module")
def lake(gateway: Gateway) -> Lake:
    return gateway.lake


@pytest.fixture(scope="module")
def table(lake: Lake) -> LakeTable:
    made = make_table(lake, "t", options=None, partition="", **COLUMNS)
    schema = arrow_schema(made.schema.fields)
    for start in range(0, len(ROWS), 80):
        append_batches(lake, made, [pa.RecordBatch.from_pylist(ROWS[start : start + 80], schema=schema)])
    return made


@dataclass(frozen=True)
class Condition:
    """A condition's text, and what it is of a row: True, False, or None for unknown."""

    sql: str
    of: Callable[[dict[str, Any]], bool | None]


def spark_order(value: Any) -> Any:
    """Spark's order: a NaN equals itself and is greater than every number, minus zero is zero."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda x, y: x == y,
    "<>": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}


def compared(column: str, operator: str, value: Any) -> Callable[[dict[str, Any]], bool | None]:
    wanted = spark_order(float(value)) if column in ("d", "f") else value

    def of(row: dict[str, Any]) -> bool | None:
        return None if row[column] is None else OPERATORS[operator](spark_order(row[column]), wanted)

    return of


def literal(column: str, value: Any) -> str:
    match value:
        case bool():
            return str(value).upper()
        case float():
            return repr(value) if "e" in repr(value) else f"{Decimal(repr(value)):f}"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
        case dt.datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
    return str(value)


FINITE = {name: [v for v in values if not (isinstance(v, float) and not math.isfinite(v))] for name, values in VALUES.items()}


@st.composite
def comparisons(draw: st.DrawFn) -> Condition:
    column = draw(st.sampled_from(sorted(VALUES)))
    value = draw(st.sampled_from(FINITE[column]))
    operator = draw(st.sampled_from(sorted(OPERATORS) if column != "b" else ["=", "<>"]))
    if draw(st.booleans()):
        return Condition(f"{column} {operator} {literal(column, value)}", compared(column, operator, value))
    flipped = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(operator, operator)
    return Condition(f"{literal(column, value)} {flipped} {column}", compared(column, operator, value))


@st.composite
def ranges(draw: st.DrawFn) -> Condition:
    column = draw(st.sampled_from(sorted(VALUES.keys() - {"b"})))
    low, high = draw(st.sampled_from(FINITE[column])), draw(st.sampled_from(FINITE[column]))
    above, below = compared(column, ">=", low), compared(column, "<=", high)
    bounds = f"BETWEEN {literal(column, low)} AND {literal(column, high)}"
    if draw(st.booleans()):
        return Condition(f"{column} NOT {bounds}", lambda row: negation(both(above(row), below(row))))
    return Condition(f"{column} {bounds}", lambda row: both(above(row), below(row)))


@st.composite
def memberships(draw: st.DrawFn) -> Condition:
    column = draw(st.sampled_from(sorted(VALUES.keys() - {"b"})))
    values = draw(st.lists(st.sampled_from(FINITE[column]), min_size=1, max_size=4))
    tests = [compared(column, "=", value) for value in values]
    negated = draw(st.booleans())
    text = f"{column} {'NOT ' if negated else ''}IN ({', '.join(literal(column, value) for value in values)})"

    def of(row: dict[str, Any]) -> bool | None:
        return None if row[column] is None else any(test(row) for test in tests) != negated

    return Condition(text, of)


@st.composite
def null_tests(draw: st.DrawFn) -> Condition:
    column = draw(st.sampled_from(sorted(VALUES)))
    if draw(st.booleans()):
        return Condition(f"{column} IS NULL", lambda row: row[column] is None)
    return Condition(f"{column} IS NOT NULL", lambda row: row[column] is not None)


@st.composite
def patterns(draw: st.DrawFn) -> Condition:
    text = draw(st.sampled_from(["a", "b", "", "ä", "bc"]))
    kind = draw(st.sampled_from(["is", "starts", "ends", "holds"]))
    pattern = {"is": text, "starts": f"{text}%", "ends": f"%{text}", "holds": f"%{text}%"}[kind]
    test: Callable[[str], bool] = {"is": text.__eq__, "starts": lambda s: s.startswith(text), "ends": lambda s: s.endswith(text)}.get(
        kind, lambda s: text in s
    )
    like = Condition(f"s LIKE '{pattern}'", lambda row: None if row["s"] is None else test(row["s"]))
    return Condition(f"s NOT LIKE '{pattern}'", lambda row: negation(like.of(row))) if draw(st.booleans()) else like


def both(x: bool | None, y: bool | None) -> bool | None:
    return False if x is False or y is False else None if x is None or y is None else True


def negation(x: bool | None) -> bool | None:
    return None if x is None else not x


FLAG = Condition("b", lambda row: row["b"])
ATOMS = st.one_of(comparisons(), ranges(), memberships(), null_tests(), patterns(), st.just(FLAG))


def joined(parts: tuple[Condition, Condition, str]) -> Condition:
    left, right, word = parts
    if word == "AND":
        return Condition(f"({left.sql}) AND ({right.sql})", lambda row: both(left.of(row), right.of(row)))
    return Condition(f"({left.sql}) OR ({right.sql})", lambda row: negation(both(negation(left.of(row)), negation(right.of(row)))))


def inverted(part: Condition) -> Condition:
    return Condition(f"NOT ({part.sql})", lambda row: negation(part.of(row)))


CONDITIONS = st.recursive(
    ATOMS, lambda inner: st.one_of(st.tuples(inner, inner, st.sampled_from(["AND", "OR"])).map(joined), inner.map(inverted)), max_leaves=6
)


@settings(deadline=None, max_examples=share(150), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(condition=CONDITIONS)
def test_a_filter_keeps_exactly_the_rows_for_which_it_is_true(gateway: Gateway, table: LakeTable, condition: Condition) -> None:
    result = gateway.run(f"SELECT k FROM t WHERE {condition.sql}")
    assert [k for (k,) in result.collect()] == [row["k"] for row in ROWS if condition.of(row) is True]


def test_all_columns_come_back_in_write_order(gateway: Gateway, table: LakeTable) -> None:
    rows = gateway.run("SELECT * FROM t").collect()
    assert repr(rows) == repr([tuple(row.values()) for row in ROWS])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT k AS kk, s, k FROM t LIMIT 1", ["kk", "s", "k"]),
        ("SELECT *, k FROM t LIMIT 1", [*COLUMNS, "k"]),
        ("SELECT x.*, x.i FROM t AS x LIMIT 1", [*COLUMNS, "i"]),
        ("SELECT t.k, `default`.t.i FROM `default`.t LIMIT 1", ["k", "i"]),
        ("SELECT sluice.`default`.t.i FROM sluice.`default`.t LIMIT 1", ["i"]),
    ],
)
def test_columns_are_named_as_the_query_says(gateway: Gateway, table: LakeTable, text: str, names: list[str]) -> None:
    result = gateway.run(text)
    assert [column.name for column in result.columns] == names
    (row,) = result.collect()
    first = {"kk": 0} | ROWS[0]
    assert repr(row) == repr(tuple(first[name] for name in names))


@pytest.mark.parametrize("limit", [0, 1, 79, 80, 81, 1000])
def test_a_limit_gives_the_first_rows(gateway: Gateway, table: LakeTable, limit: int) -> None:
    rows = gateway.run(f"SELECT k FROM t LIMIT {limit}").collect()
    assert [k for (k,) in rows] == list(range(min(limit, len(ROWS))))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k + 1 FROM t",
        "SELECT DISTINCT k FROM t",
        "SELECT k FROM t ORDER BY k",
        "SELECT k FROM t LIMIT 1 OFFSET 1",
        "SELECT k FROM t WHERE i > 1.5",
        "SELECT k FROM t WHERE i = '1'",
        "SELECT k FROM t WHERE s = 1",
        "SELECT k FROM t WHERE s LIKE 'a_'",
        "SELECT k FROM t WHERE s LIKE 'a%b'",
        "SELECT k FROM t WHERE s ILIKE 'a'",
        "SELECT k FROM t WHERE n = 1.555",
        "SELECT k FROM t WHERE f = 16777217",
        "SELECT k FROM t WHERE i = NULL",
        "SELECT k FROM t WHERE i IN (1, NULL)",
        "SELECT k FROM t WHERE i IN (SELECT 1)",
        "SELECT k FROM t WHERE i <=> 1",
        "SELECT k FROM t WHERE i",
        "SELECT k FROM t WHERE upper(s) = 'A'",
        "SELECT k FROM t WHERE nothing = 1",
        "SELECT nothing FROM t",
        "SELECT other.k FROM t",
        "SELECT k FROM t, t AS u",
        "SELECT k FROM (SELECT * FROM t)",
        "WITH t AS (SELECT 1 AS k) SELECT k FROM t",
        "SELECT k FROM t FOR SYSTEM_TIME AS OF TIMESTAMP '2024-01-01 00:00:00'",
        "SELECT k FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */",
        "SELECT COUNT(*) FROM t WHERE i = 1",
        "SELECT COUNT(*) FROM t GROUP BY i",
        "SELECT COUNT(DISTINCT i) FROM t",
        "SELECT MAX(d) FROM t",
        "SELECT SUM(i) FROM t",
        "SELECT 1",
    ],
)
def test_what_is_not_surely_the_same_goes_to_spark(gateway: Gateway, table: LakeTable, lake: Lake, text: str) -> None:
    from sql.dialect import parse_one

    with pytest.raises(NotLocal):
        plan_select(parse_one(text), context_of(lake))  # type: ignore[arg-type]


def test_counts_and_bounds_come_from_metadata(gateway: Gateway, table: LakeTable) -> None:
    present = {name: [row[name] for row in ROWS if row[name] is not None] for name in VALUES}
    result = gateway.run("SELECT COUNT(*), COUNT(1), COUNT(s) AS texts, MIN(i), MAX(n), MIN(a), MAX(t), MAX(b) FROM t")
    assert [column.name for column in result.columns] == [
        "count(1)", "count(1)", "texts", "min(i)", "max(n)", "min(a)", "max(t)", "max(b)",
    ]  # fmt: skip
    assert result.collect() == [
        (240, 240, len(present["s"]), min(present["i"]), max(present["n"]), min(present["a"]), max(present["t"]), max(present["b"]))
    ]


def test_a_table_never_written_counts_zero_and_has_no_bounds(gateway: Gateway, lake: Lake) -> None:
    make_table(lake, "empty", k="INT")
    assert gateway.run("SELECT COUNT(*), MIN(k) FROM empty").collect() == [(0, None)]
    assert gateway.run("SELECT * FROM empty").collect() == []


def test_a_result_closed_while_it_is_read_stops(gateway: Gateway, table: LakeTable) -> None:
    result = gateway.run("SELECT * FROM t")
    batches = result.batches()
    next(batches)
    result.close()
    with pytest.raises(LakeError, match="closed before all of it was read"):
        next(batches)
