"""A server that stops waits for its merges so long and no longer, and one on Spark is canceled."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from lake import Lake, LakeTable
from lake.rewrite.compaction import Rewriter
from maintenance.coordinator import Coordinator
from table.compaction.candidates import CompactionTask
from tests.lake.rewrite.test_compaction import append, ids, live
from tests.maintenance.test_coordinator import LIMITS, QUEUE, until
from tests.sql.tables import make_table

if TYPE_CHECKING:
    from sql.spark.session.pool import SparkPool


@pytest.fixture
def due(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> LakeTable:
    """A table whose small files are to be merged, on Spark."""
    monkeypatch.setattr("maintenance.runner._SPARK_BYTES", 0)
    table = make_table(lake, options=QUEUE, id="INT")
    for n in range(8):
        append(lake, table, [n])
    return table


def _held(merge: Callable[[Any], object], reached: threading.Event) -> Callable[[Any], Rewriter]:
    """What stands for the merging on a session of Spark's."""

    def on(session: Any) -> Rewriter:
        def run(table: LakeTable, write: Any, tasks: Sequence[CompactionTask], check: Any) -> Any:
            reached.set()
            merge(session)
            raise AssertionError("it was canceled")

        return run

    return on


def test_a_merge_that_does_not_end_is_left_alone_with_all_it_reads(lake: Lake, due: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    reached, goes_on, canceled = threading.Event(), threading.Event(), list[str]()
    monkeypatch.setattr("maintenance.runner._spark", _held(lambda _: goes_on.wait(240), reached))
    coordinator = Coordinator(lake, LIMITS, background=lambda _: contextlib.nullcontext())
    coordinator.start()
    assert reached.wait(60)
    begin = time.monotonic()
    coordinator.close(2.5, canceled.append)
    assert 2.0 < time.monotonic() - begin < 60.0
    assert set(canceled) == {f"compaction-{due.table_id}"}
    assert len(canceled) >= 2, "Spark forgets a cancel that comes between two jobs"
    assert (len(live(due)), ids(due)) == (8, list(range(8)))
    another = Coordinator(lake, LIMITS)
    another.start()  # the tables were given up: another server takes them, whatever the first one still does
    until(lambda: len(live(due)) == 1)
    goes_on.set()
    another.close()
    assert ids(due) == list(range(8))


def test_a_cancel_that_does_not_come_back_is_not_waited_for(lake: Lake, due: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    reached, goes_on = threading.Event(), threading.Event()
    monkeypatch.setattr("maintenance.runner._spark", _held(lambda _: goes_on.wait(240), reached))
    coordinator = Coordinator(lake, LIMITS, background=lambda _: contextlib.nullcontext())
    coordinator.start()
    assert reached.wait(60)
    begin = time.monotonic()
    coordinator.close(2.5, lambda _: _wait(goes_on))
    assert time.monotonic() - begin < 60.0
    goes_on.set()


def _wait(event: threading.Event) -> None:
    assert event.wait(240)


@pytest.mark.spark
def test_a_merge_on_spark_is_canceled(lake: Lake, due: LakeTable, pool: SparkPool, monkeypatch: pytest.MonkeyPatch) -> None:
    def sleeps(batches: Iterator[Any]) -> Iterator[Any]:
        time.sleep(600)
        yield from batches

    reached, ended = threading.Event(), threading.Event()

    def merge(session: Any) -> None:
        try:
            session.range(1).mapInArrow(sleeps, "id long").collect()
        finally:
            ended.set()

    @contextlib.contextmanager
    def background(name: str) -> Iterator[Any]:
        with pool.running(name, background=True):
            yield pool.session()

    monkeypatch.setattr("maintenance.runner._spark", _held(merge, reached))
    coordinator = Coordinator(lake, LIMITS, background=background)
    coordinator.start()
    assert reached.wait(60)
    time.sleep(2)
    begin = time.monotonic()
    coordinator.close(240.0, pool.cancel)
    assert time.monotonic() - begin < 200.0
    assert ended.is_set()
    assert (len(live(due)), ids(due)) == (8, list(range(8)))
