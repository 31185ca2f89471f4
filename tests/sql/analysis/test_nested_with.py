"""A WITH stays where it was written: there its names mean what they say, however often others have the same."""

from __future__ import annotations

import pytest

from sql.analysis.allow_list import checked_sql
from sql.dialect import parse_one


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM (WITH c AS (SELECT 1 AS x) SELECT * FROM c) AS a JOIN (WITH c AS (SELECT 2 AS x) SELECT * FROM c) AS b ON a.x < b.x",
        "WITH c AS (SELECT 3 AS x) SELECT * FROM c CROSS JOIN (WITH c AS (SELECT 1 AS x) SELECT * FROM c) AS v",
        "SELECT * FROM t WHERE EXISTS(WITH c AS (SELECT * FROM u WHERE u.id = t.id) SELECT 1 FROM c)",
        "WITH c AS (SELECT * FROM t) SELECT * FROM (WITH RECURSIVE r(n) AS (SELECT 1) SELECT * FROM r) AS z CROSS JOIN c",
    ],
)
def test_it_is_not_moved(text: str) -> None:
    assert checked_sql(parse_one(text), {"t", "u"}) == text
