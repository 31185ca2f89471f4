"""Consumers when history changes: what others committed in the place of what they had read is new to them."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from catalog import CatalogStore
from catalog.backup.holds import holding
from lake import Lake, LakeTable
from lake.rewrite.expiry import expire_snapshots
from lake.tables import history
from lake.tables.consumers import (
    ConsumerProgress,
    Filed,
    Lowered,
    consumers,
    file_lowered,
    filed_consumers,
    lower_consumers,
    reset_consumer,
)
from model.catalog_errors import BackupRunning
from model.errors import BadRequest, ConsumerTaken, SnapshotNotExist, StorageFull
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from table.format.consumers import delete_consumer, read_consumers, write_consumer
from table.format.io.file_io import FileStatus, LocalFileIO
from table.retention.expiry import ExpiryRules
from tests.lake.mortal import Killed, MortalIO
from tests.lake.test_commit import T, append
from tests.waiting import eventually


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


ALL_BUT_THE_LAST = ExpiryRules(at_least=1, at_most=1, retained=dt.timedelta(), per_run=None)


def forked(lake: Lake, table: LakeTable) -> LakeTable:
    """A branch of snapshot 2 that goes to 5 as main does, in other ways."""
    commit(lake, table, 4)
    lake.tags.create(table, "two", snapshot_id=2)
    lake.branches.create(table, "b", from_tag="two")
    branch = lake.open(Identifier(T.database, T.table, "b"))
    commit(lake, branch, 3)
    return branch


def test_a_branchs_expiry_leaves_what_main_goes_forward_by(lake: Lake, table: LakeTable) -> None:
    branch = forked(lake, table)
    lake.reset_consumer(table, "me", 5)
    assert expire_snapshots(lake, branch, ALL_BUT_THE_LAST).snapshots == ()
    lake.branches.fast_forward(table, "b")
    assert [snapshot.id for snapshot in lake.snapshots(table)] == [1, 2, 3, 4, 5]
    assert next_ids(lake, lake.open(T), "me", 3) == [3, 4, 5]
    assert expire_snapshots(lake, branch, ALL_BUT_THE_LAST).snapshots == (2, 3, 4), "main has the last one, too"


def test_main_does_not_go_forward_to_where_its_consumers_cannot(lake: Lake, table: LakeTable) -> None:
    branch = forked(lake, table)
    lake.reset_consumer(table, "me", 5)
    assert expire_snapshots(lake, branch, replace(ALL_BUT_THE_LAST, keeps_shared=False)).snapshots == (2, 3, 4)
    for dry_run in (True, False):
        with pytest.raises(BadRequest, match=r"begins at snapshot 5, .* main's consumers \(me\) could not go on"):
            lake.branches.fast_forward(table, "b", dry_run=dry_run)
    assert [snapshot.id for snapshot in lake.snapshots(table)] == [1, 2, 3, 4]
    assert lake.consumers(table) == {"me": 5}
    lake.forget_consumer(table, "me")
    lake.branches.fast_forward(table, "b")
    assert [snapshot.id for snapshot in lake.snapshots(table)] == [5]


class ObjectStore(LocalFileIO):
    """A store that cannot move a directory."""

    atomic_rename = False


@pytest.mark.parametrize("io", [LocalFileIO, ObjectStore])
def test_consumers_go_along_with_their_branch(catalog: CatalogStore, warehouse: Path, io: type[LocalFileIO]) -> None:
    with contextlib.closing(Lake(catalog, str(warehouse), file_io=io())) as lake:
        lake.create_table(T, new_schema([column("id", "BIGINT")], options={"bucket": "1", "bucket-key": "id"}))
        table = lake.open(T)
        lake.branches.create(table, "b")
        b, c = (Identifier(T.database, T.table, name) for name in "bc")
        branch = lake.open(b)
        commit(lake, branch, 3)
        progress, _ = ConsumerProgress.take(catalog, branch, "me")
        progress.tell(branch, 3)
        write_consumer(branch.files, "java", 2)
        lake.branches.rename(table, "b", "c")
        assert lake.consumers(lake.open(c)) == {"java": 2, "me": 3}
        assert next_ids(lake, lake.open(c), "me", 1) == [3]
        with pytest.raises(ConsumerTaken):  # it read under the former name
            progress.tell(branch, 4)
        lake.branches.create(table, "b")
        assert ConsumerProgress.take(catalog, lake.open(b), "me")[1] is None, "the progress of the branch that had the name before"
        lake.branches.drop(table, ["b", "c"])
        with catalog.reading() as tx:
            assert not any(tx.consumers.progress(table.table_id, name) for name in "bc")


class MortalStore(MortalIO):
    """A store that cannot move a directory, and whose server dies."""

    atomic_rename = False


def renamed_and_died(catalog: CatalogStore, warehouse: Path, io: MortalIO) -> None:
    """A table whose branch b has consumers and is called c since its server died, before a file was moved."""
    dying = Lake(catalog, str(warehouse), file_io=io)
    dying.create_table(T, new_schema([column("id", "BIGINT")], options={"bucket": "1", "bucket-key": "id"}))
    table = dying.open(T)
    dying.branches.create(table, "b")
    branch = dying.open(Identifier(T.database, T.table, "b"))
    commit(dying, branch, 3)
    ConsumerProgress.take(catalog, branch, "me")[0].tell(branch, 3)
    write_consumer(branch.files, "java", 2)
    io.changes_left = 0
    with pytest.raises(Killed):
        dying.branches.rename(table, "b", "c")


def dropped_and_brought_back(lake: Lake, table: LakeTable) -> None:
    lake.drop_retention = dt.timedelta(days=7)
    lake.drop_table(T)
    assert lake.finish_half_done().failed == 0
    lake.undrop_table(T)


MEANWHILE: dict[str, tuple[Callable[[Lake, LakeTable], object], str]] = {
    "nothing": (lambda lake, table: None, "c"),
    "another of the old name": (lambda lake, table: lake.branches.create(table, "b"), "c"),
    "another name once more": (lambda lake, table: lake.branches.rename(table, "c", "d"), "d"),
    "its table dropped and brought back": (dropped_and_brought_back, "c"),
    "the old name again": (lambda lake, table: lake.branches.rename(table, "c", "b"), "b"),
}
"""What becomes of a branch before its files have moved, and its name then."""


@pytest.mark.parametrize("io", [MortalIO, MortalStore])
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_consumers_go_along_where_the_server_dies(catalog: CatalogStore, warehouse: Path, io: type[MortalIO], meanwhile: str) -> None:
    """Only files tell of them, under a name that is no branch's any more."""
    renamed_and_died(catalog, warehouse, io())
    happens, name = MEANWHILE[meanwhile]
    other = LocalFileIO() if io is MortalIO else ObjectStore()
    with contextlib.closing(Lake(catalog, str(warehouse), file_io=other)) as lake:
        table = lake.open(T)
        happens(lake, table)
        assert lake.finish_half_done().failed == 0
        branch = lake.open(Identifier(T.database, T.table, name))
        assert lake.consumers(branch) == {"java": 2, "me": 3}
        assert ConsumerProgress.take(catalog, branch, "me")[1] == 3
        there = {path.name for path in Path(table.location.removeprefix("file://"), "branch").iterdir()}
        assert there == {f"branch-{one}" for one in lake.branches.names(table)}


def test_a_branch_that_is_made_later_gets_no_consumers_of_another(catalog: CatalogStore, warehouse: Path) -> None:
    renamed_and_died(catalog, warehouse, MortalStore())
    with contextlib.closing(Lake(catalog, str(warehouse), file_io=ObjectStore())) as lake:
        lake.branches.drop(lake.open(T), ["c"])
        lake.branches.create(lake.open(T), "c")
        assert lake.finish_half_done().failed == 0
        assert lake.consumers(lake.open(Identifier(T.database, T.table, "c"))) == {}


def test_no_branch_gets_another_name_while_a_backup_runs(lake: Lake, table: LakeTable, dsn: str) -> None:
    """Its files would be elsewhere than the backup looks for them."""
    lake.branches.create(table, "b")
    with holding(dsn), pytest.raises(BackupRunning, match="Renaming branch b"):
        lake.branches.rename(table, "b", "c")
    lake.branches.rename(table, "b", "c")


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


class _NotingIO(LocalFileIO):
    """The disk, with the consumers' and tags' files that are read or listed while a table is held.

    Consumers' against commits or other changes of its past, tags' against commits.
    """

    def __init__(self, catalog: CatalogStore) -> None:
        super().__init__()
        self._catalog = catalog
        self.looked: list[str] = []
        self.held: list[str] = []

    def read(self, path: str) -> bytes:
        self._look(path)
        return super().read(path)

    def list(self, path: str) -> list[FileStatus]:
        self._look(f"{path}/")
        return super().list(path)

    def _look(self, path: str) -> None:
        if "/consumer/" in path or "/tag/" in path:
            self.looked.append(path)
            against = "NO KEY UPDATE" if "/consumer/" in path else "KEY SHARE"
            with self._catalog._pool.connection() as conn:
                free = conn.execute(f"SELECT 1 FROM table_entry FOR {against} SKIP LOCKED").fetchall()
            if not free:
                self.held.append(path)


def rolled_back(lake: Lake) -> None:
    lake.history.rollback_to_snapshot(lake.open(T), 2)


def gone_back_to_a_tag(lake: Lake) -> None:
    lake.history.rollback_to_tag(lake.open(T), "two")


def gone_forward(lake: Lake) -> None:
    lake.branches.create(lake.open(T), "b", from_tag="two")
    lake.branches.fast_forward(lake.open(T), "b")


def repaired(lake: Lake) -> None:
    lake.repair_table(T)


def expired(lake: Lake) -> None:
    expire_snapshots(lake, lake.open(T), ALL_BUT_THE_LAST)


@pytest.mark.parametrize("change", [rolled_back, gone_back_to_a_tag, gone_forward, repaired, expired])
def test_no_file_of_a_consumer_or_tag_is_waited_for_while_the_table_is_held(
    lake: Lake, table: LakeTable, catalog: CatalogStore, warehouse: Path, change: Callable[[Lake], None]
) -> None:
    commit(lake, table, 3)
    lake.tags.create(table, "two", snapshot_id=2)
    lake.reset_consumer(table, "me", 4)
    latest = lake.open(T).latest()
    assert latest is not None
    table.files.io.write(table.files.layout.tag_file("client's"), json.dumps(latest.to_json()).encode())
    noting = _NotingIO(catalog)
    with contextlib.closing(Lake(catalog, str(warehouse), file_io=noting)) as slow:
        change(slow)
    assert {path.split("/")[-2] for path in noting.looked if not path.endswith("/")} == {"consumer", "tag"}
    commits_wait = change is repaired  # for all that it compares
    assert [path for path in noting.held if not commits_wait or "/tag/" not in path] == []


def waits_for_a_lock(catalog: CatalogStore) -> bool:
    with catalog._pool.connection() as conn:
        rows = conn.execute("SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").fetchall()
    return bool(rows)


@pytest.mark.parametrize("take", [True, False], ids=["take", "reset"])
def test_a_consumer_that_is_new_and_a_rollback_do_not_wait_for_each_other(
    lake: Lake, table: LakeTable, catalog: CatalogStore, monkeypatch: pytest.MonkeyPatch, *, take: bool
) -> None:
    """Of a name that another engine's file has: both make its row."""
    commit(lake, table, 3)
    write_consumer(table.files, "java", 4)
    began: list[Future[object]] = []

    def taken() -> object:
        return ConsumerProgress.take(catalog, table, "java")[1] if take else lake.reset_consumer(table, "java", 1)

    def meanwhile(*args: Any) -> Lowered:
        began.append(threads.submit(taken))
        assert eventually(lambda: waits_for_a_lock(catalog), pause=0.01)
        return lower_consumers(*args)

    monkeypatch.setattr(history, "lower_consumers", meanwhile)
    with ThreadPoolExecutor(1) as threads:
        lake.history.rollback_to_snapshot(table, 1)
        assert began[0].result(120) == (2 if take else None)
    assert lake.consumers(table) == {"java": 2 if take else 1}


def test_who_goes_back_sees_what_was_told_since_it_read_the_files(lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(lake, table, 5)
    for name in ("on", "back", "gone"):
        lake.reset_consumer(table, name, 3)
    write_consumer(table.files, "java", 6)

    def then(catalog: CatalogStore, table: LakeTable) -> Filed:
        filed = filed_consumers(catalog, table)
        for name, following in {"on": 6, "back": 2, "new": 5, "gone": None, "java": None}.items():
            lake.reset_consumer(table, name, following)
        return filed

    monkeypatch.setattr(history, "filed_consumers", then)
    lake.history.rollback_to_snapshot(table, 3)
    assert lake.consumers(table) == {"back": 2, "new": 4, "on": 4}
    assert {consumer.name: consumer.next_snapshot for consumer in read_consumers(table.files)} == lake.consumers(table)


def test_a_consumer_that_a_client_removed_does_not_come_back(lake: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(lake, table, 3)
    lake.reset_consumer(table, "me", 4)
    lake.reset_consumer(table, "other", 4)

    def removed_before(catalog: CatalogStore, table: LakeTable, lowered: Lowered) -> None:
        delete_consumer(table.files, "me")
        file_lowered(catalog, table, lowered)

    monkeypatch.setattr(history, "file_lowered", removed_before)
    lake.history.rollback_to_snapshot(table, 1)
    assert [(consumer.name, consumer.next_snapshot) for consumer in read_consumers(table.files)] == [("other", 2)]
    assert lake.consumers(table) == {"other": 2}
    assert ConsumerProgress.take(lake.catalog, table, "me")[1] is None


def test_commits_go_on_while_a_rollback_waits_for_a_consumers_file(
    lake: Lake, table: LakeTable, catalog: CatalogStore, warehouse: Path
) -> None:
    began, may = threading.Event(), threading.Event()

    class Slow(LocalFileIO):
        def write(self, path: str, data: bytes) -> None:
            if "/consumer/" in path:
                began.set()
                assert may.wait(120)
            super().write(path, data)

    commit(lake, table, 2)
    with contextlib.closing(Lake(catalog, str(warehouse), file_io=Slow())) as slow, ThreadPoolExecutor(2) as threads:
        writing = threads.submit(slow.reset_consumer, slow.open(T), "me", 3)
        assert began.wait(120)
        going_back = threads.submit(lake.history.rollback_to_snapshot, table, 1)
        assert eventually(lambda: waits_for_a_lock(catalog), pause=0.01)
        try:
            commit(lake, table, 1)
            assert not going_back.done()
        finally:
            may.set()
        writing.result(120)
        assert [snapshot.id for snapshot in going_back.result(120).removed] == [2, 3]
    assert lake.consumers(table) == {"me": 2}


def test_consumers_of_a_table_that_is_held_keep_no_other_table_from_its_files(lake: Lake, table: LakeTable, catalog: CatalogStore) -> None:
    """They waited for its row in the few places that all tables have for files: others' ALTERs, tags and consumers waited for them."""
    lake.create_table(named := Identifier("default", "other"), new_schema([column("id", "BIGINT")]))
    other = lake.open(named)
    progress = [ConsumerProgress.take(catalog, table, f"c{number}")[0] for number in range(12)]
    with ThreadPoolExecutor(len(progress)) as pool:
        with catalog.transaction() as tx:
            tx.tables.lock(table.identifier)
            telling = [pool.submit(each.tell, table, 1) for each in progress]
            assert eventually(lambda: waits_for_a_lock(catalog))
            for number in range(8):
                with catalog.beside_store(seconds=10.0) as beside:
                    beside.tables.hold(other.table_id)
                reset_consumer(catalog, other, f"c{number}", 1)
            assert not any(each.done() for each in telling)
        for each in telling:
            each.result()
    assert set(consumers(catalog, table).values()) == {1}
