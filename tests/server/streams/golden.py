"""Histories of tables for the golden suites: their snapshots made one by one, and the streams that are asked of them."""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import httpx
import pyarrow as pa
import pytest

from lake import Lake
from lake.rewrite.compaction import compact, live_files, plan
from lake.rewrite.rescale import outgrown, rescale
from model.identifier import Identifier
from model.schema.change import SetOption
from model.snapshot import CommitKind
from table.write.snapshot_builder import everything
from table.write.writer import write_batches
from tests.server.golden_model import DELAY, SHOWN, Expected, History, Row, Step, seconds

T = Identifier("default", "golden")
_ALONE = "'write-only' = 'true'"
"""The history is made here alone: a server's own compaction would be one more snapshot, at which 'compacted-full' starts."""
LAYOUTS = {
    "a queue": f"WITH ('bucket' = '1', 'bucket-key' = 'k', {_ALONE})",
    "buckets": f"WITH ('bucket' = '3', 'bucket-key' = 'k', {_ALONE})",
    "no buckets": f"WITH ('bucket' = '-1', 'compaction.min.file-num' = '2', {_ALONE})",
    "queues of partitions": f"PARTITIONED BY (p) WITH ('bucket' = '1', 'bucket-key' = 'k', {_ALONE})",
    "buckets of partitions": f"PARTITIONED BY (p) WITH ('bucket' = '3', 'bucket-key' = 'k', {_ALONE})",
    "partitions without buckets": f"PARTITIONED BY (p) WITH ('bucket' = '-1', 'compaction.min.file-num' = '2', {_ALONE})",
}
SENTINEL = (-1, 0, 0)
"""The row that is committed last of all, by which it is known how far streams without an end are."""
START = dt.datetime(2024, 1, 1)
"""The event time of a row of second 0."""
BOUNDS = (500, 2500, 3500, 4999)


class Made:
    """A table whose snapshots are made one by one, and what is known of each."""

    def __init__(self, lake: Lake, table: Identifier = T, *, timed: bool = False) -> None:
        self._lake = lake
        self._table = table
        self._timed = timed
        self._next = 0
        self._since = 0
        self.steps: list[Step] = []

    def rows(self, count: int) -> tuple[Row, ...]:
        found = tuple((n, n % 4, n % 2) for n in range(self._next, self._next + count))
        self._next += count
        return found

    def put(self, rows: Sequence[Row], watermark: int | None, kind: CommitKind = CommitKind.APPEND) -> None:
        table = self._lake.open(self._table)
        more: dict[str, Any] = {"overwrite": everything} if kind is CommitKind.OVERWRITE else {}
        self._tick()
        before = _millis()
        with table.write() as write:
            write.add(write_batches(table.files, table.schema, [self._batch(rows)]))
            self._lake.commit(table, write.request(kind, commit_user=str(uuid4()), watermark=watermark, **more))
        held = (*self.steps[-1].held, *rows) if self.steps and kind is CommitKind.APPEND else tuple(rows)
        self._since = self._since if self.steps and kind is CommitKind.APPEND else before
        self._note(kind, tuple(rows), held)

    def merge(self) -> None:
        self._tick()
        done = compact(self._lake.commit, self._lake.open(self._table), plan(self._lake.open(self._table), full=True))
        assert len(done.snapshots) == 1
        self._note(CommitKind.COMPACT, (), self.steps[-1].held)

    def roll_back(self, last: int) -> None:
        """What `CALL sys.rollback_to` does: no snapshot after that one is there any more."""
        self._lake.history.rollback_to_snapshot(self._lake.open(self._table), last)
        self.steps = [step for step in self.steps if step.id <= last]

    def known_whole(self) -> bool:
        """Whether nobody else has written to the table, so that the model knows all its snapshots."""
        latest = self._lake.open(self._table).latest()
        return latest is not None and latest.id == self.steps[-1].id

    def rescale(self, buckets: int) -> None:
        """Give the table another number of buckets, and write its partitions anew, each as one commit."""
        self._lake.alter_table(self._table, [SetOption(key="bucket", value=str(buckets))])
        table = self._lake.open(self._table)
        self._tick()
        before = _millis()
        for partition in outgrown(table, table.latest()):
            rescale(self._lake, table, partition, check=lambda: None)
            self._note(CommitKind.OVERWRITE, (), self.steps[-1].held, in_place=True)
            self._tick()
        self._since = before

    def sort(self) -> None:
        """What `CALL sys.compact(…, order_strategy => 'order')` commits, whose sorting needs Spark: the same rows in other files."""
        table = self._lake.open(self._table)
        held = sorted(self.steps[-1].held, reverse=True)
        self._tick()
        before = _millis()
        with table.write() as write:
            write.add(write_batches(table.files, table.schema, [self._batch(held)]))
            request = write.request(CommitKind.OVERWRITE, deletes=tuple(live_files(table)), operation="COMPACT")
            self._lake.commit(table, request)
        self._note(CommitKind.OVERWRITE, (), tuple(held), in_place=True)
        self._since = before

    def _note(self, kind: CommitKind, added: tuple[Row, ...], held: tuple[Row, ...], *, in_place: bool = False) -> None:
        latest = self._lake.open(self._table).latest()
        assert latest is not None
        assert latest.commit_kind is kind
        step = Step(
            id=latest.id, kind=kind.value, millis=latest.time_millis, watermark=latest.watermark or 0, added=added, held=held,
            newest_files_since=self._since, in_place=in_place,
        )  # fmt: skip
        self.steps.append(step)

    def _batch(self, rows: Sequence[Row]) -> pa.RecordBatch:
        fields = [("id", pa.int64()), ("k", pa.int32()), ("p", pa.int32())]
        values: list[dict[str, Any]] = [dict(zip(("id", "k", "p"), row, strict=True)) for row in rows]
        if self._timed:
            fields.append(("ts", pa.timestamp("ms")))
            values = [value | {"ts": START + dt.timedelta(seconds=seconds(row))} for value, row in zip(values, rows, strict=True)]
        return pa.RecordBatch.from_pylist(values, schema=pa.schema(fields))

    @staticmethod
    def _tick() -> None:
        """Snapshots are told apart by their milliseconds."""
        begin = _millis()
        while _millis() < begin + 2:
            time.sleep(0.001)


def _millis() -> int:
    return time.time_ns() // 1_000_000


def ask(url: str, text: str) -> None:
    answer = httpx.post(f"{url}/sql", content=text.encode(), timeout=60)
    assert answer.status_code == 200, answer.text


def history(lake: Lake, url: str, layout: str, table: Identifier = T, *, timed: bool = False) -> Made:
    made = empty(lake, url, layout, table, timed=timed)
    made.put(made.rows(8), 1000)
    grown(made, layout)
    ask(url, f"CALL sys.expire_snapshots('{table}', retain_max => {len(made.steps) - 1}, retain_min => 1)")
    made.steps = made.steps[1:]
    return made


def empty(lake: Lake, url: str, layout: str, table: Identifier = T, *, timed: bool = False) -> Made:
    """A table without a snapshot; ``timed``: with event time, of which `golden_model.seconds` knows."""
    time_column = ", ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND" if timed else ""
    ask(url, f"CREATE TABLE {table} (id BIGINT, k INT, p INT{time_column}) {LAYOUTS[layout]}")
    return Made(lake, table, timed=timed)


def grown(made: Made, layout: str) -> None:
    """All that comes after a first snapshot: every kind of them."""
    made.put(made.rows(8), 2000)
    made.put(made.rows(8), 2500)
    made.merge()
    made.put(made.rows(5), 3000)
    if ordered(layout):
        made.rescale(2)
    else:
        made.sort()
    made.put(made.rows(6), 4000, CommitKind.OVERWRITE)
    made.put(made.rows(7), 5000)


EVERY_EMPTY = pytest.mark.parametrize("one_in", [pytest.param(3, id="short"), pytest.param(1, id="whole", marks=pytest.mark.torture)])


def empty_starts(layout: str, one_in: int) -> list[dict[str, str]]:
    """One in so many of the starts on a table without a snapshot, with a bound and without, with what an OVERWRITE writes and without."""
    starts: list[dict[str, str]] = [{}] + [{"scan.mode": mode} for mode in ("full", "latest", "compacted-full")]
    starts += [{"scan.mode": mode, "scan.snapshot-id": "1"} for mode in ("from-snapshot", "from-snapshot-full")]
    keys = {
        "from-timestamp": "scan.timestamp-millis",
        "from-creation-timestamp": "scan.creation-time-millis",
        "from-file-creation-time": "scan.file-creation-time-millis",
    }
    starts += [{"scan.mode": mode, key: "1"} for mode, key in keys.items()]
    modes: tuple[dict[str, str], ...] = ({}, {SHOWN: "true"})
    every = [start | bound | mode for start in starts for bound in ({}, {"scan.bounded.watermark": "2500"}) for mode in modes]
    return every[list(LAYOUTS).index(layout) % one_in :: one_in]


def starts(made: Made) -> list[dict[str, str]]:
    first, last = made.steps[0], made.steps[-1]
    found = [{"scan.mode": mode} for mode in ("latest-full", "full", "latest", "compacted-full")] + [{}]
    for id_ in range(1, last.id + 1):
        found += [{"scan.mode": mode, "scan.snapshot-id": str(id_)} for mode in ("from-snapshot", "from-snapshot-full")]
    times = [at for step in made.steps for at in (step.millis, step.millis + 1)]
    found += [{"scan.mode": "from-timestamp", "scan.timestamp-millis": str(at)} for at in (first.millis - 1, *times)]
    found += [{"scan.mode": "from-creation-timestamp", "scan.creation-time-millis": str(at)} for at in (first.millis, *times[1:])]
    for at in (first.millis, last.newest_files_since, last.millis + 1):
        found.append({"scan.mode": "from-file-creation-time", "scan.file-creation-time-millis": str(at)})
    return found


def hint(options: dict[str, str]) -> str:
    return f"/*+ OPTIONS({', '.join(f'{key!r} = {value!r}' for key, value in options.items())}) */" if options else ""


def ordered(layout: str) -> bool:
    """Whether rows of one key and partition come as they were written."""
    return "no buckets" not in layout and "without" not in layout


def streams(made: Made, layout: str, *, one_in: int) -> list[tuple[dict[str, str], Expected]]:
    """One in so many of all starts, bounds and modes, others with each layout, and what the model says of each."""
    model = History(made.steps)
    modes: tuple[dict[str, str], ...] = ({}, {SHOWN: "true"})
    bounds: list[dict[str, str]] = [{}, *({"scan.bounded.watermark": str(at)} for at in BOUNDS)]
    every = [start | bound | mode for start in starts(made) for bound in bounds for mode in modes]
    chosen = every[list(LAYOUTS).index(layout) % one_in :: one_in]
    return [(options, model.stream(options)) for options in chosen]


def delayed(made: Made, layout: str, *, one_in: int) -> list[tuple[dict[str, str], Expected]]:
    """Streams that hold back snapshots until they are an hour old: what the model says of each."""
    model = History(made.steps)
    return [(held := options | {DELAY: "1 h"}, model.stream(held)) for options, _ in streams(made, layout, one_in=one_in)]


def agree(found: Sequence[Row], expected: Expected, layout: str, told: object) -> None:
    """The rows of each snapshot come together, and those of one key and partition as they were written, where there are buckets."""
    at = 0
    for part in expected.parts:
        rows = found[at : at + len(part)]
        assert Counter(rows) == Counter(part), (told, found, expected)
        if ordered(layout):
            for place in {row[1:] for row in part}:
                assert [row for row in rows if row[1:] == place] == [row for row in part if row[1:] == place], (told, place)
        at += len(part)
    assert at == len(found), (told, found, expected)


def agree_by_place(found: Sequence[Row], expected: Expected, layout: str, told: object) -> None:
    """All rows come, and those of one key and partition in the order of their snapshots and as they were written, where there are buckets.

    Micro-batches may hold several snapshots, of which each bucket's rows come together.
    """
    wanted = [row for part in expected.parts for row in part]
    assert Counter(found) == Counter(wanted), (told, found, expected)
    if ordered(layout):
        for place in {row[1:] for row in wanted}:
            assert [row for row in found if row[1:] == place] == [row for row in wanted if row[1:] == place], (told, place)
