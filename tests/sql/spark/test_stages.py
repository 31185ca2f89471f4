"""Which streams keep rows back more than once."""

from __future__ import annotations

import pytest

from sql.dialect import parse_one
from sql.spark.streaming.event_time import several_stages


@pytest.mark.parametrize(
    ("query", "followed", "several"),
    [
        ("SELECT k.id FROM k JOIN a ON k.id = a.id JOIN b ON k.id = b.id", 1, False),
        ("SELECT count(*) FROM k JOIN a ON k.id = a.id GROUP BY k.id", 1, False),
        ("SELECT count(*) FROM k JOIN l ON k.id = l.id GROUP BY k.id", 2, True),
        ("SELECT count(*) FROM (SELECT id, count(*) AS n FROM k GROUP BY id) GROUP BY n", 1, True),
        ("SELECT count(DISTINCT u) FROM k GROUP BY id", 1, False),
        ("SELECT DISTINCT id, ts FROM k", 1, True),
        ("SELECT id FROM k UNION SELECT id FROM l", 2, True),
        ("SELECT id FROM k UNION ALL SELECT id FROM l", 2, False),
    ],
)
def test_a_join_with_what_does_not_go_on_is_no_stage(query: str, followed: int, several: bool) -> None:
    assert several_stages(parse_one(query), followed=followed) is several
