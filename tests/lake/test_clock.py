"""A clock that jumps: nothing expires by age until it is right again or somebody says that it is."""

from __future__ import annotations

import datetime as dt
import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.clock import Clock
from lake.commit.idempotency import Idempotency, IdempotencyClaim, Replay
from lake.rewrite.maintenance import maintain
from lake.rewrite.orphans import remove_orphan_files
from lake.rewrite.partition_expiry import PartitionExpiry, expired_partitions
from model.catalog_errors import ClockInDoubt
from model.partition import PartitionStatistics
from model.schema.schema import column, new_schema
from model.snapshot import CommitKind, Snapshot
from table.format.rows.arrow import arrow_schema
from table.format.store import TableFiles
from table.scan.planning.live_files import BucketSums
from table.write.snapshot_builder import CommitRequest, build_snapshot
from table.write.writer import write_batches
from tests.lake.tables.test_partitions import append as append_rows
from tests.lake.test_commit import T, append
from tests.lake.test_commit import table as table

YEAR = 365 * 86_400.0


class Hands:
    """A machine whose clock and count of seconds a test moves."""

    def __init__(self) -> None:
        self.ahead = 0.0
        self.elapsed = 1000.0

    def wall(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def clock(catalog: CatalogStore, hands: Hands) -> Clock:
    return Clock(catalog, wall=hands.wall, elapsed=lambda: hands.elapsed)


@pytest.fixture
def conn(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn, autocommit=True) as made:
        yield made


def moved(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """The clock of this thread's machine is so far ahead, and that of nothing else that this process does."""
    now, own = time.time_ns, threading.current_thread()
    patch.setattr(time, "time_ns", lambda: now() + (int(seconds * 1e9) if threading.current_thread() is own else 0))


def seen(conn: psycopg.Connection, ago: dt.timedelta) -> None:
    conn.execute("UPDATE catalog_state SET clock_seen_at = now() - %s", (ago,))


def test_a_steady_clock_is_believed_and_put_on_record(clock: Clock, conn: psycopg.Connection) -> None:
    clock.require()
    assert conn.execute("SELECT now() - clock_seen_at < interval '1 minute' FROM catalog_state").fetchone() == (True,)


def test_a_machine_ahead_of_postgres_waits_until_they_agree(clock: Clock, hands: Hands) -> None:
    hands.ahead = YEAR
    with pytest.raises(ClockInDoubt, match="NTP"):
        clock.require()
    clock.confirm()
    with pytest.raises(ClockInDoubt):  # two machines that differ are not to be confirmed
        clock.require()
    hands.ahead = 0
    clock.require()
    assert clock.doubt is None


def test_a_jump_of_all_clocks_is_noticed_by_the_count_of_seconds(clock: Clock, hands: Hands, conn: psycopg.Connection) -> None:
    clock.require()
    hands.elapsed -= 3600  # as if the clocks had moved an hour and the machine none
    with pytest.raises(ClockInDoubt, match=r"jumped 1:00:0\d ahead"):
        clock.require()
    hands.elapsed += 3600
    clock.require()
    hands.elapsed -= 3600
    clock.confirm()
    clock.require()


@pytest.mark.parametrize("ago", [dt.timedelta(days=365), dt.timedelta(days=-365)], ids=["ahead", "back"])
def test_the_last_run_on_record_tells_a_server_that_was_just_started(clock: Clock, conn: psycopg.Connection, ago: dt.timedelta) -> None:
    seen(conn, ago)
    with pytest.raises(ClockInDoubt, match=r"sys\.confirm_clock"):
        clock.require()
    assert conn.execute("SELECT abs(extract(epoch FROM now() - clock_seen_at)) > 86400 FROM catalog_state").fetchone() == (True,)
    clock.confirm()
    clock.require()


def test_nothing_expires_while_it_is_in_doubt(lake: Lake, conn: psycopg.Connection) -> None:
    options = {"bucket": "-1", "partition.expiration-time": "1 ms", "partition.expiration-strategy": "update-time"}
    lake.create_table(T, new_schema([column("p", "BIGINT"), column("v", "STRING")], partition_keys=["p"], options=options))
    append_rows(lake, lake.open(T), 1)
    time.sleep(0.01)
    seen(conn, dt.timedelta(days=365))
    assert maintain(lake, lake.open(T)).partitions_gone == ()
    assert "sys.confirm_clock" in (lake.clock.doubt or "")
    lake.clock.confirm()
    assert maintain(lake, lake.open(T)).partitions_gone == ("p=1",)


def test_what_a_server_whose_clock_is_behind_wrote_is_as_old_as_the_catalog_says(
    lake: Lake, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files tell a year ago, and another server took their partitions and tags away at once."""
    options = {"bucket": "-1", "partition.expiration-time": "7 d", "partition.expiration-strategy": "update-time"}
    lake.create_table(T, new_schema([column("p", "BIGINT"), column("v", "STRING")], partition_keys=["p"], options=options))
    with monkeypatch.context() as patch:
        moved(patch, -YEAR)
        append_rows(lake, lake.open(T), 1)
        lake.tags.create(lake.open(T), "kept", retained="1 d")
    done = maintain(lake, lake.open(T))
    assert (done.partitions_gone, done.tags_gone) == ((), ())
    conn.execute("UPDATE table_partition SET updated_at = now() - interval '8 days'")
    with lake.catalog.transaction() as tx:
        ((name, row),) = [(row.name, row) for row in tx.partitions.page(lake.open(T).table_id, "main")]
        counted = PartitionStatistics(
            spec=row.spec, record_count=row.record_count, file_size=row.file_size, file_count=row.file_count,
            last_file_millis=row.last_file_millis, total_buckets=row.total_buckets,
        )  # fmt: skip
        tx.partitions.replace(lake.open(T).table_id, "main", [(name, counted)])  # a count that finds the same is no update
    assert maintain(lake, lake.open(T)).partitions_gone == ("p=1",)


def aged(lake: Lake, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> LakeTable:
    """A table with a partition that is a year old, by its file and by the catalog, which has to count it anew."""
    options = {"bucket": "-1", "partition.expiration-time": "7 d", "partition.expiration-strategy": "update-time"}
    lake.create_table(T, new_schema([column("p", "BIGINT"), column("v", "STRING")], partition_keys=["p"], options=options))
    with monkeypatch.context() as patch:
        moved(patch, -YEAR)
        append_rows(lake, lake.open(T), 1)
    conn.execute("UPDATE table_partition SET updated_at = now() - interval '1 year'")
    conn.execute("UPDATE snapshot_pointer SET counted = false, listed = false")
    conn.execute("UPDATE table_entry SET created_at = now() - interval '1 year'")
    return lake.open(T)


def test_the_look_for_old_partitions_ends_where_each_count_is_outrun_by_a_commit(
    lake: Lake, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = aged(lake, conn, monkeypatch)
    rules = PartitionExpiry.of(table, {})
    assert rules is not None
    partitions = lake.partitions(table, table.latest())
    counted, counts = TableFiles.bucket_sums, itertools.count(1)

    def outrun(files: TableFiles, snapshot: Snapshot | None) -> list[BucketSums]:
        sums = list(counted(files, snapshot))
        assert next(counts) < 10, "it counts without end"
        append_rows(lake, table, 2)
        return sums

    with monkeypatch.context() as patch:
        patch.setattr(TableFiles, "bucket_sums", outrun)
        assert [old.name for old in expired_partitions(lake.catalog, table, partitions, rules)] == ["p=1"]
        conn.execute("UPDATE snapshot_pointer SET pointed_at = now()")  # what that changed is not known
        assert expired_partitions(lake.catalog, table, partitions, rules) == []
    assert [old.name for old in expired_partitions(lake.catalog, table, partitions, rules)] == ["p=1"]


@pytest.mark.parametrize(
    ("pointed", "gone"),
    [(None, ("p=1",)), ("now() - interval '8 days'", ("p=1",)), ("now()", ())],
    ids=["never but by commits", "long ago", "now"],
)
def test_a_partition_first_listed_is_as_old_as_what_brought_it(
    lake: Lake, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, pointed: str | None, gone: tuple[str, ...]
) -> None:
    """Not as the look that made its row, which was the expiry itself where nobody had looked before."""
    table = aged(lake, conn, monkeypatch)
    conn.execute("DELETE FROM table_partition")
    conn.execute(f"UPDATE snapshot_pointer SET pointed_at = {pointed or 'NULL'}")
    assert maintain(lake, table).partitions_gone == gone


def test_a_branchs_partitions_are_as_old_as_the_branch(lake: Lake, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    table = aged(lake, conn, monkeypatch)
    lake.tags.create(table, "old")
    lake.branches.create(table, "b", from_tag="old")
    conn.execute("UPDATE snapshot_pointer SET pointed_at = pointed_at - interval '8 days'")
    assert maintain(lake, lake.open(replace(T, branch="b"))).partitions_gone == ("p=1",)


def test_what_a_repair_registers_is_as_old_as_the_repair(lake: Lake, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that knows only the files told a year ago."""
    table = aged(lake, conn, monkeypatch)
    snapshot, rows = table.latest(), pa.RecordBatch.from_pydict({"p": [2], "v": ["x"]}, schema=arrow_schema(table.schema.fields))
    with monkeypatch.context() as patch:
        moved(patch, -YEAR)
        written = tuple(write_batches(table.files, table.schema, [rows]))
    request = CommitRequest(kind=CommitKind.APPEND, adds=written, commit_user="u")
    made = build_snapshot(table.files, table.schema, snapshot, [request], uuid=str(uuid4()), time_millis=1)
    with table.files.snapshots() as place:
        table.files.publish_snapshot(made, place)
    assert lake.repair_table(T).registered == (2,)
    assert maintain(lake, lake.open(T)).partitions_gone == ("p=1",)


def test_a_partition_that_lost_its_newest_file_is_not_changed_by_a_count(
    lake: Lake, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits keep that file's time."""
    table = aged(lake, conn, monkeypatch)
    conn.execute("UPDATE table_partition SET last_file_millis = last_file_millis + 1000")
    assert maintain(lake, table).partitions_gone == ("p=1",)


def test_rows_that_a_count_finds_changed_changed_when_the_branch_was_set(
    lake: Lake, conn: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = aged(lake, conn, monkeypatch)
    conn.execute("UPDATE table_partition SET record_count = record_count + 1")
    conn.execute("UPDATE snapshot_pointer SET pointed_at = now() - interval '6 days'")
    assert maintain(lake, table).partitions_gone == ()
    conn.execute("UPDATE snapshot_pointer SET listed = false, pointed_at = now() - interval '8 days'")
    conn.execute("UPDATE table_partition SET record_count = record_count + 1, updated_at = now() - interval '1 year'")
    assert maintain(lake, table).partitions_gone == ("p=1",)


def test_a_snapshot_ahead_of_the_time_keeps_its_table_until_the_time_is_confirmed(clock: Clock, lake: Lake, table: object) -> None:
    newest = lake.commit(lake.open(T), append("a"))
    clock.require(newest)
    ahead = replace(newest, time_millis=newest.time_millis + int(YEAR * 1000))
    with pytest.raises(ClockInDoubt, match=r"ahead of the time.*sys\.confirm_clock"):
        clock.require(ahead)
    clock.confirm()
    clock.require(ahead)


def test_only_what_is_old_expires_of_a_table_with_snapshots_from_the_future(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"bucket": "-1", "snapshot.num-retained.min": "1", "snapshot.time-retained": "1 ms"}
    lake.create_table(T, new_schema([column("p", "BIGINT"), column("v", "STRING")], options=options))
    for n in range(3):
        append_rows(lake, lake.open(T), n)
    with monkeypatch.context() as patch:
        moved(patch, YEAR)
        append_rows(lake, lake.open(T), 3)
    append_rows(lake, lake.open(T), 4)
    time.sleep(0.01)
    assert maintain(lake, lake.open(T)).waits
    lake.clock.confirm()
    assert not maintain(lake, lake.open(T)).waits
    assert [snapshot.id for snapshot in lake.snapshots(lake.open(T))] == [3, 4, 5], "the one that was current stays, and none ahead is old"


def test_files_that_are_being_written_stay_while_it_is_in_doubt(lake: Lake, table: object, conn: psycopg.Connection) -> None:
    opened = lake.open(T)
    lake.commit(opened, append("a"))
    path = f"{opened.files.layout.manifest_dir()}/manifest-being-written"
    opened.files.io.create(path, b"")
    seen(conn, dt.timedelta(days=365))
    older = max(status.mtime_millis for status in opened.files.io.list(opened.files.layout.manifest_dir())) + 1
    with pytest.raises(ClockInDoubt):
        remove_orphan_files(lake, opened, older_than_millis=older, check=lambda: None)
    assert opened.files.io.exists(path)
    assert path in remove_orphan_files(lake, opened, older_than_millis=older, dry_run=True, check=lambda: None).paths
    lake.clock.confirm()
    assert path in remove_orphan_files(lake, opened, older_than_millis=older, check=lambda: None).paths
    assert not opened.files.io.exists(path)


def test_a_key_counts_until_the_time_is_believed(catalog: CatalogStore, clock: Clock, conn: psycopg.Connection) -> None:
    keys = Idempotency(catalog, clock)
    claim = keys.claim("k", scope="sql:", body_hash="h")
    assert isinstance(claim, IdempotencyClaim)
    keys.finish(claim, {"rows": 1})
    conn.execute("UPDATE idempotency_key SET created_at = now() - interval '2 days'")  # as if the clock had jumped
    seen(conn, dt.timedelta(days=365))
    keys.forget_old()
    assert keys.claim("k", scope="sql:", body_hash="h") == Replay(answer={"rows": 1}), "a repeat does not insert again"
    clock.confirm()
    keys.forget_old()
    assert isinstance(keys.claim("k", scope="sql:", body_hash="h"), IdempotencyClaim)
    keys.close()


def test_the_audit_log_keeps_its_entries_while_it_is_in_doubt(lake: Lake, conn: psycopg.Connection) -> None:
    values = "now() - interval '1 year', 'p', 'd', 'a', 'DONE', 1"
    conn.execute(f"INSERT INTO audit_log (time, principal, door, action, outcome, millis) VALUES ({values})")
    count = "SELECT count(*) FROM audit_log"
    seen(conn, dt.timedelta(days=365))
    lake.audit.forget_old()
    assert conn.execute(count).fetchone() == (1,)
    lake.clock.confirm()
    lake.audit.forget_old()
    assert conn.execute(count).fetchone() == (0,)


def test_what_was_dropped_is_kept_while_it_is_in_doubt(lake: Lake, conn: psycopg.Connection) -> None:
    seen(conn, dt.timedelta(days=365))
    with pytest.raises(ClockInDoubt):
        lake.sweep_drops()
    lake.clock.confirm()
    assert lake.sweep_drops() == 0


def test_a_doubted_clock_is_told_once_however_often_tables_are_looked_at(
    lake: Lake, table: LakeTable, clock: Clock, hands: Hands, caplog: pytest.LogCaptureFixture
) -> None:
    """It was a line each ten seconds, as it tells the time."""
    lake.clock = clock
    for seconds in (3600, 3700, 3800):
        hands.ahead = seconds
        assert maintain(lake, table).waits
    assert sum("let both keep their time by NTP" in line for line in caplog.messages) == 1
