"""A bit flipped in Postgres's own files: told by the relation's name with the way out, by requests, health, the log and the commands."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from catalog.backup.archive import write_archive
from catalog.damage import damage_met
from model.catalog_errors import CatalogDamaged
from server.app import create_app
from server.commands.backup import backup
from server.commands.check import check_warehouse
from server.commands.doctor import FAIL, examine
from server.commands.restore import restore
from server.observe.logs import OncePerMinute
from server.process.services import Services
from server.settings.settings import Settings, read_settings
from tests.catalog.damaged import with_damage
from tests.server.commands.conftest import Server
from workers.pool import WorkerPool


def _filled(dsn: str, tmp_path: Path, workers: WorkerPool) -> Path:
    """A backup of a catalog with a table, which nobody uses any more."""
    server = Server(dsn, tmp_path / "warehouse", workers)
    server.run("CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)", "CREATE ROLE reader", "GRANT SELECT ON t TO ROLE reader")
    server.close()
    write_archive(dsn, tmp_path / "backup", warehouse=str(tmp_path / "warehouse"))
    return tmp_path / "backup"


def _settings(dsn: str, tmp_path: Path) -> Settings:
    places = {"SLUICE_DATA": str(tmp_path / "data"), "SLUICE_WAREHOUSE": str(tmp_path / "warehouse")}
    return read_settings({"SLUICE_CATALOG_DSN": dsn, "SLUICE_LISTEN": "127.0.0.1:1"} | places)


def test_damage_of_the_catalog_is_told_by_name(
    server_dsn: str, dsn: str, tmp_path: Path, workers: WorkerPool, caplog: pytest.LogCaptureFixture
) -> None:
    _filled(dsn, tmp_path, workers)
    once = OncePerMinute()
    with with_damage(server_dsn, dsn, "snapshot_pointer") as damaged:
        server = Server(damaged, tmp_path / "warehouse", workers)
        client = create_app(Services(gateway=server.gateway, settings=_settings(damaged, tmp_path))).test_client()
        caplog.clear()
        for text in ("SELECT * FROM t", "INSERT INTO t VALUES (2)", "SELECT * FROM t"):
            answer = client.post("/sql", data=text)
            told = answer.get_json()
            assert (answer.status_code, told["errorClass"]) == (503, "CatalogDamaged"), told
            assert "table snapshot_pointer is damaged" in told["detail"]
            assert "sluice restore --replace" in told["detail"]
            assert "Retry-After" not in answer.headers
        assert client.get("/v1/sluice/databases/default/tables/t/snapshot").status_code == 500, "Paimon's clients repeat a 503"
        health = client.get("/readyz")
        assert (health.status_code, health.get_json()["postgres"]["ok"]) == (503, False)
        assert "snapshot_pointer is damaged" in health.get_json()["postgres"]["detail"]
        met = [record for record in caplog.records if record.exc_info and isinstance(record.exc_info[1], CatalogDamaged)]
        assert len(met) > 2
        assert sum(once.filter(record) for record in met) == 1, "one line an hour, whoever meets it"
        with psycopg.connect(damaged, autocommit=True) as conn:
            conn.execute("TRUNCATE snapshot_pointer CASCADE")  # the file is nobody's now
        assert client.get("/readyz").get_json()["postgres"]["ok"]
        server.close()


def test_an_index_is_made_anew(server_dsn: str, dsn: str, tmp_path: Path, workers: WorkerPool) -> None:
    _filled(dsn, tmp_path, workers)
    with with_damage(server_dsn, dsn, "snapshot_pointer_pkey") as damaged:
        server = Server(damaged, tmp_path / "warehouse", workers)
        with pytest.raises(CatalogDamaged, match="REINDEX INDEX snapshot_pointer_pkey"), server.catalog.reading() as tx:
            tx.databases._conn.execute("SET enable_seqscan = off; SELECT table_id FROM snapshot_pointer ORDER BY table_id, branch")
        with pytest.raises(CatalogDamaged):
            server.catalog.require_whole()
        with psycopg.connect(damaged, autocommit=True) as conn:
            conn.execute("REINDEX INDEX snapshot_pointer_pkey")
        server.catalog.require_whole()
        server.close()


@pytest.mark.parametrize("work", ["backup", "check", "doctor"])
def test_the_commands_say_it_in_one_line(server_dsn: str, dsn: str, tmp_path: Path, workers: WorkerPool, work: str) -> None:
    _filled(dsn, tmp_path, workers)
    with with_damage(server_dsn, dsn, "table_entry") as damaged:
        settings = _settings(damaged, tmp_path)
        if work == "doctor":
            found = [one for one in examine(settings) if "table_entry is damaged" in one.detail]
            assert {one.level for one in found} == {FAIL}
            return
        deeds: dict[str, Callable[[], Any]] = {
            "backup": lambda: backup(settings, tmp_path / "new"),
            "check": lambda: list(check_warehouse(settings, deep=False, threads=1, told=logging.info)),
        }
        with pytest.raises(CatalogDamaged, match="table table_entry is damaged"):
            deeds[work]()
        assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("relation", ["table_snapshot", "access_grant"])
def test_a_backup_takes_the_place_of_a_damaged_catalog(
    server_dsn: str, dsn: str, tmp_path: Path, workers: WorkerPool, relation: str
) -> None:
    path = _filled(dsn, tmp_path, workers)
    with with_damage(server_dsn, dsn, relation) as damaged:
        _, differing = restore(_settings(damaged, tmp_path), path, replace=True)
        assert ["rights were damaged" in one.what for one in differing] == [True] * (relation == "access_grant")
        server = Server(damaged, tmp_path / "warehouse", workers)
        assert server.rows("SELECT * FROM t") == [(1,)]
        server.catalog.require_whole()
        server.close()


def test_what_is_no_damage_stays_what_it_is() -> None:
    assert damage_met(psycopg.errors.DiskFull("no space")) is None
    assert damage_met(psycopg.errors.InternalError_("tuple concurrently updated")) is None
    assert damage_met(psycopg.errors.InternalError_('unexpected data beyond EOF in block 1 of relation "base/5/16390"')) is not None
    assert damage_met(ValueError("x")) is None
