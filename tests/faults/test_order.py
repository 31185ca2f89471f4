"""What is on disk when Postgres is told: the trace of a process's calls, up to the moment that decides and to the one that notes.

A power cut at the decision leaves every file of the commit under its name, one at the note also the snapshot's own.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from model.snapshot import Snapshot
from tests.faults.below import CampaignBelow
from tests.faults.disk import Disk
from tests.faults.operations import BY_NAME
from tests.faults.shim import Shim
from tests.fix_server import StartServer
from tests.waiting import eventually

HINTS = ("EARLIEST", "LATEST")
"""Readers check them before they believe them."""


def _checked(disk: Disk, journal: Path, new: set[Path], snapshot_file: Path) -> None:
    """Follow the journal of one commit; the disk is as it was before."""
    snapshot = Snapshot.from_json(json.loads(snapshot_file.read_text()))
    new = {path for path in new if path.name not in HINTS}
    assert len(new) >= 4, "a data file, a manifest, two lists"
    decided = disk.replay_until_sent(journal, snapshot.key)
    assert disk.kept(snapshot_file) is None, "it is written once it is decided"
    for path in new - {snapshot_file}:
        assert disk.kept(path) == path.read_bytes(), f"{path} was not on disk when Postgres decided"
    disk.replay_until_sent(journal, snapshot.key, after=decided + 1)
    assert disk.kept(snapshot_file) == snapshot_file.read_bytes(), "Postgres was told of a snapshot's file that was not on disk"


@pytest.mark.parametrize("name", ["insert", "compaction"])
def test_all_is_on_disk_before_postgres_is_told(below: CampaignBelow, name: str) -> None:
    below.traced(BY_NAME[name], _checked)


def test_what_spark_wrote_is_on_disk_before_postgres_is_told(start_server: StartServer, tmp_path: Path, shim_library: Path) -> None:
    warehouse = tmp_path / "server" / "data" / "warehouse"
    shim = Shim(shim_library, tmp_path, warehouse)
    server = start_server(**shim.environment)
    server.sql("CREATE TABLE t (day INT, id BIGINT) PARTITIONED BY (day) WITH ('bucket' = '2', 'bucket-key' = 'id')")
    server.sql("INSERT INTO t SELECT CAST(id % 2 AS INT), id FROM range(10)")  # Spark is warm
    table = warehouse / "default.db" / "t"
    assert eventually(lambda: (table / "snapshot" / "snapshot-1").exists())
    before, disk = set(table.rglob("*")), Disk(warehouse)
    shim.load()
    shim.arm()
    server.sql("INSERT INTO t SELECT CAST(2 + id % 2 AS INT), id FROM range(100000)")
    assert eventually(lambda: _noted(shim, table))
    shim.disarm()
    new = {path for path in set(table.rglob("*")) - before if path.is_file()}
    assert {path.parts[-3] for path in new if path.suffix == ".parquet"} == {"day=2", "day=3"}
    _checked(disk, shim.journal, new, table / "snapshot" / "snapshot-2")
    shim.close()


def _noted(shim: Shim, table: Path) -> bool:
    key = json.loads((table / "snapshot" / "snapshot-2").read_text())["uuid"]
    return sum(line.startswith("Q") and key in line for line in shim.journal.read_text().splitlines()) >= 2
