"""A quota that is reached is told by every protocol, and set on a page."""

from __future__ import annotations

import re
from pathlib import Path

import adbc_driver_flightsql.dbapi as dbapi
import pytest
from flask.testing import FlaskClient

from tests.server.flight.conftest import Endpoint
from tests.server.pages.conftest import Visitor
from tests.server.pages.conftest import visitor as visitor

SQL = {"Content-Type": "application/sql"}


@pytest.fixture
def limited(client: FlaskClient) -> FlaskClient:
    for text in (
        "CREATE TABLE t (a INT)",
        "SET QUOTA ingest.bytes-per-minute = 0 FOR USER anonymous",
        "SET QUOTA sessions.open = 0 FOR ROLE public",
    ):
        assert client.post("/sql", data=text, headers=SQL).status_code == 200
    return client


def test_http_protocols_answer_429_with_the_quotas_name(limited: FlaskClient) -> None:
    sql = limited.post("/sql", data="INSERT INTO t VALUES (1)", headers=SQL)
    rows = limited.post("/tables/default/t/rows", data="a\n1\n", headers={"Content-Type": "text/csv"})
    for answer in (sql, rows):
        document = answer.get_json()
        assert (answer.status_code, document["errorClass"]) == (429, "QuotaExceeded")
        assert int(answer.headers["Retry-After"]) in range(2, 9)
        assert "the quota ingest.bytes-per-minute = 0 bytes" in document["detail"]
        assert document["quota"] == "ingest.bytes-per-minute"
    flink = limited.post("/v1/sessions", json={})
    assert flink.status_code == 500, "Flink's own status for all its failures"
    assert int(flink.headers["Retry-After"]) in range(2, 9)
    assert "the quota sessions.open = 0" in flink.get_json()["errors"][1]


def test_flight_says_the_same(dsn: str, tmp_path: Path) -> None:
    endpoint = Endpoint(dsn, tmp_path)
    try:
        with dbapi.connect(endpoint.url, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE t (a INT)")
            cursor.execute("SET QUOTA ingest.bytes-per-minute = 0 FOR ROLE public")
            with pytest.raises(dbapi.Error, match=r"QuotaExceeded.*the quota ingest\.bytes-per-minute"):
                cursor.execute("INSERT INTO t VALUES (1)")
    finally:
        endpoint.close()


def test_quotas_are_set_and_reset_on_their_page(visitor: Visitor) -> None:
    assert "No quotas" in visitor.get("/ui/quotas")
    page = visitor.act("/ui/quotas", quota="spool.bytes", value="10 gb", holder="USER", principal="an'na b")
    assert re.search(r"an&#39;na b.*spool\.bytes.*10 gb.*0 bytes", page, re.DOTALL)
    assert "No quotas" in visitor.act("/ui/quotas", quota="spool.bytes", holder="USER", principal="an'na b", reset="yes")
    assert "whole number" in visitor.act("/ui/quotas", quota="statements.running", value="x", holder="USER", principal="anna")


def test_who_is_refused_together_is_not_told_to_come_back_together(limited: FlaskClient) -> None:
    answers = [limited.post("/tables/default/t/rows", data="a\n1\n", headers={"Content-Type": "text/csv"}) for _ in range(50)]
    assert len({answer.headers["Retry-After"] for answer in answers}) > 1
