"""Large results are made into texts by a few threads at a time, and small ones wait for nobody."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from model.schema.types import parse_type
from model.work.fair_turns import FairTurns
from server.flink.rows import RowFormat, row_objects
from server.formats import text_turns
from server.formats.writers import write_csv, write_json, write_ndjson
from sql.execution.results import ResultColumn
from tests.waiting import eventually

COLUMNS = [ResultColumn("id", parse_type("BIGINT"))]
WRITERS: dict[str, Callable[[pa.RecordBatch], bytes]] = {
    "json": lambda batch: b"".join(write_json(COLUMNS, iter([batch]), lambda problem: {})),
    "ndjson": lambda batch: b"".join(write_ndjson(COLUMNS, iter([batch]), lambda problem: {})),
    "csv": lambda batch: b"".join(write_csv(COLUMNS, iter([batch]), lambda problem: {})),
    "flink": lambda batch: row_objects(batch, COLUMNS, RowFormat.JSON, None),
}


@pytest.mark.parametrize("format_", WRITERS)
def test_a_large_result_waits_for_its_turn_and_a_small_one_does_not(format_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = FairTurns(2)
    monkeypatch.setattr(text_turns, "TURNS", turns)
    large, small = (pa.record_batch({"id": pa.array(range(count), pa.int64())}) for count in (20_000, 20))
    written: list[bytes] = []
    threads = [threading.Thread(target=lambda: written.append(WRITERS[format_](large))) for _ in range(3)]
    with contextlib.ExitStack() as held:
        for _ in range(2):
            held.enter_context(turns.turn("others"))
        for thread in threads:
            thread.start()
        assert eventually(lambda: len(turns._queue) == 3, 60), "nothing waits for a turn"
        assert b"19" in WRITERS[format_](small)
        assert not written
    for thread in threads:
        thread.join(60)
    assert [b"19999" in text for text in written] == [True] * 3


def test_a_row_of_thousands_of_columns_waits_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is 45 kB of values, and takes as long as thousands of rows."""
    turns = FairTurns(1)
    monkeypatch.setattr(text_turns, "TURNS", turns)
    wide = pa.record_batch({f"n{number}": pa.array([number], pa.int32()) for number in range(9_000)})
    columns = [ResultColumn(name, parse_type("INT")) for name in wide.schema.names]
    written: list[bytes] = []
    thread = threading.Thread(target=lambda: written.append(b"".join(write_csv(columns, iter([wide]), lambda problem: {}))))
    with turns.turn("others"):
        thread.start()
        assert eventually(lambda: len(turns._queue) == 1, 60), "nothing waits for a turn"
    thread.join(60)
    assert written[0].strip().endswith(b",8999")
