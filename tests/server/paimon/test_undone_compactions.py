"""A client whose files a compaction took away asks for a rollback of it (Java's `CommitRollback`): nobody else is to notice."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from catalog import CatalogStore
from gateway.gateway import Gateway
from lake import Lake, LakeTable
from lake.commit.built import BuiltCommit
from lake.rewrite.compaction import compact, plan
from lake.rewrite.expiry import expire_snapshots
from lake.rewrite.orphans import remove_orphan_files
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from model.snapshot import CommitKind, Snapshot
from table.format.manifests.entries import EntryKind, ManifestEntry
from table.scan.planning.entry_scan import plan_scan
from table.scan.read import read_batches
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches
from tests.lake.kept import data_files, go_on, keep
from tests.server.paimon.committing import Writer
from tests.server.paimon.speaking import Rest
from tests.table.vectors import with_deleted

T = "databases/d/tables/t"
NAME = Identifier("d", "t")


QUEUE = {"bucket": "1", "bucket-key": "id"}
KINDS = [QUEUE, {"bucket": "-1"}, {"bucket": "-1", "row-tracking.enabled": "true"}]
EVERY_KIND = pytest.mark.parametrize("lake", KINDS, indirect=True, ids=["queue", "scalable", "row ids"])


@pytest.fixture
def lake(rest: Rest, gateway: Gateway, request: pytest.FixtureRequest) -> Lake:
    """With a table of three snapshots and files."""
    options = getattr(request, "param", QUEUE) | {"compaction.min.file-num": "2"}
    gateway.lake.create_table(NAME, new_schema([column("id", "INT")], options=options))
    for number in range(3):
        append(gateway.lake, number)
    return gateway.lake


def append(lake: Lake, *ids: int) -> None:
    table = lake.open(NAME)
    batch = pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int32())})
    adds = tuple(write_batches(table.files, table.schema, [batch]))
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=adds, commit_user="u"))


def compacted(lake: Lake) -> Snapshot:
    """All files become one."""
    table = lake.open(NAME)
    compact(lake.commit, table, plan(table, full=True))
    return latest(table)


def latest(table: LakeTable) -> Snapshot:
    snapshot = table.latest()
    assert snapshot is not None
    return snapshot


def files_of(table: LakeTable, snapshot: Snapshot | None = None) -> list[str]:
    return sorted(entry.file.file_name for entry in table.files.live_entries(snapshot or latest(table)))


def ids(table: LakeTable, snapshot: Snapshot | None = None) -> list[int]:
    planned = plan_scan(table.files, table.schema, snapshot or latest(table))
    return [row["id"] for batch in read_batches(table.files, table.schema, planned.files) for row in batch.to_pylist()]


def undo(rest: Rest, newest: int) -> Any:
    return rest.call("POST", f"{T}/rollback", {"instant": {"type": "snapshot", "snapshotId": newest - 1}, "fromSnapshot": newest})


def undone(rest: Rest, newest: int) -> None:
    answer = undo(rest, newest)
    assert answer.status_code == 200, answer.text


def deletion(entry: ManifestEntry) -> ManifestEntry:
    return ManifestEntry(
        kind=EntryKind.DELETE, partition=entry.partition, bucket=entry.bucket, total_buckets=entry.total_buckets, file=entry.file
    )


@EVERY_KIND
def test_the_files_are_back_and_the_client_commits(rest: Rest, lake: Lake) -> None:
    table = lake.open(NAME)
    read = list(table.files.live_entries(latest(table)))
    old = compacted(lake)
    assert (old.id, old.commit_kind, len(files_of(table))) == (4, "COMPACT", 1)
    undone(rest, 4)
    now = latest(table)
    assert (now.id, now.commit_kind, now.delta_record_count, now.total_record_count) == (5, "COMPACT", 0, 3)
    assert files_of(table) == sorted(entry.file.file_name for entry in read)
    assert ids(table) == [0, 1, 2]
    writer = Writer(rest, lake)
    rewritten = writer.commit(changes=[deletion(read[1])], commitKind="OVERWRITE", nextRowId=now.next_row_id)
    assert rewritten["id"] == 6
    assert ids(table) == [0, 2]
    shown = rest.get(f"{T}/snapshots")["snapshots"]
    assert [(one["id"], one["commitKind"]) for one in shown] == [
        (6, "OVERWRITE"), (5, "COMPACT"), (4, "COMPACT"), (3, "APPEND"), (2, "APPEND"), (1, "APPEND"),
    ]  # fmt: skip
    assert (shown[2]["commitUser"], shown[2]["timeMillis"]) == (old.commit_user, old.time_millis), "its writer finds its commit again"
    assert rest.get(f"{T}/snapshot")["snapshot"]["recordCount"] == 2


def test_the_files_of_snapshots_say_the_same(rest: Rest, lake: Lake, tmp_path: Path) -> None:
    compacted(lake)
    undone(rest, 4)
    places = tmp_path / "warehouse" / "d.db" / "t" / "snapshot"
    assert sorted(path.name for path in places.iterdir()) == ["EARLIEST", "LATEST", *(f"snapshot-{number}" for number in range(1, 6))]
    assert (places / "LATEST").read_text() == "5"
    told = {one["id"]: one for one in rest.get(f"{T}/snapshots")["snapshots"]}
    for number in range(1, 6):
        assert json.loads((places / f"snapshot-{number}").read_text()) == told[number]
    table = lake.open(NAME)
    for number in (4, 5):
        assert files_of(table, Snapshot.from_json(told[number])) == files_of(table, Snapshot.from_json(told[3]))
        assert list(table.files.delta_entries(Snapshot.from_json(told[number]))) == []


@EVERY_KIND
@pytest.mark.parametrize("kept", [2, 1])
def test_expiry_takes_no_file_that_is_back(rest: Rest, lake: Lake, kept: int) -> None:
    """Each client's expiry goes by what snapshots took away, as ours does, and does not look whether a later one has it again."""
    compacted(lake)
    undone(rest, 4)
    table = lake.open(NAME)
    expire_snapshots(lake, table, keep(kept))
    assert ids(table) == [0, 1, 2]
    append(lake, 3)
    expire_snapshots(lake, table, keep(1))
    assert ids(table) == [0, 1, 2, 3]


def test_what_the_compaction_wrote_is_an_orphan(rest: Rest, lake: Lake) -> None:
    table = lake.open(NAME)
    compacted(lake)
    (merged,) = files_of(table)
    undone(rest, 4)
    remove_orphan_files(lake, table, older_than_millis=time.time_ns() // 1_000_000, check=go_on)
    assert not [path for path in data_files(table) if merged in path]
    assert ids(table) == [0, 1, 2]


def test_deleted_rows_stay_deleted(rest: Rest, lake: Lake) -> None:
    """By deletion vectors, which the compaction applied: without them the rows would be there again."""
    table = lake.open(NAME)
    before = latest(table)
    name = next(entry.file.file_name for entry in table.files.live_entries(before))
    noted = with_deleted(table.files, before, {name: [0]})
    base, base_size = table.files.new_manifest_list(table.files.manifests_of(before))
    delta, delta_size = table.files.new_manifest_list([])
    noted = replace(
        noted, id=4, uuid=str(uuid4()), commit_kind=CommitKind.OVERWRITE, base_manifest_list=base, base_manifest_list_size=base_size,
        delta_manifest_list=delta, delta_manifest_list_size=delta_size, delta_record_count=0,
    )  # fmt: skip
    built = BuiltCommit(table=table, base=before, snapshot=noted, sync=())
    assert lake.decide_repaired(table, lambda key: replace(built, snapshot=replace(noted, uuid=key)))
    left = ids(table)
    assert len(left) == 2
    assert (compacted(lake).total_record_count, latest(table).index_manifest) == (2, None)
    undone(rest, 5)
    now = latest(table)
    assert (ids(table), now.total_record_count, now.index_manifest) == (left, 3, noted.index_manifest)
    expire_snapshots(lake, table, keep(1))
    assert ids(table) == left


def test_tags_stay_and_can_be_gone_back_to(rest: Rest, lake: Lake) -> None:
    table = lake.open(NAME)
    compacted(lake)
    merged = files_of(table)
    rest.post(f"{T}/tags", {"tagName": "nightly", "snapshotId": 4})
    undone(rest, 4)
    append(lake, 3)
    assert rest.get(f"{T}/tags")["tags"] == ["nightly"]
    tagged = Snapshot.from_json(rest.get(f"{T}/tags/nightly")["snapshot"])
    assert (files_of(table, tagged), ids(table, tagged)) == (merged, [0, 1, 2])
    rest.post(f"{T}/rollback", {"instant": {"type": "tag", "tagName": "nightly"}})
    assert (latest(table).id, ids(table)) == (4, [0, 1, 2])
    expire_snapshots(lake, table, keep(1))
    assert (ids(table), ids(table, tagged)) == ([0, 1, 2], [0, 1, 2])


def test_a_stream_that_has_read_the_compaction_goes_on(rest: Rest, lake: Lake) -> None:
    table = lake.open(NAME)
    stream = lake.follow(table, {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"})
    stream.never_wait()
    compacted(lake)
    steps = stream.steps()
    assert read_until(stream, steps, 5) == [1, 2, 3]
    undone(rest, 4)
    append(lake, 7)
    assert read_until(stream, steps, 7) == [6]
    stream.close()


def test_a_consumer_that_has_the_compaction_behind_it_goes_on(rest: Rest, lake: Lake) -> None:
    table = lake.open(NAME)
    compacted(lake)
    rest.post(f"{T}/consumers/reset", {"consumerId": "me", "nextSnapshotId": 5})
    undone(rest, 4)
    append(lake, 7)
    stream = lake.follow(table, {"consumer-id": "me"})
    stream.never_wait()
    assert read_until(stream, stream.steps(), 7) == [6]
    stream.close()


def read_until(stream: Any, steps: Any, following: int) -> list[int]:
    """The snapshots with rows until the stream has come so far."""
    read = []
    while stream.cursor.next_snapshot_id < following:
        step = next(steps)
        if step is not None:
            read.append(step.snapshot.id)
    return read


@EVERY_KIND
def test_two_compactions_are_undone_one_after_the_other(rest: Rest, lake: Lake) -> None:
    """Java asks again where its file is still gone: then for the latest, which undid the first."""
    table = lake.open(NAME)
    read = files_of(table)
    first = compacted(lake)
    (merged,) = table.files.live_entries(first)
    batch = pa.RecordBatch.from_pydict({"id": pa.array([0, 1, 2], pa.int32())})
    adds = tuple(write_batches(table.files, table.schema, [batch]))
    second = lake.commit(table, CommitRequest(kind=CommitKind.COMPACT, adds=adds, deletes=(merged,), commit_user="c"))
    undone(rest, 5)
    assert (latest(table).id, files_of(table)) == (6, [merged.file.file_name])
    undone(rest, 6)
    assert (latest(table).id, files_of(table), ids(table)) == (7, read, [0, 1, 2])
    told = {one["id"]: Snapshot.from_json(one) for one in rest.get(f"{T}/snapshots")["snapshots"]}
    assert [told[4].stands_for(first.key), told[5].stands_for(second.key), told[6].stands_for(second.key)] == [True, True, False]
    assert undo(rest, 7).status_code == 500, "nothing is left to be undone"


def test_rows_that_came_after_a_compaction_end_it(rest: Rest, lake: Lake) -> None:
    table = lake.open(NAME)
    compacted(lake)
    append(lake, 3)
    lake.commit(table, CommitRequest(kind=CommitKind.COMPACT, commit_user="m", operation="COMPACT", merge_manifests=True))
    assert undo(rest, 6).status_code == 500
    assert ids(table) == [0, 1, 2, 3]


def test_a_compaction_of_manifests_alone_is_passed_over(rest: Rest, lake: Lake) -> None:
    table = lake.open(NAME)
    read = files_of(table)
    compacted(lake)
    lake.commit(table, CommitRequest(kind=CommitKind.COMPACT, commit_user="m", operation="COMPACT", merge_manifests=True))
    undone(rest, 5)
    assert (latest(table).id, files_of(table), ids(table)) == (6, read, [0, 1, 2])
    assert undo(rest, 6).status_code == 500, "nothing is left to be undone"
    compacted(lake)
    undone(rest, 7)
    assert (latest(table).id, files_of(table)) == (8, read)


def test_what_cannot_be_undone_is_refused_and_nothing_changes(rest: Rest, lake: Lake, tmp_path: Path) -> None:
    table = lake.open(NAME)
    (name, *_) = files_of(table)
    newest = compacted(lake)
    (path,) = (tmp_path / "warehouse" / "d.db" / "t").rglob(name)
    data = path.read_bytes()
    path.unlink()  # as by a client's expiry that has begun
    assert undo(rest, 4).status_code == 500
    path.write_bytes(data)
    expire_snapshots(lake, table, keep(1))
    refused = undo(rest, 4)
    assert (refused.status_code, "has expired" in refused.text) == (500, True)
    assert (latest(table).key, ids(table)) == (newest.key, [0, 1, 2])


def test_a_rollback_by_a_person_stays_one(rest: Rest, lake: Lake) -> None:
    compacted(lake)
    rest.post(f"{T}/rollback", {"instant": {"type": "snapshot", "snapshotId": 3}})
    assert latest(lake.open(NAME)).id == 3


def test_a_server_that_dies_after_the_decision_has_undone_it(rest: Rest, lake: Lake, dsn: str, tmp_path: Path) -> None:
    class Died(BaseException):
        pass

    def die(step: str) -> None:
        if step == "decided":
            raise Died

    compacted(lake)
    catalog = CatalogStore(dsn)
    try:
        dying = Lake(catalog, str(tmp_path / "warehouse"), hook=die)
        with pytest.raises(Died):
            dying.undo_compaction(dying.open(NAME), latest=4)
    finally:
        catalog.close()
    append(lake, 3)
    table = lake.open(NAME)
    assert (latest(table).id, ids(table)) == (6, [0, 1, 2, 3])
    told = {one["id"]: one for one in rest.get(f"{T}/snapshots")["snapshots"]}
    for number in range(1, 7):
        assert json.loads(Path(table.files.layout.snapshot_file(number)).read_text()) == told[number]
