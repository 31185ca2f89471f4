"""Golden streams of ``format("sluice")``: planner and tasks as Spark calls them, in odd micro-batches, stopped and started again."""

from __future__ import annotations

import json
import os
import pickle
import random
from contextlib import ExitStack
from typing import Any

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import SnapshotNotExist
from model.snapshot import CommitKind
from pyspark_sluice.source import DefaultSource
from pyspark_sluice.stream import StreamReader
from tests.server.golden_model import Expected, History, Row
from tests.server.streams.golden import (
    EVERY_EMPTY,
    LAYOUTS,
    SENTINEL,
    T,
    agree_by_place,
    delayed,
    empty,
    empty_starts,
    grown,
    history,
    starts,
    streams,
)
from tests.short import short

SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261124"))
LIMITS: tuple[dict[str, str], ...] = ({}, {"maxRowsPerTrigger": "3"}, {"maxFilesPerTrigger": "2"}, {"maxBytesPerTrigger": "1 kb"})


@pytest.fixture
def lake(gateway: Gateway) -> Lake:
    return gateway.lake


class Query:
    """What Spark does with a streaming query over the source, started anew from its checkpoint now and then."""

    def __init__(self, url: str, options: dict[str, str], rng: random.Random) -> None:
        self._given = {"uri": url, "path": str(T), "columns": '["id", "k", "p"]'} | options
        self._rng = rng
        self._reader = self._started()
        self._offset = self._reader.initialOffset()
        self.rows: list[Row] = []

    def _started(self) -> StreamReader:
        source = DefaultSource(self._given | self._rng.choice(LIMITS))
        reader: StreamReader = pickle.loads(pickle.dumps(source)).streamReader(source.schema())
        return reader

    def take(self) -> None:
        """All that is there."""
        while self._batch():
            if self._rng.random() < 0.2:
                self._reader.stop()
                self._reader = self._started()

    def _batch(self) -> bool:
        end = json.loads(json.dumps(self._reader.latestOffset(self._offset, self._reader.getDefaultReadLimit())))
        if end == self._offset:
            return False
        for split in self._reader.partitions(self._offset, end):
            for batch in self._reader.read(split):
                self.rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)
        self._reader.commit(end)
        self._offset = end
        return True

    @property
    def ended(self) -> bool:
        return bool(self._offset.get("end"))

    def stop(self) -> None:
        self._reader.stop()


@pytest.mark.parametrize("layout", short(LAYOUTS, ("no buckets", "queues of partitions")))
def test_streams_of_the_source_are_the_models(lake: Lake, url: str, layout: str) -> None:
    agrees(lake, url, layout, one_in=len(LAYOUTS) * 7)


@pytest.mark.torture
@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_streams_of_the_source_are_the_models(lake: Lake, url: str, layout: str) -> None:
    agrees(lake, url, layout, one_in=1)


def agrees(lake: Lake, url: str, layout: str, *, one_in: int) -> None:
    with ExitStack() as queries:
        compared(lake, url, layout, queries, one_in=one_in)


def compared(lake: Lake, url: str, layout: str, queries: ExitStack, *, one_in: int) -> None:
    """Compare one in so many of the streams of a layout; queries that are not at their end stop with the stack."""
    made = history(lake, url, layout)
    rng = random.Random(SEED)
    chosen = streams(made, layout, one_in=one_in)
    endless: list[tuple[dict[str, str], Expected, Query]] = []
    for options, expected in chosen:
        query = Query(url, options, rng)
        queries.callback(query.stop)
        if expected.ends:
            query.take()
            assert query.ended, (options, query.rows)
            agree_by_place(query.rows, expected, layout, options)
            query.stop()
        else:
            endless.append((options, expected, query))
    assert endless
    assert len(endless) < len(chosen)
    made.put([SENTINEL], None)
    for options, expected, query in endless:
        query.take()
        assert not query.ended, options
        wanted = Expected(parts=(*expected.parts, (SENTINEL,)), ends=False)
        agree_by_place(query.rows, wanted, layout, options)
        query.stop()


@pytest.mark.parametrize("layout", ["buckets", "no buckets"])
def test_a_delay_holds_back_what_follows_the_start(lake: Lake, url: str, layout: str) -> None:
    """The starting snapshot comes at once, also in several micro-batches, and a bound ends the stream at once."""
    made = history(lake, url, layout)
    rng = random.Random(SEED)
    chosen = delayed(made, layout, one_in=len(LAYOUTS) * 4)
    assert {(bool(expected.parts), expected.ends) for _, expected in chosen} == {(a, b) for a in (True, False) for b in (True, False)}
    with ExitStack() as queries:
        for options, expected in chosen:
            query = Query(url, options, rng)
            queries.callback(query.stop)
            query.take()
            assert query.ended is expected.ends, options
            agree_by_place(query.rows, expected, layout, options)


@EVERY_EMPTY
@pytest.mark.parametrize("first", [CommitKind.OVERWRITE, CommitKind.APPEND])
def test_streams_of_the_source_that_begin_on_an_empty_table_are_the_models(lake: Lake, url: str, first: CommitKind, one_in: int) -> None:
    layout = "buckets" if first is CommitKind.OVERWRITE else "partitions without buckets"
    made = empty(lake, url, layout)
    rng = random.Random(SEED)
    with ExitStack() as queries:
        started = [(options, Query(url, options, rng)) for options in empty_starts(layout, one_in)]
        for _, query in started:
            queries.callback(query.stop)
            query.take()
        made.put(made.rows(8), 1000, first)
        grown(made, layout)
        model = History(made.steps, from_empty=True)
        for options, query in started:
            query.take()
            expected = model.stream(options)
            assert query.ended is expected.ends, options
            agree_by_place(query.rows, expected, layout, options)


def test_streams_that_have_read_nothing_notice_a_rollback(lake: Lake, url: str) -> None:
    """Other snapshots get the ids of those that are no more: a stream that waits for later ones would leave out their rows."""
    made = history(lake, url, "no buckets")
    before, last = History(made.steps), made.steps[3].id
    rng = random.Random(SEED)
    with ExitStack() as queries:
        started = [(options, Query(url, options, rng)) for options in ({"scan.mode": "latest"}, *rng.sample(starts(made), 11))]
        for _, query in started:
            queries.callback(query.stop)
        made.roll_back(last)
        while made.steps[-1].id <= before.last:
            made.put(made.rows(2), None)
        survivors = 0
        for options, query in started:
            if before.survives(options, last):
                survivors += 1
                query.take()
                agree_by_place(query.rows, History(made.steps).stream(options), "no buckets", options)
            else:
                with pytest.raises(SnapshotNotExist, match="rolled back to before snapshot"):
                    query.take()
        assert 0 < survivors < len(started)


def test_the_model_is_compared_and_not_believed(lake: Lake, url: str) -> None:
    """What is compared here can tell: another layout's order, a missing row and a doubled one are seen."""
    made = history(lake, url, "a queue")
    rows: list[Any] = list(made.steps[-1].held)
    expected = Expected(parts=(tuple(rows),), ends=True)
    agree_by_place(rows, expected, "a queue", "as they are")
    for wrong in (rows[1:], [*rows, rows[-1]], rows[::-1]):
        with pytest.raises(AssertionError):
            agree_by_place(wrong, expected, "a queue", "wrong")
