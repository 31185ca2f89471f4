"""Partitions to which nothing comes any more are marked as done, by each of the actions, and again after late rows."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from unittest.mock import Mock

import pyarrow as pa
import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.rewrite.done import done_partitions
from lake.rewrite.expiry import expire_snapshots
from lake.rewrite.maintenance import Maintained, maintain
from lake.rewrite.partition_expiry import PartitionExpiry, expire_partitions, expired_partitions
from model.errors import Unavailable
from model.identifier import Identifier
from model.snapshot import CommitKind
from model.wall_clock import local_wall_millis
from table.format.rows.arrow import arrow_schema
from table.retention.expiry import ExpiryRules
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches
from tests.lake.kept import history
from tests.lake.rewrite.test_compaction import append, ids
from tests.sql.tables import make_table

HOUR = 3_600_000
OPTIONS = {"bucket": "-1", "partition.idle-time-to-done": "1 h", "partition.time-interval": "1 d"}


def partitioned(lake: Lake, **more: str) -> LakeTable:
    return make_table(lake, options={**OPTIONS, **more}, partition="dt", id="INT", dt="STRING")


def due(lake: Lake, table: LakeTable, hours: float) -> list[str]:
    """The partitions that are to be marked so many hours from now."""
    return [one.name for one in done_partitions(lake, table, now_millis=local_wall_millis() + int(hours * HOUR))]


def test_a_partition_is_done_when_its_time_is_over_and_nothing_came(lake: Lake) -> None:
    table = partitioned(lake)
    append(lake, table, [1, 2, 3], dt=["2020-01-01", "no time", "2999-01-01"])
    assert due(lake, table, 0.9) == []  # something came less than an hour ago
    assert due(lake, table, 1.1) == ["dt=2020-01-01"]
    assert due(lake, table, 24 * 365 * 1000) == ["dt=2020-01-01", "dt=2999-01-01"]


@pytest.mark.parametrize("lacking", sorted(key for key in OPTIONS if key != "bucket"))
def test_without_both_times_nothing_is_done(lake: Lake, lacking: str) -> None:
    table = make_table(
        lake, options={key: value for key, value in OPTIONS.items() if key != lacking}, partition="dt", id="INT", dt="STRING"
    )
    append(lake, table, [1], dt=["2020-01-01"])
    assert due(lake, table, 100) == []


def test_by_watermark_a_partition_is_done_when_the_tables_time_is_past_it(lake: Lake) -> None:
    """As `PartitionMarkDoneTrigger.donePartitions` with a watermark: its time is UTC, and late rows begin the idle time anew."""
    idle = {"partition.idle-time-to-done": "1 h"}
    by_clock = partitioned(lake, **idle)
    table = make_table(
        lake, "w", options={**OPTIONS, **idle, "partition.mark-done-action.mode": "watermark"}, partition="dt", id="INT", dt="STRING"
    )
    end = 1_577_923_200_000  # 2020-01-02 00:00:00 UTC, in milliseconds

    def at(watermark: int | None) -> list[str]:
        lake.commit(table, CommitRequest(kind=CommitKind.APPEND, commit_user="u", watermark=watermark))
        return due(lake, table, 1000)

    for one in (by_clock, table):
        append(lake, one, [1], dt=["2020-01-01"])
    assert due(lake, by_clock, 2) == ["dt=2020-01-01"]
    assert at(None) == []  # there is no watermark yet
    assert at(end + HOUR) == []
    assert at(end + HOUR + 1) == ["dt=2020-01-01"]
    time.sleep(0.01)  # a file made in the same millisecond as a snapshot may be its own
    append(lake, table, [2], dt=["2020-01-01"])
    assert at(end + 2 * HOUR + 1) == []
    assert at(end + 2 * HOUR + 2) == ["dt=2020-01-01"]
    expire_snapshots(lake, table, replace(ExpiryRules.of(table.schema), at_least=1, at_most=1))
    assert due(lake, table, 0) == ["dt=2020-01-01"]  # long ago, as far as can be told


def test_a_batch_marks_its_partitions_at_its_end(lake: Lake) -> None:
    """`partition.end-input-to-done`: whatever their time, each action, and not by compactions, deletions or a job's batches."""
    for name, value in (("on", "true"), ("off", "false")):
        options = {"bucket": "-1", "partition.end-input-to-done": value, "partition.mark-done-action": "success-file,mark-event"}
        table = make_table(lake, name, options=options, partition="dt", id="INT", dt="STRING")
        append(lake, table, [1, 2], dt=["no time", "2999-01-01"])
        marked = {row.name: row.done for row in lake.partition_page(table)}
        assert marked == {"dt=no time": value == "true", "dt=2999-01-01": value == "true"}
        assert table.files.io.file_exists(table.files.layout.success_file(table.schema, "dt=no time")) == (value == "true")
    table = lake.open(Identifier("default", "on"))
    with table.write() as write:
        rows = pa.RecordBatch.from_pydict({"id": [3], "dt": ["job"]}, schema=arrow_schema(table.schema.fields))
        write.add(write_batches(table.files, table.schema, [rows]))
        lake.commit(table, write.request(CommitKind.APPEND, commit_identifier=7))
    assert not {row.name: row.done for row in lake.partition_page(table)}["dt=job"]


def test_a_mark_that_fails_fails_no_insert(lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    table = partitioned(lake, **{"partition.end-input-to-done": "true"})
    monkeypatch.setattr("lake.rewrite.mark_done._write_marker", Mock(side_effect=Unavailable("The store is away.")))
    append(lake, table, [1], dt=["2020-01-01"])
    assert ids(table) == [1]
    assert "are not marked as done at the end of their input: The store is away." in caplog.text


def test_a_write_only_table_is_marked_and_nothing_of_it_goes(lake: Lake) -> None:
    few = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1", "snapshot.time-retained": "0 s"}
    table = partitioned(lake, **{"write-only": "true", "partition.idle-time-to-done": "0 s", "partition.expiration-time": "7 d", **few})
    append(lake, table, [1], dt=["2020-01-01"])
    append(lake, table, [2], dt=["2020-01-01"])
    assert maintain(lake, table) == Maintained()
    assert table.files.io.file_exists(table.files.layout.success_file(table.schema, "dt=2020-01-01"))
    assert history(lake, table) == [1, 2]
    assert ids(table) == [1, 2]


def test_maintenance_marks_once_and_again_after_late_rows(lake: Lake, catalog: CatalogStore) -> None:
    actions = "success-file,done-partition,mark-event"
    table = partitioned(lake, **{"partition.mark-done-action": actions, "partition.idle-time-to-done": "0 s"})
    append(lake, table, [1], dt=["2020-01-01"])
    path = table.files.layout.success_file(table.schema, "dt=2020-01-01")

    def marked() -> dict[str, int]:
        maintain(lake, table)
        return dict(json.loads(table.files.io.read(path)))

    first = marked()
    rows = {row.name: row.done for row in lake.partition_page(table)}
    assert rows == {"dt=2020-01-01": True, "dt=2020-01-01.done": False}
    assert marked() == first  # and not written again at each round
    append(lake, table, [2], dt=["2020-01-01"])
    later = marked()
    assert later["creationTime"] == first["creationTime"]
    assert later["modificationTime"] > first["modificationTime"]


def test_partitions_expire_in_batches(lake: Lake) -> None:
    options = {"bucket": "-1", "partition.expiration-time": "7 d", "partition.expiration-batch-size": "2"}
    table = make_table(lake, options=options, partition="dt", id="INT", dt="STRING")
    append(lake, table, list(range(5)), dt=[f"2020-01-0{n + 1}" for n in range(5)])
    assert len(maintain(lake, table).partitions_gone) == 5
    assert len(history(lake, table)) == 1 + 3  # two, two and one


def test_what_comes_to_an_idle_partition_while_it_expires_stays(lake: Lake) -> None:
    """Between the look and the commit: the newest file says that the partition is not idle any more."""
    table = make_table(lake, options={"bucket": "-1"}, partition="dt", id="INT", dt="STRING")
    append(lake, table, [1, 2], dt=["2020-01-01", "2020-01-02"])
    rules = PartitionExpiry.of(table, {"partition.expiration-time": "1 ms", "partition.expiration-strategy": "update-time"})
    assert rules is not None
    time.sleep(0.01)
    old = expired_partitions(lake.catalog, table, lake.partitions(table, table.latest()), rules)
    assert len(old) == 2
    append(lake, table, [3], dt=["2020-01-01"])
    expire_partitions(lake, table, old, rules)
    assert [one.name for one in lake.partitions(table, table.latest())] == ["dt=2020-01-01"]
    assert sum(one.record_count for one in lake.partitions(table, table.latest())) == 2
