"""Tokens over HTTP: made, used at every endpoint, revoked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from flask.testing import FlaskClient


class As:
    """Calls with a token."""

    def __init__(self, client: FlaskClient, token: str | None = None) -> None:
        self._client = client
        self.token = token
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        response = self._client.open(path, method=method, json=body, headers=self._headers)
        return response.status_code, json.loads(response.data) if response.data else None

    def sql(self, text: str) -> tuple[int, Any]:
        status, body = self.call("POST", "/sql", {"statement": text})
        return status, body.get("rows", body.get("errorClass"))


@pytest.fixture
def admin(client: FlaskClient) -> As:
    status, made = As(client).call("POST", "/tokens", {"name": "root", "administrator": True})
    assert status == 201
    return As(client, made["token"])


@pytest.fixture
def ada(client: FlaskClient, admin: As) -> As:
    status, made = admin.call("POST", "/tokens", {"name": "laptop", "principal": "ada", "expiresAt": "2099-01-01T00:00:00Z"})
    assert status == 201
    assert made | {"token": "", "createdAt": ""} == {
        "name": "laptop", "principal": "ada", "administrator": False, "expiresAt": "2099-01-01T00:00:00Z", "token": "", "createdAt": "",
    }  # fmt: skip
    return As(client, made["token"])


def test_an_open_server_takes_whatever_token_is_sent(client: FlaskClient) -> None:
    assert As(client).sql("SHOW TABLES") == (200, [])
    assert As(client, "anything").sql("SHOW TABLES") == (200, [])


def test_the_first_token_closes_the_server_for_everybody_else(client: FlaskClient, admin: As) -> None:
    for caller in (As(client), As(client, "anything")):
        assert caller.sql("SHOW TABLES")[0] == 401
        assert caller.call("GET", "/tokens")[0] == 401
        assert caller.call("POST", "/v1/sessions", {})[0] == 401
    assert admin.sql("SHOW TABLES") == (200, [])


def test_only_administrators_make_list_and_revoke_tokens(client: FlaskClient, admin: As, ada: As) -> None:
    for method, path, body in (("POST", "/tokens", {"name": "x"}), ("GET", "/tokens", None), ("DELETE", "/tokens/root", None)):
        assert ada.call(method, path, body)[0] == 403
    _, listed = admin.call("GET", "/tokens")
    assert [(token["name"], token["principal"], token["administrator"]) for token in listed["tokens"]] == [
        ("laptop", "ada", False), ("root", "root", True),
    ]  # fmt: skip
    assert "token" not in listed["tokens"][0]
    assert admin.call("DELETE", "/tokens/laptop") == (200, {"open": False})
    assert ada.sql("SHOW TABLES")[0] == 401
    assert admin.call("DELETE", "/tokens/laptop")[0] == 404


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": 5},
        {"name": "x", "expires": "1d"},
        {"name": "x", "expiresAt": "soon"},
        {"name": "x", "expiresAt": "2099-01-01"},
        {"name": " "},
    ],
)
def test_bad_requests_for_tokens_are_told(admin: As, body: dict[str, Any]) -> None:
    assert admin.call("POST", "/tokens", body)[0] == 400


@pytest.mark.parametrize("name", ["admin", "public", "administrator", "anonymous"])
def test_the_servers_own_names_are_nobodys(admin: As, name: str) -> None:
    assert admin.call("POST", "/tokens", {"name": "x", "principal": name})[0] == 400


def test_every_door_of_sql_asks_the_same(client: FlaskClient, admin: As, ada: As) -> None:
    admin.sql("CREATE TABLE t (id INT)")
    rows = "/tables/default/t/rows"

    def append(caller: As) -> int:
        headers = {**caller._headers, "Content-Type": "application/x-ndjson"}
        return client.post(rows, data=b'{"id": 1}\n', headers=headers).status_code

    def flink(caller: As, text: str) -> str:
        _, opened = caller.call("POST", "/v2/sessions", {})
        session = f"/v2/sessions/{opened['sessionHandle']}"
        _, submitted = caller.call("POST", f"{session}/statements", {"statement": text})
        status, page = caller.call("GET", f"{session}/operations/{submitted['operationHandle']}/result/0?rowFormat=JSON")
        return "ok" if status == 200 else str(page["errors"])

    assert append(ada) == 403
    assert ada.sql("SELECT * FROM t") == (403, "Forbidden")
    assert "ada may not do this" in flink(ada, "INSERT INTO t VALUES (1)")
    assert admin.sql("GRANT SELECT, UPDATE ON t TO ada")[0] == 200
    assert append(ada) == 200
    assert flink(ada, "INSERT INTO t VALUES (1)") == "ok"
    assert ada.sql("SELECT COUNT(*) FROM t") == (200, [[2]])
    assert ada.sql("DROP TABLE t") == (403, "Forbidden")


def test_a_session_is_not_there_for_others(admin: As, ada: As) -> None:
    _, opened = admin.call("POST", "/v1/sessions", {})
    path = f"/v1/sessions/{opened['sessionHandle']}"
    assert admin.call("GET", path)[0] == 200
    for method, below in (("GET", ""), ("DELETE", ""), ("POST", "/heartbeat"), ("POST", "/statements")):
        status, answer = ada.call(method, path + below, {"statement": "SHOW TABLES"} if method == "POST" else None)
        assert (status, "There is no session" in str(answer)) == (500, True), below
    assert ada.call("GET", path.replace("-", ""))[0] == 500
    assert ada.call("GET", path.upper().replace("/V1/SESSIONS", "/v1/sessions"))[0] == 500
    assert admin.call("GET", path)[0] == 200


def test_what_a_script_makes_its_caller_may_use_in_it_and_what_is_taken_counts_at_once(admin: As, ada: As) -> None:
    assert admin.sql("CREATE DATABASE d; GRANT CREATETABLE ON DATABASE d TO ada")[0] == 200
    assert ada.sql("USE d; CREATE TABLE t (id INT); INSERT INTO t VALUES (1); SELECT id FROM t") == (200, [[1]])
    assert ada.sql("REVOKE ALL ON d.t FROM ada; SELECT id FROM d.t")[0] == 403


@pytest.mark.parametrize("right", ["ALTER", "DROP"])
def test_who_neither_reads_nor_writes_a_table_is_told_no_counts_of_it(client: FlaskClient, admin: As, right: str) -> None:
    """They were told them all, as they see no part of which the rest is kept: of nothing they see all is."""
    admin.sql("CREATE TABLE secret (id INT, s STRING)")
    admin.sql("INSERT INTO secret VALUES (1, 'a'), (2, 'b')")
    admin.sql("CALL sys.create_tag('secret', 'monday')")
    texts = [
        "SELECT total_record_count, delta_record_count FROM secret$snapshots",
        "SELECT record_count FROM secret$tags",
        "SELECT record_count FROM sys.tables WHERE table_name = 'secret'",
    ]
    paths = ["snapshot", "snapshots", "tags/monday"]
    seen = {}
    for name, granted in (("part", "SELECT (id)"), ("other", right), ("writer", "UPDATE")):
        assert admin.sql(f"GRANT {granted} ON secret TO {name}")[0] == 200
        one = As(client, admin.call("POST", "/tokens", {"name": name})[1]["token"])
        answers = [one.sql(text) for text in texts]
        answers += [one.call("GET", f"/v1/sluice/databases/default/tables/secret/{path}") for path in paths]
        seen[name] = answers
    assert all(status == 200 for answers in seen.values() for status, _ in answers), seen
    assert seen["other"] == seen["part"]
    assert seen["other"][:3] == [(200, [[None, None]]), (200, [[None]]), (200, [[None]])]
    assert seen["writer"][:2] == [(200, [[2, 2]]), (200, [[2]])]
