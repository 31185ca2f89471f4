"""Every catalog with every warehouse: whoever does what `restore` says has all that files and catalog still hold, and can write on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from catalog.backup.archive import write_archive
from lake import Lake
from lake.register.repair import is_readable
from migrations import upgrade
from model.identifier import Identifier
from model.snapshot import Snapshot
from server.commands.backup import restore
from server.settings.settings import read_settings
from table.format.store import TableFiles
from tests.fix_postgres import database
from tests.lake.register.damage import forget_metadata
from tests.server.commands.test_restore import Server
from workers.pool import WorkerPool

T = Identifier("default", "t")
CATALOGS = ("older", "same", "newer", "empty")
WAREHOUSES = ("older", "same", "newer", "expired")
ROWS = {"older": [1, 2], "same": [1, 2, 3, 4], "newer": [1, 2, 3, 4, 5, 6], "expired": [1, 2, 3, 4, 5, 6]}
"""By warehouse: whatever the catalog is, what the files hold is what can be had."""


@pytest.fixture(scope="module")
def moments(server_dsn: str, template: str, tmp_path_factory: pytest.TempPathFactory, workers: WorkerPool) -> Path:
    """A catalog and its warehouse at three moments, and once more after snapshots expired; all of a warehouse at the same place."""
    place = tmp_path_factory.mktemp("moments")
    with database(server_dsn, template) as dsn:
        server = Server(dsn, place / "warehouse", workers)
        server.lake.standing.compare()

        def keep(moment: str) -> None:
            write_archive(dsn, place / f"{moment}.catalog", warehouse=str(place / "warehouse"))
            shutil.copytree(place / "warehouse", place / moment)

        server.run("CREATE TABLE t (id INT) WITH ('bucket' = '1', 'bucket-key' = 'id')")
        for moment, ids in (("older", (1, 2)), ("same", (3, 4)), ("newer", (5, 6))):
            server.run(*(f"INSERT INTO t VALUES ({one})" for one in ids))
            keep(moment)
        server.run("CALL sys.expire_snapshots(`table` => 't', retain_max => 1, retain_min => 1)")
        keep("expired")
        server.close()
    return place


@pytest.fixture
def place(moments: Path) -> Iterator[Path]:
    shutil.rmtree(moments / "warehouse", ignore_errors=True)
    forget_metadata()
    yield moments
    forget_metadata()


def readable(lake: Lake, warehouse: Path) -> set[frozenset[str]]:
    """What every snapshot that can be read holds, of those the catalog or a file knows: sets of data files."""
    files = TableFiles(lake.file_io, str(warehouse / "default.db/t"))
    with lake.catalog.reading() as tx:
        row = tx.tables.find(T)
        known = [] if row is None else [Snapshot.from_json(one.body) for one in tx.snapshots.history(row.table_id, "main")]
        known += [] if row is None else [Snapshot.from_json(one.snapshot) for one in tx.tags.all(row.table_id, "main")]
    lying = [found for one in files.snapshot_ids() if (found := files.read_snapshot(one)) is not None]
    fresh = [one for one in (*known, *lying) if is_readable(files, one)]
    held = {frozenset(entry.file.file_name for entry in files.live_entries(one)) for one in fresh}
    return {names for names in held if all(any((warehouse / "default.db/t").rglob(name)) for name in names)}


@pytest.mark.parametrize("warehouse", WAREHOUSES)
@pytest.mark.parametrize("catalog", CATALOGS)
def test_all_that_is_left_can_be_had(place: Path, empty_dsn: str, workers: WorkerPool, catalog: str, warehouse: str) -> None:
    shutil.copytree(place / warehouse, place / "warehouse")
    settings = read_settings(
        {"SLUICE_DATA": str(place / "none"), "SLUICE_WAREHOUSE": str(place / "warehouse"), "SLUICE_CATALOG_DSN": empty_dsn}
    )
    statements = []
    if catalog == "empty":
        upgrade(empty_dsn)
    else:
        _, differences = restore(settings, place / f"{catalog}.catalog", replace=False)
        statements = [one.statement for one in differences]
        assert all(statements), differences  # none of them needs a copy of files here
    server = Server(empty_dsn, place / "warehouse", workers)
    try:
        before = readable(server.lake, place / "warehouse")
        if catalog == "empty":
            server.lake.standing.compare()
            assert server.lake.standing.mismatch is not None
            statements = ["CALL sys.claim_warehouse()", f"CALL sys.register_table('default.t', '{place}/warehouse/default.db/t')"]
        server.run(*statements)
        forget_metadata()
        assert [row[0] for row in server.rows("SELECT id FROM t")] == ROWS[warehouse]
        assert server.rows("CALL sys.check_table('t', deep => true)") == []
        assert readable(server.lake, place / "warehouse") >= before
        server.lake.standing.look_around(tables=None)
        assert (server.lake.standing.mismatch, server.lake.standing.troubles()) == (None, [])
        server.run("INSERT INTO t VALUES (100)")
        assert {row[0] for row in server.rows("SELECT id FROM t")} == {*ROWS[warehouse], 100}
    finally:
        server.close()
