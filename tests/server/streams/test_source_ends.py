"""How the Spark source ends, and what its consumer knows then: Spark tells a source that a micro-batch is done when it plans the next."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from lake import Lake
from model.errors import SnapshotNotExist
from pyspark_sluice.pieces import LastRow
from pyspark_sluice.stream import StreamReader
from tests.server.streams.test_spark_source import T, append, reader_of, rows
from tests.server.streams.test_spark_source import lake as lake
from tests.server.streams.test_spark_source import queue as queue
from tests.server.streams.test_spark_source import stopped as stopped


@pytest.mark.parametrize("start", [{"scan_snapshot-id": "1"}, {"scan_mode": "from-snapshot-full", "scan_snapshot-id": "3"}], ids=str)
def test_a_bounded_stream_tells_its_consumer_all_that_it_read(url: str, queue: Lake, start: dict[str, str]) -> None:
    append(queue, 7, watermark=150)
    append(queue, 9, watermark=200)
    append(queue, 9, watermark=300)
    reader = reader_of(url, **{"consumer-id": "c", "scan_bounded_watermark": "150"}, **start)
    offset = reader.initialOffset()
    read: list[list[tuple[int, int]]] = []
    while (end := reader.latestOffset(offset, ReadAllAvailable())) != offset:
        if read:
            reader.commit(offset)
        read.append(rows(reader, offset, end))
        offset = end
    assert offset["end"]
    assert [n for _, n in read[0]][-1] == 7
    assert read[1:] == [[]], "the end comes by itself"
    assert queue.consumers(queue.open(T)) == {"c": 5}
    again = reader_of(url, **{"consumer-id": "c", "scan_bounded_watermark": "150"})
    assert rows(again, again.initialOffset(), again.latestOffset(again.initialOffset(), ReadAllAvailable())) == []


def test_a_stream_that_begins_beyond_its_bound_tells_its_consumer_where(url: str, queue: Lake) -> None:
    append(queue, 7, watermark=200)
    append(queue, 9, watermark=300)
    reader = reader_of(url, **{"consumer-id": "c", "scan_bounded_watermark": "150", "scan_snapshot-id": "5"})
    offset = to_the_end(reader, begin := reader.initialOffset())
    assert rows(reader, begin, offset) == []
    assert (offset["end"], queue.consumers(queue.open(T))) == (True, {"c": 5})


def test_a_run_with_what_is_there_tells_its_consumer_all_that_it_read(url: str, queue: Lake) -> None:
    """What `trigger(availableNow=True)` does, and `STOP JOB … WITH DRAIN`: the next run may have another checkpoint."""
    reader = reader_of(url, **{"consumer-id": "c", "scan_snapshot-id": "1"})
    reader.prepareForTriggerAvailableNow()
    offset = to_the_end(reader, reader.initialOffset())
    assert queue.consumers(queue.open(T)) == {"c": 4}
    again = reader_of(url, **{"consumer-id": "c", "maxRowsPerTrigger": "2"})
    again.prepareForTriggerAvailableNow()
    assert again.latestOffset(offset, again.getDefaultReadLimit()) == offset, "from its checkpoint there is nothing"
    append(queue, 7)
    later = reader_of(url, **{"consumer-id": "c", "maxRowsPerTrigger": "2"})
    later.prepareForTriggerAvailableNow()
    assert to_the_end(later, offset)["snapshot"] == 5
    assert queue.consumers(queue.open(T)) == {"c": 5}


@pytest.mark.parametrize("timed", [True, False], ids=["event time", "no event time"])
def test_a_drained_stream_ends_for_good_with_what_is_there(url: str, queue: Lake, timed: bool) -> None:
    """Its last row ends event time, so that all windows come out; whoever goes on from its checkpoint ends there, too."""
    options = {"consumer-id": "c", "scan_snapshot-id": "1", "drain": "true", **({"endOfTime": "n"} if timed else {})}
    reader = reader_of(url, **options)
    reader.prepareForTriggerAvailableNow()
    begin = offset = reader.initialOffset()
    steps = [begin]
    while (end := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
        if offset != begin:
            reader.commit(offset)
        steps.append(end)
        offset = end
        append(queue, 7)  # what comes later is none of it
    assert [n for _, n in rows(reader, *steps[:2])] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    ends = [[type(split) for split in reader.partitions(first, last)] for first, last in pairwise(steps[1:])]
    assert ends == ([[], [LastRow]] if timed else [[]])
    assert (offset["snapshot"], offset["end"], offset["drained"]) == (4, True, True)
    assert queue.consumers(queue.open(T)) == {"c": 4}
    again = reader_of(url, **options)
    again.prepareForTriggerAvailableNow()
    if timed:  # killed before its last row: that is what comes next
        assert again.latestOffset(steps[-2], again.getDefaultReadLimit()) == offset
    assert again.latestOffset(offset, again.getDefaultReadLimit()) == offset


@pytest.mark.parametrize("ends", [{"drain": "true"}, {"scan_bounded_watermark": "100"}], ids=["drained", "bounded"])
def test_a_stream_that_has_ended_tells_so_once_more_when_it_is_started_again(url: str, queue: Lake, ends: dict[str, str]) -> None:
    """Spark keeps one watermark for all sources, and perhaps not yet that of the last row: windows never closed."""
    append(queue, 7, watermark=200)
    options = {"scan_snapshot-id": "1", "endOfTime": "n", **ends}
    reader = reader_of(url, **options)
    ended = offsets_of(reader, reader.initialOffset())[-1]
    assert ended["end"]
    again = reader_of(url, **options)
    steps = offsets_of(again, ended)
    assert steps[-1] == ended
    assert [[type(split) for split in again.partitions(first, last)] for first, last in pairwise(steps)] == [[], [LastRow]]
    untimed = reader_of(url, **{"scan_snapshot-id": "1", **ends})
    assert untimed.latestOffset(ended, untimed.getDefaultReadLimit()) == ended


@pytest.mark.parametrize("ends", [{"drain": "true"}, {"scan_bounded_watermark": "100"}], ids=["drained", "bounded"])
def test_a_rollback_does_not_concern_a_stream_that_has_ended(url: str, queue: Lake, ends: dict[str, str]) -> None:
    """Its query may wait for other sources; started again it failed for good, and what it held back was lost."""
    append(queue, 7, watermark=200)
    options = {"scan_snapshot-id": "1", "endOfTime": "n", **ends}
    reader = reader_of(url, **options)
    begin = reader.initialOffset()
    first, *_, ended = offsets_of(reader, begin)[1:]
    queue.history.rollback_to_snapshot(queue.open(T), 1)
    again = reader_of(url, **options)
    steps = offsets_of(again, ended)
    assert [[type(split) for split in again.partitions(start, end)] for start, end in pairwise(steps)] == [[], [LastRow]]
    with pytest.raises(SnapshotNotExist):
        again.partitions(begin, first)


def offsets_of(reader: StreamReader, offset: dict[str, Any]) -> list[dict[str, Any]]:
    """All offsets from one on, as a run with what is there makes them."""
    steps = [offset]
    reader.prepareForTriggerAvailableNow()
    while (end := reader.latestOffset(steps[-1], reader.getDefaultReadLimit())) != steps[-1]:
        steps.append(end)
    return steps


def to_the_end(reader: StreamReader, offset: dict[str, Any]) -> dict[str, Any]:
    """All micro-batches there are, from an offset on: Spark tells a source that one is done when it has planned the next."""
    begin = offset
    while (end := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
        if offset != begin:
            reader.commit(offset)
        offset = end
    return offset


def test_a_start_that_reads_past_the_bound_ends_there(url: str, queue: Lake) -> None:
    append(queue, 7, watermark=150)
    append(queue, 9, watermark=200)
    options = {"consumer-id": "c", "scan_bounded_watermark": "100", "scan_mode": "from-snapshot-full", "scan_snapshot-id": "4"}
    reader = reader_of(url, **options)
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert [n for _, n in rows(reader, reader.initialOffset(), end)][-1] == 7
    again = reader_of(url, **options)  # started again from the checkpoint
    last = again.latestOffset(end, ReadAllAvailable())
    assert (rows(again, end, last), last["snapshot"], last["end"]) == ([], 5, True)
