"""A table or database brought back beside servers that remember what they decided about it: no repeat counts twice, no row is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from model.identifier import MAIN_BRANCH, Identifier
from server.commands.backup import backup, restore_parts
from server.settings.settings import read_settings
from tests.lake.register.damage import forget_metadata
from tests.server.commands.conftest import Server
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
