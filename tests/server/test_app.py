"""What all endpoints share: ids, unknown paths, wrong methods, tokens, other people's pages, health."""

from __future__ import annotations

import json
import threading
from uuid import uuid4

import pytest
from flask.testing import FlaskClient

from lake import AccessControl
from server.app import create_app
from server.errors import speaks_flink
from server.process.services import Services
from tests.server.sql.test_statements import assert_problem, run


def test_every_answer_has_an_id_and_a_clients_own_is_kept(client: FlaskClient) -> None:
    assert len(client.get("/livez").headers["X-Request-Id"]) == 32
    assert client.get("/livez", headers={"X-Request-Id": "a.b-1"}).headers["X-Request-Id"] == "a.b-1"
    assert client.get("/nowhere", headers={"X-Request-Id": "a b\x7f"}).headers["X-Request-Id"] != "a b\x7f"


def test_unknown_paths_and_wrong_methods_of_our_own(client: FlaskClient) -> None:
    assert "There is nothing at /nowhere." in assert_problem(client.get("/nowhere"), 404, "NotFound")["detail"]
    for method in ("GET", "PUT", "DELETE", "HEAD"):
        response = client.open("/sql", method=method)
        assert response.status_code == 405
        assert response.headers["Allow"] == "OPTIONS, POST"
    assert client.options("/sql").headers["Allow"] in ("OPTIONS, POST", "POST, OPTIONS")


@pytest.mark.parametrize("path", ["/v1/nowhere", "/v9/info", "/sessions/1/2/3", "/v2/sql"])
def test_unknown_paths_of_the_flink_protocol(client: FlaskClient, path: str) -> None:
    response = client.get(path)
    assert (response.status_code, json.loads(response.data)) == (404, {"errors": [f"Not found: {path}"]})


def test_wrong_methods_of_the_flink_protocol_are_unknown_paths(client: FlaskClient) -> None:
    assert client.get("/v1/sessions").status_code == 404


@pytest.mark.parametrize(
    ("path", "flink"),
    [("/v1/sessions", True), ("/info", True), ("/v1/config", False), ("/v1/sluice/x", False), ("/sql", False), ("/v", False)],
)
def test_paths_are_told_apart_by_protocol(path: str, flink: bool) -> None:
    assert speaks_flink(path) is flink


def test_trailing_slashes_change_nothing(client: FlaskClient) -> None:
    assert client.get("/livez/").status_code == 200
    assert client.post("/sql/", data="SHOW TABLES").status_code == 200
    assert client.get("/v1/info/").status_code == 200


@pytest.fixture
def guarded(services: Services) -> FlaskClient:
    lake = services.gateway.lake
    lake.access = AccessControl(lake.catalog, token="s3cret")
    return create_app(services).test_client()


@pytest.mark.parametrize("path", ["/sql", "/readyz", "/v1/info", "/info", "/nowhere", "/tables/a/b/rows", "/livezz"])
def test_a_token_guards_every_path(guarded: FlaskClient, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic s3cret"}, {"Authorization": "s3cret"}):
        response = guarded.get(path, headers=headers)
        assert response.status_code == 401
        assert response.headers["WWW-Authenticate"] == "Bearer"
    assert guarded.get(path, headers={"Authorization": "bearer s3cret"}).status_code != 401


def test_liveness_needs_no_token(guarded: FlaskClient) -> None:
    assert guarded.get("/livez").status_code == 200


def test_a_refused_token_speaks_the_paths_protocol(guarded: FlaskClient) -> None:
    assert "errorClass" in json.loads(guarded.get("/readyz").data)
    assert set(json.loads(guarded.get("/v1/info").data)) == {"errors"}


def test_pages_of_other_sites_may_not_call(client: FlaskClient) -> None:
    assert_problem(run(client, "DROP TABLE t", Origin="http://evil.example"), 403, "Forbidden")
    assert_problem(client.post("http://evil.example/sql", data="SHOW TABLES"), 403, "Forbidden")
    assert run(client, "SHOW TABLES", Origin="http://localhost").status_code == 200


def test_readiness_names_what_lacks(client: FlaskClient, services: Services) -> None:
    response = client.get("/readyz")
    body = json.loads(response.data)
    assert response.status_code == 503
    assert body["postgres"] == body["warehouse"] == {"ok": True}
    assert body["spark"] == {"ok": False, "detail": "There is no Spark in this test."}
    services.stop_waiting()
    assert json.loads(client.get("/readyz").data) == {"status": "stopping"}


def test_who_waits_for_news_is_woken_by_a_stop(services: Services) -> None:
    """It would look whether it is to stop a second later, and so long each stop took."""
    woken_by: list[threading.Thread] = []
    forget = services.gateway.lake.catalog.notices.subscribe(uuid4(), "main", lambda: woken_by.append(threading.current_thread()))
    services.stop_waiting()
    forget()
    assert services.stopping.is_set()
    assert threading.current_thread() in woken_by, "not by the thread alone that hears of commits"
