"""Clauses the grammar reads and nothing executes are refused by name, and change nothing."""

from __future__ import annotations

from typing import Any

import pytest
from sqlglot import exp

from gateway.gateway import Gateway
from model.errors import UnsupportedStatement
from sql.analysis.allow_list import _CALLS, _NODES, checked_sql
from sql.analysis.to_spark import generated, spark_sql
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
        ("SELECT DISTINCT ON (a) * FROM t ORDER BY a, b DESC LIMIT 2", "DISTINCT ON .*ROW_NUMBER"),
        ("SELECT * FROM t WHERE x = ANY (arr)", r"ANY .*exists\(array"),
        ("DELETE FROM t WHERE x <> ANY (ARRAY[1, 2])", "ANY"),
        ("SELECT x >= ALL (SELECT a FROM u) FROM t", "ALL"),
        ("SELECT * FROM t WHERE x = SOME (SELECT a FROM t)", r"ANY .*IN \(SELECT"),
        ("SELECT a FROM t LIMIT 10 PERCENT", "PERCENT"),
        ("SELECT a FROM (SELECT a FROM t FETCH FIRST 3 ROWS WITH TIES) x", "WITH TIES"),
        ("SELECT a FROM t LIMIT 5 BY a", "LIMIT … BY"),
        ("SELECT a FROM t TABLESAMPLE BERNOULLI (10)", "BERNOULLI"),
        ("SELECT * FROM t AT (TIMESTAMP => '2024-01-01 00:00:00')", "AT or BEFORE .*FOR SYSTEM_TIME AS OF"),
        ("SELECT * FROM t BEFORE (STATEMENT => 'x')", "AT or BEFORE"),
        ("SELECT * FROM t CHANGES (INFORMATION => DEFAULT) AT (OFFSET => 0)", "CHANGES|AT or BEFORE"),
        ("SELECT * FROM t WITH (NOLOCK)", "WITH or USE INDEX .*OPTIONS"),
        ("SELECT a FROM u JOIN t WITH (NOLOCK) ON t.a = u.a", "WITH or USE INDEX"),
        ("SELECT * FROM t WITH ORDINALITY", "WITH ORDINALITY"),
        ("INSERT INTO t SELECT a FROM u AT (OFFSET => 0)", "AT or BEFORE"),
        ("SELECT sum(a) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM t", "EXCLUDE"),
    ],
)
def test_what_is_read_and_not_executed_is_refused(text: str, says: str) -> None:
    with pytest.raises(UnsupportedStatement, match=says):
        parse_one(text)


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t PARTITION (dt = 'x') (a, b) VALUES (1, 2)",
        "INSERT OVERWRITE t PARTITION (dt = 'x') (a) SELECT 1",
        "INSERT INTO t PARTITION (dt) (a, dt) SELECT 1, 'x'",
        "SELECT * FROM t JOIN u USING (a) PIVOT (sum(v) FOR b IN ('x'))",
        "SELECT * FROM t JOIN u USING (a) UNPIVOT (v FOR k IN (b, c))",
    ],
)
def test_clauses_behind_others_pass(text: str) -> None:
    check_clauses(parse_one(text, stored=True))
    parse_one(text)


def test_what_is_executed_passes() -> None:
    parse_one("INSERT OVERWRITE t PARTITION (p = 1) SELECT 1 AS a")
    for text in (
        "SELECT a FROM t FETCH FIRST 3 ROWS ONLY",
        "SELECT a FROM t ORDER BY a OFFSET 1 ROW FETCH NEXT ROW ONLY",
        "SELECT a FROM (SELECT a FROM t FETCH FIRST 1 ROWS ONLY) x UNION ALL SELECT a FROM t FETCH FIRST 1 ROWS ONLY",
        "SELECT a FROM t LIMIT 3 ROWS",
        "SELECT a FROM t LIMIT 3 OFFSET 1",
    ):
        checked_sql(parse_one(text), {"t"})


def test_fetch_first_gives_so_many_rows(gateway: Gateway) -> None:
    gateway.run("CREATE TABLE t (a INT)").close()
    gateway.run("INSERT INTO t VALUES (1), (1), (1)").close()
    for text, rows in (("FIRST 2 ROWS", 2), ("NEXT 1 ROW", 1), ("FIRST ROW", 1), ("FIRST 9 ROWS", 3)):
        assert gateway.run(f"SELECT a FROM t FETCH {text} ONLY").collect() == [(1,)] * rows


@pytest.mark.parametrize(("kind", "slot"), [(kind, slot) for kind in EXECUTED for slot in kind.arg_types if slot not in EXECUTED[kind]])
def test_every_other_slot_is_refused(kind: type[exp.Expr], slot: str) -> None:
    with pytest.raises(UnsupportedStatement):
        check_clauses(kind(**{slot: exp.Literal.number(1)}))


NOTES: dict[str, set[str]] = {
    "BitwiseAnd": {"padside"},
    "BitwiseOr": {"padside"},
    "BitwiseXor": {"padside"},
    "Bracket": {"returns_list_for_maps", "json_access"},
    "CTE": {"scalar"},
    "Column": {"shadow"},
    "ColumnDef": {"default", "output"},
    "Concat": {"safe"},
    "DPipe": {"safe"},
    "DataType": {"nested", "values", "kind", "nullable"},
    "Div": {"typed", "safe"},
    "Identifier": {"global_", "temporary"},
    "Interval": {"fraction_in_string"},
    "Join": {"pivots"},  # behind a comma, as it is built here, they are the table's
    "Lateral": {"outer"},
    "Map": {"keys", "values"},
    "Pivot": {"columns", "identify_pivot_strings", "prefixed_pivot_columns", "pivot_column_naming", "value_columns_first"},
    "RegexpLike": {"flag", "full_match"},
    "StrPosition": {"clamp_position"},
    "Trim": {"collation"},
    "TryCast": {"requires_string", "null_on_text_overflow", "probe_date_format"},
    "Cast": {"safe"},
    "With": {"recursive"},
}
"""What the text for Spark does not show where it stands alone: the parser's notes of how other dialects mean a node, and what none of the
texts that the grammar takes can set."""
_SPELLED_ALIKE = (exp.Literal, exp.PivotAlias, exp.RawString, exp.VarMap, exp.TableSample)
"""Nodes that are made of certain values alone, or are looked at by tests of their own."""


@pytest.mark.parametrize("kind", [*(getattr(exp, name) for name in sorted(_NODES)), *_CALLS], ids=lambda kind: kind.__name__)
def test_no_slot_of_a_node_that_is_taken_is_left_out_without_a_word(kind: type[exp.Expr]) -> None:
    """Whatever a node of a query holds is refused, or is in the text for Spark, or is known to mean nothing: a later sqlglot's, too."""
    if kind in _SPELLED_ALIKE:
        return
    listed = {"expressions", "ifs"}
    needed = {slot: [exp.column("x")] if slot in listed else exp.column("x") for slot, must in kind.arg_types.items() if must}
    alone = generated(kind(**needed))
    for slot in set(kind.arg_types) - set(needed) - NOTES.get(kind.__name__, set()):
        if slot not in EXECUTED.get(kind, kind.arg_types):
            continue
        assert any(_shown(kind, needed, slot, value) != alone for value in (exp.column("zz"), [exp.column("zz")], True, "zz")), slot


def _shown(kind: type[exp.Expr], needed: dict[str, Any], slot: str, value: object) -> str | None:
    """The text with one slot more; None where it is refused or cannot be."""
    try:
        return generated(kind(**needed, **{slot: value}))
    except (UnsupportedStatement, AttributeError, TypeError, LookupError, ValueError):
        return None


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


def test_any_of_a_group_is_no_search_in_an_array() -> None:
    text = "SELECT any(x) AND b, any(x) = TRUE FROM t GROUP BY b HAVING any(x) AND COUNT(*) > 1"
    assert spark_sql(parse_one(text)) == text
