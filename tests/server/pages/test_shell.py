"""Logins, form secrets, headers, and where requests lead."""

from __future__ import annotations

import re

import pytest
from flask.sessions import SecureCookieSessionInterface
from flask.testing import FlaskClient
from itsdangerous import TimestampSigner

from server.app import create_app
from server.process.services import Services
from tests.server.pages.conftest import Visitor

_TOKEN = {"name": "root", "administrator": True}


@pytest.fixture
def token(client: FlaskClient) -> str:
    """The server's first token; from now on everybody needs one."""
    return str(client.post("/tokens", json=_TOKEN).get_json()["token"])


def test_the_root_leads_to_the_pages_and_nobody_else_is_led_there(visitor: Visitor) -> None:
    assert visitor.client.get("/").location == "/ui/"
    assert visitor.client.get("/nowhere").get_json()["status"] == 404
    assert "Overview" in visitor.get("/ui/")
    assert "There is nothing at /ui/nowhere" in visitor.get("/ui/nowhere", 404)


@pytest.mark.parametrize("path", ["/ui/", "/ui/catalog", "/ui/login?next=/ui/catalog", "/ui/nowhere", "/ui/static/base.css"])
def test_every_answer_forbids_inline_scripts_and_frames(visitor: Visitor, path: str) -> None:
    answer = visitor.client.get(path, buffered=True)
    policy = dict(part.strip().partition(" ")[::2] for part in answer.headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == policy["form-action"] == "'self'"
    assert "unsafe" not in str(policy)
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert not re.search(r"<script(?![^>]*\bsrc=)|<[^>]+\son\w+=|<style|\sstyle=", answer.text)


def test_pages_ask_for_a_login_once_there_are_tokens(visitor: Visitor, token: str) -> None:
    assert visitor.client.get("/ui/catalog?q=a b").location == "/ui/login?next=/ui/catalog?q%3Da+b"
    refused = visitor.send("/ui/login", token="wrong", next="/ui/catalog")
    assert refused.status_code == 401
    assert "not one this server knows" in refused.text
    assert "wrong" not in refused.text
    known = visitor.send("/ui/login", token=token, next="/ui/catalog")
    assert (known.status_code, known.location) == (303, "/ui/catalog")
    cookie = known.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert token not in cookie
    assert "Log out" in visitor.get("/ui/catalog")


def test_a_login_ends_by_logging_out_and_by_revoking_its_token(visitor: Visitor, token: str) -> None:
    visitor.send("/ui/login", token=token)
    assert visitor.send("/ui/logout", page="/ui/").location == "/ui/login"
    assert visitor.client.get("/ui/").status_code == 303
    other = visitor.client.post("/tokens", json={"name": "second"}, headers={"Authorization": f"Bearer {token}"}).get_json()["token"]
    visitor.send("/ui/login", token=other)
    visitor.get("/ui/")
    visitor.client.delete("/tokens/second", headers={"Authorization": f"Bearer {token}"})
    assert visitor.client.get("/ui/").location == "/ui/login?next=/ui/"


def test_the_audit_log_tells_of_tokens_and_logins_and_of_texts_once(visitor: Visitor, token: str) -> None:
    visitor.send("/ui/login", token="wrong")
    visitor.send("/ui/login", token=token)
    visitor.send("/ui/theme", page="/ui/", theme="dark")
    visitor.send("/ui/access/tokens", page="/ui/access", name="second", principal="ada")
    visitor.send("/ui/access/roles", page="/ui/access", role="readers")
    visitor.send("/ui/access/tokens/revoke", page="/ui/access", name="second")
    visitor.send("/ui/logout", page="/ui/")
    rows = visitor.client.post("/sql", data="SELECT * FROM sys.audit_log", headers={"Authorization": f"Bearer {token}"}).json["rows"]  # type: ignore[index]
    made = "root"
    assert [(row[1], row[2], row[7], row[8]) for row in rows][::-1] == [
        ("anonymous", "tokens", "POST /tokens /* token root of root, an administrator */", "FINISHED"),
        ("", "pages", "POST /ui/login", "ERROR"),
        (made, "pages", "POST /ui/login /* logged in */", "FINISHED"),
        (made, "pages", "POST /ui/access/tokens /* token second of ada */", "FINISHED"),
        (made, "pages", "CREATE ROLE `readers`", "FINISHED"),
        (made, "pages", "POST /ui/access/tokens/revoke /* token second */", "FINISHED"),
        (made, "pages", "POST /ui/logout", "FINISHED"),
    ]


def test_a_copy_of_the_cookie_is_worth_nothing_after_logging_out(visitor: Visitor, token: str, services: Services) -> None:
    cookie = visitor.send("/ui/login", token=token).headers["Set-Cookie"].partition(";")[0]
    other = create_app(services).test_client(use_cookies=False)
    assert other.get("/ui/", headers={"Cookie": cookie}).status_code == 200
    visitor.send("/ui/logout", page="/ui/")
    assert other.get("/ui/", headers={"Cookie": cookie}).location == "/ui/login?next=/ui/"
    assert visitor.send("/ui/login", token=token).status_code == 303
    assert "Log out" in visitor.get("/ui/")


def test_a_login_outlives_the_server(visitor: Visitor, token: str, services: Services) -> None:
    cookie = visitor.send("/ui/login", token=token).headers["Set-Cookie"].partition(";")[0]
    again = create_app(services).test_client(use_cookies=False)
    assert again.get("/ui/", headers={"Cookie": cookie}).status_code == 200
    name, _, value = cookie.partition("=")
    assert again.get("/ui/", headers={"Cookie": f"{name}={value[:-2]}xx"}).status_code == 303


@pytest.mark.parametrize(("ahead", "counts"), [(300, True), (-300, True), (3600, False), (-13 * 3600, False)])
def test_a_login_at_a_server_whose_clock_is_minutes_ahead_counts_on_the_others(
    visitor: Visitor, token: str, services: Services, ahead: int, counts: bool
) -> None:
    """It was no login there until their clocks had come so far: a second was enough."""
    name, _, value = visitor.send("/ui/login", token=token).headers["Set-Cookie"].partition(";")[0].partition("=")
    app = create_app(services)
    serializer = SecureCookieSessionInterface().get_signing_serializer(app)
    assert serializer is not None

    class Ahead(TimestampSigner):
        def get_timestamp(self) -> int:
            return super().get_timestamp() + ahead

    kept = serializer.loads(value)
    serializer.signer = Ahead
    other = app.test_client(use_cookies=False)
    answer = other.get("/ui/", headers={"Cookie": f"{name}={serializer.dumps(kept)}"})
    assert answer.status_code == (200 if counts else 303)


def test_the_cookie_opens_other_doors_only_with_the_forms_secret(visitor: Visitor, token: str) -> None:
    visitor.send("/ui/login", token=token)
    found = re.search(r'name="csrf-token" content="([^"]+)"', visitor.get("/ui/"))
    assert found is not None
    assert visitor.client.post("/sql", data="SELECT 1").status_code == 401
    assert visitor.client.post("/sql", data="SHOW TABLES", headers={"X-CSRF-Token": "made-up"}).status_code == 401
    assert visitor.client.post("/sql", data="SHOW TABLES", headers={"X-CSRF-Token": found.group(1)}).status_code == 200


@pytest.mark.parametrize("path", ["/ui/fix/compact", "/ui/theme", "/ui/login", "/ui/logout", "/ui/tables/default/t/do/compact"])
def test_a_form_without_the_secret_does_nothing(visitor: Visitor, path: str) -> None:
    visitor.sql("CREATE TABLE t (id BIGINT)")
    visitor.get("/ui/")
    for secret in ("", "made-up"):
        answer = visitor.send(path, secret=secret, database="default", table="t", token="x")
        assert answer.status_code == 403
        assert "load the page again" in answer.text


@pytest.mark.parametrize("to", ["https://elsewhere.example/", "//elsewhere.example", "/ui/\\elsewhere", "/v1/info", "/ui/\r\nX: y"])
def test_a_form_never_leads_to_another_site(visitor: Visitor, to: str) -> None:
    assert visitor.send("/ui/theme", theme="dark", back=to).location == "/ui/"


def test_light_and_dark_stay_chosen_without_scripts(visitor: Visitor) -> None:
    assert 'data-theme="system"' in visitor.get("/ui/")
    assert visitor.send("/ui/theme", theme="dark", back="/ui/catalog").location == "/ui/catalog"
    assert 'data-theme="dark"' in visitor.get("/ui/")
    visitor.send("/ui/theme", theme="system")
    assert 'data-theme="system"' in visitor.get("/ui/")


def test_programs_get_no_cookie(client: FlaskClient) -> None:
    assert "Set-Cookie" not in client.post("/sql", data="SELECT 1").headers
    assert "Set-Cookie" not in client.get("/livez").headers
