"""A short text that stands for a huge plan is refused before Spark's driver would build it."""

from __future__ import annotations

import pytest

from model.errors import UnsupportedStatement
from sql.analysis.allow_list import checked_sql
from sql.dialect import parse_one
from tests.short import one_in


def _names(count: int) -> str:
    return ", ".join(f"a{n}" for n in range(count))


def _doubling(levels: int) -> str:
    ctes = ", ".join(f"c{n} AS (SELECT a FROM c{n - 1} UNION ALL SELECT a FROM c{n - 1})" for n in range(1, levels))
    return f"WITH c0 AS (SELECT a FROM v), {ctes} SELECT a FROM c{levels - 1}"


def _starred(levels: int, stars: str) -> str:
    query = "SELECT a FROM v"
    for _ in range(levels):
        query = f"SELECT {stars} FROM ({query}) AS t"
    return query


def _added(levels: int, column: str = "a + a", query: str = "SELECT a FROM v") -> str:
    """Each query mentions the column of the one inside twice."""
    for _ in range(levels):
        query = f"SELECT {column} AS a FROM ({query}) AS t"
    return query


def _aliased(levels: int, first: str = "1", behind: str = "") -> str:
    """Each column mentions the alias before it twice."""
    columns = ", ".join([f"{first} AS a0", *(f"a{n - 1} + a{n - 1} AS a{n}" for n in range(1, levels + 1))])
    return f"SELECT {columns}{behind}"


_MADE_LITERALS = [
    "length(typeof(k))", "coalesce(1, k)", "coalesce(NULL, 1, k)", "CASE WHEN TRUE THEN 1 ELSE k END", "CASE WHEN FALSE THEN k ELSE 1 END",
    "CASE WHEN k > 1 THEN 1 ELSE 1.0 END", "CASE k WHEN 1 THEN NULL END", "CASE WHEN coalesce(k, 0) IS NULL THEN 1 ELSE 2 END",
    "if(k > 1, 1, 1)", "if(NULL, k, 1)", "nvl2(1, 2, k)", "decode(1, 1, 2, k)", "k + CAST(NULL AS INT)", "nullif(1, 1) + k",
    "length(substr(v, NULL))", "int(FALSE AND k > 1)", "int(NOT (k > 1 OR TRUE))", "array(1, k)[0]", "struct(1 AS a, k AS b).a",
    "map('a', 1, 'b', k)['a']", "size(array(k, k))", "int(k <=> k)", "int(coalesce(k, 0) = coalesce(k, 0))", "int(k IN (NULL))",
]  # fmt: skip
"""Spark's optimizer makes literals of them, and then doubled them; that it does none of the others here was seen, too."""
_SAME_BEHIND_NAMES = [
    f"SELECT {made} AS a FROM (SELECT k, k AS x, k AS y, k * 7 AS z FROM v) AS s" for made in (
        "int(x = y)", "int(x >= y)", "int(x <> y)", "if(x < y, 1, 2)", "CASE x WHEN y THEN 1 ELSE 2 END", "decode(x, y, 1, k)",
        "nullif(x, y)", "int(x IS DISTINCT FROM y)", "int(x BETWEEN y AND k)", "int(if(k > 0, x, y) = k)", "int(coalesce(x, 5) = y)",
        "int(x + z = z + y)", "int(CAST(x AS BIGINT) = y)", "int(x + 0 = y)", "int(x * 1 = y)", "int((NOT (NOT x > 1)) = (y > 1))",
        "int(lower(upper(x)) = lower(y))", "int(x > 1 OR NOT y > 1)", "int(x > 1 OR y <= 1)", "int(x > 1 AND NOT (y > 1))", "k * 0",
        "int(CAST(k AS SMALLINT) = 100000)", "int(CAST(k AS TINYINT) < 1000L)",
    )
] + [
    f"SELECT t.a FROM v AS s LEFT JOIN ({empty}) AS t ON s.k = t.a" for empty in (
        "SELECT k AS a FROM v WHERE FALSE", "SELECT k AS a FROM v WHERE k > 1 AND NOT k > 1", "SELECT k AS a FROM v LIMIT 0",
        "SELECT c AS a FROM (VALUES (1)) AS w(c) WHERE c > 3", "SELECT max(k) AS a FROM v WHERE 1 = 0 GROUP BY k",
    )
] + ["SELECT t.a FROM v AS s LEFT JOIN (SELECT k AS a FROM v) AS t ON FALSE"]  # fmt: skip
"""Spark makes literals of these, too, where ``k`` may not be NULL, and of what an outer join gives for a side without rows."""
_OF_A_ROW = [
    "coalesce(k, 1)", "CASE WHEN k > 1 THEN 1 ELSE 0 END", "CASE WHEN k IS NULL THEN 0 ELSE k END", "nvl2(k, k, 0)", "nullif(k, 0)",
    "CASE k WHEN 1 THEN 2 WHEN 2 THEN 3 END", "if(k > 1, k, 0)", "decode(k, 1, 2, 2, 3)", "zeroifnull(k)", "greatest(1, k)",
    "length(concat_ws(NULL, v))", "k * 2", "CAST(k AS DECIMAL(10, 2))", "length(upper(v))", "int(k > 1 AND k < 5)", "rand(1)",
    "array(k, k)[0]",
]  # fmt: skip


def _padded(levels: int) -> str:
    """Wide columns without values, which each query gives as they are, as dbt's models do."""
    wide = f"CAST(NULL AS STRUCT<{', '.join(f'f{n}: STRING' for n in range(60))}>)"
    query = f"SELECT id, {', '.join(f'{wide} AS c{n}' for n in range(100))} FROM v"
    for level in range(levels):
        query = f"SELECT id, {', '.join(f'c{n} AS c{n}' if level % 2 else f't.c{n}' for n in range(100))} FROM ({query}) AS t"
    return query


_ROWS = "(VALUES " + ", ".join(f"({row}, 'x{row}', {row})" for row in range(3_000)) + ") AS w(a, b, c)"


def _pivot(aggregates: int, values: int) -> str:
    sums = ", ".join(f"sum(a) AS s{n}" for n in range(aggregates))
    return f"SELECT * FROM v PIVOT ({sums} FOR k IN ({', '.join(map(str, range(values)))}))"


REFUSED = [
    (f"SELECT 1 FROM v GROUP BY CUBE({_names(30)})", "4096 grouping sets"),
    (f"SELECT 1 FROM v GROUP BY {_names(30)} WITH CUBE", "4096 grouping sets"),
    (f"SELECT 1 FROM v GROUP BY ROLLUP({_names(99)}), ROLLUP({_names(99)})", "4096 grouping sets"),
    (f"SELECT 1 FROM v GROUP BY GROUPING SETS((a), CUBE({_names(20)}))", "4096 grouping sets"),
    (_doubling(30), "every mention of c"),
    (f"SELECT a FROM ({_doubling(30)}) AS t", "every mention of c"),
    (f"WITH o AS ({_doubling(10)}) SELECT a FROM o" + " UNION ALL SELECT a FROM o" * 30, "every mention of o"),
    (_starred(8, ",".join("*" * 10)), "10000 columns"),
    (_starred(8, ",".join(["t.*"] * 10)), "10000 columns"),
    (_starred(20, "struct(*, *) AS s, t.*"), "10000 columns"),
    (_pivot(50, 250), "10000 columns"),
    (f"{_added(40)} WHERE a > 5", "100000 words more"),
    (f"SELECT * FROM ({_added(40)}) AS t JOIN v ON t.a = v.b", "100000 words more"),
    (f"SELECT * FROM ({_added(40)}) AS t JOIN v USING (a)", "100000 words more"),
    (f"SELECT b FROM v WHERE b IN ({_added(40)})", "100000 words more"),
    (f"WITH t AS ({_added(40)}) SELECT a FROM t WHERE a > 5", "100000 words more"),
    (_added(40, "struct(a, a)"), "100000 words more"),
    *((text, "100000 words more") for text in (
        _aliased(20), _aliased(40), _aliased(40, "CAST('7' AS INT)"), _aliased(40, "date_diff(DATE '2026-01-01', DATE '2025-01-01')"),
        _added(40, query="SELECT 1 AS a"), _added(40, "a * a + 1", "SELECT -1.5 AS a"), f"SELECT b FROM v WHERE b = ({_aliased(40)})",
        f"SELECT t.a40, v.b FROM v CROSS JOIN ({_aliased(40)}) AS t", f"WITH c AS ({_aliased(40)}) SELECT a40 FROM c",
        f"SELECT {', '.join(f'a14 + {n} AS b{n}' for n in range(100))} FROM ({_aliased(14)}) AS t", _aliased(40, behind=" FROM v"),
        f"SELECT b * b AS c FROM ({_added(40, query='SELECT typeof(k) AS a FROM v')}) AS t(b)",
        _added(40, query="SELECT count(NULL) AS a FROM v"),
        f"SELECT {', '.join(f'a13 AS b{n}' for n in range(40))} FROM ({_aliased(13)}) AS t",
        *(_aliased(40, made, " FROM v") for made in _MADE_LITERALS), *(_added(40, query=made) for made in _SAME_BEHIND_NAMES),
        " UNION ALL ".join([f"{_added(13)} WHERE a > 0"] * 20),
    )),
]  # fmt: skip


def _mapped(name: str, cases: int) -> str:
    return "CASE " + " ".join(f"WHEN {name} = 'x{case}' THEN 'y{case}'" for case in range(cases)) + " END"


AS_IT_IS = [
    f"SELECT 1 FROM v GROUP BY CUBE({_names(6)})",
    f"SELECT 1 FROM v GROUP BY {_names(6)} WITH CUBE",
    f"SELECT 1 FROM v GROUP BY ROLLUP({_names(8)})",
    "SELECT 1 FROM v GROUP BY a, ROLLUP(b, c), GROUPING SETS((d), (e))",
    _doubling(7),
    "WITH c AS (SELECT a FROM v) SELECT a FROM c" + " UNION ALL SELECT a FROM c" * 200,
    "WITH v AS (SELECT a FROM v) SELECT a FROM v",
    _starred(30, "*"),
    "SELECT a.*, b.*, c.* FROM v AS a JOIN v AS b ON a.x = b.x JOIN v AS c ON b.x = c.x",
    "SELECT 1 FROM v WHERE a IN (" + ", ".join("1" * 2_000) + ")",
    "SELECT 1" + " UNION ALL SELECT 1" * 500,
    _pivot(5, 100),
    _added(40),
    "SELECT b FROM (SELECT a + 1 AS b FROM v) AS t WHERE b IN (" + ", ".join("1" * 12_000) + ")",
    f"{_added(8)} WHERE a > 5",
    f"SELECT s FROM (SELECT sum(a) AS s FROM ({_added(40)}) AS t) AS u WHERE s > 1",
    f"{_added(60, 'a + 1')} WHERE a > 5",
    _aliased(40, "a", " FROM v"),
    *(
        _added(40, query=f"SELECT {column} AS a FROM v JOIN v AS w ON v.k = w.k")
        for column in (
            "CASE WHEN v.k = w.k THEN v.b ELSE w.b END",
            "int(v.b > w.b)",
            "nullif(v.b, w.b)",
            "int(v.b BETWEEN 1 AND w.b)",
            "v.b + 1",
        )
    ),
    _added(40, query="SELECT t.a FROM v LEFT JOIN (SELECT k AS a FROM v WHERE k > 1 AND b < 3) AS t ON v.k = t.a"),
    _added(40, query="SELECT int(x = y) AS a FROM (SELECT k AS x, b AS y FROM v) AS s"),
    " UNION ALL ".join([f"{_added(8)} WHERE a > 0"] * 100),
    _aliased(40, "id", " FROM range(2)"),
    _aliased(10),
    _padded(8),
    *(_aliased(40, value, " FROM v") for value in _OF_A_ROW),
    _added(40, query="SELECT a FROM (VALUES (1), (2)) AS t(a)"),
    _added(40, query="SELECT sum(a) AS a FROM (SELECT 1 AS a) AS t"),
    f"SELECT a, upper(b), a + c FROM {_ROWS} WHERE a > 5 OR b = 'x' OR c + a < 7",
    f"SELECT c FROM (SELECT {_mapped('b', 60)} AS c FROM (SELECT {_mapped('a', 60)} AS b FROM v) AS t) AS u WHERE c = 'x5'",
]


@pytest.mark.parametrize(("query", "says"), REFUSED)
def test_a_plan_that_multiplies_is_refused(query: str, says: str) -> None:
    with pytest.raises(UnsupportedStatement, match=says):
        checked_sql(parse_one(query), {"v"})


@pytest.mark.parametrize("query", one_in(3, AS_IT_IS))
def test_what_reports_are_written_with_passes(query: str) -> None:
    assert checked_sql(parse_one(query), {"v"})


def test_a_recursive_query_mentions_itself_without_a_copy() -> None:
    assert checked_sql(parse_one("WITH RECURSIVE r AS (SELECT a FROM v UNION ALL SELECT a + 1 FROM r) SELECT a FROM r"), {"v"})
