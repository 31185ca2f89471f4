"""The Spark source without Spark, read as a stream: its planner and its tasks as Spark calls them, on a real server over HTTP."""

from __future__ import annotations

import json
import os
import pickle
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from gateway.gateway import Gateway
from lake import Lake
from lake.rewrite.compaction import compact, plan
from lake.rewrite.expiry import expire_snapshots
from model.errors import Forbidden, InvalidOption, LakeError, NotAuthorized, SnapshotNotExist, StreamChanged
from model.identifier import Identifier
from model.predicate import And, Compare, In, IsNull, Op, Or
from model.schema.change import AddColumn, RenameColumn, SchemaChange, SetOption, UpdateColumnType
from model.schema.schema import column, new_schema
from model.schema.types import parse_type
from model.snapshot import CommitKind
from pyspark_sluice import history
from pyspark_sluice.pieces import Split
from pyspark_sluice.position import Position
from pyspark_sluice.pushed import predicate_of, predicate_text
from pyspark_sluice.source import DefaultSource
from pyspark_sluice.stream import StreamReader
from table.retention.expiry import ExpiryRules
from table.scan.planning.entry_scan import PlannedFile, plan_scan
from table.scan.read import read_batches
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches
from tests.waiting import eventually

T = Identifier("default", "t")
SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261121"))
BUCKETS = 8
KEYS = 24
"""Ids of each commit's rows: enough for every bucket to get some."""


@pytest.fixture
def lake(gateway: Gateway) -> Lake:
    return gateway.lake


STARTED: list[StreamReader] = []


@pytest.fixture(autouse=True)
def stopped() -> Iterator[None]:
    """Stops every reader of a test and holds that its thread ends, also where the server has gone; those of other tests go on."""
    before = set(threading.enumerate())
    yield
    while STARTED:
        STARTED.pop().stop()
    own = [thread for thread in threading.enumerate() if thread not in before and thread.name == "sluice-listen"]
    assert eventually(lambda: not any(thread.is_alive() for thread in own), seconds=60), "a reader that was stopped listens still"


def reader_of(url: str, **options: str) -> StreamReader:
    """A planner as Spark starts one, in a process of its own."""
    given = {"uri": url, "path": "default.t"} | {key.replace("_", "."): value for key, value in options.items()}
    source = DefaultSource(given)
    schema = source.schema()
    reader: StreamReader = pickle.loads(pickle.dumps(source)).streamReader(schema)
    STARTED.append(reader)
    return reader


def numbered(lake: Lake, writer: int, number: int) -> None:
    """One commit: a row for each key, with the writer and its commit's number."""
    table = lake.open(T)
    names = table.schema.field_names
    rows = {"id": range(KEYS), names[1]: [writer] * KEYS, names[2]: [number] * KEYS}
    fields = {field.name: field for field in table.schema.fields}
    kinds = {"id": pa.int64(), names[1]: pa.int32(), names[2]: pa.int32()}
    columns = [pa.array(list(rows[name]), kinds[name]) if name in rows else pa.nulls(KEYS, pa.string()) for name in fields]
    batch = pa.RecordBatch.from_arrays(columns, names=list(fields))
    adds = tuple(write_batches(table.files, table.schema, [batch]))
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=adds, commit_user=f"w{writer}"))


class Driver:
    """What Spark does with a source: it logs how far a batch goes, runs it, and after a crash runs the logged batch again."""

    def __init__(self, url: str, moments: random.Random) -> None:
        self._url = url
        self._moments = moments
        self.rows: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        self.kills = 0
        self._reader = self._started()
        self.offset = self._reader.initialOffset()

    def _started(self) -> StreamReader:
        """Micro-batches of odd sizes, so that they end inside snapshots and files."""
        limit = self._moments.choice([{"maxRowsPerTrigger": "37"}, {"maxFilesPerTrigger": "5"}, {"maxBytesPerTrigger": "20 kb"}, {}])
        return reader_of(self._url, columns='["id", "writer", "number"]', scan_mode="from-snapshot", **{"scan_snapshot-id": "1"}, **limit)

    def kill(self) -> None:
        self._reader.stop()
        self._reader = self._started()
        self.kills += 1

    def batch(self, *, kills: bool) -> bool:
        """One micro-batch, perhaps with a crash on the way; False where there was nothing new."""
        end = json.loads(json.dumps(self._reader.latestOffset(self.offset, self._reader.getDefaultReadLimit())))
        if end == self.offset:
            return False
        found = self._read(end)
        if kills and self._moments.random() < 0.3:
            self.kill()
            assert self._read(end) == found, "a logged batch gave other rows when it was repeated"
        for bucket, rows in found.items():
            self.rows[bucket] += rows
        self._reader.commit(end)
        self.offset = end
        return True

    def _read(self, end: dict[str, Any]) -> dict[int, list[tuple[int, int, int]]]:
        found: dict[int, list[tuple[int, int, int]]] = {}
        for split in self._reader.partitions(self.offset, end):
            assert isinstance(split, Split)
            (bucket,) = {piece.planned.bucket for piece in split.pieces}
            assert bucket not in found, "a bucket was given to two tasks"
            task = pickle.loads(pickle.dumps((self._reader, split)))
            found[bucket] = [row for batch in task[0].read(task[1]) for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)]
        return found


def order_campaign(url: str, lake: Lake, *, writers: int, commits: int, kills: int) -> None:
    """Writers number their rows, compaction goes on, the schema changes twice; the stream is killed and resumed."""
    options = {"bucket": str(BUCKETS), "bucket-key": "id", "compaction.min.file-num": "5"}
    lake.create_table(T, new_schema([column("id", "BIGINT"), column("writer", "INT"), column("number", "INT")], options=options))
    over = threading.Event()
    done = [0]

    def write(writer: int) -> None:
        for number in range(commits):
            numbered(lake, writer, number)
            done[0] += 1

    def disturb() -> None:
        changes: list[SchemaChange] = [AddColumn(name="extra", type=parse_type("STRING")), RenameColumn(name="extra", to="other")]
        while not over.wait(0.05):
            if changes and done[0] > (3 - len(changes)) * writers * commits // 3:
                lake.alter_table(T, [changes.pop(0)])
            table = lake.open(T)
            compact(lake.commit, table, plan(table, full=False))
        for change in changes:  # where the writers were faster
            lake.alter_table(T, [change])

    driver = Driver(url, random.Random(SEED))
    with ThreadPoolExecutor(writers + 1) as threads:
        writing = [threads.submit(write, number) for number in range(writers)]
        disturbing = threads.submit(disturb)
        while not all(future.done() for future in writing):
            driver.batch(kills=driver.kills < kills)
        over.set()
        for future in (*writing, disturbing):
            future.result()
    while driver.kills < kills:
        driver.kill()
    while driver.batch(kills=False):
        pass
    table = lake.open(T)
    assert any(s.commit_kind is CommitKind.COMPACT for s in lake.history.page(table, below=None, limit=100_000))
    held: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for planned in plan_scan(table.files, table.schema, table.latest()).files:
        for batch in read_batches(table.files, table.schema, [planned]):
            held[planned.bucket] += zip(*(batch.column(at).to_pylist() for at in range(3)), strict=True)
    assert len(held) == BUCKETS
    assert sum(map(len, held.values())) == writers * commits * KEYS
    for bucket, rows in held.items():
        assert driver.rows[bucket] == rows, f"bucket {bucket} came in another order than it was written"


def test_each_bucket_comes_in_write_order_whatever_happens(url: str, lake: Lake) -> None:
    order_campaign(url, lake, writers=4, commits=15, kills=8)


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_eight_thousand_commits_and_thirty_kills(url: str, lake: Lake) -> None:
    order_campaign(url, lake, writers=8, commits=1000, kills=30)


@pytest.fixture
def queue(lake: Lake) -> Lake:
    """Three commits of three rows each to one bucket."""
    lake.create_table(T, new_schema([column("id", "BIGINT"), column("n", "INT")], options={"bucket": "1", "bucket-key": "id"}))
    for number in range(3):
        append(lake, number)
    return lake


def append(lake: Lake, number: int, *, watermark: int | None = None, name: Identifier = T) -> None:
    table = lake.open(name)
    batch = pa.RecordBatch.from_arrays([pa.array([0, 1, 2], pa.int64()), pa.array([number] * 3, pa.int32())], names=["id", "n"])
    adds = tuple(write_batches(table.files, table.schema, [batch]))
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=adds, commit_user="u", watermark=watermark))


def rows(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[int, int]]:
    splits = reader.partitions(start, end)
    return [row for split in splits for batch in reader.read(split) for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)]


def files_of(lake: Lake) -> Sequence[PlannedFile]:
    """The newest snapshot's files, in the order in which streams read them."""
    table = lake.open(T)
    return plan_scan(table.files, table.schema, table.latest()).files


def test_admission_takes_what_it_is_told_and_all_when_it_is_told_so(url: str, queue: Lake) -> None:
    reader = reader_of(url, maxRowsPerTrigger="4")
    start = reader.initialOffset()
    whole = {"snapshot": 3, "whole": True, "of": queue.history.version(queue.open(T), "3").key}
    assert start == whole
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    names = [f"bucket-0/{planned.file.file_name}" for planned in files_of(queue)]
    assert end == whole | {"files": 1, "rows": 1, "file": names[1]}
    assert rows(reader, start, end) == [(0, 0), (1, 0), (2, 0), (0, 1)]
    assert rows(reader, end, reader.latestOffset(end, ReadAllAvailable())) == [(1, 1), (2, 1), (0, 2), (1, 2), (2, 2)]
    by_bytes = reader_of(url, maxBytesPerTrigger="1 b")
    assert by_bytes.latestOffset(start, by_bytes.getDefaultReadLimit()) == whole | {"files": 0, "rows": 1, "file": names[0]}
    by_files = reader_of(url, maxFilesPerTrigger="2")
    assert len(rows(by_files, start, by_files.latestOffset(start, by_files.getDefaultReadLimit()))) == 6


@pytest.mark.parametrize(
    ("before", "after", "first"), [(3, None, 3), (None, 3, 3), (None, 4, 4)], ids=["fewer before", "more before", "not its own either"]
)
def test_a_position_stays_where_it_is_among_other_files(url: str, queue: Lake, before: int | None, after: int | None, first: int) -> None:
    """Files may be left out before a restart and not behind it, or the reverse: an ALTER, an option, an index file, another version.

    The position counted those that were not left out: rows came again, or never.
    """
    for number in range(3, 6):
        append(queue, number)
    limited = reader_of(url, maxRowsPerTrigger="1" if before else "10", **least(before))
    begun = limited.initialOffset()
    at = limited.latestOffset(begun, limited.getDefaultReadLimit())
    assert rows(limited, begun, at)[-1] == (0, 3)
    other = reader_of(url, **least(after))
    rest = rows(other, at, other.latestOffset(at, ReadAllAvailable()))
    assert rest == [(id_, n) for n in range(first, 6) for id_ in range(3) if (id_, n) != (0, 3)]
    again = [row for row in rows(other, begun, at) if row[1] >= 3]
    assert again == [(0, 3)][: first == 3], "a batch that is repeated"


def least(number: int | None) -> dict[str, str]:
    return {} if number is None else {"filter": predicate_text(Compare("n", Op.GE, number))}


@pytest.mark.parametrize("by_value", ["true", "false"])
def test_a_snapshot_is_read_to_its_end_in_the_order_in_which_it_was_begun(url: str, lake: Lake, by_value: str) -> None:
    schema = new_schema([column("id", "BIGINT"), column("n", "INT")], partition_keys=["n"], options={"bucket": "1", "bucket-key": "id"})
    lake.create_table(T, schema)
    for number in (2, 1):
        append(lake, number)
    key = "scan.plan-sort-partition"
    reader = reader_of(url, maxRowsPerTrigger="1", **{key: by_value})
    begun = reader.initialOffset()
    at = reader.latestOffset(begun, reader.getDefaultReadLimit())
    (one,) = rows(reader, begun, at)
    assert one == (0, 1 if by_value == "true" else 2)
    other = reader_of(url, maxRowsPerTrigger="2", **{key: str(by_value == "false").lower()})
    assert rows(other, begun, at) == [one]
    read = [one]
    while (end := other.latestOffset(at, other.getDefaultReadLimit())) != at:
        read += rows(other, at, end)
        at = end
    assert sorted(read) == [(id_, n) for id_ in range(3) for n in (1, 2)]


def test_a_position_of_an_earlier_version_counts_files(url: str, queue: Lake) -> None:
    reader = reader_of(url)
    at = reader.initialOffset() | {"files": 1, "rows": 2}
    assert rows(reader, at, reader.latestOffset(at, ReadAllAvailable())) == [(2, 1), (0, 2), (1, 2), (2, 2)]


def test_a_micro_batch_takes_so_many_snapshots(url: str, queue: Lake) -> None:
    options = {"scan_mode": "from-snapshot", "scan_snapshot-id": "1", "scan.max-snapshot.count": "2"}
    reader = reader_of(url, **options)
    offset, met = reader.initialOffset(), []
    while (end := reader.latestOffset(offset, reader.getDefaultReadLimit())) != offset:
        met.append((end["snapshot"], len(rows(reader, offset, end))))
        offset = end
    one = reader_of(url, **options)
    whole = one.latestOffset(one.initialOffset(), ReadAllAvailable())
    assert met[0][0] == 3
    assert sum(count for _, count in met) == len(rows(one, one.initialOffset(), whole))
    assert len(met) == -(-(whole["snapshot"] - 1) // 2) > 1
    unlimited = reader_of(url, **{**options, "scan.max-snapshot.count": "0"})
    assert unlimited.latestOffset(unlimited.initialOffset(), unlimited.getDefaultReadLimit()) == whole


def test_available_now_ends_with_what_is_there(url: str, queue: Lake) -> None:
    reader = reader_of(url)
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    append(queue, 3)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert (end["snapshot"], len(rows(reader, start, end))) == (4, 9)
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_a_commit_is_heard_of_and_its_stream_ends_at_the_watermark(url: str, queue: Lake) -> None:
    reader = reader_of(url, scan_mode="latest", scan_bounded_watermark="100")
    offset = reader.initialOffset()
    for watermark in (None, 100, 200):
        append(queue, 9, watermark=watermark)
    until = time.monotonic() + 60
    while not offset.get("end") and time.monotonic() < until:
        offset = reader.latestOffset(offset, ReadAllAvailable())
    assert (offset["snapshot"], offset["end"]) == (6, True)
    assert reader.latestOffset(offset, ReadAllAvailable()) == offset
    reader.stop()


def test_a_consumer_goes_on_where_it_was(url: str, queue: Lake) -> None:
    reader = reader_of(url, **{"consumer-id": "c", "scan_snapshot-id": "2"})
    assert reader.initialOffset() == {"snapshot": 2, "after": queue.history.version(queue.open(T), "1").key}
    reader.commit({"snapshot": 2, "after": "of a snapshot that was rolled back"})
    assert queue.consumers(queue.open(T)) == {}
    reader.commit({"snapshot": 3, "after": queue.history.version(queue.open(T), "2").key})
    assert queue.consumers(queue.open(T)) == {"c": 3}
    assert reader_of(url, **{"consumer-id": "c"}).initialOffset()["snapshot"] == 3


def test_what_ends_a_stream(url: str, queue: Lake) -> None:
    reader = reader_of(url, **{"scan_snapshot-id": "1"})
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    table = queue.open(T)
    queue.history.rollback_to_snapshot(table, 1)
    append(queue, 7)
    append(queue, 8)
    append(queue, 9)
    again = reader_of(url)
    with pytest.raises(SnapshotNotExist, match="rolled back"):
        again.latestOffset(end, ReadAllAvailable())
    pinned = reader_of(url)
    start = pinned.initialOffset()
    queue.alter_table(T, [UpdateColumnType(name="n", type=parse_type("BIGINT"))])
    table = queue.open(T)
    batch = pa.RecordBatch.from_arrays([pa.array([0], pa.int64()), pa.array([2**40], pa.int64())], names=["id", "n"])
    adds = tuple(write_batches(table.files, table.schema, [batch]))
    queue.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=adds, commit_user="u"))
    with pytest.raises(StreamChanged, match="BIGINT"):
        rows(pinned, start, {"snapshot": start["snapshot"] + 2})


def test_a_stream_notices_that_the_snapshot_it_has_begun_was_rolled_back(url: str, queue: Lake) -> None:
    reader = reader_of(url, **{"scan_snapshot-id": "2", "maxRowsPerTrigger": "1"})
    part = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert (part["snapshot"], part["rows"]) == (2, 1)
    queue.history.rollback_to_snapshot(queue.open(T), 1)
    append(queue, 7)
    with pytest.raises(SnapshotNotExist, match="before snapshot 2, with which this stream goes on"):
        reader_of(url).latestOffset(part, ReadAllAvailable())
    of_before = {key: value for key, value in part.items() if key not in ("of", "file")}
    assert reader_of(url).latestOffset(of_before, ReadAllAvailable())["snapshot"] == 3, "an earlier version's checkpoint"


@pytest.mark.parametrize("again", [0, 2], ids=["nothing came", "others came"])
def test_a_planned_batch_is_not_read_from_what_came_after_a_rollback(url: str, queue: Lake, again: int) -> None:
    """Spark plans a batch and runs it perhaps after a restart, and then without asking how far it goes."""
    reader = reader_of(url, **{"scan_snapshot-id": "2", "maxRowsPerTrigger": "1"})
    start = reader.initialOffset()
    part = reader.latestOffset(start, reader.getDefaultReadLimit())
    end = reader.latestOffset(part, ReadAllAvailable())
    assert [len(rows(reader, *offsets)) for offsets in ((start, part), (part, end), (start, end))] == [1, 5, 6]
    queue.history.rollback_to_snapshot(queue.open(T), 1)
    for _ in range(again):
        append(queue, 7)
    for offsets in ((start, part), (part, end), (start, end)):
        with pytest.raises(SnapshotNotExist, match="rolled back to before"):
            reader_of(url).partitions(*offsets)
        with pytest.raises(SnapshotNotExist, match="rolled back to before"):
            reader.partitions(*offsets)
    of_before = [{key: value for key, value in offset.items() if key not in ("of", "after")} for offset in (start, end)]
    if again:
        assert rows(reader_of(url), *of_before) == [(number, 7) for number in (0, 1, 2)] * 2, "an earlier version's checkpoint"


def test_a_stream_does_not_go_on_behind_another_snapshot_that_has_expired(url: str, queue: Lake) -> None:
    """Of what it has read last an expiry leaves nothing but its key, and of what came in its place after a rollback."""
    reader = reader_of(url, **{"scan_snapshot-id": "1"})
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    table = queue.open(T)
    expire_all_but_one(queue)
    append(queue, 7)
    expire_all_but_one(queue)
    end = reader_of(url).latestOffset(end, ReadAllAvailable())
    assert end["snapshot"] == queue.snapshots(table)[-1].id + 1, "of the same line"
    append(queue, 7)
    append(queue, 8)
    last = reader_of(url).latestOffset(end, ReadAllAvailable())
    queue.history.rollback_to_snapshot(table, last["snapshot"] - 2)
    append(queue, 9)
    append(queue, 10)
    expire_all_but_one(queue)
    with pytest.raises(SnapshotNotExist, match="rolled back"):
        reader_of(url).latestOffset(last, ReadAllAvailable())


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param({"snapshot.time-retained": "5 s", "snapshot.num-retained.min": "1"}, id="by age"),
        pytest.param({"snapshot.num-retained.max": "4", "snapshot.num-retained.min": "1"}, id="by number"),
    ],
)
def test_a_stream_with_nothing_to_read_goes_on_before_its_snapshot_expires(url: str, queue: Lake, kept: dict[str, str]) -> None:
    """A job of which statistics left out all new files stood still until the snapshot of its checkpoint had expired."""
    queue.alter_table(T, [SetOption(key=key, value=value) for key, value in kept.items()])
    reader = reader_of(url, scan_mode="latest", filter=predicate_text(Compare("n", Op.EQ, 100)))
    offset = reader.initialOffset()
    for number in range(6):
        append(queue, number)
        assert eventually(lambda: reader.latestOffset(offset, ReadAllAvailable()) != offset or number % 2 == 0)  # noqa: B023
        end = reader.latestOffset(offset, ReadAllAvailable())
        assert rows(reader, offset, end) == []
        offset = end
        expire_snapshots(queue, queue.open(T), ExpiryRules.of(queue.open(T).schema))
    append(queue, 100)
    assert eventually(lambda: rows(reader, offset, reader.latestOffset(offset, ReadAllAvailable())) != [])


def test_a_snapshot_without_rows_is_no_micro_batch_of_its_own(url: str, queue: Lake) -> None:
    reader = reader_of(url, scan_mode="latest", filter=predicate_text(Compare("n", Op.EQ, 100)))
    offset = reader.initialOffset()
    append(queue, 7)
    assert eventually(lambda: reader._table.newest() == offset["snapshot"])
    for _ in range(3):
        assert reader.latestOffset(offset, ReadAllAvailable()) == offset
        time.sleep(0.1)


def expire_all_but_one(lake: Lake) -> None:
    expire_snapshots(lake, lake.open(T), ExpiryRules(at_least=1, at_most=1, retained=timedelta(0), per_run=None))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": "t"}, "is no table"),
        ({"path": "d.t$branch_"}, "is no table"),
        ({"maxRowsPerTrigger": "0"}, "maxRowsPerTrigger"),
        ({"columns": "id"}, "JSON list"),
        ({"filter": "{}"}, "no condition"),
        ({"scan_mode": "latest-delta"}, "belongs to batch reads"),
        ({"scam_mode": "latest"}, "scan.mode"),
    ],
)
def test_options_that_mean_nothing(url: str, queue: Lake, options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        reader_of(url, **options).initialOffset()


def test_a_token_is_wanted_and_a_part_of_a_table_is_not_given(url: str, queue: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_MOST_WAIT_SECONDS", 1.0)  # so long a request lasts that the server let in
    _, admin = queue.permissions.create_token("root", administrator=True)
    _, ada = queue.permissions.create_token("ada")
    with pytest.raises(NotAuthorized):
        reader_of(url)
    with pytest.raises(LakeError):
        reader_of(url, token=ada)
    reader = reader_of(url, token=admin)
    offset = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    queue.permissions.create_token("other", administrator=True)
    queue.permissions.revoke_token("root")
    with pytest.raises((NotAuthorized, Forbidden)):
        look_for_ever(reader, offset)


def look_for_ever(reader: StreamReader, offset: dict[str, Any]) -> None:
    """As an idle query does; at most for 20 seconds."""
    for _ in range(200):
        reader.latestOffset(offset, ReadAllAvailable())
        time.sleep(0.1)


def test_conditions_survive_being_an_option() -> None:
    import datetime as dt
    from decimal import Decimal

    parts = (
        Compare("a", Op.EQ, 1), Compare("b", Op.STARTS_WITH, "x"), In("c", (Decimal("1.5"), Decimal("2"))), IsNull("d", negated=True),
        Compare("e", Op.LT, dt.datetime(2026, 1, 1, 1, 2, 3)), Or((Compare("f", Op.GE, dt.date(2026, 1, 1)), Compare("g", Op.NE, b"\0"))),
    )  # fmt: skip
    assert predicate_of(predicate_text(And(parts))) == And(parts)


def test_a_position_is_the_same_text_again() -> None:
    for body in (
        {"snapshot": 1},
        {"snapshot": 2, "whole": True, "since": 5, "files": 1, "rows": 0, "after": "u", "of": "v", "end": True, "told": True},
        {"snapshot": 2, "since": 0, "files": 1, "rows": 2, "file": "bucket-0/f", "sorted": True, "ending": True, "drained": True},
    ):
        assert Position.from_json(json.loads(json.dumps(body))).to_json() == body
