"""When rows of a stream on Spark count as read."""

from __future__ import annotations

import math
import threading
from types import SimpleNamespace

import pytest

from lake.streams.snapshot_steps import SETTLED_SECONDS
from sql.spark.streaming.handed import Handed

CLOSED, OPEN = (lambda: True), (lambda: False)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("sql.spark.streaming.handed.time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_rows_count_as_read_once_they_were_handed_on_and_their_reader_still_asks(clock: list[float]) -> None:
    handed = Handed()
    assert handed.wait(OPEN), "nothing is to be read"
    handed.add()
    handed.add()
    handed.ask()
    assert handed.seconds() == math.inf
    handed.give()
    handed.ask()
    clock[0] += 2
    handed.give()
    assert not handed.wait(CLOSED)
    handed.ask()
    assert handed.seconds() == pytest.approx(SETTLED_SECONDS)
    clock[0] += 0.9
    handed.ask()
    assert not handed.wait(CLOSED), "its reader may be gone"
    clock[0] += 0.2
    assert not handed.wait(CLOSED)
    handed.ask()
    assert handed.wait(OPEN)
    assert handed.seconds() == math.inf


def test_one_of_two_is_not_enough(clock: list[float]) -> None:
    handed = Handed()
    handed.add()
    handed.add()
    handed.give()
    handed.ask()
    clock[0] += 2
    handed.ask()
    assert not handed.wait(CLOSED)


def test_a_stream_that_is_closed_ends_the_wait() -> None:
    handed, closed = Handed(), threading.Event()
    handed.add()
    threading.Timer(0.1, closed.set).start()
    assert not handed.wait(closed.is_set)
