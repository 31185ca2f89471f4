"""The protocol as real clients speak it (`gateway.md` §1): shapes, versions, tokens, errors."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.gateway.held import Held


def ask(client: FlaskClient, method: str, path: str, body: Any = None) -> TestResponse:
    """A request as Flink's REST client makes it: GET and DELETE carry `{}`, every connection is closed."""
    data = json.dumps({} if body is None else body)
    return client.open(path, method=method, data=data, content_type="application/json", headers={"Connection": "close"})


def body_of(response: TestResponse) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    assert response.content_type == "application/json; charset=UTF-8"
    body: dict[str, Any] = json.loads(response.data)
    return body


def errors_of(response: TestResponse, status: int) -> list[str]:
    """The one shape of every failure in this protocol."""
    assert response.status_code == status, response.text
    body = json.loads(response.data)
    assert set(body) == {"errors"}
    assert all(isinstance(line, str) for line in body["errors"])
    assert "Traceback" not in response.text
    errors: list[str] = body["errors"]
    return errors


@pytest.fixture(params=["", "/v1", "/v2"], ids=["unversioned", "v1", "v2"])
def prefix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def session(client: FlaskClient) -> str:
    return str(body_of(ask(client, "POST", "/v2/sessions"))["sessionHandle"])


def submit(client: FlaskClient, session: str, statement: str) -> str:
    return str(body_of(ask(client, "POST", f"/v2/sessions/{session}/statements", {"statement": statement}))["operationHandle"])


def page(client: FlaskClient, uri: str) -> dict[str, Any]:
    """The page under a URI, as soon as it is ready."""
    until = time.monotonic() + 120
    while (body := body_of(ask(client, "GET", uri)))["resultType"] == "NOT_READY":
        assert body == {"resultType": "NOT_READY", "nextResultUri": uri}
        assert time.monotonic() < until
    return body


def test_only_versions_every_client_knows_are_advertised(client: FlaskClient, prefix: str) -> None:
    assert body_of(ask(client, "GET", f"{prefix}/api_versions")) == {"versions": ["V1", "V2"]}
    assert body_of(ask(client, "GET", f"{prefix}/info/"))["productName"] == "Sluice"


def test_a_session_from_open_to_close(client: FlaskClient, prefix: str) -> None:
    opening = {"sessionName": "mine", "properties": {"table.local-time-zone": "Asia/Tokyo"}, "unknown": 1}
    session = body_of(ask(client, "POST", f"{prefix}/sessions", opening))["sessionHandle"]
    assert body_of(ask(client, "GET", f"{prefix}/sessions/{session}"))["properties"]["table.local-time-zone"] == "Asia/Tokyo"
    assert body_of(ask(client, "POST", f"{prefix}/sessions/{session}/heartbeat")) == {}
    assert body_of(ask(client, "DELETE", f"{prefix}/sessions/{session}")) == {"status": "CLOSED"}
    assert "SessionNotExist" in errors_of(ask(client, "GET", f"{prefix}/sessions/{session}"), 500)[0]


def test_a_session_may_be_opened_without_a_body(client: FlaskClient) -> None:
    assert body_of(client.post("/v1/sessions"))["sessionHandle"]


def test_properties_that_no_statement_could_be_answered_with_open_no_session(client: FlaskClient) -> None:
    """With a zone that is none DROP TABLE took effect, and was told as failed."""
    for zone, status in (("GMT+08:00", 500), ("Etc/GMT-8", 200)):
        sent = {"properties": {"table.local-time-zone": zone, "rest.port": "8081", "execution.checkpointing.interval": "3 min"}}
        answer = ask(client, "POST", "/v2/sessions", sent)
        assert answer.status_code == status, answer.text
        assert ("table.local-time-zone" in answer.text) is (status == 500)


def test_what_only_the_client_reads_back_is_its_own(client: FlaskClient) -> None:
    """Flink takes more values than are written here, and its clients send all that stands in their configuration."""
    sent = {"sql-client.execution.max-table-result.rows": "-1", "parallelism.default": "-2", "sql-client.execution.result-mode": "new"}
    made = body_of(ask(client, "POST", "/v2/sessions", {"properties": sent}))["sessionHandle"]
    assert sent.items() <= body_of(ask(client, "GET", f"/v2/sessions/{made}"))["properties"].items()
    for text in ("SELECT 1", "SET 'sql-client.execution.max-table-result.rows' = '0'"):
        operation = submit(client, made, text)
        assert page(client, f"/v2/sessions/{made}/operations/{operation}/result/0?rowFormat=JSON")["resultType"] == "PAYLOAD"


def test_a_handle_may_be_spelled_in_capitals(client: FlaskClient, session: str) -> None:
    path = f"/v2/sessions/{session.upper()}"
    operation = body_of(ask(client, "POST", f"{path}/statements", {"statement": "SELECT 1"}))["operationHandle"]
    assert page(client, f"{path}/operations/{operation.upper()}/result/0?rowFormat=JSON")["results"]["data"][0]["fields"] == [1]


def test_a_page_that_nobody_was_told_of_is_refused_at_once(
    client: FlaskClient, session: str, held: Callable[..., Held], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.flink.statements.FIRST_PAGE_SECONDS", 45.0)
    held("slow")
    operation = submit(client, session, "SELECT slow()")
    began = time.monotonic()
    refused = errors_of(ask(client, "GET", f"/v2/sessions/{session}/operations/{operation}/result/7?rowFormat=JSON"), 500)
    assert time.monotonic() - began < 45
    assert "There is no result page 7 yet" in refused[1]


def test_a_statement_that_only_takes_effect(client: FlaskClient, session: str) -> None:
    operation = submit(client, session, "CREATE TABLE t (a INT);")
    path = f"/v2/sessions/{session}/operations/{operation}"
    first = page(client, f"{path}/result/0?rowFormat=JSON")
    assert list(first) == ["resultType", "isQueryResult", "resultKind", "results", "nextResultUri"]
    assert first["results"]["data"] == [{"kind": "INSERT", "fields": ["OK"]}]
    assert first["results"]["columns"][0]["name"] == "result"
    assert first["results"]["columns"][0]["logicalType"]["type"] == "VARCHAR"
    assert (first["resultType"], first["isQueryResult"], first["resultKind"]) == ("PAYLOAD", False, "SUCCESS")
    assert first["nextResultUri"] == f"{path}/result/1?rowFormat=JSON"
    last = page(client, first["nextResultUri"])
    assert (last["resultType"], last["results"]["data"], "nextResultUri" in last) == ("EOS", [], False)
    assert body_of(ask(client, "GET", f"{path}/status")) == {"status": "FINISHED"}
    for _ in range(2):
        assert body_of(ask(client, "DELETE", f"{path}/close")) == {"status": "CLOSED"}


def test_pages_are_named_in_the_version_asked_for(client: FlaskClient, session: str) -> None:
    operation = submit(client, session, "SHOW DATABASES")
    path = f"sessions/{session}/operations/{operation}/result"
    assert page(client, f"/v1/{path}/0")["nextResultUri"] == f"/v1/{path}/1"
    text = page(client, f"/v2/{path}/0?rowFormat=plain_text")
    assert text["nextResultUri"] == f"/v2/{path}/1?rowFormat=PLAIN_TEXT"
    assert text["results"]["rowFormat"] == "PLAIN_TEXT"
    assert text["results"]["columns"][0]["name"] == "database name"
    assert text["results"]["data"] == [{"kind": "INSERT", "fields": ["default"]}]


def test_tokens_that_were_never_handed_out(client: FlaskClient, session: str) -> None:
    operation = submit(client, session, "SHOW DATABASES")
    path = f"/v2/sessions/{session}/operations/{operation}/result"
    page(client, f"{path}/0")
    errors_of(ask(client, "GET", f"{path}/7"), 500)
    for token in ("x", "-1", "1" * 30):
        errors_of(ask(client, "GET", f"{path}/{token}"), 400)
    assert "JSON or PLAIN_TEXT" in errors_of(ask(client, "GET", f"{path}/0?rowFormat=XML"), 400)[0]


def test_settings_belong_to_the_session_and_are_echoed(client: FlaskClient, session: str) -> None:
    configure = {"statement": "SET 'sql-client.verbose' = 'true';", "executionTimeout": 0}
    assert body_of(ask(client, "POST", f"/v2/sessions/{session}/configure-session", configure)) == {}
    assert body_of(ask(client, "GET", f"/v2/sessions/{session}"))["properties"]["sql-client.verbose"] == "true"
    other = body_of(ask(client, "POST", "/v2/sessions"))["sessionHandle"]
    assert "sql-client.verbose" not in body_of(ask(client, "GET", f"/v2/sessions/{other}"))["properties"]


def test_a_client_reads_the_defaults_that_are_not_flinks(client: FlaskClient, session: str) -> None:
    """By these its SQL client chooses whether a result has an end, and whether an INSERT has been run or only begun."""

    def properties() -> dict[str, str]:
        return dict(body_of(ask(client, "GET", f"/v2/sessions/{session}"))["properties"])

    batch = {"execution.runtime-mode": "batch", "table.dml-sync": "true", "table.local-time-zone": "UTC"}
    assert properties() == batch
    ask(client, "POST", f"/v2/sessions/{session}/configure-session", {"statement": "SET 'execution.runtime-mode' = 'STREAMING'"})
    assert properties() == batch | {"execution.runtime-mode": "STREAMING", "table.dml-sync": "false"}
    ask(client, "POST", f"/v2/sessions/{session}/configure-session", {"statement": "SET 'table.local-time-zone' = 'default'"})
    assert properties()["table.local-time-zone"] == "default"


def test_a_query_does_not_configure_a_session(client: FlaskClient, session: str) -> None:
    errors_of(ask(client, "POST", f"/v2/sessions/{session}/configure-session", {"statement": "SELECT 1"}), 500)


def test_completion_is_a_get_with_a_body(client: FlaskClient, session: str) -> None:
    page(client, f"/v2/sessions/{session}/operations/{submit(client, session, 'CREATE TABLE words (a INT)')}/result/0")
    asked = {"statement": "SELECT * FROM wo", "position": 16}
    assert "words" in body_of(ask(client, "GET", f"/v2/sessions/{session}/complete-statement", asked))["candidates"]


def test_version_one_lacks_what_came_with_two(client: FlaskClient, session: str) -> None:
    errors_of(ask(client, "POST", f"/v1/sessions/{session}/configure-session", {"statement": "SET"}), 404)
    errors_of(ask(client, "GET", f"/v1/sessions/{session}/complete-statement", {"statement": "S"}), 404)


def test_an_error_in_a_statement_shows_when_it_is_fetched(client: FlaskClient, session: str) -> None:
    operation = submit(client, session, "SELEC 1;")
    errors = errors_of(ask(client, "GET", f"/v2/sessions/{session}/operations/{operation}/result/0"), 500)
    assert errors[0] == "Internal server error."
    shown = errors[1].rpartition("Caused by: ")[2].partition("\n\tat ")[0]
    assert shown.startswith("SqlSyntaxError: ")
    assert "SELEC" in shown
    assert "line 1" in shown
    assert errors[1].startswith("<Exception on server side:\n")
    assert errors[1].endswith("\n\nEnd of exception on server side>")
    assert 'Encountered "<EOF>"' not in errors[1]


def test_cancel_of_an_operation_that_has_ended_is_an_error(client: FlaskClient, session: str) -> None:
    operation = submit(client, session, "SHOW DATABASES")
    path = f"/v2/sessions/{session}/operations/{operation}"
    page(client, f"{path}/result/0")
    errors_of(ask(client, "POST", f"{path}/cancel"), 500)


def test_handles_unknown_and_malformed(client: FlaskClient, session: str) -> None:
    errors_of(ask(client, "GET", "/v1/sessions/not-a-uuid"), 400)
    errors_of(ask(client, "GET", f"/v1/sessions/{session}/operations/{uuid4()}/status"), 500)
    errors_of(ask(client, "GET", f"/v1/sessions/{session}/operations/x/status"), 400)
    errors_of(ask(client, "POST", f"/v1/sessions/{uuid4()}/statements", {"statement": "SHOW TABLES"}), 500)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[1]", 400),
        (b"{}", 400),
        (b'{"statement": 5}', 400),
        (b'{"statement": "SHOW TABLES", "executionTimeout": 5}', 500),
    ],
)
def test_bodies_that_will_not_do(client: FlaskClient, session: str, body: bytes, status: int) -> None:
    response = client.post(f"/v2/sessions/{session}/statements", data=body, content_type="application/json")
    if response.status_code == 200:  # what the statement itself is guilty of shows when it is fetched
        operation = json.loads(response.data)["operationHandle"]
        response = ask(client, "GET", f"/v2/sessions/{session}/operations/{operation}/result/0")
    errors_of(response, status)


def test_a_statement_too_long_is_refused(client: FlaskClient, session: str) -> None:
    errors_of(ask(client, "POST", f"/v2/sessions/{session}/statements", {"statement": "x" * (2 << 20)}), 413)


def test_a_body_in_an_encoding_not_read_here_is_told_so(client: FlaskClient) -> None:
    response = client.post("/v1/sessions", data=b"{}", headers={"Content-Encoding": "br"})
    assert "br is not read here; gzip and zstd are" in errors_of(response, 415)[0]
