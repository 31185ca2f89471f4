"""`POST /sql` as clients meet it."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from model.errors import OperationNotExist
from server.app import create_app
from server.process.services import Services
from server.settings.options import STATEMENT_BYTES
from sql.execution.cancellation import Cancellation


def run(client: FlaskClient, statement: str, **headers: str) -> TestResponse:
    return client.post("/sql", data=statement, headers={key.replace("_", "-"): value for key, value in headers.items()})


def assert_problem(response: TestResponse, status: int, error_class: str) -> dict[str, Any]:
    """The one shape of every failure at this endpoint."""
    assert response.status_code == status, response.text
    assert response.content_type == "application/problem+json"
    body: dict[str, Any] = json.loads(response.data)
    assert {"type", "title", "status", "detail", "errorClass", "requestId"} <= set(body)
    assert (body["status"], body["errorClass"], body["type"]) == (status, error_class, f"urn:sluice:error:{error_class}")
    assert body["requestId"] == response.headers["X-Request-Id"]
    assert "Traceback" not in response.text
    return body


@pytest.fixture
def words(client: FlaskClient) -> FlaskClient:
    assert run(client, "CREATE TABLE words (id BIGINT, word STRING)").status_code == 200
    assert run(client, "INSERT INTO words VALUES (1, 'hello'), (2, NULL)").status_code == 200
    return client


def test_json_is_the_default(words: FlaskClient) -> None:
    response = run(words, "SELECT * FROM words")
    assert response.content_type == "application/json"
    assert json.loads(response.data) == {
        "columns": [{"name": "id", "type": "BIGINT"}, {"name": "word", "type": "STRING"}],
        "rows": [[1, "hello"], [2, None]],
    }


def test_every_other_format_by_accept(words: FlaskClient) -> None:
    import pyarrow as pa

    statement = "SELECT * FROM words"
    assert run(words, statement, Accept="application/x-ndjson").data == b'{"id":1,"word":"hello"}\n{"id":2,"word":null}\n'
    csv = run(words, statement, Accept="text/csv")
    assert (csv.content_type, csv.data) == ("text/csv; charset=utf-8", b"id,word\n1,hello\n2,\n")
    arrow = run(words, statement, Accept="application/vnd.apache.arrow.stream")
    assert pa.ipc.open_stream(arrow.data).read_all().to_pylist() == [{"id": 1, "word": "hello"}, {"id": 2, "word": None}]


def test_a_format_nobody_writes_is_refused_before_anything_runs(client: FlaskClient) -> None:
    body = assert_problem(run(client, "CREATE TABLE t (a INT)", Accept="text/html"), 406, "NotAcceptable")
    assert "application/x-ndjson" in body["detail"]
    assert json.loads(run(client, "SHOW TABLES").data)["rows"] == []


def test_a_json_body_may_carry_more(client: FlaskClient) -> None:
    run(client, "CREATE DATABASE d")
    body = {"statement": "SHOW CURRENT DATABASE", "database": "d", "timeout": 5, "settings": {"table.local-time-zone": "UTC"}}
    response = client.post("/sql", json=body)
    assert json.loads(response.data)["rows"] == [["d"]]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "not JSON"),
        (b"[]", "must be a JSON object"),
        (b"{}", "'statement' is missing"),
        (b'{"statement": 1}', "'statement' must be a string"),
        (b'{"statement": ""}', "no statement in the body"),
        (b'{"statment": "SELECT 1"}', "Did you mean statement?"),
        (b'{"statement": "SELECT 1", "timeout": "soon"}', "number of seconds"),
        (b'{"statement": "SELECT 1", "settings": []}', "'settings' must be an object"),
        (b'{"statement": "SELECT 1", "settings": {"a": {}}}', "must be a string"),
    ],
)
def test_malformed_json_bodies_are_told_apart(client: FlaskClient, body: bytes, said: str) -> None:
    response = client.post("/sql", data=body, content_type="application/json")
    assert said in assert_problem(response, 400, "BadRequest")["detail"]


@pytest.mark.parametrize(
    ("query", "said"),
    [("?databse=x", "Did you mean database?"), ("?timeout=0", "above 0"), ("?timeout=nan", "above 0"), ("?timeout=x", "above 0")],
)
def test_malformed_parameters_are_told_apart(client: FlaskClient, query: str, said: str) -> None:
    assert said in assert_problem(client.post(f"/sql{query}", data="SHOW TABLES"), 400, "BadRequest")["detail"]


@pytest.mark.parametrize("body", [b"", b" \n", b"\xff\xfe"])
def test_bodies_without_text_are_refused(client: FlaskClient, body: bytes) -> None:
    assert_problem(client.post("/sql", data=body), 400, "BadRequest")


def test_the_database_parameter_is_where_names_are_looked_up(client: FlaskClient) -> None:
    run(client, "CREATE DATABASE d; CREATE TABLE d.t (a INT)")
    assert json.loads(client.post("/sql?database=d", data="SHOW TABLES").data)["rows"] == [["t"]]
    assert_problem(client.post("/sql?database=nowhere", data="SHOW TABLES"), 404, "DatabaseNotExist")


def test_a_syntax_error_tells_its_place(client: FlaskClient) -> None:
    body = assert_problem(run(client, "SHOW TABLES;\n  SELEC 1"), 400, "SqlSyntaxError")
    assert (body["line"], body["column"], body["fragment"]) == (2, 3, "SELEC")


def test_a_text_that_fails_in_the_middle_tells_what_took_effect(client: FlaskClient) -> None:
    response = run(client, "CREATE TABLE a (x INT); INSERT INTO nowhere VALUES (1); CREATE TABLE b (x INT)")
    body = assert_problem(response, 404, "TableNotExist")
    assert body["statementIndex"] == 1
    assert len(body["completed"]) == 1
    assert "CREATE TABLE a" in body["completed"][0]
    assert json.loads(run(client, "SHOW TABLES").data)["rows"] == [["a"]]


def test_an_idempotency_key_lands_once(words: FlaskClient) -> None:
    insert = "INSERT INTO words VALUES (3, 'again')"
    first = run(words, insert, Idempotency_Key="k1")
    assert run(words, insert, Idempotency_Key="k1").data == first.data
    assert len(json.loads(run(words, "SELECT * FROM words").data)["rows"]) == 3
    assert_problem(run(words, "INSERT INTO words VALUES (4, 'other')", Idempotency_Key="k1"), 422, "IdempotencyMismatch")
    assert_problem(run(words, insert, Idempotency_Key=" "), 400, "BadRequest")


def test_a_text_too_long_is_refused(client: FlaskClient, services: Services) -> None:
    longest = services.settings[STATEMENT_BYTES]
    body = assert_problem(run(client, "SELECT 1 -- " + "x" * longest), 413, "StatementTooLarge")
    assert str(longest) in body["detail"]


def test_a_bug_is_told_by_its_id_and_logged(client: FlaskClient, services: Services, caplog: pytest.LogCaptureFixture) -> None:
    services.gateway.run = None  # type: ignore[assignment, method-assign]
    body = assert_problem(run(client, "SHOW TABLES", X_Request_Id="my-id-1"), 500, "InternalError")
    assert body["requestId"] == "my-id-1"
    assert "NoneType" not in body["detail"]
    assert "my-id-1" in caplog.text
    assert "'NoneType' object is not callable" in caplog.text


def test_a_statement_for_spark_is_unavailable_while_spark_is(words: FlaskClient) -> None:
    response = run(words, "SELECT word, count(*) FROM words GROUP BY word")
    assert_problem(response, 503, "Unavailable")
    assert response.headers["Retry-After"] == "2"


def test_duplicate_names_are_refused_in_ndjson_only(words: FlaskClient) -> None:
    statement = "SELECT id, id FROM words"
    assert json.loads(run(words, statement).data)["rows"] == [[1, 1], [2, 2]]
    assert_problem(run(words, statement, Accept="application/x-ndjson"), 400, "AnalysisError")


def test_results_are_freed_when_the_client_is_done(words: FlaskClient, services: Services) -> None:
    response = words.post("/sql", data="SELECT * FROM words", buffered=False)
    response.close()
    assert services.gateway.running() == []


def test_a_running_statement_is_shown_and_canceled_by_its_requests_id(
    client: FlaskClient, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(client, "CREATE TABLE t (id INT) WITH ('bucket' = '-1')").status_code == 200
    for n in range(5):
        assert run(client, f"INSERT INTO t VALUES ({n})").status_code == 200
    real, other, told = Cancellation.check, create_app(services).test_client(), []

    def is_mine(cancellation: Cancellation) -> bool:  # and not of what this process does beside it
        with suppress(OperationNotExist):
            return services.gateway.running_statement("mine").cancellation is cancellation
        return False

    def check(self: Cancellation) -> None:
        shown = other.get("/statements/mine").get_json() if is_mine(self) and not self.canceled else None
        if shown and shown["progress"]["stage"].startswith("merging"):
            told.append(shown)
            assert other.delete(f"/statements/{shown['statementId']}").get_json()["state"] == "CANCELED"
        real(self)

    monkeypatch.setattr(Cancellation, "check", check)
    response = run(client, "CALL sys.compact('t')", X_Request_Id="mine")
    monkeypatch.undo()
    assert json.loads(response.data)["errorClass"] == "StatementCanceled"
    assert (told[0]["state"], told[0]["progress"]["total"]) == ("RUNNING", 5)
    assert told[0]["progress"]["bytesTotal"] > 0
    assert_problem(client.get("/statements/mine"), 404, "OperationNotExist")
    assert run(client, "SELECT COUNT(*) FROM t$snapshots").get_json()["rows"] == [[5]]
