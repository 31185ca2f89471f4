"""A process killed between two steps: what it decided is there, what it did not is not, and the next server finishes it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lake import Lake, LakeTable
from model.errors import TableNotExist
from model.identifier import Identifier
from tests.fix_server import StartServer
from tests.lake.test_commit import T, append, names, snapshot_file
from tests.lake.test_commit import table as table
from tests.short import one_in
from tests.waiting import eventually

_DYING = """
import os, signal, sys
from catalog import CatalogStore
from lake import Lake
from tests.lake.test_commit import T, append
from model.identifier import Identifier

dsn, warehouse, step, work = sys.argv[1:]
lake = Lake(CatalogStore(dsn), warehouse, sync=False, hook=lambda name: os.kill(os.getpid(), signal.SIGKILL) if name == step else None)
if work == "commit":
    lake.commit(lake.open(T), append("b"))
    lake.close()  # which notes what is published
elif work == "rename":
    lake.rename_table(T, Identifier("default", "u"))
else:
    lake.drop_table(T)
"""


def die(dsn: str, warehouse: Path, step: str, work: str) -> None:
    """Do the work in a process that kills itself right after the step."""
    command = [sys.executable, "-c", _DYING, dsn, str(warehouse), step, work]
    ended = subprocess.run(command, timeout=300, check=False, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert ended.returncode == -signal.SIGKILL, ended.stderr


@pytest.mark.parametrize("step", one_in(2, ["built", "synced", "decided", "published", "hinted", "flushed", "noted"]))
def test_killed_while_committing(dsn: str, lake: Lake, table: LakeTable, warehouse: Path, step: str) -> None:
    lake.commit(table, append("a"))
    die(dsn, warehouse, step, "commit")
    lake.recover()
    decided = step not in ("built", "synced")
    expected = ["a", "b"] if decided else ["a"]
    assert snapshot_file(warehouse, 2).exists() is decided
    assert (snapshot_file(warehouse, 2).parent / "LATEST").read_text() == ("2" if decided else "1")
    assert names(lake.open(T)) == expected
    lake.commit(lake.open(T), append("c"))
    assert names(lake.open(T)) == [*expected, "c"]


def test_killed_while_renaming(dsn: str, lake: Lake, table: LakeTable, warehouse: Path) -> None:
    lake.commit(table, append("a"))
    die(dsn, warehouse, "rename decided", "rename")
    lake.recover()
    assert not (warehouse / "default.db" / "u").exists(), "a table's place never moves"
    assert names(lake.open(Identifier("default", "u"))) == ["a"]


def test_killed_while_dropping(dsn: str, lake: Lake, table: LakeTable, warehouse: Path) -> None:
    lake.commit(table, append("a"))
    die(dsn, warehouse, "drop decided", "drop")
    with pytest.raises(TableNotExist):
        lake.open(T)
    lake.recover()
    assert not (warehouse / "default.db" / "t").exists()


def test_a_server_finishes_what_a_killed_one_left_before_anybody_asks(
    dsn: str, lake: Lake, table: LakeTable, warehouse: Path, start_server: StartServer
) -> None:
    lake.commit(table, append("a"))
    die(dsn, warehouse, "decided", "commit")
    lake.create_table(Identifier("default", "u"), table.schema)
    with lake.catalog.transaction() as tx:  # as a drop that was killed leaves it
        row = tx.tables.lock(Identifier("default", "u"))
        tx.tables.drop(row.table_id, row.location)
    lake.close()
    server = start_server(SLUICE_CATALOG_DSN=dsn, SLUICE_WAREHOUSE=str(warehouse))
    assert eventually(lambda: "Recovery after the start" in server.words())
    assert "1 directories removed, 0 tables and the snapshots and tags of 1 branches published" in server.words()
    assert snapshot_file(warehouse, 2).exists()
    assert not Path(row.location).exists()
