"""An INSERT whose table another server has changed since this one saw it last: planned anew, or told of the table as it is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from catalog import CatalogStore
from gateway.gateway import Gateway
from lake import EVERYBODY, Lake
from model.errors import AnalysisError, LakeError, TableNotExist
from model.identifier import Identifier
from tests.fix_gateway import NoSpark

_T = Identifier("default", "t")


class Server:
    """A server of the catalog, in this process."""

    def __init__(self, dsn: str, warehouse: Path) -> None:
        self.catalog = CatalogStore(dsn)
        self.lake = Lake(self.catalog, str(warehouse))
        self.gateway = Gateway(self.lake, NoSpark())

    def run(self, text: str, key: str | None = None) -> list[tuple[object, ...]]:
        with self.gateway.run(text, idempotency_key=key, caller=EVERYBODY) as result:
            return result.collect()

    def close(self) -> None:
        self.gateway.close()
        self.lake.close()
        self.catalog.close()


@pytest.fixture
def servers(dsn: str, tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    """Two servers; the second has seen ``t (id INT)`` with one row of its own."""
    first, second = Server(dsn, tmp_path / "warehouse"), Server(dsn, tmp_path / "warehouse")
    first.run("CREATE TABLE t (id INT)")
    second.run("INSERT INTO t VALUES (0)")
    assert second.lake.remembered.get(_T) is not None
    yield first, second
    second.close()
    first.close()


def data_files(server: Server) -> int:
    """Data files under the table's directory."""
    return len(list(Path(server.lake.open(_T).location).rglob("data-*")))


def test_a_new_column_is_asked_for(servers: tuple[Server, Server]) -> None:
    first, second = servers
    first.run("ALTER TABLE t ADD COLUMN x STRING")
    with pytest.raises(AnalysisError, match="2 columns"):
        second.run("INSERT INTO t VALUES (1)")
    assert data_files(first) == 1, "what was written for the table as it was is removed"
    second.run("INSERT INTO t VALUES (1, 'a')")
    assert sorted(first.run("SELECT id, x FROM t"), key=str) == [(0, None), (1, "a")]


def test_rows_are_written_in_the_types_there_are(servers: tuple[Server, Server]) -> None:
    first, second = servers
    first.run("ALTER TABLE t MODIFY id BIGINT")
    second.run("INSERT INTO t VALUES (5000000000)")
    assert sorted(first.run("SELECT id FROM t")) == [(0,), (5_000_000_000,)]


def test_a_table_of_another_name_gets_nothing(servers: tuple[Server, Server]) -> None:
    first, second = servers
    first.run("ALTER TABLE t RENAME TO u")
    with pytest.raises(TableNotExist):
        second.run("INSERT INTO t VALUES (1)", "key")
    first.run("CREATE TABLE t (name STRING)")
    second.run("INSERT INTO t VALUES ('a')", "key")
    second.run("INSERT INTO t VALUES ('a')", "key")
    assert (first.run("SELECT name FROM t"), first.run("SELECT id FROM u")) == ([("a",)], [(0,)])


def test_a_table_that_was_dropped_is_gone(servers: tuple[Server, Server]) -> None:
    first, second = servers
    location = Path(first.lake.open(_T).location)
    first.run("DROP TABLE t PURGE")
    with pytest.raises(TableNotExist):
        second.run("INSERT INTO t VALUES (1)")
    assert not location.exists()


def test_an_alter_that_comes_while_rows_are_written_is_not_passed(servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a group: whoever takes its table as it was is never committed by one that asked before the ALTER."""
    first, second = servers
    written, altered = threading.Barrier(9), threading.Event()
    commit = Lake.commit

    def late(self: Lake, *args: object, **more: object) -> object:
        if self.catalog is second.catalog and not altered.is_set():
            written.wait(60)
            altered.wait(60)
        return commit(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Lake, "commit", late)
    with ThreadPoolExecutor(8) as threads:
        inserts = [threads.submit(second.run, f"INSERT INTO t VALUES ({number})", f"key {number}") for number in range(8)]
        written.wait(60)
        first.run("ALTER TABLE t ADD COLUMN x INT")
        altered.set()
        problems = [insert.exception() for insert in inserts]
    assert all(isinstance(problem, AnalysisError) for problem in problems), problems
    assert first.run("SELECT id, x FROM t") == [(0, None)]
    assert data_files(first) == 1


def test_nothing_is_lost_or_in_a_wrong_column_while_another_server_alters(servers: tuple[Server, Server]) -> None:
    first, second = servers
    stop = threading.Event()
    acknowledged: list[int] = []

    def alter() -> None:
        number = 0
        while not stop.is_set():
            first.run(f"ALTER TABLE t ADD COLUMN x{number} INT")
            first.run(f"ALTER TABLE t DROP COLUMN x{number}")
            number += 1

    def insert(start: int) -> None:
        for number in range(start, start + 15):
            try:
                second.run(f"INSERT INTO t VALUES ({number})", f"key {number}")
            except AnalysisError:  # it met the column
                continue
            acknowledged.append(number)
            second.run(f"INSERT INTO t VALUES ({number})", f"key {number}")

    with ThreadPoolExecutor(5) as threads:
        altering = threads.submit(alter)
        list(threads.map(insert, range(100, 500, 100)))
        stop.set()
        altering.result()
    assert sorted(first.run("SELECT id FROM t"), key=str) == sorted(((number,) for number in [0, *acknowledged]), key=str)


def test_no_error_is_of_the_table_as_it_was(servers: tuple[Server, Server]) -> None:
    first, second = servers
    with pytest.raises(LakeError):
        second.run("INSERT INTO t VALUES ('no number')")
    first.run("ALTER TABLE t ADD COLUMN x STRING")
    second.run("INSERT INTO t VALUES (1, 'a')")
    second.run("INSERT INTO t (id, x) VALUES (2, 'b')")
    assert len(first.run("SELECT id FROM t")) == 3
