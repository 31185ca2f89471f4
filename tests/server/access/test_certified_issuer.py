"""A certified OpenID Connect issuer, in its own process: what it publishes and signs, and the pages' login at it.

What such an issuer never does wrongly is in `test_oidc.py`, with an issuer of our own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from model.errors import NotAuthorized, Unavailable
from server.access import provider
from server.access.oidc import Login, OidcIssuer
from server.settings.oidc import OidcSettings
from tests.server.certified_issuer import ALGORITHMS, AUDIENCE, CLIENT, PUBLIC, ROBOT, SECRET, CertifiedIssuer, signing_keys
from tests.server.protocols_of_a_module import endpoints
from tests.short import diagonal, one_in

pytestmark = pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # issuers sign by it, whatever its name should be now
HERE = "http://127.0.0.1/ui/login/callback"


@pytest.fixture
def issuer() -> Iterator[CertifiedIssuer]:
    made = CertifiedIssuer()
    yield made
    made.stop()


@pytest.fixture
def settings(issuer: CertifiedIssuer) -> OidcSettings:
    return OidcSettings(
        issuer=issuer.url,
        audience=AUDIENCE,
        client_id=CLIENT,
        client_secret=SECRET,
        scopes=("openid", "profile", "groups"),
        roles=(("data-team", "analyst"), ("platform", "admin")),
    )


@pytest.fixture
def judge(settings: OidcSettings) -> OidcIssuer:
    return OidcIssuer(settings)


def returned(issuer: CertifiedIssuer, login: Login, person: str = "ada") -> str:
    """The code with which the issuer sends somebody back who logs in there."""
    back = issuer.log_in(login.url, person)
    told = parse_qs(urlsplit(back).query)
    assert (told["state"], told["iss"]) == ([login.state], [issuer.url])
    return told["code"][0]


@pytest.mark.parametrize("algorithm", one_in(2, ALGORITHMS))
def test_access_tokens_are_taken_for_this_audience_alone(issuer: CertifiedIssuer, judge: OidcIssuer, algorithm: str) -> None:
    for resource in issuer.resources.values():
        resource["algorithm"] = algorithm
    issuer.start()
    found = judge.identify(issuer.robot_token())
    assert found is not None
    assert (found.principal, found.roles) == (ROBOT, frozenset({"analyst"}))
    assert 300 < found.expires_at - time.time() <= 360  # its five minutes, and a minute in which clocks may differ
    with pytest.raises(NotAuthorized, match="'aud'"):
        judge.identify(issuer.robot_token("urn:others"))


def test_expired_tokens_count_as_long_as_clocks_may_differ(issuer: CertifiedIssuer, settings: OidcSettings) -> None:
    issuer.start()
    token, now = issuer.robot_token(), time.time()
    exact, lenient = (OidcIssuer(replace(settings, skew_seconds=skew), now=lambda: now) for skew in (0, 60))
    known = exact.identify(token)
    assert known is not None
    now = known.expires_at - 1
    for judge in (exact, lenient):
        assert judge.identify(token) is not None
    now += 2
    with pytest.raises(NotAuthorized, match="expired"):  # though it was judged and remembered
        exact.identify(token)
    assert lenient.identify(token) is not None


def test_keys_rotate_as_issuers_do_it(issuer: CertifiedIssuer, judge: OidcIssuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider, "_AGAIN_SECONDS", 0.0)
    first, second = issuer.keys, signing_keys("second")
    issuer.start()
    old = issuer.robot_token()
    assert judge.identify(old) is not None
    issuer.keys = [*second, *first]  # the newer ones sign, and both are published
    issuer.start()
    new = issuer.robot_token()
    assert judge.identify(new) is not None
    assert judge.identify(old) is not None
    issuer.keys = second
    issuer.start()
    assert judge.identify(old) is not None
    monkeypatch.setattr(provider, "_FRESH_SECONDS", 0.0)
    assert judge.identify(new) is not None
    with pytest.raises(NotAuthorized, match="no key 'first-rsa'"):
        judge.identify(old)
    issuer.stop()
    assert judge.identify(new) is not None  # an issuer that is away costs nobody who is known
    monkeypatch.setattr(provider, "_STALE_SECONDS", 0.0)
    with pytest.raises(Unavailable):
        judge.identify(new)


@pytest.mark.parametrize(("algorithm", "id_tokens_alone"), diagonal(ALGORITHMS, [True, False]))
def test_a_login_has_the_roles_of_its_groups(issuer: CertifiedIssuer, judge: OidcIssuer, algorithm: str, *, id_tokens_alone: bool) -> None:
    issuer.start(redirect_urls=[HERE], algorithm=algorithm, id_tokens_alone=id_tokens_alone)
    login = judge.begin_login(HERE)
    code = returned(issuer, login)
    identity = judge.finish_login(code, nonce=login.nonce, verifier=login.verifier, redirect_url=HERE)
    assert (identity.principal, identity.roles) == ("ada", frozenset({"analyst"}))
    with pytest.raises(NotAuthorized, match="did not take the login's code"):  # a code counts once
        judge.finish_login(code, nonce=login.nonce, verifier=login.verifier, redirect_url=HERE)


def test_a_client_without_a_secret_logs_in_by_pkce(issuer: CertifiedIssuer, settings: OidcSettings) -> None:
    issuer.start(redirect_urls=[HERE])
    judge = OidcIssuer(replace(settings, client_id=PUBLIC, client_secret=None))
    login = judge.begin_login(HERE)
    code = returned(issuer, login, "root")
    assert judge.finish_login(code, nonce=login.nonce, verifier=login.verifier, redirect_url=HERE).roles == {"admin"}


def test_what_is_not_of_this_login_is_refused(issuer: CertifiedIssuer, judge: OidcIssuer, settings: OidcSettings) -> None:
    issuer.start(redirect_urls=[HERE, "http://127.0.0.1/elsewhere"])
    login, other = judge.begin_login(HERE), judge.begin_login(HERE)
    guessing = OidcIssuer(replace(settings, client_secret="a guess"))
    for by, changed, said in (
        (judge, {"verifier": other.verifier}, "did not take the login's code"),
        (judge, {"nonce": other.nonce}, "'nonce'"),
        (judge, {"redirect_url": "http://127.0.0.1/elsewhere"}, "did not take the login's code"),
        (guessing, {}, "did not take the login's code"),
    ):
        code = returned(issuer, login)
        with pytest.raises(NotAuthorized, match=said):
            by.finish_login(code, **{"nonce": login.nonce, "verifier": login.verifier, "redirect_url": HERE} | changed)


def test_pages_and_sql_of_a_server_go_by_it(dsn: str, tmp_path: Path, issuer: CertifiedIssuer) -> None:
    given = {
        "SLUICE_OIDC_ISSUER": issuer.url,
        "SLUICE_OIDC_AUDIENCE": AUDIENCE,
        "SLUICE_OIDC_CLIENT_ID": CLIENT,
        "SLUICE_OIDC_CLIENT_SECRET": SECRET,
        "SLUICE_OIDC_SCOPES": "openid,groups",
        "SLUICE_OIDC_ROLES": "data-team=analyst,platform=admin",
    }
    with endpoints(dsn, tmp_path, **given) as opened, httpx.Client(base_url=opened.url) as http:
        issuer.start(redirect_urls=[f"{opened.url}/ui/login/callback"])
        robot = {"Authorization": f"Bearer {issuer.robot_token()}"}
        assert http.post("/sql", content="SHOW TABLES", headers=robot).status_code == 200
        assert http.post("/sql", content="CREATE ROLE other", headers=robot).status_code == 403
        for person, settings_page in (("ada", 403), ("root", 200)):
            with httpx.Client(base_url=opened.url) as browser:
                away = browser.get("/ui/login/issuer?next=/ui/catalog").headers["location"]
                back = issuer.log_in(away, person)
                assert http.get(back).status_code == 401  # another browser
                assert browser.get(back.replace("&iss=", "&iss=https://evil.example/")).status_code == 401
            with httpx.Client(base_url=opened.url) as browser:
                back = issuer.log_in(browser.get("/ui/login/issuer?next=/ui/catalog").headers["location"], person)
                done = browser.get(back)
                assert (done.status_code, done.headers["location"]) == (303, "/ui/catalog")
                assert browser.get("/ui/settings").status_code == settings_page
