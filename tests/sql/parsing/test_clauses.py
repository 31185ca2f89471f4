"""Clauses the grammar reads and nothing executes are refused by name, and change nothing."""

from __future__ import annotations

import pytest
from sqlglot import exp

from gateway.gateway import Gateway
from model.errors import UnsupportedStatement
from sql.dialect import parse_one
from sql.parsing.clauses import EXECUTED, check_clauses


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("INSERT INTO t BY NAME SELECT 1 AS a", "BY NAME"),
        ("INSERT INTO t VALUES (1) RETURNING a", "RETURNING"),
        ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", "ON CONFLICT"),
        ("INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 1", "ON CONFLICT"),
        ("INSERT INTO t REPLACE WHERE a = 1 VALUES (1)", "REPLACE WHERE"),
        ("INSERT INTO t IF EXISTS VALUES (1)", "IF EXISTS"),
        ("INSERT INTO t AS u SELECT 1", "alias"),
        ("SELECT a INTO b FROM t", "INTO"),
        ("SELECT a FROM t FOR UPDATE", "FOR UPDATE"),
        ("SELECT a FROM t LIMIT 10 PERCENT", "PERCENT"),
        ("SELECT a FROM (SELECT a FROM t FETCH FIRST 3 ROWS WITH TIES) x", "WITH TIES"),
        ("SELECT a FROM t LIMIT 5 BY a", "LIMIT … BY"),
        ("SELECT a FROM t TABLESAMPLE BERNOULLI (10)", "BERNOULLI"),
        ("SELECT sum(a) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM t", "EXCLUDE"),
    ],
)
def test_what_is_read_and_not_executed_is_refused(text: str, says: str) -> None:
    with pytest.raises(UnsupportedStatement, match=says):
        parse_one(text)


def test_what_is_executed_passes() -> None:
    for text in (
        "SELECT a FROM t FETCH FIRST 3 ROWS ONLY",
        "INSERT OVERWRITE t PARTITION (p = 1) SELECT 1 AS a",
        "SELECT a FROM t LIMIT 3 OFFSET 1",
    ):
        parse_one(text)


@pytest.mark.parametrize(("kind", "slot"), [(kind, slot) for kind in EXECUTED for slot in kind.arg_types if slot not in EXECUTED[kind]])
def test_every_other_slot_is_refused(kind: type[exp.Expr], slot: str) -> None:
    with pytest.raises(UnsupportedStatement):
        check_clauses(kind(**{slot: exp.Literal.number(1)}))


def test_a_refused_insert_writes_nothing(gateway: Gateway) -> None:
    gateway.run("CREATE TABLE t (a INT, b INT)").close()
    for text in ("INSERT INTO t BY NAME SELECT 1 AS b, 2 AS a", "INSERT INTO t VALUES (1, 2) RETURNING a"):
        with pytest.raises(UnsupportedStatement) as refused:
            gateway.run(text)
        assert refused.value.line == 1
    assert gateway.run("SELECT count(*) FROM t").collect() == [(0,)]


CONDITIONS: dict[type[exp.Expr], set[str]] = {
    **{kind: {"this", "expression"} for kind in (exp.And, exp.Or, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)},
    exp.Not: {"this"},
    exp.Paren: {"this"},
    exp.Neg: {"this"},
    exp.In: {"this", "expressions", "query", "unnest", "field", "is_global"},
    exp.Between: {"this", "low", "high", "symmetric"},
    exp.Is: {"this", "expression", "negate"},
    exp.Like: {"this", "expression", "negate"},
    exp.ILike: {"this", "expression", "negate"},
}


@pytest.mark.parametrize("kind", CONDITIONS, ids=lambda kind: kind.__name__)
def test_conditions_are_made_of_the_parts_their_readers_know(kind: type[exp.Expr]) -> None:
    """An argument that a later sqlglot adds may turn a condition into its opposite for whoever passes over it: look at each reader."""
    assert set(kind.arg_types) == CONDITIONS[kind]


@pytest.mark.parametrize(
    "condition",
    [
        "v NOT LIKE 'a%'",
        "v NOT ILIKE 'a%'",
        "v NOT LIKE 'a%' ESCAPE '!'",
        "v NOT IN (1)",
        "v NOT BETWEEN 1 AND 2",
        "v IS NOT NULL",
        "v NOTNULL",
    ],
)
def test_a_negated_condition_is_a_not_around_it(condition: str) -> None:
    where = parse_one(f"SELECT 1 FROM t WHERE {condition}").args["where"].this.unnest()
    assert isinstance(where, exp.Not)
    assert not any(node.args.get("negate") for node in where.walk())


def test_the_not_of_like_any_stays_with_each_pattern() -> None:
    assert parse_one("SELECT 1 FROM t WHERE v NOT LIKE ANY ('a', 'b')").sql("spark").endswith("v NOT LIKE ANY ('a', 'b')")
