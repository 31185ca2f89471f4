"""Commits: decided once, published always, grouped when they come together (`architecture.md`, first two decisions)."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from catalog import CatalogStore
from lake import IdempotencyClaim, Lake, LakeTable, Replay
from model.catalog_errors import TableChanged
from model.errors import (
    IdempotencyInProgress,
    IdempotencyMismatch,
    InvalidOption,
    SnapshotNotExist,
    TableDiverged,
    TableNotExist,
    TagNotExist,
)
from model.identifier import Identifier
from model.schema.change import SetOption
from model.schema.schema import column, new_schema
from model.snapshot import CommitKind, Snapshot
from table.format.manifests.entries import EMPTY_ROW, DataFile, NewFile, SimpleStats
from table.write.snapshot_builder import CommitRequest, everything
from tests.lake.tables.test_tables import Crash, crashing_at

T = Identifier("default", "t")


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    lake.create_table(T, new_schema([column("id", "BIGINT")], options={"bucket": "1", "bucket-key": "id"}))
    return lake.open(T)


def append(name: str, *, rows: int = 1, **more: object) -> CommitRequest:
    file = DataFile(
        file_name=name, file_size=1, row_count=rows, value_stats=SimpleStats(), value_stats_cols=(), min_sequence_number=0,
        max_sequence_number=rows - 1, schema_id=0, creation_time_millis=1,
    )  # fmt: skip
    adds = (NewFile(partition=EMPTY_ROW, bucket=0, file=file),)
    return CommitRequest(kind=CommitKind.APPEND, adds=adds, commit_user="u", **more)  # type: ignore[arg-type]


def names(table: LakeTable, snapshot: Snapshot | None = None) -> list[str]:
    return [entry.file.file_name for entry in table.files.live_entries(snapshot or table.latest())]


def snapshot_file(warehouse: Path, snapshot_id: int) -> Path:
    return warehouse / "default.db" / "t" / "snapshot" / f"snapshot-{snapshot_id}"


def test_a_commit_is_in_postgres_and_on_disk(lake: Lake, table: LakeTable, warehouse: Path) -> None:
    snapshot = lake.commit(table, append("a"))
    assert json.loads(snapshot_file(warehouse, 1).read_text()) == snapshot.to_json()
    assert (warehouse / "default.db/t/snapshot/LATEST").read_text() == "1"
    assert table.latest() == snapshot


def test_many_writers_lose_nothing_and_share_snapshots(lake: Lake, table: LakeTable) -> None:
    def write(writer: int) -> None:
        for number in range(10):
            lake.commit(lake.open(T), append(f"{writer}-{number}"))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    latest = table.latest()
    assert latest is not None
    assert sorted(names(table)) == sorted(f"{w}-{n}" for w in range(8) for n in range(10))
    tops = [entry.file.min_sequence_number for entry in table.files.live_entries(latest)]
    assert tops == list(range(80))
    assert latest.total_record_count == 80
    assert latest.id < 80


def test_two_processes_race_by_compare_and_set(catalog: CatalogStore, lake: Lake, table: LakeTable, warehouse: Path) -> None:
    other = Lake(catalog, str(warehouse))
    threads = [
        threading.Thread(target=lambda one=one, name=name: [one.commit(one.open(T), append(f"{name}{n}")) for n in range(15)])
        for name, one in (("a", lake), ("b", other))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    assert sorted(names(table)) == sorted(f"{name}{n}" for name in "ab" for n in range(15))


@pytest.mark.parametrize("step", ["built", "decided", "published", "hinted"])
def test_a_crash_leaves_the_commit_whole_or_absent(catalog: CatalogStore, lake: Lake, table: LakeTable, warehouse: Path, step: str) -> None:
    dying = crashing_at(step, catalog, warehouse)
    with pytest.raises(Crash):
        dying.commit(dying.open(T), append("a"))
    dying.close()
    lake.recover()
    expected = [] if step == "built" else ["a"]
    assert names(lake.open(T)) == expected
    assert snapshot_file(warehouse, 1).exists() is bool(expected)
    lake.commit(lake.open(T), append("b"))
    assert names(lake.open(T)) == [*expected, "b"]


def test_whoever_looks_first_publishes(catalog: CatalogStore, lake: Lake, table: LakeTable, warehouse: Path) -> None:
    dying = crashing_at("decided", catalog, warehouse)
    with pytest.raises(Crash):
        dying.commit(dying.open(T), append("a"))
    dying.close()
    assert not snapshot_file(warehouse, 1).exists()
    assert lake.open(T).latest() is not None
    assert snapshot_file(warehouse, 1).exists()


def test_a_foreign_snapshot_stops_the_commit(lake: Lake, table: LakeTable, warehouse: Path) -> None:
    lake.commit(table, append("a"))
    foreign = snapshot_file(warehouse, 2)
    foreign.write_text("{}")
    with pytest.raises(TableDiverged, match="snapshot-2"):
        lake.commit(table, append("b"))
    assert foreign.read_text() == "{}"
    latest = table.latest()
    assert latest is not None
    assert latest.id == 1


def test_several_tables_commit_together_or_not_at_all(lake: Lake, table: LakeTable) -> None:
    lake.create_table(Identifier("default", "u"), table.schema)
    other = lake.open(Identifier("default", "u"))
    assert [s.id for s in lake.commit_all([(table, append("a")), (other, append("b"))])] == [1, 1]
    lake.drop_table(Identifier("default", "u"))
    with pytest.raises(TableNotExist):
        lake.commit_all([(table, append("c")), (other, append("d"))])
    assert names(table) == ["a"]


def test_a_table_that_is_filled_twice_has_one_schema_for_both(lake: Lake, table: LakeTable) -> None:
    """One opened before an ALTER of the number of its buckets and one after it have files of different layouts."""
    lake.alter_table(T, [SetOption(key="bucket", value="2")])
    with pytest.raises(TableChanged):
        lake.commit_all([(table, append("a")), (lake.open(T), append("b"))])
    assert table.latest() is None


def test_an_overwrite_is_atomic(lake: Lake, table: LakeTable) -> None:
    first = lake.commit(table, append("a"))
    lake.commit(table, CommitRequest(kind=CommitKind.OVERWRITE, adds=append("b").adds, overwrite=everything, commit_user="u"))
    assert names(table) == ["b"]
    assert names(table, first) == ["a"]


def test_a_streaming_writers_repeat_is_applied_once_and_a_batch_writers_is_not(lake: Lake, table: LakeTable) -> None:
    once = append("s", commit_identifier=7)
    assert lake.commit(table, once).id == lake.commit(table, once).id == 1
    lake.commit(table, append("b"))
    lake.commit(table, append("c"))
    assert names(table) == ["s", "b", "c"]


def claimed(lake: Lake, key: str, body: str = "x") -> IdempotencyClaim:
    claim = lake.claim(key, scope="s", body_hash=body)
    assert isinstance(claim, IdempotencyClaim)
    return claim


def test_a_keys_work_is_done_once(lake: Lake, table: LakeTable) -> None:
    claim = claimed(lake, "k")
    with pytest.raises(IdempotencyInProgress):
        lake.claim("k", scope="s", body_hash="x")
    lake.commit(table, append("a"), claim=claim, answer=lambda snapshot: {"id": snapshot.id})
    assert lake.claim("k", scope="s", body_hash="x") == Replay(answer={"id": 1})
    with pytest.raises(IdempotencyMismatch):
        lake.claim("k", scope="s", body_hash="y")
    assert isinstance(lake.claim("k", scope="another caller", body_hash="y"), IdempotencyClaim)


def test_an_abandoned_key_is_free_again(lake: Lake) -> None:
    lake.idempotency.abandon(claimed(lake, "k"))
    claimed(lake, "k", body="other")


def test_a_dead_servers_claim_is_taken_over_and_cannot_commit_any_more(catalog: CatalogStore, lake: Lake, table: LakeTable) -> None:
    dead = claimed(lake, "k")
    lake.idempotency.release(dead)
    with catalog.transaction() as tx:
        tx.idempotency._conn.execute("UPDATE idempotency_key SET lease_until = now() - interval '1 s'")
    lake.commit(table, append("a"), claim=claimed(lake, "k"))
    with pytest.raises(IdempotencyInProgress):
        lake.commit(table, append("a again"), claim=dead)
    assert names(table) == ["a"]


def test_time_travel(lake: Lake, table: LakeTable) -> None:
    assert lake.resolve(table, {}) is None
    first = lake.commit(table, append("a", watermark=100))
    second = lake.commit(table, append("b", watermark=200))
    lake.tags.create(table, "v1", snapshot_id=1)
    for options in (
        {"scan.snapshot-id": "1"},
        {"scan.tag-name": "v1"},
        {"scan.version": "v1"},
        {"scan.version": "1"},
        {"scan.watermark": "50"},
        {"scan.mode": "from-snapshot", "scan.snapshot-id": "1"},
    ):
        found = lake.resolve(table, options)
        assert found is not None
        assert found.id == first.id, options
    assert lake.resolve(table, {"scan.timestamp-millis": str(second.time_millis)}) == second
    with pytest.raises(SnapshotNotExist, match=r"snapshots 1 .* to 2"):
        lake.resolve(table, {"scan.snapshot-id": "9"})
    with pytest.raises(SnapshotNotExist, match="or before"):
        lake.resolve(table, {"scan.timestamp-millis": "1"})
    with pytest.raises(TagNotExist):
        lake.resolve(table, {"scan.tag-name": "v2"})
    with pytest.raises(InvalidOption, match="two starting points"):
        lake.resolve(table, {"scan.tag-name": "v1", "scan.snapshot-id": "1"})
    with pytest.raises(InvalidOption, match="whole number"):
        lake.resolve(table, {"scan.snapshot-id": "one"})
