"""What operators look at: metrics and the audit log."""

from __future__ import annotations

import re
from datetime import timedelta

import psycopg
import pytest
from flask.testing import FlaskClient
from prometheus_client.parser import text_string_to_metric_families

from catalog import CatalogStore
from lake.audit import AuditLog
from model.errors import Unavailable
from model.option import masked_text
from sql.gateway import Gateway


def figures(client: FlaskClient) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.content_type.startswith("text/plain")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


def test_metrics_count_what_happens(client: FlaskClient) -> None:
    client.post("/sql", data="CREATE TABLE t (id INT)")
    client.post("/sql", data="INSERT INTO t VALUES (1)")
    assert client.post("/sql", data="SELECT * FROM nothing").status_code == 404
    client.get("/v1/config?warehouse=sluice")
    client.get("/a/scanner/came/by")
    found = figures(client)
    assert found[key("sluice_request_seconds_count", door="sql", method="POST", status="200")] == 2
    assert found[key("sluice_request_seconds_count", door="sql", method="POST", status="404")] == 1
    assert found[key("sluice_request_seconds_count", door="paimon", method="GET", status="200")] == 1
    assert found[key("sluice_request_seconds_count", door="other", method="GET", status="404")] == 1
    assert found[key("sluice_statement_seconds_count", state="finished")] == 2
    assert found[key("sluice_statement_seconds_count", state="error")] == 1
    assert found[key("sluice_statement_errors_total", error="TableNotExist")] == 1
    assert found[key("sluice_statements", state="running")] == 0
    assert found[key("sluice_sessions")] == 0
    assert found[key("sluice_spark_ready")] == 0
    assert found[key("sluice_catalog_pool", what="size")] >= 1
    assert found[key("process_resident_memory_bytes")] > 1e6


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


def test_secrets_stay_out_of_the_log() -> None:
    text = "CREATE TABLE t (id INT) WITH ('fs.s3.accessKeySecret' = {}, 'path' = 'x', 'my.password'={}); CALL sys.x(token => {})"
    assert masked_text(text.format("'it''s'", "'b'", "'c'")) == text.format(*["'******'"] * 3)
    long = "INSERT INTO t VALUES ('" + "x" * 1_000_000 + "', '" + "=" * 10_000 + "')"
    assert masked_text(long) == long, "and it comes to an end"


def test_entries_wait_while_postgres_is_away_and_old_ones_go(gateway: Gateway, client: FlaskClient, dsn: str) -> None:
    client.post("/sql", data="CREATE TABLE t (id INT)")
    log = gateway.lake.audit
    (row,) = log.newest(None)
    nowhere = CatalogStore("host=127.0.0.1 port=1 connect_timeout=1")
    away = AuditLog(nowhere, kept=timedelta(days=1))
    away.note(row)
    with pytest.raises(Unavailable):
        away.flush()
    with pytest.raises(Unavailable):
        away.flush()  # it still waits
    nowhere.close()
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE audit_log SET time = time - interval '40 days'")
    log.forget_old()
    assert list(log.newest(None)) == []
