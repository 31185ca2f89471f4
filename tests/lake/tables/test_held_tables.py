"""Who holds a table for long, as where a store is slow, keeps nobody from reading it, and holds it no longer than need be."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import psycopg
import pytest

from catalog import CatalogStore, CatalogTransaction
from catalog.listing import EVERYTHING
from lake import Lake, LakeTable
from lake.register.expired import left_by_expiry
from lake.rewrite.expiry import expire_snapshots
from lake.tables import history
from model.errors import Unavailable
from model.schema.change import AddColumn
from model.schema.schema import column, new_schema
from model.schema.types import parse_type
from table.format.io.file_io import LocalFileIO
from tests.lake.kept import keep
from tests.lake.test_commit import T, append
from tests.lake.test_commit import table as table

HOLD = "SELECT 1 FROM table_entry FOR UPDATE"
HOLD_BESIDE_COMMITS = "SELECT 1 FROM table_entry FOR NO KEY UPDATE"


class WatchedIO(LocalFileIO):
    """A store that renames nothing, and calls something before it deletes a tree."""

    atomic_rename = False
    before: Callable[[], None] = staticmethod(lambda: None)

    def delete_tree(self, path: str) -> None:
        self.before()
        super().delete_tree(path)


@contextlib.contextmanager
def held(dsn: str) -> Iterator[None]:
    """While somebody else changes the table, or stands still in it."""
    with psycopg.connect(dsn) as conn:
        conn.execute(HOLD)
        yield


def require_free(dsn: str) -> None:
    """Raise where somebody holds the table for longer than the moment in which another thread notes something of it."""
    with psycopg.connect(dsn) as conn:
        conn.execute("SET lock_timeout = '5s'")
        conn.execute(HOLD)


def stale_at(dsn: str) -> int:
    with psycopg.connect(dsn) as conn:
        row = conn.execute("SELECT count(*) FROM stale_file").fetchone()
    assert row is not None
    return int(row[0])


def leave_stale(dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute("INSERT INTO stale_file (table_id, path, mark) SELECT table_id, 'tag/tag-gone', '{}' FROM table_entry")


def leave_unpublished(dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE table_entry SET published_schema_id = schema_id - 1")


@pytest.mark.parametrize("leave", [leave_stale, leave_unpublished])
def test_a_table_that_is_held_can_be_read_and_listed(lake: Lake, table: LakeTable, dsn: str, leave: Callable[[str], None]) -> None:
    lake.alter_table(T, [AddColumn(name="more", type=parse_type("INT"))])
    leave(dsn)
    began = time.monotonic()
    with held(dsn):
        assert lake.open(T).table_id == table.table_id
        assert [row.name for row in lake.describe_all(T.database, EVERYTHING)] == [T.table]
    assert time.monotonic() - began < 15, "twenty seconds is how long others wait, who are refused then"
    lake.open(T)
    with psycopg.connect(dsn) as conn:
        assert conn.execute("SELECT schema_id - published_schema_id FROM table_entry").fetchone() == (0,)
    assert not stale_at(dsn)


@pytest.mark.usefixtures("table")
def test_a_repair_that_is_only_tried_neither_waits_nor_holds(lake: Lake, dsn: str) -> None:
    lake.commit(lake.open(T), append("f"))
    with held(dsn):
        assert lake.repair_table(T, dry_run=True).registered == ()


@pytest.mark.usefixtures("table")
def test_expiry_holds_a_table_for_a_few_files_at_a_time(lake: Lake, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    look, delete, deleted = left_by_expiry, history._delete_expired, list[list[int]]()

    def looked(*args: object, **more: object) -> list[int]:
        require_free(dsn)
        return look(*args, **more)  # type: ignore[arg-type]

    def counted(tx: CatalogTransaction, of: LakeTable, ids: Iterable[int]) -> None:
        deleted.append(list(ids))
        delete(tx, of, deleted[-1])

    for number in range(1, 7):
        lake.commit(lake.open(T), append(f"f{number}"))
    monkeypatch.setattr(history, "left_by_expiry", looked)
    monkeypatch.setattr(history, "_delete_expired", counted)
    monkeypatch.setattr(history, "_CLEARED_AT_ONCE", 2)
    opened = lake.open(T)
    expire_snapshots(lake, opened, keep(1))
    assert deleted == [[1, 2], [3, 4], [5]]
    assert opened.files.snapshot_ids() == [6]


@pytest.mark.usefixtures("table")
def test_what_a_drop_left_is_deleted_before_a_branch_is_made_there(lake: Lake, dsn: str) -> None:
    io, asked = WatchedIO(), list[bool]()

    def away() -> None:
        raise Unavailable("The store cannot be reached.")

    def ask() -> None:
        require_free(dsn)
        asked.append(True)

    catalog = CatalogStore(dsn)
    other = Lake(catalog, lake.warehouse, file_io=io)
    lake.branches.create(lake.open(T), "old")
    io.before = away
    other.branches.drop(other.open(T), ["old"])
    io.before = ask
    other.branches.create(other.open(T), "old")
    assert asked
    other.close()
    catalog.close()


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("renamed", [True, False])
def test_a_branchs_directory_is_deleted_while_others_use_the_table(lake: Lake, dsn: str, renamed: bool) -> None:
    io, asked = WatchedIO(), list[bool]()

    def ask() -> None:
        require_free(dsn)
        asked.append(True)

    catalog = CatalogStore(dsn)
    other = Lake(catalog, lake.warehouse, file_io=io)
    lake.branches.create(lake.open(T), "old")
    opened = other.open(T)
    if renamed:
        io.before = ask
        other.branches.rename(opened, "old", "new")
    else:
        lake.branches.drop(lake.open(T), ["old"])
        io.before = ask
        other._clear_branch(opened.table_id, opened.location, "old")
    assert asked
    with psycopg.connect(dsn) as conn:
        assert conn.execute("SELECT count(*) FROM dropped_directory").fetchone() == (0,)
    other.close()
    catalog.close()


@contextlib.contextmanager
def held_for(dsn: str, seconds: float) -> Iterator[None]:
    """Somebody holds the table from now on for so long, and lets commits go on."""
    with psycopg.connect(dsn) as conn:
        conn.execute(HOLD_BESIDE_COMMITS)
        timer = threading.Timer(seconds, conn.rollback)
        timer.start()
        try:
            yield
        finally:
            timer.join()


def test_an_alter_ends_once_its_schemas_file_is_there(catalog: CatalogStore, warehouse: Path, dsn: str) -> None:
    """Readers of files know of no other way to learn of it, and of nobody who would be the next to publish it."""
    with contextlib.ExitStack() as holding:

        def hook(event: str) -> None:
            if event == "schema decided":
                holding.enter_context(held_for(dsn, 4.0))

        lake = Lake(catalog, str(warehouse), hook=hook)
        lake.create_table(T, new_schema([column("a", "INT")], options={"bucket": "-1"}))
        files = lake.open(T).files
        lake.alter_table(T, [AddColumn(name="more", type=parse_type("INT"))])
        assert files.schema_ids() == [0, 1]
        lake.close()


@pytest.mark.usefixtures("table")
def test_no_snapshot_is_published_before_its_schema(lake: Lake, dsn: str) -> None:
    lake.alter_table(T, [AddColumn(name="more", type=parse_type("INT"))])
    leave_unpublished(dsn)
    files = lake.open(T).files
    leave_unpublished(dsn)
    files.io.delete(files.layout.schema_file(1))
    with contextlib.ExitStack() as holding:
        conn = holding.enter_context(psycopg.connect(dsn))
        conn.execute(HOLD_BESIDE_COMMITS)
        opened = lake.open(T)  # which waits 2 s at most, as the commit does
        assert files.schema_ids() == [0]
        timer = threading.Timer(1.0, conn.rollback)
        timer.start()
        holding.callback(timer.join)
        lake.commit(opened, append("f"))
        assert files.snapshot_ids() == [1]
        assert files.schema_ids() == [0, 1]
