"""A scan that finds no row for long is ended as every statement is: by its time, by a cancel, by who leaves."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.gateway import Gateway
from lake import Lake, LakeTable
from model.errors import StatementCanceled, StatementTimeout
from sql.execution.results import ResultSet
from table.scan import read
from tests.lake.rewrite.test_compaction import append
from tests.sql.tables import make_table
from tests.waiting import eventually

FILES = 30
SEARCH = "SELECT id FROM t WHERE s LIKE '%none%'"
"""Of a column whose bounds skip no file."""


class Slow:
    """Makes each file take a while, and counts them."""

    def __init__(self) -> None:
        self.read = 0
        self._filtered = read._filtered

    def __call__(self, *given: Any) -> Iterator[Any]:
        self.read += 1
        time.sleep(0.15)
        return self._filtered(*given)


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    made = make_table(lake, options={"bucket": "-1"}, id="INT", s="STRING")
    for number in range(FILES):
        append(lake, made, [number], s=[f"a {number} z"])
    return made


@pytest.fixture
def slow(table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> Slow:
    made = Slow()
    monkeypatch.setattr(read, "_filtered", made)
    return made


def test_a_search_without_a_row_ends_at_its_time(gateway: Gateway, slow: Slow) -> None:
    with pytest.raises(StatementTimeout):
        gateway.run(SEARCH, timeout=0.2)
    assert eventually(lambda: not gateway.running())
    assert slow.read < FILES


def test_a_search_without_a_row_is_canceled(gateway: Gateway, slow: Slow) -> None:
    told: list[BaseException] = []

    def search() -> None:
        try:
            gateway.run(SEARCH)
        except StatementCanceled as canceled:
            told.append(canceled)

    searching = threading.Thread(target=search)
    searching.start()
    assert eventually(lambda: slow.read > 0, pause=0.01)
    (statement,) = gateway.running()
    assert statement.cancel()
    searching.join(30)
    assert told
    time.sleep(0.3)  # those files that were being read
    read_by_then = slow.read
    time.sleep(0.3)
    assert slow.read == read_by_then < FILES


def rest(result: ResultSet) -> None:
    for _ in result.batches():
        pass


def test_what_is_closed_while_it_looks_for_the_next_row_ends(gateway: Gateway, slow: Slow) -> None:
    result = gateway.run("SELECT id FROM t WHERE s LIKE '% 0 %'")
    threading.Timer(0.2, result.close).start()
    with pytest.raises(StatementCanceled):
        rest(result)
    assert slow.read < FILES


def test_reading_the_rows_counts_and_its_readers_time_does_not(gateway: Gateway, slow: Slow) -> None:
    result = gateway.run("SELECT id FROM t WHERE s LIKE '% 0 %' OR s LIKE '% 29 %'", timeout=0.4)
    time.sleep(0.5)
    batches = result.batches()
    assert next(batches).num_rows == 1
    with pytest.raises(StatementTimeout, match="took longer to read"):
        list(batches)
    assert slow.read < FILES


def test_all_rows_are_there(gateway: Gateway, table: LakeTable) -> None:
    assert sorted(gateway.run("SELECT id FROM t").collect()) == [(number,) for number in range(FILES)]
    assert gateway.run(SEARCH).collect() == []
