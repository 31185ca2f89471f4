"""What the doctor finds, on a healthy server and on one that suffers from everything."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from flask.testing import FlaskClient
from psycopg.conninfo import conninfo_to_dict

from catalog.backup.archive import restore_archive, write_archive
from lake.register.belonging import MARKER
from migrations import downgrade
from server.commands.check import check_warehouse
from server.commands.doctor import FAIL, OK, WARN, Finding, examine
from server.process.process import catalog_dsn
from server.process.services import Services
from server.settings.options import LISTEN
from server.settings.settings import Settings, read_settings
from tests.running import free_port


@pytest.fixture
def settings(dsn: str, tmp_path: Path) -> Settings:
    variables = {"SLUICE_DATA": str(tmp_path), "SLUICE_CATALOG_DSN": dsn, "SLUICE_LISTEN": f"127.0.0.1:{free_port()}"}
    return read_settings(variables)


def by_check(found: list[Finding]) -> dict[str, Finding]:
    return {one.check: one for one in found}


def test_commands_and_migrations_notice_a_postgres_that_is_gone(settings: Settings) -> None:
    with catalog_dsn(settings) as dsn:
        said = conninfo_to_dict(dsn)
    assert (said["connect_timeout"], said["keepalives_idle"], said["tcp_user_timeout"]) == ("10", "10", "20000")


def test_in_good_health_every_line_is_ok(settings: Settings, client: FlaskClient) -> None:
    client.post("/sql", data="CREATE TABLE t (id INT)").close()
    found = by_check(examine(settings))
    wrong = {one.check for one in found.values() if one.level != OK} - {"disk of data", "disk of warehouse", "commit", "leases"}
    assert not wrong, found
    assert {"python", "java", "spark", "disk of data", "server", "postgres", "warehouse", "clock", "commit"} <= set(found)
    assert "1 tables, nothing needs attention" in found["catalog"].detail


def test_every_trouble_has_a_line_and_a_way_out(settings: Settings, client: FlaskClient, dsn: str) -> None:
    client.post("/sql", data="CREATE TABLE `o'neil` (id INT)").close()
    client.post("/sql", data="INSERT INTO `o'neil` VALUES (1)").close()
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE sluice_table SET diverged_at = '/w/t/branch/branch-b/snapshot/snapshot-2'")
        conn.execute("UPDATE snapshot_pointer SET file_count = 5000, file_size = 5000000, snapshot_id = 1")
        conn.execute("INSERT INTO stream_consumer SELECT table_id, 'main', 'late', gen_random_uuid(), -500, 1, now() FROM sluice_table")
        conn.execute(
            "INSERT INTO stream_job (job_id, name, statement, database, settings, tables, principal, state, attempts, error, lease_until) "
            "VALUES (gen_random_uuid(), 'j', 's', 'default', '{}', '{}', '', 'FAILED', 3, 'It broke.', now() - interval '1 hour')"
        )
    found = by_check(examine(settings))
    levels = {check: found[check].level for check in ("diverged", "small files", "leases", "jobs", "consumers")}
    assert levels == {"diverged": FAIL, "small files": WARN, "leases": WARN, "jobs": FAIL, "consumers": WARN}
    assert "CALL sys.repair_table('default.o''neil$branch_b', " in found["diverged"].way_out
    assert found["small files"].way_out == "CALL sys.compact('default.o''neil')"
    assert "RESTART" in found["jobs"].way_out
    assert "CALL sys.reset_consumer('default.o''neil', 'late')" in found["consumers"].way_out


def test_when_tables_were_checked_is_told(settings: Settings, client: FlaskClient, services: Services) -> None:
    """Nothing knew when the data files were last looked at, or whether ever."""
    services.gateway.lake.standing.compare_at_start()  # as a server does: no note is written where the catalog's mark is not
    for table in "abc":
        client.post("/sql", data=f"CREATE TABLE {table} (id INT)").close()
        client.post("/sql", data=f"INSERT INTO {table} VALUES (1)").close()
    detail = by_check(examine(settings))["checked"].detail
    assert "0 of 3 tables" in detail
    assert "default.a never, default.b never, default.c never" in detail
    assert client.post("/sql", data="CALL sys.check_table('a')").status_code == 200
    client.post("/sql", data="CALL sys.check_table('b', deep => true)").close()
    detail = by_check(examine(settings))["checked"].detail
    assert re.search(r"2 of 3 tables .*: default\.c never, default\.a at 2\S+ \S+ UTC, default\.b at 2\S+ \S+ UTC \(deep\)$", detail)
    client.post("/sql", data="DROP TABLE b PURGE").close()
    assert not list(check_warehouse(settings, deep=False, threads=1, told=lambda said: None))
    assert "2 of 2 tables" in by_check(examine(settings))["checked"].detail
    assert len(list((settings.data / "warehouse" / ".sluice" / "checked").iterdir())) == 2, "one that is no more has no note"


def test_notes_of_checks_outlive_a_drop_that_can_be_undone_and_a_check_by_the_wrong_catalog(
    settings: Settings, client: FlaskClient, services: Services
) -> None:
    standing, noted = services.gateway.lake.standing, settings.data / "warehouse" / ".sluice" / "checked"
    standing.compare_at_start()
    for table in "ab":
        client.post("/sql", data=f"CREATE TABLE {table} (id INT)").close()
        client.post("/sql", data=f"CALL sys.check_table('{table}')").close()
    services.gateway.lake.drop_retention = timedelta(days=1)
    client.post("/sql", data="DROP TABLE a").close()
    assert not list(check_warehouse(settings, deep=False, threads=1, told=lambda said: None))
    assert len(list(noted.iterdir())) == 2
    client.post("/sql", data="DROP TABLE b PURGE").close()
    marker = settings.data / "warehouse" / MARKER
    marker.write_text(marker.read_text().replace(json.loads(marker.read_text())["catalog"], str(uuid4())))
    assert not list(check_warehouse(settings, deep=False, threads=1, told=lambda said: None))
    assert len(list(noted.iterdir())) == 2


def test_a_catalog_older_than_its_warehouse_is_told(settings: Settings, client: FlaskClient, dsn: str, tmp_path: Path) -> None:
    """As after a promoted standby that lagged, or an old dump: nothing else notices it."""
    for text in ("CREATE TABLE t (id INT)", "CREATE TABLE u (id INT)", "INSERT INTO t VALUES (1)"):
        client.post("/sql", data=text).close()
    write_archive(dsn, tmp_path / "old", warehouse="")
    for text in ("INSERT INTO t VALUES (2)", "CREATE TABLE `new` (id INT)"):
        client.post("/sql", data=text).close()
    restore_archive(dsn, tmp_path / "old")
    found = {one.detail.split(":")[0]: one for one in examine(settings) if one.check == "tables"}
    assert {name: one.level for name, one in found.items()} == {"default.t": FAIL, "default.new": WARN}
    assert "snapshots 2 to 2 are in the warehouse and newer than the catalog's 1" in found["default.t"].detail
    assert found["default.t"].way_out == "CALL sys.repair_table('default.t');"
    assert "sys.register_table('default.new'" in found["default.new"].way_out


def test_what_is_away_hides_nothing_else(settings: Settings, dsn: str, tmp_path: Path) -> None:
    downgrade(dsn, "0008")
    found = by_check(examine(settings))
    assert (found["postgres"].level, "sluice migrate" in found["postgres"].way_out) == (FAIL, True)
    assert found["python"].level == OK
    nowhere = read_settings({"SLUICE_DATA": str(tmp_path), "SLUICE_CATALOG_DSN": "host=127.0.0.1 port=1 connect_timeout=1"})
    assert by_check(examine(nowhere))["postgres"].level == FAIL


def test_a_warehouse_that_is_not_the_catalogs_is_not_written(settings: Settings, client: FlaskClient, dsn: str, tmp_path: Path) -> None:
    client.post("/sql", data="CREATE TABLE t (id INT)").close()
    mistyped = tmp_path / "mistyped"
    found = by_check(examine(replace(settings, warehouse=str(mistyped))))
    assert (found["identity"].level, found["warehouse"].level) == (FAIL, FAIL)
    assert not mistyped.exists()


def test_somebody_else_on_the_port(settings: Settings) -> None:
    with socket.create_server(settings[LISTEN]) as other:
        other.settimeout(30)
        import threading

        def answer() -> None:
            conn, _ = other.accept()
            conn.recv(65536)
            conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
            conn.close()

        thread = threading.Thread(target=answer)
        thread.start()
        found = by_check(examine(settings, java_home="/nowhere"))
        thread.join()
    assert (found["server"].level, "SLUICE_LISTEN" in found["server"].way_out) == (FAIL, True)
    assert found["java"].level == FAIL
