"""Snapshots a server builds by itself of a branch that others write: built before the turn, and in it only what came since."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.commit import turns
from lake.commit.built import BuiltCommit
from lake.register.lost import remove_unexisting_files
from model.errors import Unavailable
from model.identifier import MAIN_BRANCH
from model.schema.schema import column, new_schema
from model.snapshot import CommitKind, Snapshot
from table.format.io.file_io import LocalFileIO
from table.write.snapshot_builder import CommitRequest, build_snapshot, metadata_written
from tests.lake.commit.test_faults import T, insert, rows
from tests.lake.commit.test_kept_turns import holders, is_over
from tests.table.vectors import with_deleted

_FILES = 5


class _NotingIO(LocalFileIO):
    """The disk, with the names of what is looked at and written while somebody has a turn."""

    def __init__(self) -> None:
        super().__init__()
        self.in_turn: Callable[[], bool] = lambda: False
        self.looked: list[str] = []
        self.written: list[str] = []

    def size(self, path: str) -> int:
        if self.in_turn():
            self.looked.append(path)
        return super().size(path)

    def open_input(self, path: str) -> pa.NativeFile:
        if self.in_turn():
            self.looked.append(path)
        return super().open_input(path)

    def add(self, path: str, data: bytes) -> None:
        if self.in_turn():
            self.written.append(path.rpartition("/")[2])
        super().add(path, data)


@pytest.fixture
def io() -> _NotingIO:
    return _NotingIO()


@pytest.fixture
def lake(catalog: CatalogStore, warehouse: Path, io: _NotingIO) -> Iterator[Lake]:
    made = Lake(catalog, str(warehouse), file_io=io)
    yield made
    made.close()


@pytest.fixture
def other(catalog: CatalogStore, warehouse: Path) -> Iterator[Lake]:
    made = Lake(catalog, str(warehouse))
    yield made
    made.close()


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    lake.create_table(T, new_schema([column("id", "BIGINT")], options={"bucket": "-1"}))
    for number in range(_FILES):
        insert(lake, number, 100 + number)
    return lake.open(T)


@pytest.fixture
def contested(lake: Lake, table: LakeTable) -> None:
    """Another server has written the table just now."""
    lake._core.turns.met((table.table_id, MAIN_BRANCH))


def latest_of(table: LakeTable) -> Snapshot:
    latest = table.latest()
    assert latest is not None
    return latest


def unchanged(table: LakeTable, key: str) -> BuiltCommit:
    """A snapshot of the same files after the latest."""
    base = latest_of(table)
    request = CommitRequest(kind=CommitKind.COMPACT, commit_user=str(uuid4()), operation="COMPACT")
    made = build_snapshot(table.files, table.schema, base, [request], uuid=key, time_millis=base.time_millis)
    return BuiltCommit(table=table, base=base, snapshot=made, sync=metadata_written(table.files, table.schema, base, made))


def first(monkeypatch: pytest.MonkeyPatch, lake: Lake, do: Callable[[], None]) -> None:
    """Do it once, just before the turn is asked for."""
    taken, left = lake._core.turns.taken, [do]

    def doing(places: object, **options: object) -> object:
        if left:
            left.pop()()
        return taken(places, **options)  # type: ignore[arg-type] # as it came

    monkeypatch.setattr(lake._core.turns, "taken", doing)


@pytest.mark.usefixtures("contested")
def test_it_is_built_before_the_turn_and_not_again_where_nobody_came(catalog: CatalogStore, lake: Lake, table: LakeTable) -> None:
    turns_held: list[int] = []

    def build(key: str) -> BuiltCommit:
        turns_held.append(holders(catalog))
        return unchanged(table, key)

    assert lake.decide_repaired(table, build)
    assert turns_held == [0]
    assert latest_of(table).id == _FILES + 1


@pytest.mark.usefixtures("contested")
def test_one_that_takes_too_long_in_its_turn_lets_others_go_on(
    catalog: CatalogStore, lake: Lake, other: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns_held, usual = list[int](), turns.BUILT_SECONDS

    def build(key: str) -> BuiltCommit:
        turns_held.append(holders(catalog))
        built = unchanged(table, key)
        if len(turns_held) == 2:
            is_over(catalog)
            monkeypatch.setattr(turns, "BUILT_SECONDS", usual)
            insert(other, 11)
        return built

    monkeypatch.setattr(turns, "BUILT_SECONDS", 0.1)
    first(monkeypatch, lake, lambda: insert(other, 10))
    assert lake.decide_repaired(table, build)
    assert turns_held[:2] == [0, 1]
    assert latest_of(table).id == _FILES + 3
    assert {10, 11} <= set(rows(lake.open(T)))


@pytest.mark.usefixtures("contested")
def test_one_that_always_takes_too_long_is_refused(
    catalog: CatalogStore, lake: Lake, other: Lake, table: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers go on meanwhile, and it began anew forever."""
    built: list[int] = []

    def build(key: str) -> BuiltCommit:
        made = unchanged(table, key)
        built.append(made.snapshot.id)
        if holders(catalog):
            is_over(catalog)
        insert(other, 10)
        return made

    monkeypatch.setattr(turns, "BUILT_SECONDS", 0.1)
    with pytest.raises(Unavailable, match=r"default\.t is written by several servers.* 3 times.*Nothing was committed; repeat it"):
        lake.decide_repaired(table, build)
    assert len(built) == 2 * turns.MOST_TURNS_LOST
    assert latest_of(table).id == _FILES + len(built), "those of the writers alone"


@pytest.mark.usefixtures("contested")
def test_a_repair_looks_in_its_turn_only_at_what_came_since(
    catalog: CatalogStore, lake: Lake, other: Lake, table: LakeTable, io: _NotingIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = list(table.files.live_entries(table.latest()))
    noted = with_deleted(table.files, latest_of(table), {entry.file.file_name: [0] for entry in entries})

    def deleting(key: str) -> BuiltCommit:
        built = unchanged(table, key)
        return replace(built, snapshot=replace(built.snapshot, index_manifest=noted.index_manifest))

    assert lake.decide_repaired(table, deleting)
    lost = table.files.data_path(table.schema, entries[0])
    Path(lost).unlink()
    first(monkeypatch, lake, lambda: insert(other, 10))
    lake._core.turns.met((table.table_id, MAIN_BRANCH))
    io.in_turn = lambda: holders(catalog) > 0
    assert len(remove_unexisting_files(lake, lake.open(T), dry_run=False, deep=True, threads=2, check=lambda: None)) == 1
    io.in_turn = lambda: False
    assert not [path for path in io.looked if "/index-" in path]
    assert len({path for path in io.looked if "/bucket-" in path} - {lost}) == 1, "the file that came since"
    assert len([name for name in io.written if name.startswith("manifest-") and "list" not in name]) == 2, "what came and what went"
    left = set(rows(lake.open(T)))
    assert 10 in left
    assert not left & {0, 100}
