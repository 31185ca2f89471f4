"""Which partitions of a topic are idle, as a running query is told."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from sql.execution.spool import Spool, SpoolLimits
from sql.spark.streaming.partitions import Partitions
from table.format.io.file_io import LocalFileIO

Seen = Callable[[float, int, int, int], str]


@pytest.fixture
def seen(tmp_path: Path) -> Seen:
    """At a moment, in seconds, the positions of three partitions are told; who is idle then, with a timeout of ten seconds."""
    clock = [0.0]
    spool = Spool(LocalFileIO(), str(tmp_path), SpoolLimits(per_result=1 << 20, overall=1 << 20))
    partitions = Partitions(["t-0", "t-1", "t-2"], timedelta(seconds=10), spool, now=lambda: clock[0])

    def see(at: float, *positions: int) -> str:
        clock[0] = at
        partitions.look({"sources": [{"endOffset": {"t": {str(number): at for number, at in enumerate(positions)}}}]})
        (told,) = tmp_path.rglob("idle")
        return told.read_text()

    return see


def test_between_two_bursts_who_gave_nothing_stays_idle(seen: Seen) -> None:
    """All seemed to come back with each burst, so that a partition without rows held the windows of a bursty topic back for ever."""
    assert seen(1, 5, 5, 0) == "000"
    assert seen(30, 5, 5, 0) == "000", "all have given nothing for the same time: nobody is ahead"
    assert seen(31, 9, 9, 0) == "001"
    assert seen(60, 9, 9, 0) == "001", "between two bursts"
    assert seen(61, 9, 9, 3) == "110"
    assert seen(90, 9, 9, 3) == "110"
    assert seen(91, 12, 9, 3) == "011"


def test_who_gave_nothing_is_told_also_where_nobody_looked_meanwhile(seen: Seen) -> None:
    seen(1, 5, 5, 0)
    assert seen(5, 6, 5, 0) == "000"
    assert seen(14, 6, 5, 0) == "011"
    assert seen(15, 6, 5, 1) == "010"
    assert seen(60, 6, 5, 1) == "010"


def test_while_nothing_comes_from_any_nobody_becomes_idle(seen: Seen) -> None:
    """As while the broker is away: a few seconds between the last rows of two partitions are no idle time."""
    seen(1, 5, 5, 5)
    assert seen(4, 6, 5, 5) == "000"
    assert seen(30, 6, 5, 5) == "000"
