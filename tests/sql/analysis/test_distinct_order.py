"""ORDER BY of a SELECT DISTINCT, as Spark is told it."""

import pytest

from sql.analysis.to_spark import spark_sql
from sql.dialect import parse_one


@pytest.mark.parametrize(
    ("query", "order"),
    [
        ("SELECT DISTINCT b, upper(a) FROM t ORDER BY UPPER(a) DESC NULLS FIRST, b", "2 DESC NULLS FIRST, b"),
        ("SELECT DISTINCT a || 'x' AS c FROM t ORDER BY (a || 'x')", "1"),
        ("SELECT DISTINCT a + 1 FROM t GROUP BY a ORDER BY a + 1, a || 'X'", "1, a || 'X'"),
        ("SELECT DISTINCT t.a AS b FROM t ORDER BY t.a", "1"),
        ("SELECT * FROM (SELECT DISTINCT lower(a) AS l FROM t ORDER BY lower(a))", "1)"),
        ("SELECT DISTINCT T.a + 1, b AS t FROM t ORDER BY T.a + 1", "1"),
        ("SELECT DISTINCT u.a + v.b, c AS v FROM t AS u JOIN s AS v ON TRUE ORDER BY u.a + v.b", "1"),
        # as they are
        ("SELECT DISTINCT 2, a FROM t ORDER BY (2) DESC", "(2) DESC"),
        ("SELECT DISTINCT s.x + 1, r AS s FROM t ORDER BY s.x + 1", "s.x + 1"),
        ("SELECT DISTINCT s.x.y + 1, r AS S FROM t ORDER BY s.x.y + 1", "s.x.y + 1"),
        ("SELECT upper(a) FROM t ORDER BY upper(a)", "upper(a)"),
        ("SELECT DISTINCT a || 'x' FROM t ORDER BY a || 'X'", "a || 'X'"),
        ("SELECT DISTINCT b, 1 FROM t ORDER BY 1", "1"),
        ("SELECT DISTINCT upper(a) AS x, b AS a FROM t ORDER BY upper(a)", "upper(a)"),
        ("SELECT DISTINCT *, upper(a) FROM t ORDER BY upper(a)", "upper(a)"),
        ("SELECT DISTINCT posexplode(c), upper(a) FROM t ORDER BY upper(a)", "upper(a)"),
    ],
)
def test_what_is_in_the_list_is_named_by_its_place(query: str, order: str) -> None:
    assert spark_sql(parse_one(query)).partition("ORDER BY ")[2] == order


@pytest.mark.parametrize(
    ("query", "spark"),
    [
        ("SELECT DISTINCT a + b FROM t ORDER BY (a + b) * 2", "SELECT a + b FROM t GROUP BY 1 ORDER BY (a + b) * 2"),
        ("SELECT DISTINCT a + b AS c, s FROM t ORDER BY -(a + b), s", "SELECT a + b AS c, s FROM t GROUP BY 1, 2 ORDER BY -(a + b), s"),
        ("SELECT DISTINCT a AS b FROM t ORDER BY abs(a)", "SELECT a AS b FROM t GROUP BY 1 ORDER BY abs(a)"),
        ("SELECT DISTINCT r.x FROM t ORDER BY r.x + 1", "SELECT r.x FROM t GROUP BY 1 ORDER BY r.x + 1"),
        ("SELECT DISTINCT a + b, a FROM t ORDER BY a + b + a", "SELECT a + b, a FROM t GROUP BY 1, 2 ORDER BY a + b + a"),
        # as they are
        ("SELECT DISTINCT a, b FROM t ORDER BY a + b", None),
        ("SELECT DISTINCT a FROM t ORDER BY b", None),
        ("SELECT DISTINCT a + 1 AS a FROM t ORDER BY abs(a)", None),
        ("SELECT DISTINCT a + 1 FROM t GROUP BY a ORDER BY abs(a + 1)", None),
        ("SELECT DISTINCT COUNT(*) + 1 FROM t ORDER BY -(COUNT(*) + 1), a", None),
        ("SELECT DISTINCT 1, a FROM t ORDER BY b + 1", None),
    ],
)
def test_what_stands_inside_a_term_is_found_by_groups(query: str, spark: str | None) -> None:
    assert spark_sql(parse_one(query)) == (query if spark is None else spark)
