"""Tokens of an OpenID Connect issuer at every endpoint, and what is no token of it."""

from __future__ import annotations

import base64
import hmac
import json
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from flask import Response
from flask.sessions import session_json_serializer
from itsdangerous import URLSafeTimedSerializer
from joserfc import jwk, jws

from lake import Lake
from lake.access.callers import Identity
from model.errors import InvalidOption, NotAuthorized, Unavailable
from server.access import oidc, provider
from server.access.oidc import OidcIssuer
from server.flight.server import FlightEndpoint
from server.flight.wire.messages import packed
from server.observe.metrics import metrics_of
from server.process.services import Services
from server.settings.oidc import OidcSettings
from server.settings.settings import read_settings
from tests.server.issuer import CLIENT, SECRET, Issuer, issuing
from tests.server.protocols_of_a_module import Endpoints, endpoints
from tests.waiting import eventually


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as made:
        yield made


@pytest.fixture
def judge(issuer: Issuer) -> OidcIssuer:
    return OidcIssuer(OidcSettings(issuer=issuer.url, audience=CLIENT, roles=(("data-team", "analyst"), ("platform", "admin"))))


@pytest.fixture
def settings(issuer: Issuer) -> dict[str, str]:
    return {
        "SLUICE_OIDC_ISSUER": issuer.url,
        "SLUICE_OIDC_CLIENT_ID": CLIENT,
        "SLUICE_OIDC_CLIENT_SECRET": SECRET,
        "SLUICE_OIDC_ROLES": "data-team=analyst,platform=admin",
    }


@pytest.fixture
def opened(dsn: str, tmp_path: Path, settings: dict[str, str]) -> Iterator[Endpoints]:
    with endpoints(dsn, tmp_path, **settings) as made:
        yield made


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def plain(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def encoded(header: dict[str, str]) -> str:
    return plain(json.dumps(header).encode())


def unsigned(issuer: Issuer) -> str:
    _, claims, _ = issuer.token().split(".")
    return f"{encoded({'alg': 'none', 'kid': 'first'})}.{claims}."


def confused(issuer: Issuer) -> str:
    """Signed with HS256, the published key being the secret."""
    _, claims, _ = issuer.token().split(".")
    signed = f"{encoded({'alg': 'HS256', 'kid': 'first'})}.{claims}"
    key = issuer.keys[0]
    assert isinstance(key, jwk.RSAKey)
    return f"{signed}.{plain(hmac.digest(key.as_pem(private=False), signed.encode(), 'sha256'))}"


def cut(issuer: Issuer) -> str:
    head, claims, signature = issuer.token().split(".")
    other = issuer.token(sub="eve").split(".")[1]
    return f"{head}.{other if other != claims else 'e30'}.{signature}"


def nested(issuer: Issuer) -> str:
    """Signed by the issuer, and deeper than a parser goes."""
    return jws.serialize_compact({"alg": "RS256", "kid": "first"}, b'{"a":' + b"[" * 9000 + b"]" * 9000 + b"}", issuer.keys[0])


BAD: dict[str, tuple[Callable[[Issuer], str], str]] = {
    "expired": (lambda issuer: issuer.token(exp=int(time.time()) - 61), "expired"),
    "without an end": (lambda issuer: issuer.token(exp=None), "'exp'"),
    "not yet": (lambda issuer: issuer.token(nbf=int(time.time()) + 120), "'nbf'|signature"),
    "another audience": (lambda issuer: issuer.token(aud="others"), "'aud'"),
    "without an audience": (lambda issuer: issuer.token(aud=None), "'aud'"),
    "another issuer": (lambda issuer: issuer.token(iss="https://evil.example"), "'iss'"),
    "issued to another": (lambda issuer: issuer.token(aud=[CLIENT, "others"], azp="others"), "issued to 'others'"),
    "not signed": (unsigned, "signed by 'none'"),
    "signed by a secret": (confused, "signed by 'HS256'"),
    "other claims": (cut, "signature"),
    "a key of its own": (lambda issuer: issuer.token(key=jwk.RSAKey.generate_key(2048)), "signature"),
    "an unknown key": (lambda issuer: issuer.token(kid="nobodys"), "no key 'nobodys'"),
    "nobody": (lambda issuer: issuer.token(sub=None), "names nobody"),
    "the administrator's name": (lambda issuer: issuer.token(sub="administrator"), "the server's own"),
    "claims nested without end": (nested, "signature"),
    "an end beyond all numbers": (lambda issuer: issuer.token(exp=10**400), "signature"),
    "no JWT": (lambda issuer: "a.b.c", "no signed JWT"),
}


@pytest.mark.parametrize("how", BAD)
def test_tokens_that_are_not_the_issuers_for_this_server_are_refused(issuer: Issuer, judge: OidcIssuer, how: str) -> None:
    make, said = BAD[how]
    with pytest.raises(NotAuthorized, match=said):
        judge.identify(make(issuer))
    found = judge.identify(issuer.token())
    assert found is not None
    assert (found.principal, sorted(found.roles)) == ("ada", ["analyst"])


def test_a_little_skew_is_borne_and_what_is_no_jwt_is_somebody_elses(issuer: Issuer, judge: OidcIssuer) -> None:
    assert judge.identify(issuer.token(exp=int(time.time()) - 30)) is not None
    assert judge.identify("sluice-token") is None


def test_keys_are_rotated_and_withdrawn_ones_count_no_longer(issuer: Issuer, judge: OidcIssuer, monkeypatch: pytest.MonkeyPatch) -> None:
    old = issuer.token()
    assert judge.identify(old) is not None
    issuer.rotate()
    new = issuer.token(algorithm="ES256", kid="second")
    with pytest.raises(NotAuthorized, match="no key 'second'"):  # asked a moment ago
        judge.identify(new)
    assert issuer.fetched == 1
    monkeypatch.setattr(provider, "_AGAIN_SECONDS", 0.0)
    assert judge.identify(new) is not None
    with pytest.raises(NotAuthorized, match="no key 'first'"):
        judge.identify(old)


def test_an_issuer_that_is_away_costs_no_one_who_is_known(issuer: Issuer, judge: OidcIssuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider, "_AGAIN_SECONDS", 0.0)
    issuer.away = True
    with pytest.raises(Unavailable, match="cannot be asked"):
        judge.identify(issuer.token())
    issuer.away = False
    assert judge.identify(issuer.token()) is not None
    issuer.away = True
    monkeypatch.setattr(provider, "_FRESH_SECONDS", 0.0)
    assert judge.identify(issuer.token(sub="bob")) is not None
    monkeypatch.setattr(provider, "_STALE_SECONDS", 0.0)
    with pytest.raises(Unavailable):
        judge.identify(issuer.token())


def test_an_issuer_that_hangs_holds_few_threads(issuer: Issuer, judge: OidcIssuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider, "_MOST_WAITING", 3)
    issuer.answers.clear()
    with ThreadPoolExecutor(20) as threads:
        asked = [threads.submit(judge.identify, issuer.token(sub=f"user {number}")) for number in range(20)]
        assert eventually(lambda: sum(one.done() for one in asked) == 17, pause=0.01)
        assert all(isinstance(one.exception(), Unavailable) for one in asked if one.done())
        issuer.answers.set()
    assert len([one for one in asked if one.exception() is None]) == 3
    assert issuer.fetched == 1


def test_who_names_an_unknown_key_makes_nobody_else_wait(issuer: Issuer, judge: OidcIssuer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert judge.identify(issuer.token()) is not None
    monkeypatch.setattr(provider, "_AGAIN_SECONDS", 0.0)
    issuer.answers.clear()
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(judge.identify, issuer.token(kid="nobodys"))
        assert eventually(lambda: issuer.waiting > 0, pause=0.01)
        assert judge.identify(issuer.token()) is not None
        assert judge.identify(issuer.token(sub="bob")) is not None
        monkeypatch.setattr(provider, "_FRESH_SECONDS", 0.0)
        assert judge.identify(issuer.token(sub="eve")) is not None
        assert not waiting.done()
        issuer.answers.set()
        with pytest.raises(NotAuthorized, match="no key 'nobodys'"):
            waiting.result()


def test_logins_at_an_issuer_that_hangs_hold_few_threads(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "_MOST_LOGINS", 2)
    judge = OidcIssuer(OidcSettings(issuer=issuer.url, audience=CLIENT, client_id=CLIENT, client_secret=SECRET))
    login = judge.begin_login("http://here")
    code = parse_qs(urlsplit(httpx.get(login.url).headers["location"]).query)["code"][0]
    issuer.answers.clear()

    def finish(code: str) -> Identity:
        return judge.finish_login(code, nonce=login.nonce, verifier=login.verifier, redirect_url="http://here")

    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(finish, one) for one in (code, "a guess")]
        assert eventually(lambda: issuer.waiting == 2, pause=0.01)
        with pytest.raises(Unavailable, match="2 logins wait"):
            finish("another guess")
        issuer.answers.set()
    assert asked[0].result().principal == "ada"
    assert isinstance(asked[1].exception(), NotAuthorized)


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ({"sub": "ada", "groups": ["data-team"]}, None),
        ({"sub": "eve", "groups": ["platform"]}, "somebody else"),
        ({"groups": ["platform"]}, "somebody else"),
        (["platform"], "cannot be asked"),
        (Response("no", 403), "cannot be asked"),
        (Response("", 302, {"Location": "/keys"}), "cannot be asked"),
    ],
)
def test_groups_told_beside_the_id_token_are_of_who_logged_in_or_nobody_does(issuer: Issuer, beside: Any, said: str | None) -> None:
    issuer.person, issuer.beside = {"sub": "ada"}, beside
    judge = OidcIssuer(
        OidcSettings(issuer=issuer.url, audience=CLIENT, client_id=CLIENT, client_secret=SECRET, roles=(("data-team", "analyst"),))
    )
    login = judge.begin_login("http://here")
    code = parse_qs(urlsplit(httpx.get(login.url).headers["location"]).query)["code"][0]
    if said is None:
        assert judge.finish_login(code, nonce=login.nonce, verifier=login.verifier, redirect_url="http://here").roles == {"analyst"}
        return
    with pytest.raises((NotAuthorized, Unavailable), match=said):
        judge.finish_login(code, nonce=login.nonce, verifier=login.verifier, redirect_url="http://here")


def test_every_protocol_takes_the_issuers_tokens_with_the_roles_of_their_groups(opened: Endpoints, issuer: Issuer, tmp_path: Path) -> None:
    admin, ada = issuer.token(sub="root", groups=["platform"]), issuer.token()
    with httpx.Client(base_url=opened.url) as http:

        def sql(text: str, token: str) -> httpx.Response:
            return http.post("/sql", content=text, headers=bearer(token) | {"Content-Type": "text/plain"})

        assert http.post("/sql", content="SHOW TABLES").status_code == 401
        assert sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (1); CREATE ROLE analyst", admin).status_code == 200
        refused = sql("SELECT * FROM t", ada)
        assert (refused.status_code, "ada may not" in refused.text) == (403, True)
        assert http.get("/v1/sluice/databases/default/tables/t", headers=bearer(ada)).status_code == 403
        assert sql("GRANT SELECT ON t TO analyst", admin).status_code == 200
        assert sql("SELECT * FROM t", ada).json()["rows"] == [[1]]
        assert sql("SELECT * FROM t", issuer.token(groups=[])).status_code == 403
        assert http.get("/v1/sluice/databases/default/tables/t", headers=bearer(ada)).status_code == 200
        session = http.post("/v1/sessions", json={}, headers=bearer(ada)).json()["sessionHandle"]
        assert http.get(f"/v1/sessions/{session}", headers=bearer(admin)).status_code != 200
        assert http.post("/v1/sessions", json={}, headers=bearer(unsigned(issuer))).status_code == 401
        made = http.post("/tokens", json={"name": "robot", "administrator": True}, headers=bearer(admin)).json()["token"]
        assert sql("SHOW TABLES", made).status_code == 200
    read = read_settings({"SLUICE_DATA": str(tmp_path), "SLUICE_FLIGHT_LISTEN": "127.0.0.1:0"})
    endpoint = FlightEndpoint(Services(gateway=opened.gateway, settings=read), metrics_of(opened.app))
    opened.gateway.lake.access.issuer = OidcIssuer(OidcSettings(issuer=issuer.url, audience=CLIENT, roles=(("data-team", "analyst"),)))
    host, port = endpoint.start()
    try:
        with fl.connect(f"grpc://{host}:{port}") as client:
            command = fl.FlightDescriptor.for_command(packed("CommandStatementQuery", query="SELECT * FROM t"))
            hers = fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {ada}".encode())])
            info = client.get_flight_info(command, hers)
            assert client.do_get(info.endpoints[0].ticket, hers).read_all() == pa.table({"a": pa.array([1], pa.int32())})
            with pytest.raises(fl.FlightUnauthenticatedError, match="not taken"):
                client.get_flight_info(command, fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {confused(issuer)}".encode())]))
    finally:
        endpoint.stop(5)


def test_roles_bind_whom_the_issuer_gives_them_through_others_and_nobody_bears_the_name_of_one(opened: Endpoints, issuer: Issuer) -> None:
    admin = issuer.token(sub="root", groups=["platform"])
    with httpx.Client(base_url=opened.url) as http:

        def sql(text: str, token: str) -> httpx.Response:
            return http.post("/sql", content=text, headers=bearer(token) | {"Content-Type": "text/plain"})

        made = "CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2); CREATE ROLE analyst; CREATE ROLE bound; GRANT ROLE bound TO analyst"
        assert sql(f"{made}; GRANT SELECT ON t TO analyst; CREATE POLICY p ON t TO bound USING (a = 1)", admin).status_code == 200
        assert len(http.post("/v1/sluice/databases/default/tables/t/auth", json={}, headers=bearer(issuer.token())).json()["filter"]) == 1
        usurper = issuer.token(sub="analyst", groups=[])
        for answer in (
            sql("SELECT * FROM t", usurper),
            http.get("/v1/sluice/databases", headers=bearer(usurper)),
            http.post("/v1/sessions", json={}, headers=bearer(usurper)),
        ):
            assert (answer.status_code, "the name of a role" in answer.text) == (401, True)


def test_pages_log_in_by_the_code_flow_and_only_where_it_was_begun(opened: Endpoints, issuer: Issuer) -> None:
    with httpx.Client(base_url=opened.url) as browser, httpx.Client(base_url=opened.url) as other:
        assert "/ui/login/issuer" in browser.get("/ui/login?next=/ui/catalog").text
        away = browser.get("/ui/login/issuer?next=/ui/catalog")
        asked = {name: value for name, (value,) in parse_qs(urlsplit(away.headers["location"]).query).items()}
        assert asked["redirect_uri"] == f"{opened.url}/ui/login/callback"
        back = httpx.get(away.headers["location"]).headers["location"]
        stolen = other.get(back)
        assert (stolen.status_code, "not begun in this browser" in stolen.text) == (401, True)
        done = browser.get(back)
        assert (done.status_code, done.headers["location"]) == (303, "/ui/catalog")
        assert browser.get("/ui/catalog").status_code == 200
        assert browser.get("/ui/settings").status_code == 403
        assert browser.get(back).status_code == 401  # a code counts once, and so does its state
        assert other.get("/ui/catalog").status_code == 303


def test_an_issuer_that_names_itself_in_its_answers_does_so_in_each(opened: Endpoints, issuer: Issuer) -> None:
    """An answer that another issuer gave was taken where it named none."""
    issuer.names = issuer.url

    def answer(change: Callable[[str], str]) -> httpx.Response:
        with httpx.Client(base_url=opened.url) as browser:
            away = browser.get("/ui/login/issuer?next=/ui/catalog").headers["location"]
            return browser.get(change(httpx.get(away).headers["location"]))

    for change in (lambda back: back.partition("&iss=")[0], lambda back: back.partition("&iss=")[0] + "&iss=https://evil.example"):
        assert (answer(change).status_code, "another issuer" in answer(change).text) == (401, True)
    assert answer(lambda back: back).status_code == 303


def test_a_token_of_the_issuer_logs_in_by_the_form_as_long_as_it_counts(opened: Endpoints, issuer: Issuer) -> None:
    with httpx.Client(base_url=opened.url) as browser:
        form = re.search(r'name="csrf-token" content="([^"]+)"', browser.get("/ui/login").text)
        assert form is not None
        until = int(time.time()) + 500
        answer = browser.post("/ui/login", data={"_csrf": form[1], "token": issuer.token(exp=until)})
        assert answer.status_code == 303
        assert browser.get("/ui/catalog").status_code == 200
        (cookie,) = answer.cookies.values()
        _, kept = URLSafeTimedSerializer("", salt="cookie-session", serializer=session_json_serializer).loads_unsafe(cookie)
        assert until <= kept["identity"]["until"] <= until + 60  # clocks may differ by a minute


def test_a_login_whose_token_is_of_another_login_is_refused(opened: Endpoints, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    sign = issuer.token
    with httpx.Client(base_url=opened.url) as browser:
        away = browser.get("/ui/login/issuer")
        back = httpx.get(away.headers["location"]).headers["location"]

        def token(**claims: Any) -> str:
            return sign(**(claims | {"nonce": "anothers"}))

        monkeypatch.setattr(issuer, "token", token)
        refused = browser.get(back)
        assert (refused.status_code, "&#39;nonce&#39;" in refused.text or "'nonce'" in refused.text) == (401, True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"SLUICE_OIDC_ISSUER": "http://login.example.org", "SLUICE_OIDC_AUDIENCE": "x"}, "an https URL"),
        ({"SLUICE_OIDC_ISSUER": "https://login.example.org"}, "SLUICE_OIDC_AUDIENCE or SLUICE_OIDC_CLIENT_ID"),
        ({"SLUICE_OIDC_AUDIENCE": "x"}, "SLUICE_OIDC_AUDIENCE is set without SLUICE_OIDC_ISSUER"),
    ],
)
def test_settings_that_trust_nobody_or_anybody_are_refused(tmp_path: Path, given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOption, match=said):
        read_settings({"SLUICE_DATA": str(tmp_path), **given})


def test_a_server_that_trusts_an_issuer_is_never_open(lake: Lake, judge: OidcIssuer) -> None:
    assert lake.access.open()
    lake.access.issuer = judge
    assert not lake.access.open()
