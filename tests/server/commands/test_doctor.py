"""What the doctor finds, on a healthy server and on one that suffers from everything."""

from __future__ import annotations

import socket
from pathlib import Path

import psycopg
import pytest
from flask.testing import FlaskClient
from psycopg.conninfo import conninfo_to_dict

from catalog.backup.archive import restore_archive, write_archive
from migrations import downgrade
from server.commands.doctor import FAIL, OK, WARN, Finding, examine
from server.process.process import catalog_dsn
from server.settings.options import LISTEN
from server.settings.settings import Settings, read_settings


@pytest.fixture
def settings(dsn: str, tmp_path: Path) -> Settings:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = {"SLUICE_DATA": str(tmp_path), "SLUICE_CATALOG_DSN": dsn, "SLUICE_LISTEN": f"127.0.0.1:{port}"}
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
        conn.execute("UPDATE sluice_table SET diverged_at = 'x'")
        conn.execute("UPDATE snapshot_pointer SET file_count = 5000, file_size = 5000000, snapshot_id = 1")
        conn.execute("INSERT INTO stream_consumer SELECT table_id, 'main', 'late', gen_random_uuid(), -500, 1, now() FROM sluice_table")
        conn.execute(
            "INSERT INTO stream_job (job_id, name, statement, database, settings, tables, principal, state, attempts, error, lease_until) "
            "VALUES (gen_random_uuid(), 'j', 's', 'default', '{}', '{}', '', 'FAILED', 3, 'It broke.', now() - interval '1 hour')"
        )
    found = by_check(examine(settings))
    levels = {check: found[check].level for check in ("diverged", "small files", "leases", "jobs", "consumers")}
    assert levels == {"diverged": FAIL, "small files": WARN, "leases": WARN, "jobs": FAIL, "consumers": WARN}
    assert "CALL sys.repair_table('default.o''neil', " in found["diverged"].way_out
    assert found["small files"].way_out == "CALL sys.compact('default.o''neil')"
    assert "RESTART" in found["jobs"].way_out
    assert "CALL sys.reset_consumer('default.o''neil', 'late')" in found["consumers"].way_out


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
