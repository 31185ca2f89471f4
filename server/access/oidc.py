"""OpenID Connect: who speaks by a token that a configured issuer signed, and the authorization code flow of the pages.

Nothing in a token is believed before its signature is checked by a key the issuer publishes, with an algorithm that takes public keys.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx
import orjson
from cachetools import LRUCache
from joserfc import jwk, jws, jwt
from joserfc.errors import JoseError

from lake.access.callers import Identity, reserved_principal
from model.errors import NotAuthorized, Unavailable
from server.settings.oidc import OidcSettings

_log = logging.getLogger(__name__)
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
"""Signatures by private keys alone: with `none` or a shared secret anybody who knows the public key could sign."""
_KEY_TYPES = ("RSA", "EC", "OKP")
_TIMEOUT_SECONDS = 5.0
_LONGEST_DOCUMENT = 1 << 20
_LONGEST_TOKEN = 32 << 10
_FRESH_SECONDS = 300.0
"""Keys are fetched anew after so long: one that the issuer withdrew counts no longer."""
_STALE_SECONDS = 3600.0
"""So long they count while the issuer cannot be asked."""
_AGAIN_SECONDS = 10.0
"""Between two attempts to fetch them, whatever keys tokens name."""
_REMEMBERED = 10_000
_DISCOVERY = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True)
class _Provider:
    """What the issuer published, and when it was fetched (monotonic)."""

    document: Mapping[str, Any]
    keys: tuple[jwk.Key, ...]
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A login begun in a browser: what its answer is judged by."""

    url: str
    """Where the browser goes."""
    state: str
    nonce: str
    verifier: str


class OidcIssuer:
    """Judges tokens of one issuer."""

    def __init__(self, settings: OidcSettings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._provider: _Provider | None = None
        self._tried = -_AGAIN_SECONDS
        self._judged: LRUCache[bytes, Identity] = LRUCache(_REMEMBERED)

    def identify(self, token: str) -> Identity | None:
        """Who a token speaks for; None where it is no JWT at all.

        Raises `NotAuthorized` for one that the issuer did not sign for this server, or that has expired; `Unavailable` where the issuer's
        keys cannot be had.
        """
        if token.count(".") != 2 or len(token) > _LONGEST_TOKEN:
            return None
        digest = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        with self._lock:
            known = self._judged.get(digest)
        if known is not None and known.expires_at > time.time() and self._provider_is_fresh():
            return known
        identity = self._identity(self.claims(token, audience=self.settings.audience))
        with self._lock:
            self._judged[digest] = identity
        return identity

    def claims(self, token: str, *, audience: str, nonce: str | None = None) -> dict[str, Any]:
        """The claims of a token that was signed by the issuer for this audience and counts now; raises as `identify` does."""
        header = _header(token)
        key = self._key(header)
        wanted: dict[str, Any] = {
            "iss": {"essential": True, "value": self.settings.issuer},
            "aud": {"essential": True, "value": audience},
            "exp": {"essential": True},
        }
        if nonce is not None:
            wanted["nonce"] = {"essential": True, "value": nonce}
        try:
            claims = dict(jwt.decode(token, key, algorithms=list(ALGORITHMS)).claims)
            jwt.JWTClaimsRegistry(leeway=self.settings.skew_seconds, **wanted).validate(claims)
            claims["exp"] = float(claims["exp"])  # JSON's numbers have no bound, and a clock's do
        except (JoseError, ValueError, TypeError, OverflowError, RecursionError) as problem:
            raise _refused(_told(problem)) from None
        if (
            isinstance(claims["aud"], list)
            and len(claims["aud"]) > 1
            and claims.get("azp") not in (None, audience, self.settings.client_id)
        ):
            raise _refused(f"it was issued to {claims.get('azp')!r}")
        return claims

    def begin_login(self, redirect_url: str) -> Login:
        """A login by the authorization code flow; raises `Unavailable`."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self._client_id(),
            "redirect_uri": redirect_url,
            "scope": " ".join(self.settings.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        endpoint = self._endpoint("authorization_endpoint")
        url = f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"
        return Login(url=url, state=state, nonce=nonce, verifier=verifier)

    def finish_login(self, code: str, *, nonce: str, verifier: str, redirect_url: str) -> Identity:
        """Who logged in; raises `NotAuthorized` for a code that is not good, `Unavailable`."""
        client = self._client_id()
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_url, "code_verifier": verifier}
        secret = self.settings.client_secret
        auth = None if secret is None else httpx.BasicAuth(client, secret)
        if secret is None:
            form["client_id"] = client
        try:
            answer = httpx.post(self._endpoint("token_endpoint"), data=form, auth=auth, timeout=_TIMEOUT_SECONDS, follow_redirects=False)
        except httpx.HTTPError as problem:
            raise self._away(problem) from None
        if answer.status_code >= 500:
            raise self._away(f"HTTP {answer.status_code}")
        try:
            token = orjson.loads(answer.content).get("id_token") if answer.status_code == 200 else None
        except (orjson.JSONDecodeError, AttributeError):
            token = None
        if not isinstance(token, str):
            raise NotAuthorized("The issuer did not take the login's code; log in again.")
        return self._identity(self.claims(token, audience=client, nonce=nonce))

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        name = claims.get(self.settings.principal_claim)
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > 255:
            raise _refused(f"its claim '{self.settings.principal_claim}' (SLUICE_OIDC_PRINCIPAL_CLAIM) names nobody")
        if reserved_principal(name):
            raise _refused(f"'{name}' is a name of the server's own")
        groups = claims.get(self.settings.groups_claim)
        names = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        roles = frozenset(role for group, role in self.settings.roles if group in names)
        return Identity(principal=name, roles=roles, expires_at=claims["exp"] + self.settings.skew_seconds)

    def _client_id(self) -> str:
        if self.settings.client_id is None:
            raise NotAuthorized("Pages do not log in by an issuer here; SLUICE_OIDC_CLIENT_ID makes them.")
        return self.settings.client_id

    def _endpoint(self, name: str) -> str:
        endpoint = self._published().document.get(name)
        if not isinstance(endpoint, str):
            raise self._away(f"its document names no {name}")
        return endpoint

    def _key(self, header: Mapping[str, Any]) -> jwk.Key:
        """The published key a token names; fetched anew where it is not known."""
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise _refused(f"it is signed by {algorithm!r}, and one of {', '.join(ALGORITHMS)} is wanted")
        for provider in (self._published(), self._published(unknown=True)):
            keys = provider.keys if kid is None else tuple(key for key in provider.keys if key.kid == kid)
            if len(keys) == 1:
                return keys[0]
            if kid is None:
                break
        raise _refused("it names no key of the issuer's" if kid is None else f"the issuer has no key '{str(kid)[:80]}'")

    def _provider_is_fresh(self) -> bool:
        provider = self._provider
        return provider is not None and time.monotonic() - provider.at < _FRESH_SECONDS

    def _published(self, *, unknown: bool = False) -> _Provider:
        """What the issuer publishes; fetched anew when it is old, or where a key in it is ``unknown``."""
        provider = self._provider
        if provider is not None and self._provider_is_fresh() and not unknown:
            return provider
        with self._lock:
            now = time.monotonic()
            if self._provider is not provider and self._provider is not None:  # another thread has fetched it meanwhile
                return self._provider
            if now - self._tried >= _AGAIN_SECONDS or provider is None:
                self._tried = now
                try:
                    self._provider = provider = self._fetch()
                    self._judged.clear()
                except (httpx.HTTPError, ValueError, JoseError) as problem:
                    _log.warning("The keys of the issuer %s could not be fetched: %s", self.settings.issuer, problem)
                    if provider is None or now - provider.at > _STALE_SECONDS:
                        raise self._away(problem) from None
            if now - provider.at > _STALE_SECONDS:
                raise self._away("its keys are too old")
            return provider

    def _fetch(self) -> _Provider:
        with httpx.Client(timeout=_TIMEOUT_SECONDS, follow_redirects=False) as client:
            document = _document(client, self.settings.issuer.rstrip("/") + _DISCOVERY)
            if document.get("issuer") != self.settings.issuer:
                raise ValueError(f"it calls itself {document.get('issuer')!r}")
            where = document.get("jwks_uri")
            if not isinstance(where, str):
                raise ValueError("its document names no jwks_uri")
            published = _document(client, where).get("keys")
        if not isinstance(published, list):
            raise ValueError("its keys are no list")
        keys = []
        for key in published:
            if isinstance(key, dict) and key.get("kty") in _KEY_TYPES and key.get("use", "sig") == "sig":
                try:
                    keys.append(jwk.import_key(key))
                except (JoseError, ValueError):  # of a kind that is not known here; the others count
                    _log.info("A key of the issuer %s is of no kind that is known here", self.settings.issuer)
        return _Provider(document, tuple(keys), time.monotonic())

    def _away(self, problem: object) -> Unavailable:
        return Unavailable(
            f"The issuer {self.settings.issuer} cannot be asked ({problem}); try again soon. Tokens made by this server work meanwhile."
        )


def _document(client: httpx.Client, url: str) -> dict[str, Any]:
    with client.stream("GET", url) as answer:
        answer.raise_for_status()
        body = bytearray()
        for piece in answer.iter_bytes():
            body += piece
            if len(body) > _LONGEST_DOCUMENT:
                raise ValueError(f"{url} answers more than {_LONGEST_DOCUMENT} bytes")
    document = orjson.loads(bytes(body))
    if not isinstance(document, dict):
        raise ValueError(f"{url} answers no JSON object")
    return document


def _header(token: str) -> dict[str, Any]:
    try:
        return dict(jws.extract_compact(token.encode()).headers())
    except (JoseError, ValueError, TypeError):
        raise _refused("it is no signed JWT") from None


def _told(problem: Exception) -> str:
    claim = getattr(problem, "claim", None)
    if getattr(problem, "error", "") == "expired_token":
        return "it has expired"
    return f"its claim '{claim}' is not what it must be" if claim else "its signature is not the issuer's"


def _refused(why: str) -> NotAuthorized:
    return NotAuthorized(f"The token is not taken: {why}.")
