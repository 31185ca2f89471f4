"""Columns qualified by a table's whole name mean that table, whatever else has its last name."""

from __future__ import annotations

import pytest

from model.errors import AnalysisError
from sql.analysis.qualified import unqualify
from sql.analysis.references import replace_reference, table_references
from sql.analysis.to_spark import spark_sql
from sql.dialect import parse_one


def given(text: str) -> str:
    """What Spark is given where the tables are v0, v1 … in the order of their mentions."""
    tree = parse_one(text)
    references = table_references(tree)
    unqualify(tree, references)
    for at, reference in enumerate(references):
        replace_reference(reference, f"v{at}")
    return spark_sql(tree)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "SELECT a FROM d1.t WHERE EXISTS (SELECT 1 FROM d2.t WHERE d2.t.id = d1.t.id AND t.b = 1)",
            "SELECT a FROM `v0` AS `d1.t` WHERE EXISTS(SELECT 1 FROM `v1` AS `t` WHERE t.id = `d1.t`.id AND t.b = 1)",
        ),
        (
            "SELECT t.a FROM d1.t WHERE t.b = (SELECT MAX(d2.t.b) FROM d2.t WHERE d2.t.r.id = d1.t.r.id)",
            "SELECT `d1.t`.a FROM `v0` AS `d1.t` WHERE `d1.t`.b = (SELECT MAX(t.b) FROM `v1` AS `t` WHERE t.r.id = `d1.t`.r.id)",
        ),
        (
            "SELECT d1.t.*, d2.t.b FROM d1.t JOIN d2.t ON d1.t.id = d2.t.id",
            "SELECT `d1.t`.*, `d2.t`.b FROM `v0` AS `d1.t` JOIN `v1` AS `d2.t` ON `d1.t`.id = `d2.t`.id",
        ),
        (
            "SELECT 1 FROM d1.t WHERE EXISTS (SELECT 1 FROM u AS t WHERE t.id = d1.t.id)",
            "SELECT 1 FROM `v0` AS `d1.t` WHERE EXISTS(SELECT 1 FROM `v1` AS t WHERE t.id = `d1.t`.id)",
        ),
        (
            "WITH t AS (SELECT 1 AS id) SELECT 1 FROM d1.t WHERE EXISTS (SELECT 1 FROM t WHERE t.id = d1.t.id)",
            "WITH t AS (SELECT 1 AS id) SELECT 1 FROM `v0` AS `d1.t` WHERE EXISTS(SELECT 1 FROM t WHERE t.id = `d1.t`.id)",
        ),
        (  # the inner mention is meant, and nothing else of that name is seen there
            "SELECT d1.t.a FROM d1.t JOIN (SELECT d2.t.a FROM d2.t WHERE d2.t.a > 1) x ON d1.t.a = x.a",
            "SELECT t.a FROM `v0` AS `t` JOIN (SELECT t.a FROM `v1` AS `t` WHERE t.a > 1) AS x ON t.a = x.a",
        ),
        (  # a query in FROM does not see what stands beside it
            "SELECT 1 FROM d1.t WHERE EXISTS (SELECT 1 FROM d1.t JOIN (SELECT 1 FROM u AS t WHERE d1.t.id = 1) x ON TRUE)",
            "SELECT 1 FROM `v0` AS `d1.t` "
            "WHERE EXISTS(SELECT 1 FROM `v1` AS `t` JOIN (SELECT 1 FROM `v2` AS t WHERE `d1.t`.id = 1) AS x ON TRUE)",
        ),
        (
            "SELECT 1 FROM (d1.t JOIN d2.t ON d1.t.a = d2.t.a) JOIN LATERAL (SELECT 1 FROM d3.t WHERE d3.t.a = d2.t.a) ON TRUE",
            "SELECT 1 FROM (`v0` AS `d1.t` JOIN `v1` AS `d2.t` ON `d1.t`.a = `d2.t`.a) "
            "JOIN LATERAL (SELECT 1 FROM `v2` AS `t` WHERE t.a = `d2.t`.a) ON TRUE",
        ),
        (
            "SELECT 1 FROM d1.t WHERE id IN (SELECT id FROM d2.t WHERE d1.t.a = 1 UNION ALL SELECT id FROM d3.t WHERE d1.t.b = d3.t.b)",
            "SELECT 1 FROM `v0` AS `d1.t` WHERE id IN (SELECT id FROM `v1` AS `t` WHERE `d1.t`.a = 1 "
            "UNION ALL SELECT id FROM `v2` AS `t` WHERE `d1.t`.b = t.b)",
        ),
        (  # a user's alias hides the name, and the column is left for Spark to refuse
            "SELECT d1.t.a FROM d1.t AS x, d2.t AS t",
            "SELECT d1.t.a FROM `v0` AS x CROSS JOIN `v1` AS t",
        ),
        ("SELECT t.a FROM d1.t, d2.t", "SELECT t.a FROM `v0` AS `t` CROSS JOIN `v1` AS `t`"),
        ("SELECT c.d1.t.a, d1.t.b FROM c.d1.t", "SELECT t.a, t.b FROM `v0` AS `t`"),
    ],
)
def test_a_whole_name_means_its_table(text: str, expected: str) -> None:
    assert given(text) == expected


def test_a_last_name_of_two_tables_is_refused_beside_a_whole_one() -> None:
    with pytest.raises(AnalysisError, match="more than one table called t"):
        given("SELECT t.a FROM d1.t JOIN d2.t ON d1.t.id = d2.t.id")
