"""Requests nobody means well with: each is the client's fault, and is told so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from flask.testing import FlaskClient

from server.app import create_app
from server.process.services import Services
from tests.running import ARROW
from tests.server.access.test_access import As, ada, admin
from tests.server.sql.test_statements import assert_problem, run
from tests.workers.damaged import stream

__all__ = ["ada", "admin"]
NDJSON = "application/x-ndjson"
DEEP = 3000


@pytest.mark.parametrize("origin", ["http://[", "http://]", "http://[::1"])
def test_an_origin_that_is_no_address_is_refused(client: FlaskClient, origin: str) -> None:
    response = client.post("/sql", data="SELECT 1", headers={"Origin": origin})
    assert "Origin" in assert_problem(response, 400, "BadRequest")["detail"]


@pytest.mark.parametrize("host", ["[", "[::1", "a]b"])
def test_a_host_that_is_no_address_is_refused(client: FlaskClient, host: str) -> None:
    assert client.post("/sql", data="SELECT 1", headers={"Host": host}).status_code in (400, 403)


BODIES = {
    "NDJSON nested in a text": (NDJSON, b'{"s":' + b"[" * DEEP + b"]" * DEEP + b"}"),
    "NDJSON nested in a list": (NDJSON, b'{"a":' + b"[" * DEEP + b"]" * DEEP + b"}"),
    "NDJSON nested objects": (NDJSON, b'{"r":' + b'{"x":' * DEEP + b"1" + b"}" * DEEP + b"}"),
    "half a surrogate pair": (NDJSON, b'{"s":"\\ud800"}'),
    "half a surrogate pair as a name": (NDJSON, b'{"\\ud800":1}'),
    "a number of 5,000 digits": (NDJSON, b'{"id":' + b"9" * 5000 + b"}"),
    "a decimal of a billion digits": (NDJSON, b'{"n":1e999999999}'),
    "a CSV header that is not UTF-8": ("text/csv", b"\xff\xfe,id\n1,2\n"),
    "a CSV value that is not UTF-8": ("text/csv", b"id,s\n1,\xff\xfe\n"),
    "NULs for a CSV": ("text/csv", b"\x00" * 100),
    "an Arrow date after the year 9999": (ARROW, stream(pa.record_batch({"d": pa.array([2**31 - 1], pa.date32())}))),
    "an Arrow date before the year 1": (ARROW, stream(pa.record_batch({"d": pa.array([-(2**31)], pa.date32())}))),
    "an Arrow time after the year 9999": (ARROW, stream(pa.record_batch({"t": pa.array([2**63 - 1], pa.timestamp("us"))}))),
    "an Arrow time before the year 1": (ARROW, stream(pa.record_batch({"t": pa.array([-(2**63)], pa.timestamp("us"))}))),
}


@pytest.mark.parametrize("what", BODIES)
def test_bodies_that_break_their_readers_are_refused(client: FlaskClient, what: str) -> None:
    columns = "id BIGINT, s STRING, a ARRAY<INT>, r ROW<x INT>, n DECIMAL(10, 2), d DATE, t TIMESTAMP(6)"
    assert run(client, f"CREATE TABLE hurt ({columns})").status_code == 200
    media_type, body = BODIES[what]
    response = client.post("/tables/default/hurt/rows", data=body, content_type=media_type)
    assert response.status_code in (400, 404), response.text
    assert_problem(response, response.status_code, json.loads(response.data)["errorClass"])
    assert json.loads(run(client, "SELECT * FROM hurt").data)["rows"] == []


def test_no_broker_is_reached_for_who_needs_a_token(client: FlaskClient, admin: As, ada: As) -> None:
    options = "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = '127.0.0.1:1', 'format' = 'raw'"
    for who in (ada, admin):
        assert who.sql(f"CREATE TEMPORARY TABLE k (s STRING) WITH ({options})") == (403, "Forbidden")


@pytest.mark.parametrize("key", ["sink.process-time-zone", "sink.watermark-time-zone"])
def test_a_time_zone_is_no_path(admin: As, key: str) -> None:
    assert admin.sql(f"CREATE TABLE z (id INT) WITH ('{key}' = '../../etc/passwd')") == (400, "InvalidOption")


def test_metrics_name_tables_and_jobs_to_who_sees_them(client: FlaskClient, admin: As, ada: As, dsn: str) -> None:
    for name in ("shown", "hidden"):
        admin.sql(f"CREATE TABLE {name} (id INT)")
    admin.sql("GRANT SELECT ON shown TO ada")
    for name in ("shown", "hidden"):
        admin.sql(f"INSERT INTO {name} VALUES (1)")
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("INSERT INTO stream_consumer SELECT table_id, 'main', 'late', gen_random_uuid(), 0, 0, now() FROM sluice_table")

    def figures(who: As) -> str:
        found = client.get("/metrics", headers=who._headers)
        assert found.status_code == 200
        return found.text

    assert "default.hidden" in figures(admin)
    assert "default.shown" in figures(ada)
    assert "hidden" not in figures(ada)
    assert "sluice_tables 2.0" in figures(ada)


def test_a_login_under_tls_keeps_its_cookie_to_tls(services: Services, admin: As) -> None:
    for certificate in (None, Path("/nowhere.pem")):
        settings = replace(services.settings, tls_certificate=certificate)
        client = create_app(Services(gateway=services.gateway, settings=settings)).test_client()
        cookie = client.get("/ui/login").headers["Set-Cookie"]
        assert ("Secure" in cookie) == (certificate is not None)
