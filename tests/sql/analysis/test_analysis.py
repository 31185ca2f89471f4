"""What a query's tree tells about its tables, filters and size."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlglot import exp

from model.access import WHOLE, Policy, ReadRules
from model.predicate import And, Compare, In, IsNull, Op, Or, Predicate
from model.schema.schema import column, new_schema
from sql.analysis.bounds import multiplies, row_bound
from sql.analysis.predicates import pushed
from sql.analysis.qualified import unqualify
from sql.analysis.references import replace_reference, table_references
from sql.analysis.to_spark import spark_sql
from sql.dialect import parse_one

SCHEMA = new_schema(
    [column("a", "INT"), column("s", "STRING"), column("d", "DATE"), column("ts", "TIMESTAMP(3)"), column("f", "DOUBLE")],
    options={"bucket": "-1"},
)


def push(text: str, table: str = "t", rules: ReadRules = WHOLE) -> Predicate | None:
    reference = next(r for r in table_references(parse_one(text)) if r.parts[-1] == table)
    return pushed(reference, SCHEMA, rules)


@pytest.mark.parametrize(
    ("where", "predicate"),
    [
        ("a = 1", Compare("a", Op.EQ, 1)),
        ("1 < a", Compare("a", Op.GT, 1)),
        ("t.a >= -5 AND s = 'x'", And((Compare("a", Op.GE, -5), Compare("s", Op.EQ, "x")))),
        ("a = 1 OR s = 'x'", Or((Compare("a", Op.EQ, 1), Compare("s", Op.EQ, "x")))),
        ("a = 1 OR upper(s) = 'x'", None),
        ("a IN (1, 2, NULL)", In("a", (1, 2))),
        ("a NOT IN (1, 2)", None),
        ("a BETWEEN 1 AND 3", And((Compare("a", Op.GE, 1), Compare("a", Op.LE, 3)))),
        ("s IS NULL", IsNull("s")),
        ("s IS NOT NULL", IsNull("s", negated=True)),
        ("s LIKE 'ab%c'", Compare("s", Op.STARTS_WITH, "ab")),
        ("s LIKE '%c'", None),
        ("d = DATE '2024-01-01'", Compare("d", Op.EQ, dt.date(2024, 1, 1))),
        ("ts > TIMESTAMP '2024-01-01 00:00:00'", Compare("ts", Op.GT, dt.datetime(2024, 1, 1))),
        ("a = '1'", None),
        ("s = 1", None),
        ("NOT (a = 1)", None),
        ("a + 1 = 2", None),
        ("other.a = 1", None),
        ("nosuch = 1", None),
    ],
)
def test_conditions_become_predicates_only_where_that_is_certain(where: str, predicate: Predicate | None) -> None:
    assert push(f"SELECT * FROM t WHERE {where}") == predicate


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("SELECT * FROM u LEFT JOIN t ON u.x = t.a WHERE t.a = 1", Compare("a", Op.EQ, 1)),
        ("SELECT * FROM u LEFT JOIN t ON u.x = t.a WHERE t.a IS NULL", None),
        ("SELECT * FROM u LEFT JOIN t ON u.x = t.a AND t.s = 'x'", Compare("s", Op.EQ, "x")),
        ("SELECT * FROM t LEFT JOIN u ON u.x = t.a AND t.s = 'x'", None),
        ("SELECT * FROM t JOIN u ON u.x = t.a AND t.s = 'x'", Compare("s", Op.EQ, "x")),
        ("SELECT * FROM t FULL JOIN u ON u.x = t.a AND t.s = 'x'", None),
        ("SELECT * FROM t RIGHT JOIN u ON t.a = u.x WHERE t.a IS NULL", None),
        ("SELECT * FROM t, u WHERE t.a = 1 AND a = 2", Compare("a", Op.EQ, 1)),
        ("SELECT * FROM (SELECT * FROM t WHERE a = 1) WHERE s = 'x'", Compare("a", Op.EQ, 1)),
        ("SELECT * FROM t AS x(s, a) WHERE x.a = 1", None),
        ("SELECT * FROM t TABLESAMPLE (5 ROWS) WHERE a = 1", None),
        ("SELECT * FROM t PIVOT (max(f) FOR s IN ('x', 'y')) WHERE a = 1", None),
        ("SELECT * FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.a = 1 AND t.s = u.s)", Compare("a", Op.EQ, 1)),
        ("SELECT * FROM u JOIN t ON t.a = 1 RIGHT JOIN v ON v.x = u.x", None),
    ],
)
def test_joins_do_not_let_a_predicate_lose_rows(text: str, predicate: Predicate | None) -> None:
    assert push(text) == predicate


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("SELECT * FROM u JOIN v ON t.a = 1 JOIN t ON t.s = 'x'", Compare("s", Op.EQ, "x")),
        ("SELECT * FROM u LEFT SEMI JOIN t ON t.s = 'x' WHERE t.a = 1", Compare("s", Op.EQ, "x")),
        ("SELECT * FROM u SEMI JOIN t ON t.s = 'x' JOIN v ON t.a = 1", Compare("s", Op.EQ, "x")),
        ("SELECT * FROM u ANTI JOIN t ON t.s = 'x' WHERE t.a = 1", None),
        ("SELECT * FROM t ANTI JOIN u ON t.s = 'x' WHERE t.a = 1", Compare("a", Op.EQ, 1)),
        ("SELECT * FROM u JOIN t RIGHT JOIN v ON t.f = v.f ON t.a IS NULL", None),
        ("SELECT * FROM t JOIN u ON t.s = u.s PIVOT (max(x) FOR y IN ('x', 'y')) WHERE t.a = 1", None),
        ("SELECT * FROM t JOIN u PIVOT (max(x) FOR y IN ('x', 'y')) WHERE t.a = 1", None),
    ],
)
def test_a_name_counts_only_where_it_is_the_tables(text: str, predicate: Predicate | None) -> None:
    """Elsewhere ``t.a`` is a part of another relation's column t, or an outer query's."""
    assert push(text) == predicate


def test_columns_that_are_not_shown_as_they_are_skip_no_file() -> None:
    text = "SELECT * FROM t WHERE a = 1 AND s = 'x' AND f < 2.0 AND (d IS NULL OR a = 1)"
    mask = Policy(name="m", column="s", principals=(), sql="'…'", rule={})
    assert push(text, rules=ReadRules(columns=frozenset({"a", "s"}))) == And((Compare("a", Op.EQ, 1), Compare("s", Op.EQ, "x")))
    assert push(text, rules=ReadRules(columns=frozenset({"a", "s"}), masks={"s": mask})) == Compare("a", Op.EQ, 1)
    assert push(text, rules=ReadRules(columns=frozenset())) is None


def test_a_recursive_query_names_itself() -> None:
    text = "WITH RECURSIVE t AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM t WHERE a < 5) SELECT * FROM t JOIN u ON true"
    assert [r.name for r in table_references(parse_one(text))] == ["u"]


def test_a_join_hint_names_no_table_of_its_own() -> None:
    assert [r.name for r in table_references(parse_one("SELECT /*+ BROADCAST(t) */ * FROM t"))] == ["t"]


def test_a_view_in_a_tables_place_answers_to_its_qualified_name() -> None:
    tree = parse_one("SELECT d.t.a, t.s, t.r.x FROM d.t WHERE d.t.a > 1")
    references = table_references(tree)
    unqualify(tree, references)
    replace_reference(references[0], "v")
    assert spark_sql(tree) == "SELECT t.a, t.s, t.r.x FROM `v` AS `t` WHERE t.a > 1"


def test_names_given_by_with_are_no_tables() -> None:
    text = "WITH t AS (SELECT * FROM t), u AS (SELECT * FROM t) SELECT * FROM t JOIN u JOIN d.t ON true WHERE a IN (SELECT a FROM t)"
    assert sorted(r.name for r in table_references(parse_one(text))) == ["d.t", "t"]


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("SELECT 1", 1),
        ("SELECT count(*) FROM t", 1),
        ("SELECT a FROM t", 50),
        ("SELECT a FROM t LIMIT 7", 7),
        ("SELECT a, count(*) FROM t GROUP BY a", 50),
        ("SELECT a FROM t UNION ALL SELECT 1", 51),
        ("SELECT explode(array(1, 2)) FROM t", None),
        ("SELECT * FROM t LATERAL VIEW explode(a) x AS y", None),
        ("SELECT * FROM range(1000)", None),
        ("SELECT * FROM range(1000) LIMIT 10", 10),
        ("SELECT * FROM (SELECT * FROM t LIMIT 3) x", 3),
        ("SELECT sum(a) OVER (ORDER BY a) FROM t", 50),
        ("SELECT * FROM t JOIN t AS u ON true", 51 * 51),
    ],
)
def test_how_many_rows_a_query_gives_at_most(text: str, bound: int | None) -> None:
    def rows_of(table: exp.Table) -> int | None:
        return 50

    assert row_bound(parse_one(text), rows_of) == bound


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("SELECT * FROM t, u", False),
        ("SELECT * FROM t, u, v", True),
        ("SELECT * FROM t, u, v WHERE t.a = u.a AND u.b = v.b", False),
        ("SELECT * FROM t, u, v WHERE t.a = t.b AND u.b = u.a", True),
        ("SELECT * FROM t JOIN u ON t.a = u.a LEFT JOIN v USING (a) NATURAL JOIN w", False),
        ("SELECT * FROM t JOIN u ON t.a < u.a CROSS JOIN v", True),
        ("SELECT * FROM t LEFT JOIN u ON t.a < u.a", True),
        ("SELECT * FROM t LEFT SEMI JOIN u ON t.a < u.a LEFT ANTI JOIN v ON t.a > v.a", False),
        ("SELECT * FROM t LATERAL VIEW explode(a) AS x", False),
        ("SELECT * FROM t LATERAL VIEW explode(a) AS x LATERAL VIEW OUTER inline(b) AS y", True),
        ("SELECT explode(a) FROM (SELECT explode(a) AS a FROM t)", True),
        ("SELECT stack(2, a, b) FROM t JOIN u ON t.a = u.a", True),
        ("WITH r AS (SELECT id % 1 AS k FROM range(9)) SELECT * FROM r a JOIN r b ON a.k = b.k", False),
        ("WITH r AS (SELECT id % 1 AS k FROM range(9)) SELECT * FROM r a JOIN r b ON a.k = b.k JOIN r c ON b.k = c.k", True),
        ("SELECT * FROM (VALUES 1, 1) AS a JOIN t ON a.col1 = t.a JOIN u ON u.a = t.a", True),
        ("SELECT * FROM range(9)", False),
        ("SELECT * FROM t WHERE a IN (SELECT u.a FROM u, v, w)", True),
    ],
)
def test_what_one_row_becomes_by_two_others_is_multiplied(text: str, does: bool) -> None:
    assert multiplies(parse_one(text)) is does


def test_an_aggregate_over_nothing_gives_a_row() -> None:
    assert row_bound(parse_one("SELECT median(a) FROM t"), lambda table: 0) == 1
