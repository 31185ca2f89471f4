"""Where an operator sees that catalog and warehouse do not belong together, and which tables need a hand."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from flask.testing import FlaskClient

from catalog.backup.archive import restore_archive, write_archive
from gateway.gateway import Gateway
from migrations import downgrade, known_revisions, newest, upgrade
from server.commands.doctor import FAIL, OK, examine
from server.commands.restore import restore
from server.settings.settings import Settings, read_settings
from tests.lake.register.damage import data_files, remove
from tests.running import free_port


@pytest.fixture
def settings(dsn: str, tmp_path: Path) -> Settings:
    return read_settings({"SLUICE_DATA": str(tmp_path), "SLUICE_CATALOG_DSN": dsn, "SLUICE_LISTEN": f"127.0.0.1:{free_port()}"})


def sql(client: FlaskClient, *texts: str) -> None:
    for text in texts:
        with client.post("/sql", data=text) as answer:
            assert answer.status_code == 200, answer.get_data(as_text=True)


def test_tables_that_need_a_hand_are_told_everywhere(client: FlaskClient, gateway: Gateway, dsn: str, tmp_path: Path) -> None:
    sql(client, "CREATE TABLE cut (id INT)", "INSERT INTO cut VALUES (1)", "CREATE TABLE old (id INT)", "CREATE TABLE well (id INT)")
    write_archive(dsn, tmp_path / "dump", warehouse="")
    sql(client, "INSERT INTO old VALUES (1)")
    restore_archive(dsn, tmp_path / "dump")
    remove(data_files(tmp_path / "warehouse/default.db/cut")[0])
    with client.post("/sql", data="SELECT * FROM cut") as answer:
        assert "TableDamaged" in answer.get_data(as_text=True)
    gateway.lake.standing.look_around(tables=None)
    told = client.get("/readyz").get_json()
    assert (told["tables"]["ok"], told["catalog"]["ok"]) == (False, True)
    assert "2 tables need a hand" in told["tables"]["detail"]
    with client.post("/sql", data="SELECT table_name, statement FROM sys.damaged_tables") as answer:
        said = answer.get_data(as_text=True)
    for statement in ("CALL sys.check_table('default.cut')", "CALL sys.repair_table('default.old')"):
        assert statement in told["tables"]["detail"]
        assert statement in said
    with client.post("/sql", data="SELECT * FROM old") as answer:
        (notice,) = answer.headers.getlist("X-Notice")
    assert "default.old is shown as the catalog knows it" in notice
    session = client.post("/v2/sessions", json={}).get_json()["sessionHandle"]
    operation = client.post(f"/v2/sessions/{session}/statements", json={"statement": "SELECT * FROM old"}).get_json()["operationHandle"]
    with client.get(f"/v2/sessions/{session}/operations/{operation}/result/0?rowFormat=JSON") as answer:
        assert (answer.get_json()["results"]["data"], answer.headers.getlist("X-Notice")) == ([], [notice])
    later = client.post("/sql", data="SELECT * FROM old", headers={"Prefer": "respond-async"}).get_json()["statementId"]
    for asked in ("wait=10", "wait=10&page=0"):
        with client.get(f"/statements/{later}/result?{asked}") as answer:
            assert answer.headers.getlist("X-Notice") == [notice], asked
    with client.post("/sql", data="SELECT * FROM old; SELECT * FROM well") as answer:
        assert answer.headers.getlist("X-Notice") == [notice]
    with client.post("/sql", data="SELECT * FROM well") as answer:
        assert "X-Notice" not in answer.headers
    page = client.get("/ui/").get_data(as_text=True)
    assert "default.cut needs a hand" in page
    assert "default.old needs a hand" in page
    assert "sluice_tables_in_trouble 2.0" in client.get("/metrics").get_data(as_text=True)
    sql(client, "INSERT INTO well VALUES (1)")
    with client.post("/sql", data="INSERT INTO old VALUES (2)") as answer:
        assert answer.status_code == 409, answer.get_data(as_text=True)
    sql(client, "CALL sys.repair_table('default.old')", "CALL sys.remove_unexisting_files('default.cut', dry_run => false)")
    gateway.lake.standing.look_around(tables=None)
    assert client.get("/readyz").get_json()["tables"] == {"ok": True}


def test_a_warehouse_of_another_catalog(client: FlaskClient, gateway: Gateway, dsn: str, settings: Settings, tmp_path: Path) -> None:
    sql(client, "CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)")
    gateway.lake.standing.compare()
    assert {one.check: one.level for one in examine(settings)}["identity"] == OK
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE catalog_state SET catalog_id = %s", (uuid4(),))
    gateway.lake.standing.compare()
    assert client.get("/readyz").status_code == 503
    assert "CALL sys.claim_warehouse()" in client.get("/readyz").get_json()["catalog"]["detail"]
    assert {one.check: one.level for one in examine(settings)}["identity"] == FAIL
    assert "sluice_warehouse_own 0.0" in client.get("/metrics").get_data(as_text=True)
    with client.post("/sql", data="INSERT INTO t VALUES (2)") as answer:
        assert answer.status_code == 409, answer.get_data(as_text=True)
        assert "WarehouseMismatch" in answer.get_data(as_text=True)
    sql(client, "CALL sys.claim_warehouse(dry_run => true)")
    gateway.lake.standing.compare()
    assert gateway.lake.standing.mismatch is not None
    sql(client, "SELECT * FROM t", "CALL sys.claim_warehouse()", "INSERT INTO t VALUES (2)")


def test_a_catalog_that_a_newer_version_has_migrated_under_the_server(client: FlaskClient, gateway: Gateway, dsn: str) -> None:
    sql(client, "CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)")
    gateway.lake.standing.known_revisions = known_revisions()
    gateway.lake.standing.compare()
    sql(client, "INSERT INTO t VALUES (2)")
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE alembic_version SET version_num = '9999'")
        gateway.lake.standing.compare()
        assert client.get("/readyz").status_code == 503
        assert "schema is 9999 by now, which this server does not know" in client.get("/readyz").get_json()["catalog"]["detail"]
        for change in ("INSERT INTO t VALUES (3)", "CREATE TABLE u (id INT)", "DROP TABLE t", "CALL sys.claim_warehouse()"):
            with client.post("/sql", data=change) as answer:
                assert (answer.status_code, "NewerCatalog" in answer.get_data(as_text=True)) == (503, True), change
        sql(client, "SELECT * FROM t")
        conn.execute("UPDATE alembic_version SET version_num = %s", (newest(),))
    gateway.lake.standing.compare()
    assert client.get("/readyz").get_json()["catalog"]["ok"]
    sql(client, "INSERT INTO t VALUES (3)")


def test_an_emptied_postgres_is_a_503_by_name(client: FlaskClient, dsn: str) -> None:
    sql(client, "CREATE TABLE t (id INT)")
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    with client.post("/sql", data="SELECT * FROM t") as answer:
        assert (answer.status_code, "CatalogLost" in answer.get_data(as_text=True)) == (503, True)
    assert "sluice restore" in client.get("/readyz").get_json()["postgres"]["detail"]


def test_a_restored_catalog_of_before_identities_takes_its_warehouses(
    client: FlaskClient, gateway: Gateway, dsn: str, empty_dsn: str, tmp_path: Path
) -> None:
    sql(client, "CREATE TABLE t (id INT)")
    gateway.lake.standing.compare()
    upgrade(empty_dsn, "0016")
    write_archive(empty_dsn, tmp_path / "old", warehouse="")
    downgrade(empty_dsn, "base")
    wanted = read_settings(
        {"SLUICE_DATA": str(tmp_path / "d"), "SLUICE_CATALOG_DSN": empty_dsn, "SLUICE_WAREHOUSE": str(tmp_path / "warehouse")}
    )
    _, found = restore(wanted, tmp_path / "old", replace=False)
    assert [one.table for one in found] == ["default.t"]  # which the catalog does not know, and no word of another's warehouse


def test_a_clock_in_doubt_is_told_and_confirmed(client: FlaskClient, gateway: Gateway, dsn: str, settings: Settings) -> None:
    sql(client, "CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)")
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE catalog_state SET clock_seen_at = now() - interval '1 year'")
    with client.post("/sql", data="CALL sys.expire_snapshots('t')") as answer:
        assert (answer.status_code, "sys.confirm_clock" in answer.get_data(as_text=True)) == (409, True)
    assert "sys.confirm_clock" in client.get("/readyz").get_json()["clock"]["detail"]
    assert "sluice_expiry_paused 1.0" in client.get("/metrics").get_data(as_text=True)
    assert {one.check: one.level for one in examine(settings)}["expiry"] == FAIL
    sql(client, "CALL sys.expire_snapshots('t', dry_run => true)", "CALL sys.confirm_clock(dry_run => true)")
    assert not client.get("/readyz").get_json()["clock"]["ok"]
    sql(client, "CALL sys.confirm_clock()", "CALL sys.expire_snapshots('t')")
    assert client.get("/readyz").get_json()["clock"]["ok"]
