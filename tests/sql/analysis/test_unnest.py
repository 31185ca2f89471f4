"""UNNEST and LATERAL VIEW keep their place among the joins, their side and their condition."""

from __future__ import annotations

import pytest

from model.errors import UnsupportedStatement
from sql.analysis.allow_list import checked_sql
from sql.dialect import parse_one

TEXTS = {
    "SELECT * FROM a LEFT JOIN UNNEST(r) AS x(y) ON TRUE": "SELECT * FROM a CROSS JOIN LATERAL explode_outer(r) AS x(y)",
    "SELECT * FROM a LEFT JOIN UNNEST(r) AS x(y) ON y > 2": "SELECT * FROM a LEFT JOIN LATERAL explode(r) AS x(y) ON y > 2",
    "SELECT * FROM a JOIN UNNEST(r) AS x(y) ON y > 2 WHERE i = 1 OR i = 2": (
        "SELECT * FROM a CROSS JOIN LATERAL explode(r) AS x(y) WHERE (i = 1 OR i = 2) AND y > 2"
    ),
    "SELECT * FROM a JOIN UNNEST(r) AS x(y) ON y > 2 LEFT JOIN c ON c.i = a.i": (
        "SELECT * FROM a JOIN LATERAL explode(r) AS x(y) ON y > 2 LEFT JOIN c ON c.i = a.i"
    ),
    "SELECT * FROM a CROSS JOIN UNNEST(r) AS x(y) RIGHT JOIN c ON c.i = x.y": (
        "SELECT * FROM a CROSS JOIN LATERAL explode(r) AS x(y) RIGHT JOIN c ON c.i = x.y"
    ),
    "SELECT * FROM a, UNNEST(r, s) AS x(y, z)": "SELECT * FROM a CROSS JOIN LATERAL inline(arrays_zip(r, s)) AS x(y, z)",
    "SELECT * FROM a, LATERAL UNNEST(m) AS x(k, v)": "SELECT * FROM a CROSS JOIN LATERAL explode(m) AS x(k, v)",
    "SELECT * FROM a CROSS JOIN UNNEST(r) AS x(p, q, s)": "SELECT * FROM a CROSS JOIN LATERAL inline(r) AS x(p, q, s)",
    "SELECT * FROM c JOIN (a CROSS JOIN UNNEST(r) AS x(y)) ON c.i = a.i": (
        "SELECT * FROM c JOIN (a CROSS JOIN LATERAL explode(r) AS x(y)) ON c.i = a.i"
    ),
    "SELECT * FROM UNNEST(ARRAY[1]) AS x(y)": "SELECT * FROM explode(ARRAY(1)) AS x(y)",
    "SELECT * FROM a LATERAL VIEW explode(r) x AS y RIGHT JOIN c ON c.i = y LATERAL VIEW explode(s) z AS w": (
        "SELECT * FROM a CROSS JOIN LATERAL explode(r) AS x(y) RIGHT JOIN c ON c.i = y LATERAL VIEW explode(s) z AS w"
    ),
    "SELECT * FROM a LATERAL VIEW OUTER explode(r) x AS y JOIN c ON c.i = y": (
        "SELECT * FROM a CROSS JOIN LATERAL explode_outer(r) AS x(y) JOIN c ON c.i = y"
    ),
    "SELECT * FROM a LATERAL VIEW OUTER json_tuple(s, 'k') AS y JOIN c ON c.i = y": (
        "SELECT * FROM a LEFT JOIN LATERAL json_tuple(s, 'k') AS `__sluice_view`(y) ON TRUE JOIN c ON c.i = y"
    ),
}


@pytest.mark.parametrize(("text", "spark"), TEXTS.items())
def test_it_stands_where_it_was_written(text: str, spark: str) -> None:
    assert checked_sql(parse_one(text), {"a", "c"}) == spark


@pytest.mark.parametrize(
    "join",
    [
        "RIGHT JOIN UNNEST(r) AS x(y) ON TRUE",
        "FULL JOIN UNNEST(r) AS x(y) ON TRUE",
        "SEMI JOIN UNNEST(r) AS x(y) ON y = i",
        "LEFT ANTI JOIN UNNEST(r) AS x(y) ON y = i",
        "NATURAL JOIN UNNEST(r) AS x(y)",
        "JOIN UNNEST(r) AS x(y) USING (y)",
        "CROSS JOIN UNNEST(r, s) WITH ORDINALITY AS x(y, z, i)",
    ],
)
def test_what_has_no_such_meaning_is_refused(join: str) -> None:
    with pytest.raises(UnsupportedStatement, match=r"UNNEST"):
        checked_sql(parse_one(f"SELECT * FROM a {join}"), {"a"})
