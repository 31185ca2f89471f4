"""A damaged ORC file that ends Arrow's reader costs the statement that reads it, whatever reads it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from catalog import CatalogStore
from gateway.gateway import Gateway
from lake import Lake
from model.errors import TableDamaged
from tests.short import short
from tests.workers.test_orc import KILLS
from workers.orc import OrcProcesses
from workers.pool import WorkerLimits


@pytest.fixture
def lake(catalog: CatalogStore, warehouse: Path, tmp_path: Path) -> Iterator[Lake]:
    made = Lake(catalog, str(warehouse), import_dirs=[str(tmp_path / "imports")])
    processes = OrcProcesses(WorkerLimits(count=1), str(warehouse))
    processes.begin()
    yield made
    processes.close()
    made.close()


@pytest.fixture
def deadly(gateway: Gateway, tmp_path: Path) -> str:
    (tmp_path / "imports/hive").mkdir(parents=True)
    shutil.copy(KILLS, tmp_path / "imports/hive/deadly.orc")
    gateway.run(f"CALL sys.migrate_table(source_type => 'hive', table => '{tmp_path}/imports/hive', target_table => 'deadly')")
    return "deadly"


AT_A_TIME = ("some rows at a time", "all rows at once")


@pytest.fixture
def problem(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is told: some rows at a time, its reader lives to tell."""
    if request.param == "some rows at a time":
        return "bad read in RleDecoderV2"
    monkeypatch.setattr("workers.orc.FEWER", ())
    return "ended (SIGSEGV)"


STATEMENTS = (
    "SELECT * FROM deadly",
    "SELECT s FROM deadly WHERE id = 7919 LIMIT 1",
    "SELECT * FROM deadly$audit_log",
    "SET 'execution.runtime-mode' = 'streaming'; SELECT * FROM deadly /*+ OPTIONS('scan.mode' = 'latest-full') */ LIMIT 1",
    "CALL sys.compact(`table` => 'default.deadly', compact_strategy => 'full')",
)


@pytest.mark.parametrize("problem", short(AT_A_TIME, ["all rows at once"]), indirect=True)
def test_each_statement_that_reads_it_fails_and_the_server_goes_on(gateway: Gateway, deadly: str, problem: str) -> None:
    gateway.run("CREATE TABLE good (id INT) WITH ('file.format' = 'orc')")
    gateway.run("INSERT INTO good VALUES (1)")
    gateway.run("INSERT INTO deadly VALUES (1, 'x', 1.0)")
    for text in STATEMENTS:
        with pytest.raises(TableDamaged, match=rf"deadly.orc .*{re.escape(problem)}"):
            gateway.run(text).collect()
        assert gateway.run("SELECT * FROM good").collect() == [(1,)]


@pytest.mark.parametrize("problem", short(AT_A_TIME, ["some rows at a time"]), indirect=True)
def test_check_table_finds_it_and_the_rest_can_be_read(gateway: Gateway, deadly: str, problem: str) -> None:
    gateway.run("INSERT INTO deadly VALUES (1, 'x', 1.0)")
    assert gateway.run("CALL sys.check_table('default.deadly')").collect() == []  # its footer is as it was
    (found,) = gateway.run("CALL sys.check_table('default.deadly', deep => true)").collect()
    assert any(problem in str(part) for part in found), found
    gateway.run("CALL sys.remove_unexisting_files('default.deadly', deep => true, dry_run => false)")
    assert gateway.run("SELECT * FROM deadly").collect() == [(1, "x", 1.0)]
