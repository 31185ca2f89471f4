"""The sink where answers are lost, or come late: each row lands once, and no file goes that may be the table's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lake import Lake
from lake.commit.publish import Publisher
from model.errors import BadRequest, OutcomeUnknown, Unavailable
from model.schema.schema import column, new_schema
from pyspark_sluice import catalog
from table.format.io import durability
from tests.server.streams.between import Between, Loss, Plan
from tests.server.streams.between import between as between
from tests.server.streams.test_spark_sink import files_of, held, source_to, three
from tests.server.streams.test_spark_source import T, append
from tests.server.streams.test_spark_source import lake as lake
from tests.server.streams.test_spark_source import queue as queue

ROWS = [(0, 7), (1, 7), (2, 7)]
LOSSES: list[Loss] = ["before", "after", (502, "after"), (503, "before")]


class Write:
    """A batch write, or a micro-batch, as Spark makes it: whatever the commit raises is followed by an abort."""

    def __init__(self, url: str, *, streaming: bool, overwrite: bool = False, name: str = "query") -> None:
        self._source, self._shape = source_to(url, **({"commitUser": name} if streaming else {}))
        self._streaming, self._overwrite = streaming, overwrite
        self._batch = None if streaming else self._source.writer(self._shape, overwrite)

    def writer(self) -> Any:
        """The one a step of Spark's calls: of a stream each step makes it anew."""
        return self._batch or self._source.streamWriter(self._shape, self._overwrite)

    def run(self) -> None:
        number = (0,) if self._streaming else ()
        messages: list[Any] = [self.writer().write(three(7))]
        try:
            self.writer().commit(messages, *number)
        except BaseException:
            self.writer().abort(messages, *number)
            raise


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "PATIENCE_SECONDS", 0.3)


KINDS = pytest.mark.parametrize("streaming", [False, True], ids=["batch", "stream"])
MODES = pytest.mark.parametrize("overwrite", [False, True], ids=["append", "overwrite"])


def of_commits(loss: Loss, times: int = 1_000_000) -> Plan:
    """So many answers to commits are lost."""
    left = [times]

    def plan(number: int, line: str) -> Loss | None:
        if not line.endswith("/commit") or not left[0]:
            return None
        left[0] -= 1
        return loss

    return plan


@pytest.mark.parametrize("all_ways", [pytest.param(False, id="short"), pytest.param(True, id="whole", marks=pytest.mark.torture)])
@KINDS
@MODES
def test_whatever_answer_is_lost_the_rows_land_once(
    between: Between, queue: Lake, streaming: bool, overwrite: bool, all_ways: bool
) -> None:
    """Each answer is lost in turn, in one way or in all of them."""
    rows = held(queue)

    def written(name: str, plan: Plan) -> None:
        nonlocal rows
        write = Write(between.url, streaming=streaming, overwrite=overwrite, name=name)
        between.plan(plan)
        write.run()
        rows = ROWS if overwrite else [*rows, *ROWS]
        assert held(queue) == rows, (name, between.seen)

    written("first", lambda number, line: None)
    assert between.seen[-1].endswith("/commit")
    for lost in range(len(between.seen)):
        for loss in LOSSES if all_ways else LOSSES[lost % len(LOSSES) :][:1]:
            written(f"{loss} {lost}", lambda number, line: loss if number == lost else None)  # noqa: B023 - called at once


@KINDS
@MODES
def test_others_go_on_while_the_answer_is_lost(between: Between, queue: Lake, streaming: bool, overwrite: bool) -> None:
    before = held(queue)
    write = Write(between.url, streaming=streaming, overwrite=overwrite)
    between.plan(of_commits("after", 1))
    between.then = lambda line: append(queue, 9)
    write.run()
    assert held(queue) == [*([] if overwrite else before), *ROWS, (0, 9), (1, 9), (2, 9)]


@KINDS
@MODES
@pytest.mark.usefixtures("impatient")
def test_whoever_gives_up_leaves_the_files(between: Between, queue: Lake, streaming: bool, overwrite: bool) -> None:
    before = held(queue)
    write = Write(between.url, streaming=streaming, overwrite=overwrite)
    between.plan(of_commits("after"))
    with pytest.raises(OutcomeUnknown, match="its files stay"):
        write.run()
    rows = [*([] if overwrite else before), *ROWS]
    assert held(queue) == rows
    between.plan(lambda number, line: None)
    if streaming:  # which Spark repeats
        left = files_of(queue)
        write.run()
        assert (held(queue), files_of(queue)) == (rows, left)


@KINDS
@pytest.mark.usefixtures("impatient")
def test_what_was_never_sent_goes(between: Between, queue: Lake, streaming: bool) -> None:
    write = Write(between.url, streaming=streaming)
    left = files_of(queue)
    between.plan(lambda number, line: "before" if line.endswith("/snapshots/LATEST") else None)
    with pytest.raises(Unavailable, match="does not answer"):
        write.run()
    assert files_of(queue) == left


@KINDS
def test_what_is_refused_goes(between: Between, queue: Lake, streaming: bool) -> None:
    write = Write(between.url, streaming=streaming)
    left = files_of(queue)
    between.plan(of_commits((400, "before")))
    with pytest.raises(BadRequest):
        write.run()
    assert files_of(queue) == left


@KINDS
def test_a_refusal_after_a_lost_answer_leaves_the_files(between: Between, queue: Lake, streaming: bool) -> None:
    """The first attempt may have landed, whatever the next one is told."""
    rows = [*held(queue), *ROWS]
    write = Write(between.url, streaming=streaming)
    lost, refused = of_commits("after", 1), of_commits((400, "before"))
    between.plan(lambda number, line: lost(number, line) or refused(number, line))
    with pytest.raises(OutcomeUnknown):
        write.run()
    assert held(queue) == rows


@KINDS
def test_a_snapshot_whose_file_follows_later_is_no_repeat(
    between: Between, queue: Lake, streaming: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> None:
        raise OSError("the store is away")

    rows = [*held(queue), *ROWS]
    monkeypatch.setattr(Publisher, "publish_next", full)
    Write(between.url, streaming=streaming).run()
    monkeypatch.undo()
    assert held(queue) == rows


@KINDS
def test_an_abort_removes_what_was_written_only_where_a_task_has_failed(url: str, queue: Lake, streaming: bool) -> None:
    """Spark aborts after each failed commit, too, in a process that knows nothing of it."""
    write = Write(url, streaming=streaming)
    left = files_of(queue)
    number = (0,) if streaming else ()
    messages: list[Any] = [write.writer().write(three(7))]
    write.writer().abort(messages, *number)
    assert len(files_of(queue)) > len(left)
    write.writer().abort([*messages, None], *number)
    assert files_of(queue) == left


@KINDS
def test_all_files_are_on_disk_before_the_server_is_told(
    between: Between, lake: Lake, streaming: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server flushes no files of its clients: a power cut after its answer would leave a table that names empty files."""
    columns = [column("id", "BIGINT"), column("n", "INT")]
    indexed = {"file-index.bloom-filter.columns": "id", "file-index.in-manifest-threshold": "1 b"}
    lake.create_table(T, new_schema(columns, options={"bucket": "1", "bucket-key": "id"} | indexed))
    place = Path(lake.open(T).location)
    flushed: set[str] = set()
    flush = durability.flush

    def noted(handle: int) -> None:
        flush(handle)
        flushed.add(os.readlink(f"/proc/self/fd/{handle}"))

    def unflushed() -> set[str]:
        below = {str(path) for path in place.rglob("*")}
        return {path for path in below if path not in flushed and "/schema" not in path and "/snapshot" not in path}

    found: list[set[str]] = []
    monkeypatch.setattr(durability, "flush", noted)
    between.plan(lambda number, line: found.append(unflushed()) if line.endswith("/commit") else None)
    Write(between.url, streaming=streaming).run()
    assert found == [set()]
    assert held(lake) == ROWS
    assert [path for path in flushed if path.endswith(".index")]
