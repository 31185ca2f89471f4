"""What operators look at: metrics and the audit log."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from flask.testing import FlaskClient
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.parser import text_string_to_metric_families

import server.observe.present
from catalog import CatalogStore
from gateway.gateway import Gateway
from lake import Lake, StorageReserve
from lake.access.audit import AuditLog
from maintenance.coordinator import Coordinator
from model.errors import Unavailable
from model.identifier import Identifier
from model.options.masking import masked_text
from model.snapshot import CommitKind
from model.work.work_limits import MaintenanceLimits
from server.app import create_app
from server.observe.present import Seen
from server.process.services import Services
from server.settings.settings import read_settings
from table.write.snapshot_builder import CommitRequest
from tests.disks import MEGABYTE, fill, mounted
from tests.waiting import eventually


def figures(client: FlaskClient) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.content_type.startswith("text/plain")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def key(name: str, /, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def test_metrics_count_what_happens(client: FlaskClient) -> None:
    client.post("/sql", data="CREATE TABLE t (id INT)")
    client.post("/sql", data="INSERT INTO t VALUES (1)")
    assert client.post("/sql", data="SELECT * FROM nothing").status_code == 404
    client.get("/v1/config?warehouse=sluice")
    client.get("/a/scanner/came/by")
    found = figures(client)
    assert found[key("sluice_request_seconds_count", protocol="sql", method="POST", status="200")] == 2
    assert found[key("sluice_request_seconds_count", protocol="sql", method="POST", status="404")] == 1
    assert found[key("sluice_request_seconds_count", protocol="paimon", method="GET", status="200")] == 1
    assert found[key("sluice_request_seconds_count", protocol="other", method="GET", status="404")] == 1
    assert found[key("sluice_statement_seconds_count", state="finished")] == 2
    assert found[key("sluice_statement_seconds_count", state="error")] == 1
    assert found[key("sluice_statement_errors_total", error="TableNotExist")] == 1
    assert found[key("sluice_statements", state="running")] == 0
    assert found[key("sluice_sessions")] == 0
    assert [found[key("sluice_result_memory_bytes", what=what)] for what in ("held", "read")] == [0, 0]
    assert key("sluice_result_memory_bytes", what="ahead") in found  # of all gateways of the process
    assert found[key("sluice_spark_ready")] == 0
    assert found[key("sluice_catalog_pool", what="size")] >= 1
    assert found[key("process_resident_memory_bytes")] > 1e6


def test_metrics_tell_of_commits_debts_consumers_and_jobs(gateway: Gateway, client: FlaskClient, dsn: str) -> None:
    coordinator = Coordinator(gateway.lake, MaintenanceLimits(patience=3600))
    gateway.maintenance = coordinator
    client.post("/sql", data="CREATE TABLE t (id INT)")
    for _ in range(2):
        client.post("/sql", data="INSERT INTO t VALUES (1)")
    coordinator.round()
    assert eventually(lambda: bool(coordinator.debts()))
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("INSERT INTO stream_consumer SELECT table_id, 'main', 'late', gen_random_uuid(), 1, 1, now() FROM sluice_table")
        conn.execute("UPDATE sluice_table SET diverged_at = 'somewhere'")
        conn.execute("UPDATE maintenance_owner SET lease_until = now() - interval '1 minute'")
        state = "'RESTARTING', 3, '2 snapshots, 40 records'"
        conn.execute(
            "INSERT INTO stream_job (job_id, name, statement, database, settings, tables, principal, state, attempts, lag) "
            f"VALUES ('00000000-0000-0000-0000-000000000001', 'j', 's', 'default', '{{}}', '{{}}', '', {state})"
        )
    found = figures(client)
    coordinator.close()
    assert found[key("sluice_commit_seconds_count", writer="server", outcome="committed")] == 2
    assert found[key("sluice_commit_writes_total")] == 2
    assert found[key("sluice_compaction_debt_files")] == 2
    assert found[key("sluice_table_debt_files", table="default.t")] == 2
    assert found[key("sluice_compaction_debt_bytes")] > 100
    assert found[key("sluice_consumer_lag_snapshots", table="default.t", consumer="late")] == 2
    assert found[key("sluice_jobs", state="restarting")] == 1
    assert found[key("sluice_jobs", state="running")] == 0
    assert found[key("sluice_job_lag", job="00000000-0000-0000-0000-000000000001", name="j", unit="records")] == 40
    assert found[key("sluice_job_failures", job="00000000-0000-0000-0000-000000000001", name="j")] == 3
    assert found[key("sluice_leases_expired", of="table")] == 1
    assert found[key("sluice_catalog_up")] == found[key("sluice_tables_diverged")] == found[key("sluice_tables_unattended")] == 1
    assert found[key("sluice_catalog_pool_events_total", what="requests")] > 2


def test_a_table_is_named_to_who_may_read_all_of_it(client: FlaskClient, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.observe.present, "_CATALOG_SECONDS", 0.0)

    def asked(token: str, text: str = "") -> str:
        headers = {"Authorization": f"Bearer {token}"}
        if text:
            assert client.post("/sql", data=text, headers=headers).status_code == 200
        return client.get("/metrics", headers=headers).text

    root = client.post("/tokens", json={"name": "root", "administrator": True}).get_json()["token"]
    ada = client.post("/tokens", json={"name": "ada"}, headers={"Authorization": f"Bearer {root}"}).get_json()["token"]
    asked(root, "CREATE TABLE t (id INT); INSERT INTO t VALUES (1)")
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("INSERT INTO stream_consumer SELECT table_id, 'main', 'late', gen_random_uuid(), 1, 1, now() FROM sluice_table")
    grants = ("GRANT LIST ON DATABASE `default` TO ada", "GRANT ALTER, DROP, UPDATE ON t TO ada", "GRANT SELECT (id) ON t TO ada")
    for grant in grants:
        asked(root, grant)
        assert '"late"' not in asked(ada), grant
    asked(root, "GRANT SELECT ON t TO ada")
    assert 'consumer="late"' in asked(ada)
    asked(root, "CREATE POLICY p ON t TO ada USING (id = 2)")
    assert '"late"' not in asked(ada)


def test_directories_of_the_server_are_told_to_administrators(lake: Lake) -> None:
    """Others see how full they are, by their last names."""
    registry = CollectorRegistry()
    free = Gauge("free", "Bytes.", ["directory"], registry=registry)
    for number, directory in enumerate(["/a/data", "/b/data", "/c/"]):
        free.labels(directory=directory).set(number)
    (seen,) = Seen(registry, lake).collect()
    assert [(sample.labels, sample.value) for sample in seen.samples] == [
        ({"directory": "data"}, 0), ({"directory": "data 2"}, 1), ({"directory": "c"}, 2)
    ]  # fmt: skip


def test_a_table_counts_as_unattended_once_nobody_took_it_for_long(gateway: Gateway, dsn: str) -> None:
    """A server that is there takes it with its next round."""

    def unattended() -> list[str]:
        with gateway.lake.catalog.reading() as tx:
            return tx.overview.sums().unattended

    gateway.run("CREATE TABLE t (id INT)").close()
    gateway.run("INSERT INTO t VALUES (1)").close()
    assert unattended() == ["default.t"]
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            "INSERT INTO maintenance_owner (owner, server, lease_until) VALUES (gen_random_uuid(), 's', now() + interval '1 hour')"
        )
        assert unattended() == []
        conn.execute("UPDATE table_snapshot SET body = jsonb_set(body, '{timeMillis}', to_jsonb((body ->> 'timeMillis')::bigint - 700000))")
        assert unattended() == ["default.t"]


def test_a_lost_race_is_counted(gateway: Gateway, client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    client.post("/sql", data="CREATE TABLE t (id INT)")
    rival = Lake(gateway.lake.catalog, gateway.lake.warehouse)
    turns = iter(["built"])

    def first(step: str) -> None:
        if step == next(turns, None):
            rival.commit(rival.open(Identifier("default", "t")), CommitRequest(kind=CommitKind.APPEND, commit_user="rival"))

    monkeypatch.setattr(gateway.lake._core, "_hook", first)
    assert client.post("/sql", data="INSERT INTO t VALUES (1)").status_code == 200
    rival.close()
    found = figures(client)
    assert found[key("sluice_commit_conflicts_total", writer="server")] == 1
    assert found[key("sluice_commit_seconds_count", writer="server", outcome="committed")] == 1


def test_every_metric_is_on_the_page(client: FlaskClient) -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    families = {family.name.removesuffix("_created") for family in text_string_to_metric_families(client.get("/metrics").text)}
    missing = {name for name in families if name.startswith("sluice_") and f"`{name}" not in page and f"`{name}_total" not in page}
    assert not missing


def test_metrics_answer_while_postgres_is_away(gateway: Gateway, client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*arguments: Any, **named: Any) -> Any:
        raise Unavailable("It is away.")

    monkeypatch.setattr(server.observe.present, "overview", away)
    found = figures(client)
    assert found[key("sluice_catalog_up")] == 0
    assert key("sluice_tables") not in found
    assert found[key("sluice_sessions")] == 0


def test_the_audit_log_tells_who_ran_what_and_how_it_ended(client: FlaskClient) -> None:
    client.post("/sql", data="CREATE TABLE t (id INT)", headers={"X-Request-Id": "mine"})
    client.post("/sql", data="SELECT * FROM nothing")
    client.post("/v1/sluice/databases", json={"name": "made"})
    client.get("/v1/sluice/databases")
    rows = client.post("/sql", data="SELECT * FROM sys.audit_log").json["rows"]  # type: ignore[index]
    shown = [(row[2], row[3], row[7], row[8], row[9]) for row in rows]
    assert shown == [
        ("paimon", "127.0.0.1", "POST /v1/sluice/databases", "FINISHED", None),
        ("sql", "127.0.0.1", "SELECT * FROM nothing", "ERROR", "TableNotExist"),
        ("sql", "127.0.0.1", "CREATE TABLE t (id INT)", "FINISHED", None),
    ]
    assert rows[-1][4] == "mine"
    assert re.fullmatch(r"[0-9a-f-]{36}", rows[-1][6])


def test_the_digest_of_an_erasure_stands_for_its_parameters(client: FlaskClient) -> None:
    for value in ("erika", "ada", "erika"):
        client.post("/sql", json={"statement": "DELETE FROM t WHERE name = ?", "parameters": [value]})
    rows = client.post("/sql", data="SELECT * FROM sys.audit_log").json["rows"]  # type: ignore[index]
    digests = [row[7].rpartition("keyed digest: ")[2] for row in rows if row[7].startswith("DELETE")]
    assert [len(digest) for digest in digests] == [67] * 3
    assert digests[0] == digests[2] != digests[1]


@pytest.mark.parametrize("kept", [False, True])
def test_the_audit_log_keeps_what_an_erasure_named_where_it_shall(services: Services, tmp_path: Path, kept: bool) -> None:
    settings = read_settings({"SLUICE_DATA": str(tmp_path), **({"SLUICE_AUDIT_ERASURES": "true"} if kept else {})})
    client = create_app(replace(services, settings=settings)).test_client()
    client.post("/sql", data="DELETE FROM t WHERE id = 4711")
    (row,) = client.post("/sql", data="SELECT * FROM sys.audit_log").json["rows"]  # type: ignore[index]
    assert row[7].startswith(f"DELETE FROM t WHERE id = {'4711' if kept else '******'} /* rows: unknown, keyed digest: ")


def test_secrets_stay_out_of_the_log() -> None:
    text = "CREATE TABLE t (id INT) WITH ('fs.s3.accessKeySecret' = {}, 'path' = 'x', 'my.password'={}); CALL sys.x(token => {})"
    assert masked_text(text.format("'it''s'", "'b'", "'c'")) == text.format(*["'******'"] * 3)
    long = "INSERT INTO t VALUES ('" + "x" * 1_000_000 + "', '" + "=" * 10_000 + "')"
    assert masked_text(long) == long, "and it comes to an end"


def test_entries_wait_while_postgres_is_away_and_old_ones_go(
    gateway: Gateway, client: FlaskClient, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    client.post("/sql", data="CREATE TABLE t (id INT)")
    log = gateway.lake.audit
    (row,) = log.newest(None)
    nowhere = CatalogStore("host=127.0.0.1 port=1 connect_timeout=1")
    nowhere._in_vain = True  # after a first wait of some seconds
    away = AuditLog(nowhere, kept=timedelta(days=1))
    away.note(row)
    with pytest.raises(Unavailable):
        away.flush()
    with pytest.raises(Unavailable):
        away.flush()  # it still waits
    for _ in range(3):
        away._try()
    assert sum("The audit log waits" in line for line in caplog.messages) == 1, "and says so once"
    nowhere.close()
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE audit_log SET time = time - interval '40 days'")
    log.forget_old()
    assert list(log.newest(None)) == []


def test_the_log_does_not_fill_the_disk_that_it_tells_of(gateway: Gateway, client: FlaskClient, tmp_path: Path) -> None:
    client.post("/sql", data="CREATE TABLE t (id INT)")
    catalog = gateway.lake.catalog
    (row,) = gateway.lake.audit.newest(None)
    with mounted(tmp_path / "disk", megabytes=16) as disk:
        log = AuditLog(catalog, kept=timedelta(days=1), reserve=StorageReserve(reserved=4 * MEGABYTE, warehouse=str(disk)))
        ballast = disk / "ballast"

        def noted(left: int, *error_classes: str | None) -> list[str | None]:
            ballast.unlink(missing_ok=True)
            fill(ballast, leave=left * MEGABYTE)
            time.sleep(0.3)
            for error_class in error_classes:
                log.note(replace(row, error_class=error_class, action="x" * 1000))
            return [entry.error_class for entry in reversed(list(log.newest(None)))][1:]

        assert noted(3, "StorageFull", "Other", "507") == ["Other"], "what was refused for lack of space waits for it"
        assert noted(1, None) == ["Other"], "where half of the reserve is used all does"
        assert noted(3) == ["Other", None]
        assert noted(8) == ["Other", None, "StorageFull", "507"]
    sizes = {entry.error_class: len(entry.action) for entry in log.newest(None)}
    assert (sizes["Other"], sizes["507"]) == (1000, 200)


def test_entries_that_wait_take_a_bounded_memory(gateway: Gateway, client: FlaskClient, caplog: pytest.LogCaptureFixture) -> None:
    client.post("/sql", data="CREATE TABLE t (id INT)")
    (row,) = gateway.lake.audit.newest(None)
    log = AuditLog(gateway.lake.catalog, kept=timedelta(days=1))
    for number in range(80):
        log.note(replace(row, action=f"{number} " + "x" * MEGABYTE))
    log.flush()
    numbers = [int(entry.action.split()[0]) for entry in log.newest(None) if "xxx" in entry.action]
    assert numbers == list(range(79, 16, -1)), "the oldest gave way"
    assert "17 entries of the audit log were lost" in caplog.text
