"""Work in the store goes on while Postgres hears nothing, for longer than a transaction may be silent otherwise."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest

from catalog import CatalogStore, connection
from lake import Lake
from lake.commit import publish
from model.errors import Unavailable
from table.format.io.file_io import LocalFileIO
from tests.lake.test_commit import T, append
from tests.lake.test_commit import table as table


class SlowIO(LocalFileIO):
    """A store that takes its time to remove a directory, or files, and removes only so many."""

    removes = 1_000
    seconds = 0.0

    def delete_tree(self, path: str) -> None:
        time.sleep(4.0)
        super().delete_tree(path)

    def delete(self, path: str) -> None:
        time.sleep(self.seconds)
        self.removes -= 1
        if self.removes < 0:
            raise Unavailable(f"The store of {path} cannot be reached.")
        super().delete(path)


@pytest.fixture
def slow(lake: Lake, dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    monkeypatch.setattr(connection, "SILENCE_MILLIS", 3_000)  # a busy disk flushes for a second
    catalog = CatalogStore(dsn)
    made = Lake(catalog, lake.warehouse, file_io=SlowIO())
    yield made
    made.close()
    catalog.close()


def six_commits(slow: Lake) -> SlowIO:
    """Make them, with a file of each; the store they lie in."""
    for number in range(6):
        slow.commit(slow.open(T), append(f"f{number}"))
    assert isinstance(slow.file_io, SlowIO)
    return slow.file_io


@pytest.mark.usefixtures("table")
def test_a_removal_that_takes_long_is_noted_when_it_is_done(slow: Lake, dsn: str) -> None:
    slow.commit(slow.open(T), append("f"))
    slow.drop_table(T, purge=True)
    with psycopg.connect(dsn) as conn:
        assert conn.execute("SELECT count(*) FROM dropped_directory").fetchone() == (0,)


@pytest.mark.usefixtures("table")
def test_files_removed_before_the_store_failed_are_not_removed_again(slow: Lake, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "_STALE_AT_ONCE", 2)
    io = six_commits(slow)
    io.removes = 3
    slow.history.rollback_to_snapshot(slow.open(T), 1)
    count = "SELECT count(*) FROM stale_file"
    with psycopg.connect(dsn, autocommit=True) as conn:
        assert conn.execute(count).fetchone() == (3,)
        io.removes = 1_000
        slow.open(T)
        assert conn.execute(count).fetchone() == (0,)


@pytest.mark.usefixtures("table")
def test_many_files_may_take_longer_than_a_transaction_may_be_silent(slow: Lake, dsn: str) -> None:
    """Silence was allowed for an hour: a server that stood still there kept every client from committing as long."""
    io = six_commits(slow)
    io.seconds = 0.8
    slow.history.rollback_to_snapshot(slow.open(T), 1)
    with psycopg.connect(dsn) as conn:
        assert conn.execute("SELECT count(*) FROM stale_file").fetchone() == (0,)
        assert conn.execute("SELECT count(*) FROM removed_file").fetchone() == (5,)
