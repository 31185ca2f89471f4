"""ORDER BY over system tables: what is held while the rows come, and what comes out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from gateway.gateway import Gateway
from model.errors import ResultTooLarge
from model.identifier import Identifier
from model.snapshot import CommitKind
from sql.local import sorting
from table.write.writer import write_batches

T = Identifier("default", "t")
_FILES, _ROWS = 5, 2000


@pytest.fixture
def ask(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Of a table with some 300 KB of rows, where 100 KB may be held."""

    def run(text: str) -> list[tuple[Any, ...]]:
        with gateway.run(text) as result:
            return result.collect()

    run("CREATE TABLE t (id BIGINT, v INT, s STRING) WITH ('bucket' = '-1')")
    table = gateway.lake.open(T)
    for number in range(_FILES):
        ids = [number + _FILES * n for n in range(_ROWS)]
        batch = pa.RecordBatch.from_pydict(
            {
                "id": pa.array(ids, pa.int64()),
                "v": pa.array([None if n % 1000 == 3 else n % 7 for n in ids], pa.int32()),
                "s": pa.array([f"text {n:10d}" for n in ids]),
            }
        )
        with table.write() as write:
            write.add(write_batches(table.files, table.schema, [batch]))
            gateway.lake.commit(table, write.request(CommitKind.APPEND))
    monkeypatch.setattr(sorting, "_MOST_BYTES", 100_000)
    monkeypatch.setattr(sorting, "_CUT_ROWS", 100)
    return run


def test_more_rows_than_may_be_held_are_refused_with_the_ways_out(ask: Any) -> None:
    with pytest.raises(ResultTooLarge, match=r"ORDER BY over t\$ro holds more than .* WHERE.* LIMIT"):
        ask("SELECT * FROM t$ro ORDER BY id")
    every = _FILES * _ROWS
    assert ask("SELECT id FROM t$ro ORDER BY id") == [(n,) for n in range(every)], "one column is little enough"
    assert ask("SELECT * FROM t$ro WHERE id < 2 ORDER BY id DESC") == [(1, 1, f"text {1:10d}"), (0, 0, f"text {0:10d}")]
    assert len(ask("SELECT * FROM t$ro")) == every
    with pytest.raises(ResultTooLarge, match="ORDER BY over"):
        ask(f"SELECT * FROM t$ro ORDER BY id LIMIT {every - 1}")


@pytest.mark.parametrize("limit", [0, 1, 13, 150])
def test_the_first_rows_are_those_of_the_whole_order(ask: Any, limit: int) -> None:
    rows = [(n, None if n % 1000 == 3 else n % 7, f"text {n:10d}") for n in range(_FILES * _ROWS)]
    rising = sorted(rows, key=lambda row: (row[1] is not None, row[1] or 0, -row[0]))[:limit]
    assert ask(f"SELECT * FROM t$ro ORDER BY v, id DESC LIMIT {limit}") == rising
    falling = sorted(rows, key=lambda row: (row[1] is None, -(row[1] or 0), row[0]))[:limit]
    assert ask(f"SELECT * FROM t$ro ORDER BY v DESC, s LIMIT {limit}") == falling


def test_rows_that_are_alike_stay_as_they_come(ask: Any) -> None:
    every = [row for row in ask("SELECT v, id FROM t$ro") if row[0] == 6]
    assert ask("SELECT v, id FROM t$ro ORDER BY v DESC LIMIT 50") == every[:50]
