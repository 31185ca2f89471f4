"""What is flushed before Postgres decides, and before it is told that a snapshot's file is there."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from catalog import CatalogStore
from lake import Lake
from model.errors import TableDiverged, TableNotExist, Unavailable
from model.schema.schema import column, new_schema
from model.snapshot import CommitKind, Snapshot
from table.format.io.file_io import LocalFileIO
from table.write.writer import write_batches
from tests.lake.commit.test_faults import WORKS, T, batch, insert, rows


class RecordingIO(LocalFileIO):
    """Tells what it flushes; the chosen flush fails."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        self.refuse: str | None = None

    def sync(self, paths: Collection[str]) -> None:
        self.told += sorted(paths)
        if self.refuse is not None and any(self.refuse in path for path in paths):
            raise Unavailable("The disk is broken.")
        super().sync(paths)


@pytest.fixture
def io() -> RecordingIO:
    return RecordingIO()


@pytest.fixture
def recorded(catalog: CatalogStore, warehouse: Path, io: RecordingIO) -> Iterator[Lake]:
    """A lake whose steps and flushes stand in one list."""
    made = Lake(catalog, str(warehouse), file_io=io, hook=io.told.append)
    made.create_table(T, new_schema([column("id", "BIGINT")], options={"bucket": "1", "bucket-key": "id"}))
    yield made
    made.close()


def published(catalog: CatalogStore, lake: Lake, snapshot_id: int) -> bool:
    table = lake.open(T)
    with catalog.reading() as tx:
        row = tx.snapshots.get(table.table_id, "main", snapshot_id)
    assert row is not None
    return row.published


@pytest.mark.parametrize("work", ["insert", "compaction", "replace"])
def test_all_of_a_commit_is_flushed_before_it_is_decided_and_its_file_before_it_is_noted(
    lake: Lake, recorded: Lake, io: RecordingIO, work: str
) -> None:
    for number in (1, 3, 5):
        insert(lake, number, number + 1)
    lake.close()
    table = recorded.open(T)
    before = table.latest()
    assert before is not None
    io.told.clear()
    WORKS[work][0](recorded)
    recorded.close()
    latest = table.latest()
    assert latest is not None
    first = next(s for s in (table.files.read_snapshot(n) for n in range(before.id + 1, latest.id + 1)) if s is not None)
    data = [table.files.data_path(table.schema, entry) for entry in table.files.delta_entries(first) if entry.kind.name == "ADD"]
    lists = [table.files.layout.manifest(name) for name in (first.base_manifest_list, first.delta_manifest_list)]
    known = {meta.file_name for meta in table.files.manifests_of(before)}
    manifests = [table.files.layout.manifest(m.file_name) for m in table.files.manifests_of(first) if m.file_name not in known]
    decided = io.told.index("decided")
    assert work == "replace" or data
    assert manifests
    assert {*data, *lists, *manifests} <= set(io.told[:decided])
    file = table.files.layout.snapshot_file(first.id)
    assert decided < io.told.index("published") < io.told.index(file) < io.told.index("noted")


def test_a_commit_whose_files_cannot_be_flushed_is_not_made(recorded: Lake, io: RecordingIO) -> None:
    insert(recorded, 1)
    io.refuse = "bucket-0"
    with pytest.raises(Unavailable, match="broken"):
        insert(recorded, 2)
    io.refuse = None
    insert(recorded, 3)
    assert rows(recorded.open(T)) == [1, 3]


def test_a_snapshot_file_that_cannot_be_flushed_is_written_anew_before_it_is_noted(
    catalog: CatalogStore, recorded: Lake, io: RecordingIO
) -> None:
    io.refuse = "snapshot-1"
    insert(recorded, 1)
    recorded._publisher._notifier._send()
    assert not published(catalog, recorded, 1)
    path = Path(recorded.open(T).files.layout.snapshot_file(1))
    lost = path.stat().st_ino
    io.refuse = None
    insert(recorded, 2)
    recorded._publisher._notifier._send()
    recorded.close()
    assert path.stat().st_ino != lost
    assert published(catalog, recorded, 1)
    assert published(catalog, recorded, 2)


@pytest.mark.parametrize("torn", [b"", b"\0" * 512, b'{"version":3,"id":2,"schemaId"'])
def test_a_torn_file_of_a_decided_snapshot_is_replaced(catalog: CatalogStore, lake: Lake, recorded: Lake, torn: bytes) -> None:
    insert(recorded, 1)
    insert(recorded, 2)
    recorded.close()
    table = lake.open(T)
    file = Path(table.files.layout.snapshot_file(2))
    with catalog.transaction() as tx:  # a crash before it was noted
        tx.snapshots._conn.execute("UPDATE table_snapshot SET published = false WHERE snapshot_id = 2")
    file.write_bytes(torn)
    assert table.latest() == table.files.read_snapshot(2)
    insert(lake, 3)
    assert rows(table) == [1, 2, 3]


@pytest.mark.damages
def test_a_foreign_file_in_the_place_of_a_decided_snapshot_is_not_touched(recorded: Lake, lake: Lake) -> None:
    insert(recorded, 1)
    table = recorded.open(T)
    foreign = Path(table.files.layout.snapshot_file(2))
    foreign.write_text('{"id": 2, "what": "another"}')
    with pytest.raises(TableDiverged):
        insert(lake, 2)
    assert "another" in foreign.read_text()


@pytest.mark.parametrize("again", [True, False])
def test_a_table_dropped_before_its_files_are_flushed_is_gone_and_no_bug(lake: Lake, recorded: Lake, again: bool) -> None:
    table = recorded.open(T)
    with table.write() as write:
        write.add(write_batches(table.files, table.schema, [batch(1)]))
        lake.drop_table(T)
        if again:
            lake.create_table(T, table.schema)
        with pytest.raises(TableNotExist):
            recorded.commit(table, write.request(CommitKind.APPEND))
    if again:
        assert rows(lake.open(T)) == []


def test_a_missing_file_is_told_and_nothing_is_committed(recorded: Lake) -> None:
    table = recorded.open(T)
    with table.write() as write:
        (new,) = write.add(write_batches(table.files, table.schema, [batch(1)]))
        Path(table.location, "bucket-0", new.file.file_name).unlink()
        with pytest.raises(Unavailable, match="was removed before it could be committed"):
            recorded.commit(table, write.request(CommitKind.APPEND))
    found: Snapshot | None = table.latest()
    assert found is None
