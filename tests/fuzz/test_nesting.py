"""Statements of a few hundred words nested in every way: each is answered or refused by name, and none keeps the interpreter.

One that takes as long as the readings of its levels multiplied does not end before the test's own time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.gateway import Gateway
from model.errors import LakeError
from tests.short import share

_MOST_LETTERS = 20_000
_AROUND = (
    "ARRAY[{}]", "ROW({})", "ROW({}, 1)", "ARRAY<INT>[{}]", "ROW<a INT>({})", "MAP['a', {}]", "STRUCT({} AS a)", "named_struct('a', {})",
    "DATE({})", "TIMESTAMP({})", "DECIMAL({})", "SESSION({})", "INTERVAL '1' DAY + {}",
    "({})", "(SELECT {})", "(VALUES ({}))", "(SELECT a FROM (SELECT {} AS a) AS q)", "(WITH c AS (SELECT {} AS a) SELECT a FROM c)",
    "EXISTS (SELECT {})", "a IN ({})", "a IN (SELECT {})", "{} = ANY (SELECT 1)",
    "CAST({} AS STRING)", "CAST({} AS ARRAY<ROW<a INT>>)", "TRY_CAST({} AS MAP<STRING, ARRAY<INT>>)",
    "CASE WHEN {} THEN 1 END", "CASE {} WHEN 1 THEN 2 ELSE 3 END", "if({}, 1, 2)", "coalesce({}, a)", "NULLIF({}, 1)",
    "{} AND b", "({} OR b)", "NOT {}", "{} IS NULL", "{} IS DISTINCT FROM a", "{} BETWEEN {} AND 3", "a LIKE {}",
    "upper({})", "concat({}, {})", "repeat({}, 2)", "{} || 'x'", "-{}", "1 + {}", "{}.x", "{}[1]", "{} COLLATE x",
    "EXTRACT(DAY FROM {})", "TRIM(BOTH 'x' FROM {})", "SUBSTRING({} FROM 1 FOR 2)", "get_json_object({}, '$.a')", "from_json({}, 'a INT')",
    "transform(s, x -> {})", "filter(s, (x, y) -> {})", "aggregate(s, 0, (x, y) -> {})",
    "sum({}) OVER (PARTITION BY a)", "sum(a) OVER (ORDER BY {})", "count(DISTINCT {})", "percentile({}, 0.5) FILTER (WHERE {})",
)  # fmt: skip
_STATEMENTS = (
    "SELECT {}", "SELECT {} FROM nested", "SELECT a FROM nested WHERE {}", "SELECT a FROM nested GROUP BY {}",
    "SELECT DISTINCT {} FROM nested ORDER BY {}", "VALUES ({})", "INSERT INTO nested SELECT {}, b, s FROM nested",
    "CREATE OR REPLACE VIEW v AS SELECT {} AS x FROM nested", "EXPLAIN SELECT {} FROM nested",
)  # fmt: skip


@pytest.fixture(scope="module")
def gateway(module_gateway: Gateway) -> Gateway:
    module_gateway.run("CREATE TABLE nested (a INT, b BOOLEAN, s ARRAY<INT>)").close()
    return module_gateway


def nested(around: Sequence[str], depth: int) -> str:
    """An expression in which one stands inside another, by turns, as long as its text is short."""
    text = "a"
    for level in range(depth):
        outer = around[level % len(around)]
        if len(text) * outer.count("{}") > _MOST_LETTERS:
            break
        text = outer.replace("{}", text)
    return text


@settings(max_examples=share(2_000))
@given(statement=st.sampled_from(_STATEMENTS), around=st.lists(st.sampled_from(_AROUND), min_size=1, max_size=3), depth=st.integers(5, 40))
def test_what_is_nested_is_answered_or_refused(gateway: Gateway, statement: str, around: list[str], depth: int) -> None:
    with contextlib.suppress(LakeError):
        gateway.run(statement.replace("{}", nested(around, depth))).close()
