"""A short text that stands for a huge plan is refused before Spark's driver would build it."""

from __future__ import annotations

from time import thread_time

import pytest

from model.errors import UnsupportedStatement
from sql.analysis.allow_list import checked_sql
from sql.analysis.limits.large_values import bound_values
from sql.dialect import parse_one


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


_LEFT_JOINED = [
    f"SELECT t.a FROM range(2) AS s LEFT JOIN ({empty}) AS t ON s.id = t.a" for empty in (
        "SELECT max(x.id) AS a FROM (SELECT id FROM range(2) LIMIT 0) AS x GROUP BY x.id",
        "SELECT row_number() OVER (ORDER BY id) AS a FROM (SELECT id FROM range(2) LIMIT 0) AS x",
        "SELECT r.id AS a FROM range(2) AS r JOIN (SELECT id FROM range(2) LIMIT 0) AS e ON r.id = e.id",
        "SELECT r.id AS a FROM range(2) AS r, (SELECT 1 AS one LIMIT 0) AS e",
        "SELECT r.id AS a FROM range(2) AS r LEFT SEMI JOIN (SELECT id FROM range(2) WHERE 1 = 0) AS e ON r.id = e.id",
        "SELECT id AS a FROM range(2) WHERE id IN (SELECT id FROM range(2) LIMIT 0)",
        "SELECT id AS a FROM range(2) AS r WHERE EXISTS (SELECT 1 FROM range(2) AS w WHERE w.id = r.id AND 1 = 0)",
        "SELECT id AS a FROM range(2) WHERE id = 1 AND id + 1 = 5", "SELECT id AS a FROM range(2) WHERE id = 1 AND id > 3",
        "SELECT id AS a FROM range(2) WHERE id = 1 AND id = 2", "SELECT id AS a FROM range(2) WHERE id = 1 AND id IN (2, 3)",
        "(SELECT id AS a FROM range(2) UNION ALL SELECT id FROM range(3)) LIMIT 0",
        "SELECT a FROM (SELECT 1 AS y, id AS a FROM range(2) UNION ALL SELECT 2 AS y, id AS a FROM range(2)) AS u WHERE y = 3",
        "SELECT id AS a FROM range(2) INTERSECT SELECT id FROM range(3) WHERE 1 = 0",
    )
]  # fmt: skip
"""Sides of which Spark may see that they have no row: in what they are read from, and by the values of their columns."""
_BEYOND_TYPES = [
    f"SELECT int(CAST(id AS SMALLINT) {compared}) AS a FROM range(2)" for compared in (
        "= 50000 + 50000", "IN (100000)", "BETWEEN 100000 AND 200000", "> CAST('100000' AS INT)", "= abs(100000)", "<= 32767",
        "< '100000'",
    )
] + [
    "SELECT int(s = 100000) AS a FROM (SELECT CAST(id AS SMALLINT) AS s FROM range(2)) AS q",
    "SELECT int(CAST(CAST(id AS SMALLINT) AS INT) = 100000) AS a FROM range(2)",
    "SELECT int(CAST(id AS INT) = 3000000000) AS a FROM range(2)", "SELECT int(length(string(id)) = 3000000000) AS a FROM range(2)",
]  # fmt: skip
_OF_LITERALS = [
    "SELECT (SELECT id FROM range(2) LIMIT 0) AS a FROM range(2)",
    "SELECT (SELECT max(w.id) FROM range(2) AS w WHERE w.id = s.id AND 1 = 0) AS a FROM range(2) AS s",
    "SELECT int(x = id) AS a FROM (SELECT id AS x, * FROM range(2)) AS q",
    "SELECT int(x = y) AS a FROM (SELECT id AS x, id + 1 AS y FROM range(2) UNION ALL SELECT *, * FROM range(2)) AS q",
    "SELECT int(x = y) AS a FROM (SELECT id AS x, id AS y FROM range(2) UNION ALL SELECT id, id + 1 FROM range(2)) AS q",
    "WITH c AS (SELECT id AS x, id AS y FROM range(2)) SELECT int(x = y) AS a FROM c",
    "WITH c AS (SELECT id AS x FROM range(2)) SELECT int(one.x = x) AS a FROM c AS one",
    "SELECT s.a FROM (SELECT id AS a FROM range(2)) AS s RIGHT JOIN range(2) AS t ON 1 = 0",
    "SELECT s.a FROM (SELECT id AS a FROM range(2) LIMIT 0) AS s RIGHT JOIN range(2) AS t ON s.a = t.id",
    "SELECT s.a FROM range(2) AS t FULL JOIN (SELECT id AS a FROM range(2)) AS s ON 1 = 0",
    "WITH e AS (SELECT id AS a FROM range(2) WHERE 1 = 0) SELECT e.a FROM range(2) AS t LEFT JOIN e ON e.a = t.id",
    "SELECT t.id AS a FROM range(2) AS s LEFT JOIN range(2) AS t ON s.id = t.id AND t.id = 1 AND t.id = 2",
]
_FILTERED = f"{_added(13, query='SELECT id AS a FROM range(2)')} WHERE a > 0"

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
        *(_added(34, query=made) for made in _LEFT_JOINED + _BEYOND_TYPES + _OF_LITERALS),
        f"WITH c AS ({_FILTERED}) SELECT a FROM c" + " UNION ALL SELECT a FROM c" * 20,
        f"WITH c AS ({_added(13, query='SELECT int(id <=> id) AS a FROM range(2)')}) SELECT a FROM c" + " UNION ALL SELECT a FROM c" * 20,
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
    "SELECT NOT NOT NOT (a = b), NOT (NOT (NOT (NOT c))) FROM v WHERE NOT NOT NOT d",
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


def _layered(levels: int, query: str) -> str:
    """Models upon models, as dbt has them: each mentions the columns of the one before several times."""
    models = [f"m0 AS ({query})"]
    for level in range(levels):
        columns = (
            "k, CASE WHEN a > 1000 THEN (a - b) / a ELSE b END AS a, coalesce(b, a, 0) AS b, CASE WHEN c < 0 THEN 0 ELSE c + a END AS c"
        )
        models.append(f"m{level + 1} AS (SELECT {columns} FROM m{level})")
    return f"WITH {', '.join(models)} SELECT * FROM m{levels}"


def _joined(query: str, on: str = "s.k = t.k") -> str:
    return f"SELECT t.k, t.a, t.b, s.c FROM v AS s LEFT JOIN ({query}) AS t ON {on}"


_ARMS = " UNION ALL ".join(f"SELECT k, a{n} AS a, b{n} AS b, 'x{n}' AS shop FROM v" for n in range(34))
_LAYERED_OVER = [
    "SELECT k, a, b, c FROM v WHERE year = 2024",
    "SELECT k, a, b, c FROM v WHERE d_year >= 2020 AND kind IN (1000, 2000) AND day BETWEEN 20240101 AND 20241231",
    "WITH o AS (SELECT k, a, c FROM v), p AS (SELECT k, b FROM v) SELECT o.k, o.a, p.b, o.c FROM o LEFT JOIN p ON o.k = p.k",
    "WITH o AS (SELECT k, a, b, c FROM v) SELECT x.k, x.a, y.b, y.c FROM o AS x LEFT JOIN o AS y ON x.k = y.k AND y.year = 2024",
    "WITH o AS (SELECT k, a, c FROM v), p AS (SELECT k, b FROM v WHERE year = 2024) SELECT k, o.a, p.b, o.c FROM o FULL JOIN p USING (k)",
    "SELECT s.k, s.a, t.b, s.c FROM (SELECT k, a, c FROM v) AS s RIGHT JOIN (SELECT k, b FROM v) AS t ON s.k = t.k",
    _joined("SELECT k, a, b FROM v WHERE k > 1 AND b < 3"),
    _joined("SELECT k, a, b FROM v WHERE 1 = 1 AND TRUE AND a > 3"),
    _joined("SELECT k, a, b FROM v WHERE EXISTS (SELECT 1 FROM v AS w WHERE w.k = v.k)"),
    _joined("SELECT k, a, b FROM v WHERE region = 'EU' AND region <> 'US' AND region IN ('EU', 'US') AND y = 2024 AND y >= 2020"),
    _joined(f"SELECT k, a, b FROM ({_ARMS}) AS u WHERE a = b"),
    _joined(f"SELECT k, a, b FROM ({_ARMS.replace('x33', 'x32')}) AS u WHERE shop = 'x5'"),
    f"WITH arms AS ({_ARMS}) " + _joined("SELECT k, a, b FROM arms AS u WHERE shop IN ('x5', 'none')"),
    _joined("SELECT * FROM (SELECT *, 'x' AS shop FROM v UNION ALL SELECT *, 'y' AS shop FROM v) AS u WHERE a = b"),
    _joined("SELECT * FROM (SELECT k, a, b FROM v UNION ALL SELECT * FROM v) AS u WHERE a = b"),
    _joined("SELECT k, a, b FROM (SELECT k, a, NULL AS b, NULL AS d FROM v UNION ALL SELECT k, a, b, d FROM v) AS u WHERE b = d"),
    _joined("SELECT k, a, b FROM (SELECT s, k, a, b FROM v) AS u WHERE u.s.x = u.s.y AND s.x = s.z"),
    _joined("SELECT k, a, b FROM (SELECT k AS kept, k, a, b FROM v) AS u", on="s.k = t.k AND t.a > 1000 AND s.year = 2024"),
    "SELECT v.k, v.a, v.b, v.c FROM v LEFT ANTI JOIN (SELECT k FROM v WHERE 1 = 0) AS w ON v.k = w.k",
    "SELECT k, a, b, c FROM v WHERE 1 = 0",
    "SELECT k, a, b, c FROM (SELECT * FROM v) AS t LIMIT 0",
    "SELECT c AS k, c + 1 AS a, c AS b, c FROM (VALUES (1), (2)) AS w(c) WHERE c > 1",
    "SELECT t0.k, t1.a, t2.b, t3.c FROM v AS t0 "
    + " ".join(f"LEFT JOIN v AS t{n} ON t0.k{n} = t{n}.k AND t{n}.y = 2024" for n in range(1, 60)),
]


@pytest.mark.parametrize(("query", "says"), REFUSED)
def test_a_plan_that_multiplies_is_refused(query: str, says: str) -> None:
    with pytest.raises(UnsupportedStatement, match=says):
        checked_sql(parse_one(query), {"v"})


@pytest.mark.parametrize("query", AS_IT_IS + [_layered(40, start) for start in _LAYERED_OVER])
def test_what_reports_are_written_with_passes(query: str) -> None:
    assert checked_sql(parse_one(query), {"v"})


def test_a_recursive_query_mentions_itself_without_a_copy() -> None:
    assert checked_sql(parse_one("WITH RECURSIVE r AS (SELECT a FROM v UNION ALL SELECT a + 1 FROM r) SELECT a FROM r"), {"v"})


@pytest.mark.parametrize("side", ["LEFT", "RIGHT", "FULL"])
@pytest.mark.parametrize("first", ["", "WITH v AS (SELECT 1 AS a, 2 AS b, 3 AS c, 4 AS d, 5 AS e, 6 AS f) "], ids=["table", "query"])
def test_joins_are_gone_through_once_each(first: str, side: str) -> None:
    def seconds(joins: int) -> float:
        tree = parse_one(f"{first}SELECT 1 FROM v AS t" + "".join(f" {side} JOIN v AS t{n} ON 1 = 2" for n in range(joins)))
        began = thread_time()
        bound_values(tree)
        return thread_time() - began

    few = min(seconds(200) for _ in range(3))
    assert seconds(2000) < 30 * few  # ten times as many; a hundred times as long where each goes through all before it
