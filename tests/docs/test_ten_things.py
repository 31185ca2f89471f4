"""Every command of *Ten things that break* is run after the thing broke."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lake.reserve import StorageReserve
from migrations import downgrade, newest, revision_of
from model.catalog_errors import CatalogLost
from model.errors import LakeError, StorageFull, TableDamaged, TableDiverged, Unavailable
from sql.dialect import split
from tests.disks import MEGABYTE, fill, mounted, read_only
from tests.lake.register.damage import cut, data_files, forget_metadata
from tests.server.commands.conftest import Server
from workers.pool import WorkerPool

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
SLUICE = Path(sys.executable).parent / "sluice"
WHOLE = [(1, "a"), (2, "b"), (3, "c")]


def items() -> dict[int, list[str]]:
    """The blocks of each thing, without their fences."""
    section = PAGE.read_text().partition("## Ten things that break\n")[2].partition("\n## ")[0]
    parts = re.split(r"^\*\*(\d+)\. ", section, flags=re.M)
    found = {
        int(number): re.findall(r"^```\w+\n(.*?)^```$", text, re.M | re.S) for number, text in zip(parts[1::2], parts[2::2], strict=True)
    }
    assert sorted(found) == list(range(1, 11))
    return found


class Tour:
    """A catalog with a table of three rows in three snapshots, its warehouse, and a backup of both."""

    def __init__(self, dsn: str, place: Path, workers: WorkerPool) -> None:
        self.dsn, self.place, self._workers = dsn, place, workers
        self.blocks = items()
        self.server: Server | None = None
        self.open()
        self.ask("CREATE DATABASE shop")
        self.ask("CREATE TABLE shop.orders (id INT, note STRING)")
        for id_, note in WHOLE:
            self.ask(f"INSERT INTO shop.orders VALUES ({id_}, '{note}')")
        self.place.joinpath("backups").mkdir()

    @property
    def table(self) -> Path:
        return self.place / "warehouse/shop.db/orders"

    def open(self) -> None:
        self.server = Server(self.dsn, self.place / "warehouse", self._workers)
        self.server.lake.drop_retention = timedelta(days=7)
        self.server.lake.standing.compare()

    def close(self) -> None:
        if self.server is not None:
            self.server.close()
        self.server = None

    def ask(self, text: str) -> list[tuple[Any, ...]]:
        assert self.server is not None
        with self.server.gateway.run(text) as result:
            return result.collect()

    def rows(self) -> list[tuple[Any, ...]]:
        forget_metadata()
        return sorted(self.ask("SELECT id, note FROM shop.orders"))

    def command(self, line: str) -> tuple[int, str]:
        words = shlex.split(line.replace("/backups", str(self.place / "backups")))
        assert words[0] == "sluice"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
        environment |= {"SLUICE_DATA": str(self.place / "data"), "SLUICE_WAREHOUSE": str(self.place / "warehouse")}
        environment["SLUICE_CATALOG_DSN"] = self.dsn
        done = subprocess.run([SLUICE, *words[1:]], env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def statements(self, block: str) -> list[list[tuple[Any, ...]]]:
        found = []
        for statement in split(block):
            try:
                found.append(self.ask(statement.text))
            except LakeError as problem:
                problem.add_note(statement.text)
                raise
        return found


@pytest.fixture
def tour(empty_dsn: str, dsn: str, tmp_path: Path, workers: WorkerPool) -> Iterator[Tour]:
    made = Tour(dsn, tmp_path, workers)
    yield made
    made.close()


@pytest.mark.slow
def test_what_broke_comes_back(tour: Tour) -> None:
    backup = "sluice backup /backups/catalog.tar.gz --files-to /backups/warehouse"
    assert tour.command(backup)[0] == 0

    # 8, 9: nothing is damaged yet
    tour.ask("DROP TABLE shop.orders")
    tour.statements(tour.blocks[8][0])
    assert tour.rows() == WHOLE
    tour.ask("TRUNCATE TABLE shop.orders")
    tour.statements(tour.blocks[9][0])
    assert tour.rows() == WHOLE[:2]
    tour.ask("INSERT INTO shop.orders VALUES (3, 'c')")

    # 3: a snapshot in the middle
    with psycopg.connect(tour.dsn, autocommit=True) as conn:  # it is known to have been there
        conn.execute("UPDATE table_snapshot SET published = true")
    (tour.table / "snapshot/snapshot-2").unlink()
    found, _ = tour.statements(tour.blocks[3][0])
    assert [row[3].rpartition("/")[2] for row in found] == ["snapshot-2"]
    assert (tour.table / "snapshot/snapshot-2").exists()

    # 4, 5: an old catalog, and none
    assert tour.command(backup)[0] == 0
    tour.ask("INSERT INTO shop.orders VALUES (4, 'd')")
    tour.close()
    status, told = tour.command("sluice restore /backups/catalog.tar.gz --replace")
    assert (status, "CALL sys.repair_table('shop.orders');" in told) == (3, True)
    tour.open()
    with pytest.raises(TableDiverged):
        tour.ask("INSERT INTO shop.orders VALUES (5, 'e')")
    assert tour.rows() == WHOLE
    assert tour.server is not None
    tour.server.lake.standing.look_around(tables=None)
    ahead, undrop, purge = tour.blocks[4]
    damaged, _ = tour.statements(ahead)
    assert len(damaged) == 1
    assert tour.rows() == [*WHOLE, (4, "d")]
    with psycopg.connect(tour.dsn, autocommit=True) as conn:
        conn.execute("DROP SCHEMA public CASCADE")
        conn.execute("CREATE SCHEMA public")
    with pytest.raises(CatalogLost):
        tour.rows()
    tour.close()
    restore, repair = tour.blocks[5]
    status, told = tour.command(restore.strip())
    assert (status, repair.strip() in told) == (3, True), told
    tour.open()
    tour.statements(repair)
    assert tour.rows() == [*WHOLE, (4, "d")]

    # 4: tables that an old catalog calls dropped, and that were used since
    newest_before = max(snapshot for (snapshot,) in tour.ask("SELECT snapshot_id FROM shop.orders$snapshots"))
    tour.ask("CREATE TABLE shop.unwanted (id INT)")
    tour.ask("DROP TABLE shop.orders")
    tour.ask("DROP TABLE shop.unwanted")
    assert tour.command("sluice backup /backups/dropped.tar.gz")[0] == 0
    for name in ("orders", "unwanted"):
        tour.ask(f"UNDROP TABLE shop.{name}")
    tour.ask("INSERT INTO shop.orders VALUES (5, 'e')")
    tour.close()
    status, told = tour.command("sluice restore /backups/dropped.tar.gz --replace")
    assert (status, "UNDROP TABLE `shop`.`orders`" in told) == (3, True), told
    tour.open()
    tour.statements(undrop)
    assert tour.rows() == [*WHOLE, (4, "d"), (5, "e")]
    assert (tour.table / "_undropped").exists()
    tour.statements(purge)
    assert tour.ask("SHOW DROPPED TABLES IN shop") == []
    tour.ask(f"CALL sys.rollback_to('shop.orders', {newest_before})")

    # 1: a data file
    assert tour.command(backup)[0] == 0
    lost = next(path for path in data_files(tour.table) if path.name in str(tour.ask("SELECT file_path FROM shop.orders$files")))
    kept = lost.read_bytes()
    lost.unlink()
    with pytest.raises(TableDamaged, match=lost.name):
        tour.rows()
    lost.write_bytes(kept)
    assert len(tour.rows()) == 4
    lost.unlink()
    faults, would, done = tour.statements(tour.blocks[1][0])
    assert lost.name in str(faults)
    assert lost.name in str(would)
    assert done
    assert len(tour.rows()) == 3

    # 2: a manifest list of the newest snapshot, while the server remembers it and after a restart
    remembered, beside, repair = tour.blocks[2]
    tour.ask("INSERT INTO shop.orders VALUES (6, 'f')")
    assert len(tour.ask("SELECT * FROM shop.orders")) == 4
    cut(max((tour.table / "manifest").glob("manifest-list-*"), key=lambda path: path.stat().st_mtime_ns))
    faults, done = tour.statements(remembered)
    assert len(faults) == len(done) + 1 == 2  # and the file that was lost before, which an older snapshot names
    assert len(tour.rows()) == 4
    tour.ask("INSERT INTO shop.orders VALUES (5, 'e')")
    newest_manifest = max((tour.table / "manifest").glob("manifest-list-*"), key=lambda path: path.stat().st_mtime_ns)
    cut(newest_manifest)
    with pytest.raises(TableDamaged):
        tour.rows()
    status, told = tour.command(beside.strip())
    assert status == 0, told
    assert sorted(tour.ask("SELECT id, note FROM shop.orders_whole")) == [*WHOLE, (4, "d")]
    tour.statements(repair)
    assert len(tour.rows()) == 4


@pytest.mark.slow
def test_an_upgrade_that_failed_changed_nothing(tour: Tour) -> None:
    tour.close()
    forth, back = tour.blocks[10]
    before, again = forth.splitlines()
    downgrade(tour.dsn, "0018")
    status, told = tour.command(before)
    assert status == 0, told
    with psycopg.connect(tour.dsn, autocommit=True) as conn:
        conn.execute("CREATE TABLE drop_record (in_the_way INT)")
    status, told = tour.command(again)
    assert status == 1, told
    assert revision_of(tour.dsn) == "0018"
    with psycopg.connect(tour.dsn, autocommit=True) as conn:
        assert conn.execute("SELECT count(*) FROM sluice_table").fetchone() == (1,)
        conn.execute("DROP TABLE drop_record")
    status, told = tour.command(again)
    assert (status, "The catalog is up to date.\n" in told) == (0, True), told
    assert revision_of(tour.dsn) == newest()
    tour.open()
    assert tour.rows() == WHOLE
    tour.close()

    with psycopg.connect(tour.dsn, autocommit=True) as conn:  # as a newer version leaves it
        conn.execute("UPDATE alembic_version SET version_num = '9999'")
    status, told = tour.command("sluice migrate")
    assert (status, told.count("\n")) == (2, 1), told
    status, told = tour.command(back.strip())
    assert (status, "stands in the schema replaced_" in told, "Bring the files back" in told) == (3, True, False), told
    with psycopg.connect(tour.dsn) as conn:
        assert len(conn.execute("SELECT FROM pg_namespace WHERE nspname LIKE 'replaced\\_%'").fetchall()) == 1
    tour.open()
    assert tour.rows() == WHOLE


def test_a_disk_that_is_full_or_can_only_be_read(dsn: str, tmp_path: Path, workers: WorkerPool) -> None:
    with mounted(tmp_path / "disk", megabytes=24) as disk:
        tour = Tour(dsn, disk, workers)
        try:
            assert tour.server is not None
            tour.ask("CREATE TABLE shop.scratch (id INT, text STRING)")
            tour.ask(f"INSERT INTO shop.scratch VALUES (1, '{os.urandom(450_000).hex()}')")
            tour.server.lake.reserve = StorageReserve([str(disk)], reserved=MEGABYTE)
            fill(disk / "ballast", leave=MEGABYTE * 3 // 4)
            with pytest.raises(StorageFull):
                tour.ask("INSERT INTO shop.orders VALUES (4, 'd')")
            assert tour.rows() == WHOLE
            tour.statements(tour.blocks[6][0])
            tour.ask("INSERT INTO shop.orders VALUES (5, 'e')")
            with read_only(disk), pytest.raises(LakeError) as refused:
                tour.statements(tour.blocks[7][0])
            assert isinstance(refused.value, Unavailable)
            assert tour.rows() == [*WHOLE, (5, "e")]
            tour.statements(tour.blocks[7][0])
            assert tour.rows() == [*WHOLE, (4, "again"), (5, "e")]
        finally:
            tour.close()
