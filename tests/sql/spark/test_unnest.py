"""UNNEST gives the rows that Flink's documentation and the standard tell of, in a query and in a stream."""

from __future__ import annotations

from typing import Any

import pytest

from tests.running import RunningServer
from tests.short import short

pytestmark = pytest.mark.spark
EXAMPLES: dict[str, list[tuple[Any, ...]]] = {
    "SELECT i, y FROM a LEFT JOIN UNNEST(r) AS x(y) ON TRUE": [(1, 3), (1, 4), (2, None), (3, None)],
    "SELECT i, y FROM a LEFT JOIN UNNEST(r) AS x(y) ON y > 3": [(1, 4), (2, None), (3, None)],
    "SELECT i, y FROM a JOIN UNNEST(r) AS x(y) ON y > 3": [(1, 4)],
    "SELECT i, y FROM a JOIN UNNEST(r) AS x(y) ON y > 3 WHERE i = 1 OR i = 2": [(1, 4)],
    "SELECT x.* FROM a CROSS JOIN UNNEST(r) WITH ORDINALITY AS x(y, n)": [(3, 1), (4, 2)],
    "SELECT i, x.* FROM a LEFT JOIN UNNEST(m) WITH ORDINALITY AS x(k, v, n) ON TRUE": [
        (1, "p", 7, 1),
        (1, "q", 8, 2),
        (2, None, None, None),
        (3, None, None, None),
    ],
    "SELECT * FROM UNNEST(ARRAY['s', 't']) WITH ORDINALITY": [("s", 1), ("t", 2)],
    "SELECT a.i, y, c.i FROM a CROSS JOIN UNNEST(r) AS x(y) RIGHT JOIN c ON c.i = x.y": [(1, 3, 3), (None, None, 9)],
    "SELECT a.i, y, c.i FROM a LATERAL VIEW explode(r) x AS y RIGHT JOIN c ON c.i = x.y": [(1, 3, 3), (None, None, 9)],
    "SELECT a.i, y, z FROM a, UNNEST(r) AS x(y), UNNEST(ARRAY[y, i]) AS w(z)": [(1, 3, 1), (1, 3, 3), (1, 4, 1), (1, 4, 4)],
    "SELECT * FROM (SELECT i, r FROM a WHERE i = 1) CROSS JOIN UNNEST(r) AS x(y) JOIN c ON c.i = y": [(1, [3, 4], 3, 3)],
}


@pytest.fixture
def arrays(server: RunningServer, database: str) -> str:
    """What a text begins with that reads tables a and c."""
    use = f"USE {database}; "
    server.sql(f"{use}CREATE TABLE a (i INT, r ARRAY<INT>, m MAP<STRING, INT>)")
    server.sql(f"{use}CREATE TABLE c (i INT)")
    server.sql(f"{use}INSERT INTO c VALUES (3), (9)")
    rows = "(1, ARRAY[3, 4], MAP['p', 7, 'q', 8]), (2, CAST(ARRAY() AS ARRAY<INT>), CAST(MAP() AS MAP<STRING, INT>)), (3, NULL, NULL)"
    server.sql(f"{use}INSERT INTO a VALUES {rows}")
    return use


def _sorted(rows: list[Any]) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, rows), key=repr)


@pytest.mark.parametrize("every", [pytest.param(2, id="short"), pytest.param(1, id="whole", marks=pytest.mark.torture)])
def test_rows_are_what_the_standard_says(server: RunningServer, arrays: str, every: int) -> None:
    for text, rows in list(EXAMPLES.items())[::every]:
        assert _sorted(server.sql(arrays + text)) == _sorted(rows), text


@pytest.mark.parametrize(("column", "names", "elements"), short([("r", "y", "34"), ("m", "y, v", "pq")], [("m", "y, v", "pq")]))
def test_streams_keep_rows_without_elements(server: RunningServer, arrays: str, column: str, names: str, elements: str) -> None:
    unnested = f"LEFT JOIN UNNEST({column}) WITH ORDINALITY AS x({names}, n) ON TRUE"
    text = f"SELECT i, y FROM a /*+ OPTIONS('scan.mode' = 'latest-full') */ {unnested} LIMIT 4"
    rows = server.post(f"{arrays}SET 'execution.runtime-mode' = 'streaming'; {text}", accept="text/csv").text.split()
    assert sorted(rows) == [*(f"1,{element}" for element in elements), "2,", "3,", "i,y"]
