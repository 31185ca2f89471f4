"""Where streams begin and end (`paimon-append.md` §8.1 and 8.2), on a real catalog."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.access.callers import Caller
from lake.streams import snapshot_steps
from lake.streams.followers import Follower
from lake.streams.snapshot_steps import TICK_SECONDS, StreamStep
from lake.streams.streams import LEAST_DISCOVERY
from lake.tables.consumers import ConsumerProgress, forget_consumer
from model.errors import ConsumerTaken, InvalidOption, LakeError, OutcomeUnknown, SnapshotNotExist, Unavailable
from model.schema.schema import column, new_schema
from model.snapshot import CommitKind, Snapshot
from table.format.consumers import read_consumers
from table.format.io.file_io import LocalFileIO
from table.scan.stream import Cursor
from table.scan.stream_start import Past, start_of
from table.write.snapshot_builder import CommitRequest, everything
from tests.fix_postgres import ADVISORY_LOCKS
from tests.lake.test_commit import T, append
from tests.waiting import eventually


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    lake.create_table(T, new_schema([column("id", "BIGINT")], options={"bucket": "1", "bucket-key": "id"}))
    return lake.open(T)


SHAPE = Snapshot(
    id=0, uuid=None, schema_id=0, base_manifest_list="b", base_manifest_list_size=1, delta_manifest_list="d", delta_manifest_list_size=1,
    commit_user="u", commit_identifier=1, commit_kind=CommitKind.APPEND, time_millis=0, total_record_count=0, delta_record_count=0,
)  # fmt: skip


def past(*kinds: CommitKind, first: int = 3) -> Past:
    """Snapshots from an id on, each 10 ms after the one before, snapshot n at 10 n."""
    return Past(table="d.t", snapshots=[replace(SHAPE, id=n, commit_kind=kind, time_millis=10 * n) for n, kind in enumerate(kinds, first)])


A, C = CommitKind.APPEND, CommitKind.COMPACT
HISTORY = past(A, A, C, A)  # 3, 4, 5, 6


@pytest.mark.parametrize(
    ("options", "cursor"),
    [
        ({}, Cursor(next_snapshot_id=6, whole=True)),
        ({"scan.mode": "full"}, Cursor(next_snapshot_id=6, whole=True)),
        ({"scan.mode": "latest"}, Cursor(next_snapshot_id=7)),
        ({"scan.mode": "compacted-full"}, Cursor(next_snapshot_id=5, whole=True)),
        ({"scan.timestamp-millis": "35"}, Cursor(next_snapshot_id=4)),
        ({"scan.timestamp-millis": "40"}, Cursor(next_snapshot_id=4)),
        ({"scan.timestamp-millis": "1"}, Cursor(next_snapshot_id=3)),
        ({"scan.timestamp-millis": "99"}, Cursor(next_snapshot_id=7)),
        ({"scan.mode": "from-timestamp", "scan.timestamp": "1970-01-01 00:00:00.045"}, Cursor(next_snapshot_id=5)),
        ({"scan.snapshot-id": "4"}, Cursor(next_snapshot_id=4)),
        ({"scan.snapshot-id": "1"}, Cursor(next_snapshot_id=3)),
        ({"scan.snapshot-id": "9"}, Cursor(next_snapshot_id=9)),
        ({"scan.mode": "from-snapshot-full", "scan.snapshot-id": "4"}, Cursor(next_snapshot_id=4, whole=True)),
        ({"scan.file-creation-time-millis": "44"}, Cursor(next_snapshot_id=6, whole=True, created_since=44)),
        ({"scan.creation-time-millis": "44"}, Cursor(next_snapshot_id=5)),
        ({"scan.creation-time-millis": "5"}, Cursor(next_snapshot_id=6, whole=True, created_since=5)),
    ],
)
def test_where_each_mode_begins(options: dict[str, str], cursor: Cursor) -> None:
    assert start_of(HISTORY, options) == cursor


@pytest.mark.parametrize(("every", "begins"), [("1", 6), ("3", 4), ("4", 5), ("7", 7)])
def test_of_a_streaming_writers_compactions_each_nth_is_a_full_one(every: str, begins: int) -> None:
    snapshots = [replace(s, commit_identifier=n) for s, n in zip(past(A, C, C, C, A).snapshots, (2, 3, 8, 2, 5), strict=True)]
    options = {"scan.mode": "compacted-full", "full-compaction.delta-commits": every}
    assert start_of(Past(table="d.t", snapshots=snapshots), options) == Cursor(next_snapshot_id=begins, whole=True)
    by_hand = [*snapshots[:-1], replace(snapshots[-1], commit_kind=C, commit_identifier=2**63 - 1)]
    assert start_of(Past(table="d.t", snapshots=by_hand), options) == Cursor(next_snapshot_id=7, whole=True)


@pytest.mark.parametrize(
    ("options", "cursor"),
    [
        *(({"scan.mode": mode}, Cursor(next_snapshot_id=1, whole=True)) for mode in ("latest-full", "compacted-full", "default")),
        ({"scan.file-creation-time-millis": "44"}, Cursor(next_snapshot_id=1, whole=True, created_since=44)),
        ({"scan.creation-time-millis": "44"}, Cursor(next_snapshot_id=1, whole=True, created_since=44)),
        ({"scan.mode": "latest"}, Cursor(next_snapshot_id=1)),
        ({"scan.timestamp-millis": "44"}, Cursor(next_snapshot_id=1)),
    ],
)
def test_a_table_without_snapshots_is_read_from_its_first(options: dict[str, str], cursor: Cursor) -> None:
    assert start_of(past(), options) == cursor


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scan.mode": "from-snapshot"}, "needs the option"),
        ({"scan.mode": "from-timestamp"}, "needs the option"),
        ({"scan.mode": "latest", "scan.snapshot-id": "4"}, "does not go with"),
        ({"scan.mode": "from-timestamp", "scan.snapshot-id": "4"}, "does not go with"),
        ({"scan.snapshot-id": "4", "scan.timestamp-millis": "4"}, "two starting points"),
        ({"scan.mode": "latest-delta"}, "belongs to batch reads"),
        ({"scan.mode": "incremental", "incremental-between": "1,2"}, "belongs to batch reads"),
        ({"scan.tag-name": "x"}, "belongs to batch reads"),
        ({"scan.watermark": "1"}, "belongs to batch reads"),
        ({"scan.version": "1"}, "belongs to batch reads"),
        ({"scan.mode": "sometimes"}, "one of"),
    ],
)
def test_starts_that_contradict_themselves(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        start_of(HISTORY, options)


@given(st.lists(st.sampled_from([A, C]), max_size=8), st.integers(1, 5), st.integers(-10, 150))
def test_a_stream_by_time_misses_nothing_that_is_later(kinds: list[CommitKind], first: int, millis: int) -> None:
    history = past(*kinds, first=first)
    start = start_of(history, {"scan.timestamp-millis": str(millis)}).next_snapshot_id
    assert all((s.id >= start) == (s.time_millis >= millis) for s in history.snapshots)


def test_steps_follow_the_snapshots_and_end_at_the_watermark(lake: Lake, table: LakeTable) -> None:
    for number, watermark in enumerate((None, 100, 200, 300)):
        lake.commit(table, append(f"f{number}", watermark=watermark))
    lake.commit(table, CommitRequest(kind=CommitKind.OVERWRITE, overwrite=everything, commit_user="u"))
    stream = lake.follow(table, {"scan.snapshot-id": "1", "scan.bounded.watermark": "200"})
    steps = list(stream.steps())
    assert [[one.file.file_name for one in step.planned] for step in steps if step] == [["f0"], ["f1"], ["f2"]]
    whole = lake.follow(table, {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "4", "scan.bounded.watermark": "200"})
    (start,) = [step for step in whole.steps() if step]
    assert [one.file.file_name for one in start.planned] == ["f0", "f1", "f2", "f3"], "where it starts, all is read, as Paimon does"
    beyond = lake.follow(table, {"scan.mode": "from-snapshot", "scan.snapshot-id": "5", "scan.bounded.watermark": "200"})
    assert list(beyond.steps()) == []
    noted = lake.follow(table, {"scan.snapshot-id": "5", "scan.bounded.watermark": "200", "consumer-id": "c"})
    assert (list(noted.steps()), lake.consumers(table)) == ([], {"c": 5}), "else what follows under the name would begin with all rows"
    assert lake.catalog.notices.waiters == 0


@pytest.mark.parametrize(
    ("start", "built_on"),
    [({"scan.mode": "latest"}, 5), ({}, 5), ({"scan.timestamp-millis": str(2**50)}, 5), ({"scan.snapshot-id": "4"}, 3)],
    ids=str,
)  # fmt: skip
def test_a_stream_that_has_read_nothing_notices_a_rollback(lake: Lake, table: LakeTable, start: dict[str, str], built_on: int) -> None:
    """The ids of the snapshots that are no more are given to others, whose rows it would leave out."""
    for number in range(5):
        lake.commit(table, append(f"f{number}"))
    stream, consumers = lake.follow(table, start), lake.follow(table, start | {"consumer-id": "c"})
    lake.history.rollback_to_snapshot(table, 2)
    for number in range(4):
        lake.commit(table, append(f"g{number}"))
    for one in (stream, consumers):
        with pytest.raises(SnapshotNotExist, match=f"rolled back to before snapshot {built_on}"):
            next(one.steps())
    assert lake.consumers(table) == {}


def test_a_stream_goes_on_where_a_rollback_took_only_what_it_was_to_read(lake: Lake, table: LakeTable) -> None:
    for number in range(5):
        lake.commit(table, append(f"f{number}"))
    stream = lake.follow(table, {"scan.snapshot-id": "3"})
    waiting = lake.follow(table, {"scan.snapshot-id": "6"})  # for one that is not there yet
    ahead = lake.follow(table, {"scan.snapshot-id": "9"})
    lake.history.rollback_to_snapshot(table, 2)
    lake.commit(table, append("g"))
    steps = stream.steps()
    assert [[file.file.file_name for file in step.planned] for step in (next(steps),) if step] == [["g"]]
    assert next(ahead.steps()) is None
    with pytest.raises(SnapshotNotExist, match="rolled back to before snapshot 5, after which this stream goes on"):
        next(waiting.steps())
    for one in (stream, ahead):
        one.close()


@pytest.mark.parametrize("rolled_back", [False, True])
@pytest.mark.parametrize("start", [{"scan.mode": "latest"}, {}], ids=str)
def test_a_stream_that_begins_with_more_than_the_others_have_heard_of(
    lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch, start: dict[str, str], rolled_back: bool
) -> None:
    """Streams of a table share what they know of it, which a stream that begins later may be ahead of."""
    monkeypatch.setattr(Follower, "_heard", lambda follower: None)  # notices that are on their way for long
    lake.commit(table, append("f0"))
    lake.commit(table, append("f1"))
    other = lake.follow(table, {"scan.snapshot-id": "1"})
    others = other.steps()
    assert next(others) is not None
    if rolled_back:
        lake.history.rollback_to_snapshot(table, 1)
    lake.commit(table, append("f2"))
    stream = lake.follow(table, start)
    step = next(stream.steps())
    assert (step is None) == bool(start)
    if step is not None:
        assert [file.file.file_name for file in step.planned] == ["f0", *["f1"] * (not rolled_back), "f2"]
    for one in (stream, other):
        one.close()


def test_one_caller_does_not_take_all_places_of_those_who_wait(lake: Lake, table: LakeTable) -> None:
    lake.commit(table, append("f0"))
    stopping, left = threading.Event(), threading.Event()
    ann, bob = (lake.for_caller(Caller(principal=name, administrator=True)) for name in ("ann", "bob"))

    def wait(of: Lake) -> None:
        of.wait_beyond(table, 1, 60, most_waiters=4, stopping=stopping.is_set)
        left.set()

    def waiting(count: int) -> None:
        assert eventually(lambda: lake.catalog.notices.waiters == count, pause=0.01)

    with ThreadPoolExecutor(8) as threads:
        try:
            for count in (1, 2):
                threads.submit(wait, ann)
                waiting(count)
            wait(ann)
            assert lake.catalog.notices.waiters == 2, "it was answered at once"
            left.clear()
            threads.submit(wait, bob)
            waiting(3)
            assert not left.is_set()
            tails = [lake.catalog.notices.subscribe(table.table_id, f"b{number}", lambda: None) for number in range(5)]
            assert not left.wait(2 * TICK_SECONDS), "tables that tails follow take no places of requests"
            for end in tails:
                end()
        finally:
            stopping.set()
    stopping.clear()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(wait, ann)
        waiting(1)
        stopping.set()


def test_a_stream_that_looks_for_news_without_a_pause_makes_one(lake: Lake, table: LakeTable) -> None:
    lake.commit(table, append("f0"))
    with contextlib.closing(lake.follow(table, {"continuous.discovery-interval": "0 ms"})) as stream:
        assert stream._rules.discovery == LEAST_DISCOVERY


@pytest.mark.parametrize("problem", [Unavailable, OutcomeUnknown])
def test_a_stream_goes_on_while_its_progress_cannot_be_noted(
    lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch, problem: type[LakeError]
) -> None:
    away, asked, told = True, [], ConsumerProgress.tell

    def tell(self: ConsumerProgress, *arguments: Any, **more: Any) -> None:
        asked.append(arguments)
        if away:
            raise problem("It is away.")
        told(self, *arguments, **more)

    def next_file() -> str:
        step = next(step for step in steps if step)
        return step.planned[0].file.file_name

    monkeypatch.setattr(snapshot_steps, "SETTLED_SECONDS", 0.05)
    monkeypatch.setattr(snapshot_steps, "TICK_SECONDS", 0.05)
    monkeypatch.setattr(ConsumerProgress, "tell", tell)
    for number in range(3):
        lake.commit(table, append(f"f{number}"))
    steps = lake.follow(table, {"scan.snapshot-id": "1", "consumer-id": "c"}).steps()
    assert [next_file(), next_file(), next_file()] == ["f0", "f1", "f2"]
    for _ in range(10):
        next(steps)
    assert len(asked) > 2
    assert "c" not in lake.consumers(table)
    away = False
    assert eventually(lambda: next(steps) is None and lake.consumers(table).get("c") == 4, pause=0)
    monkeypatch.setattr(snapshot_steps, "_PATIENCE_SECONDS", 0.2)
    away = True
    lake.commit(table, append("f3"))
    with pytest.raises(problem, match="It is away"):
        list(steps)


def test_a_newer_stream_of_a_consumer_ends_an_idle_older_one(lake: Lake, table: LakeTable) -> None:
    """At once, or before it is given the next commit, where the newer one is another server's."""
    options = {"scan.snapshot-id": "1", "consumer-id": "c", "continuous.discovery-interval": "1 h"}
    given: list[str] = []

    def read_all(steps: Iterator[StreamStep | None]) -> None:
        for step in steps:
            given.extend([] if step is None else [step.planned[0].file.file_name])

    def idle_at(steps: Iterator[StreamStep | None], following: int) -> bool:
        return eventually(lambda: next(steps) is None and lake.consumers(table) == {"c": following}, pause=0)

    lake.commit(table, append("f0"))
    older = lake.follow(table, options).steps()
    assert idle_at(older, 2)
    ConsumerProgress.take(lake.catalog, table, "c")
    lake.commit(table, append("f1"))
    with pytest.raises(ConsumerTaken):
        read_all(older)
    second = lake.follow(table, options).steps()
    assert idle_at(second, 3)
    with contextlib.closing(lake.follow(table, options)), pytest.raises(ConsumerTaken):
        read_all(second)
    assert given == []


def test_a_consumer_whose_next_snapshot_expired_is_told_what_is_there(
    lake: Lake,
    table: LakeTable,
    catalog: CatalogStore,
    dsn: str,
) -> None:
    for number in range(4):
        lake.commit(table, append(f"f{number}"))
    lake.reset_consumer(table, "late", 1)
    running = lake.follow(table, {"scan.snapshot-id": "1"}).steps()
    with psycopg.connect(dsn, autocommit=True) as conn:  # what an expiry does to the catalog
        conn.execute("DELETE FROM table_snapshot WHERE snapshot_id < 3")
    with pytest.raises(SnapshotNotExist, match="which has expired; the snapshots 3 to 4 are there"):
        lake.follow(table, {"consumer-id": "late"})
    with pytest.raises(SnapshotNotExist, match="would go on at snapshot 1, which has expired"):
        next(running)
    with pytest.raises(LakeError, match="name"):
        lake.follow(table, {"consumer-id": "../x"})


def test_progress_that_a_crash_left_out_of_the_file_counts(lake: Lake, table: LakeTable, catalog: CatalogStore, dsn: str) -> None:
    progress, stored = ConsumerProgress.take(catalog, table, "c")
    assert stored is None
    progress.tell(table, 5)
    path = table.files.layout.consumer_file("c")
    before = table.files.io.read(path)
    progress.tell(table, 6)
    with psycopg.connect(dsn, autocommit=True) as conn:  # a server of before decided it, and has neither filed nor noted it
        conn.execute("UPDATE stream_consumer SET next_snapshot = 7")
    assert ConsumerProgress.take(catalog, table, "c")[1] == 7
    table.files.io.write(path, before)  # somebody else went back
    assert ConsumerProgress.take(catalog, table, "c")[1] == 5
    table.files.io.delete(path)
    assert ConsumerProgress.take(catalog, table, "c")[1] is None


class HeldIO(LocalFileIO):
    """A local disk on which the consumers' files wait to be written for as long as they are held."""

    def __init__(self) -> None:
        super().__init__()
        self.free, self.reached = threading.Event(), threading.Event()
        self.free.set()

    def write(self, path: str, data: bytes) -> None:
        if "/consumer/" in path and not self.free.is_set():
            self.reached.set()
            assert self.free.wait(120)
        super().write(path, data)


@pytest.mark.parametrize(
    ("change", "after"),
    [
        (lambda lake, table: lake.reset_consumer(table, "c", 2), {"c": 2}),
        (lambda lake, table: lake.forget_consumer(table, "c"), {}),
        (lambda lake, table: ConsumerProgress.take(lake.catalog, table, "c")[0].tell(table, 3), {"c": 3}),
    ],
    ids=["reset", "forgotten", "taken over"],
)
def test_what_a_stream_files_late_undoes_nothing(
    catalog: CatalogStore, warehouse: Path, dsn: str, change: Callable[[Lake, LakeTable], None], after: dict[str, int]
) -> None:
    disk = HeldIO()
    with contextlib.closing(Lake(catalog, str(warehouse), file_io=disk)) as lake, ThreadPoolExecutor(2) as pool:
        lake.create_table(T, new_schema([column("id", "BIGINT")], options={"bucket": "1", "bucket-key": "id"}))
        table = lake.open(T)
        progress, _ = ConsumerProgress.take(catalog, table, "c")
        progress.tell(table, 5)
        disk.free.clear()
        late = pool.submit(progress.tell, table, 6)
        try:
            assert disk.reached.wait(60)
            changed = pool.submit(change, lake, table)
            with psycopg.connect(dsn, autocommit=True) as conn:
                waiting = f"SELECT count(*) {ADVISORY_LOCKS} AND NOT granted"
                assert eventually(lambda: changed.done() or conn.execute(waiting).fetchone() == (1,), pause=0.01)
        finally:
            disk.free.set()
        late.result(60)
        changed.result(60)
        assert lake.consumers(table) == after
        with pytest.raises(ConsumerTaken):
            progress.tell(table, 7)
        assert lake.consumers(table) == after


def test_an_expiry_leaves_a_consumer_that_told_something_meanwhile(lake: Lake, table: LakeTable, catalog: CatalogStore) -> None:
    progress, _ = ConsumerProgress.take(catalog, table, "c")
    progress.tell(table, 5)
    (told,) = read_consumers(table.files)
    assert not forget_consumer(catalog, table, "c", told_before=told.updated_millis)
    progress.tell(table, 6)
    assert forget_consumer(catalog, table, "c", told_before=read_consumers(table.files)[0].updated_millis + 1)
    assert lake.consumers(table) == {}
