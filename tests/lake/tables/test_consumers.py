"""Consumers when history changes: what others committed in the place of what they had read is new to them."""

from __future__ import annotations

import contextlib
from itertools import islice
from pathlib import Path
from uuid import uuid4

import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.tables.consumers import ConsumerProgress
from model.errors import ConsumerTaken, SnapshotNotExist, StorageFull
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from table.format.consumers import read_consumers, write_consumer
from table.format.io.file_io import LocalFileIO
from tests.lake.test_commit import T, append


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    lake.create_table(T, new_schema([column("id", "BIGINT")], options={"bucket": "1", "bucket-key": "id"}))
    return lake.open(T)


def commit(lake: Lake, table: LakeTable, count: int) -> None:
    for _ in range(count):
        lake.commit(table, append(str(uuid4())))


def next_ids(lake: Lake, table: LakeTable, consumer: str, count: int) -> list[int]:
    """The snapshots a stream under the name reads next."""
    stream = lake.follow(table, {"consumer-id": consumer})
    with contextlib.closing(stream):
        return [step.snapshot.id for step in islice((step for step in stream.steps() if step is not None), count)]


@pytest.mark.parametrize("before", [4, 6], ids=["fewer than it has read", "as many as it has read"])
def test_a_rollback_takes_consumers_along(lake: Lake, table: LakeTable, before: int) -> None:
    """What was committed in the place of what they had read is new to them; also to those of other engines, which write files."""
    commit(lake, table, 5)
    for name, following in (("behind", 3), ("at", 4), ("me", 6)):
        lake.reset_consumer(table, name, following)
    write_consumer(table.files, "java", 6)
    progress, _ = ConsumerProgress.take(lake.catalog, table, "me")
    lake.history.rollback_to_snapshot(table, 3)
    assert lake.consumers(table) == {"at": 4, "behind": 3, "java": 4, "me": 4}
    assert {consumer.name: consumer.next_snapshot for consumer in read_consumers(table.files)} == lake.consumers(table)
    commit(lake, table, before - 3)
    with pytest.raises(ConsumerTaken):
        progress.tell(table, 7)
    for name in ("me", "java", "at"):
        assert next_ids(lake, table, name, before - 3) == list(range(4, before + 1))
    assert next_ids(lake, table, "behind", before - 2) == list(range(3, before + 1))


def test_consumers_are_taken_along_also_where_the_server_dies(lake: Lake, table: LakeTable, catalog: CatalogStore, warehouse: Path) -> None:
    class Full(LocalFileIO):
        def write(self, path: str, data: bytes) -> None:
            if "/consumer/" in path:
                raise StorageFull("No space.")
            super().write(path, data)

    commit(lake, table, 3)
    lake.reset_consumer(table, "me", 4)
    with contextlib.closing(Lake(catalog, str(warehouse), file_io=Full())) as full:
        full.history.rollback_to_snapshot(full.open(T), 1)
    assert [consumer.next_snapshot for consumer in read_consumers(table.files)] == [4], "its file could not be written"
    assert lake.consumers(table) == {"me": 2}
    lake.history.rollback_to_snapshot(table, 1)
    assert lake.consumers(table) == {"me": 2}
    commit(lake, table, 3)
    assert next_ids(lake, table, "me", 3) == [2, 3, 4]


def test_main_goes_forward_to_a_branch_and_consumers_read_what_is_the_branchs(lake: Lake, table: LakeTable) -> None:
    commit(lake, table, 3)
    lake.tags.create(table, "two", snapshot_id=2)
    lake.branches.create(table, "b", from_tag="two")
    lake.reset_consumer(table, "me", 4)
    lake.reset_consumer(table, "behind", 2)
    commit(lake, lake.open(Identifier(T.database, T.table, "b")), 2)
    lake.branches.fast_forward(table, "b")
    assert lake.consumers(table) == {"behind": 2, "me": 3}
    assert next_ids(lake, lake.open(T), "me", 2) == [3, 4]


def test_a_consumer_beyond_the_table_is_told(lake: Lake, table: LakeTable) -> None:
    """As after a restore from a backup: it would wait for the id, and miss what comes until then."""
    commit(lake, table, 1)
    write_consumer(table.files, "me", 3)
    with pytest.raises(SnapshotNotExist, match=r"CALL sys.reset_consumer\('default.t', 'me', 2\)"):
        lake.follow(table, {"consumer-id": "me"})
    lake.reset_consumer(table, "me", 2)
    commit(lake, table, 1)
    assert next_ids(lake, table, "me", 1) == [2]


def test_progress_on_what_was_rolled_back_is_not_noted(lake: Lake, table: LakeTable) -> None:
    commit(lake, table, 3)
    read = lake.snapshots(table)[-1]
    lake.reset_consumer(table, "me", 4, after=read.key)
    lake.history.rollback_to_snapshot(table, 2)
    for _ in range(2):
        commit(lake, table, 1)
        with pytest.raises(SnapshotNotExist, match="rolled back to before snapshot 3"):
            lake.reset_consumer(table, "me", 4, after=read.key)
    assert lake.consumers(table) == {"me": 3}
