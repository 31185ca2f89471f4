"""A table or database brought back beside servers that remember what they decided about it: no repeat counts twice, no row is lost."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from catalog import CatalogStore
from lake.register.copied.copies import _copied_back
from lake.register.restored.after_restore import Difference
from lake.tables.consumers import reset_consumer
from model.errors import IllegalMove
from model.identifier import MAIN_BRANCH, Identifier
from server.commands.backup import backup, restore_parts
from server.settings.settings import Settings, read_settings
from tests.fix_postgres import ADVISORY_LOCKS
from tests.lake.register.damage import forget_metadata
from tests.server.commands.conftest import Server
from tests.waiting import eventually
from workers.pool import WorkerPool

T = Identifier("shop", "t")


@pytest.fixture
def servers(dsn: str, tmp_path: Path, workers: WorkerPool) -> Iterator[tuple[Server, Server]]:
    """Two that serve one catalog: one changes the table, the other has not heard of that and remembers it as it was."""
    both = Server(dsn, tmp_path / "warehouse", workers), Server(dsn, tmp_path / "warehouse", workers)
    both[0].run("CREATE DATABASE shop", "CREATE TABLE shop.t (id INT) WITH ('bucket' = '1', 'bucket-key' = 'id')")
    yield both
    for server in both:
        server.close()


def insert(server: Server, id_: int) -> None:
    """Under a key of its own, as a client does that repeats what it got no answer to."""
    server.gateway.run(f"INSERT INTO shop.t VALUES ({id_})", idempotency_key=f"k{id_}").close()


@pytest.mark.parametrize(("database", "looked_first"), [(False, True), (False, False), (True, False)])
def test_what_a_server_remembers_does_no_harm(
    servers: tuple[Server, Server], dsn: str, tmp_path: Path, database: bool, looked_first: bool
) -> None:
    changing, remembering = servers
    warehouse, file, copy = tmp_path / "warehouse", tmp_path / "b", str(tmp_path / "copy")
    settings = read_settings({"SLUICE_DATA": str(tmp_path / "none"), "SLUICE_WAREHOUSE": str(warehouse), "SLUICE_CATALOG_DSN": dsn})
    for id_ in (1, 2):
        insert(remembering, id_)
    backup(settings, file, files_to=copy)
    for id_ in (3, 4, 5):  # the one that remembers knows five snapshots and that all have their files
        insert(remembering, id_)
    assert len(remembering.rows("SELECT * FROM shop.t")) == 5
    changing.run("DROP DATABASE shop CASCADE" if database else "DROP TABLE shop.t PURGE")
    restore_parts(settings, file, tables=() if database else [T], databases=["shop"] if database else (), files_from=copy)

    if looked_first:
        assert remembering.rows("SELECT * FROM shop.t") == [(1,), (2,)]
    insert(remembering, 2)  # before the backup: done, and its row is there
    insert(remembering, 5)  # since: it was done once, and the restore took it back like every other of that time
    for id_ in (6, 7, 8, 9):
        insert(remembering, id_)
        insert(changing, id_)
    rows = [(id_,) for id_ in (1, 2, 6, 7, 8, 9)]
    for server in servers:
        forget_metadata()
        assert server.rows("SELECT * FROM shop.t") == rows
    assert remembering.rows("CALL sys.check_table('shop.t', deep => true)") == []
    files = {path.name for path in (warehouse / "shop.db/t/snapshot").iterdir()}
    assert files == {"EARLIEST", "LATEST", *(f"snapshot-{number}" for number in range(1, 7))}
    assert (warehouse / "shop.db/t/snapshot/LATEST").read_text() == "6"
    with remembering.catalog.reading() as tx:
        row = tx.tables.find(T)
        assert row is not None
        assert all(snapshot.published for snapshot in tx.snapshots.history(row.table_id, MAIN_BRANCH))


def backed_up(server: Server, dsn: str, tmp_path: Path) -> tuple[Settings, Path, str]:
    """A backup of a table with rows and a consumer, and where its files are."""
    settings = read_settings(
        {"SLUICE_DATA": str(tmp_path / "none"), "SLUICE_WAREHOUSE": str(tmp_path / "warehouse"), "SLUICE_CATALOG_DSN": dsn}
    )
    for id_ in (1, 2):
        insert(server, id_)
    reset_consumer(server.catalog, server.lake.open(T), "c", 2)
    file, copy = tmp_path / "b", str(tmp_path / "copy")
    assert backup(settings, file, files_to=copy)[1] == []
    return settings, file, copy


@pytest.mark.parametrize("dropped", [False, True])
def test_nothing_is_copied_into_another_tables_directory(servers: tuple[Server, Server], dsn: str, tmp_path: Path, dropped: bool) -> None:
    """Its consumers were there by then, and its snapshots from their positions on expired no more."""
    server, _ = servers
    settings, file, copy = backed_up(server, dsn, tmp_path)
    place = Path(server.lake.open(T).location)
    server.run("DROP TABLE shop.t PURGE", "CREATE TABLE shop.t (id INT) WITH ('bucket' = '1')", "ALTER TABLE shop.t RENAME TO shop.u")
    server.run("INSERT INTO shop.u VALUES (7)")
    assert server.lake.open(Identifier("shop", "u")).location == str(place)
    if dropped:
        server.lake.drop_retention = timedelta(days=1)
        server.run("DROP TABLE shop.u")
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    with pytest.raises(IllegalMove, match="Nothing was changed"):
        restore_parts(settings, file, tables=[T], files_from=copy)
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


def test_a_table_that_is_made_while_files_are_copied_gets_no_consumers(
    servers: tuple[Server, Server], dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a job that makes its table where there is none, during a copy that takes hours."""
    server, other = servers
    settings, file, copy = backed_up(server, dsn, tmp_path)
    place = Path(server.lake.open(T).location)
    server.run("DROP TABLE shop.t PURGE")

    def meanwhile(*arguments: Any) -> None:
        _copied_back(*arguments)
        other.run("CREATE TABLE shop.t (id INT) WITH ('bucket' = '1')", "INSERT INTO shop.t VALUES (7)")

    monkeypatch.setattr("lake.register.copied.copies._copied_back", meanwhile)
    with pytest.raises(IllegalMove):
        restore_parts(settings, file, tables=[T], files_from=copy)
    assert other.lake.open(T).location == str(place)
    assert not list(place.glob("consumer/*"))
    forget_metadata()
    assert server.rows("SELECT * FROM shop.t") == [(7,)]


def test_a_directory_that_is_being_removed_is_waited_for(servers: tuple[Server, Server], dsn: str, tmp_path: Path) -> None:
    """What was copied meanwhile went with it, and the table came back without its files."""
    server, other = servers
    settings, file, copy = backed_up(server, dsn, tmp_path)
    place = server.lake.open(T).location
    server.run("DROP TABLE shop.t PURGE")
    with server.catalog.transaction() as tx:
        tx.directories.discard(place)
    done: list[tuple[str, list[Difference]]] = []
    restoring = Thread(target=lambda: done.append(restore_parts(settings, file, tables=[T], files_from=copy)))
    with server.catalog.transaction() as tx:  # as whoever removes it
        assert tx.directories.lock_location(place)
        restoring.start()
        assert eventually(lambda: waiting_for_a_lock(other.catalog))
        shutil.rmtree(place, ignore_errors=True)
        tx.directories.directory_removed(place)
    restoring.join(120)
    assert [differences for _, differences in done] == [[]]
    forget_metadata()
    assert server.rows("SELECT * FROM shop.t") == [(1,), (2,)]


def waiting_for_a_lock(catalog: CatalogStore) -> bool:
    with catalog.reading() as tx:
        query = f"SELECT EXISTS (SELECT 1 {ADVISORY_LOCKS} AND NOT granted)"
        return bool(tx.tables._conn.execute(query).fetchone()[0])  # type: ignore[index]


def test_a_directory_that_is_still_to_be_removed_is_refused(servers: tuple[Server, Server], dsn: str, tmp_path: Path) -> None:
    server, _ = servers
    settings, file, copy = backed_up(server, dsn, tmp_path)
    place = server.lake.open(T).location
    server.run("DROP TABLE shop.t PURGE")
    with server.catalog.transaction() as tx:
        tx.directories.discard(place)
    with pytest.raises(IllegalMove, match=r"which is being removed\. Nothing was changed"):
        restore_parts(settings, file, tables=[T], files_from=copy)
    assert not Path(place).exists()
