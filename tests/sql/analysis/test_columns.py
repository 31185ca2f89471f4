"""Columns that a query can possibly need."""

from __future__ import annotations

import pytest

from model.schema.schema import column, new_schema
from sql.analysis.columns import mentioned_columns, needed_columns
from sql.dialect import parse_one

SCHEMA = new_schema([column("a", "INT"), column("b", "INT"), column("c", "INT")], options={"bucket": "-1"})


@pytest.mark.parametrize(
    ("query", "mentioned"),
    [
        ("SELECT a FROM t WHERE b > 1", "ab"),
        ("SELECT COUNT(*) FROM t", ""),
        ("SELECT * FROM t", "abc"),
        ("SELECT t.* FROM t", "abc"),
        ("SELECT a FROM t JOIN u USING (c)", "ac"),
        ("SELECT a FROM t NATURAL JOIN u", "abc"),
        ("SELECT x FROM t AS t(x, y, z)", "abc"),
        ("WITH u(x) AS (SELECT a FROM t) SELECT x FROM u", "a"),
        ("SELECT * FROM (SELECT a, b FROM t) PIVOT (SUM(a) FOR b IN (1, 2))", "abc"),
        ("SELECT a FROM b.c", "a"),
    ],
)
def test_those_it_names_or_may_stand_for(query: str, mentioned: str) -> None:
    tree = parse_one(query)
    assert mentioned_columns(tree, SCHEMA) == list(mentioned)
    assert needed_columns(tree, SCHEMA) == list(mentioned or "a")
