"""OpenID Connect: who speaks by a token that a configured issuer signed, and the authorization code flow of the pages.

Nothing in a token is believed before its signature is checked by a key the issuer publishes, with an algorithm that takes public keys.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, urlencode

import httpx
import orjson
from cachetools import LRUCache
from joserfc import jwk, jws, jwt
from joserfc.errors import JoseError

from lake.access.callers import Identity, reserved_principal
from model.errors import NotAuthorized
from server.access.provider import TIMEOUT_SECONDS, Provider, PublishedProvider
from server.settings.oidc import OidcSettings

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
"""Signatures by private keys alone: with `none` or a shared secret anybody who knows the public key could sign."""
_LONGEST_TOKEN = 32 << 10
_MOST_LOGINS = 8
"""Logins whose code the issuer is asked about at once: each holds a thread, and whoever begins one has shown no token."""
_REMEMBERED = 10_000


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

    def __init__(self, settings: OidcSettings, *, now: Callable[[], float] = time.time) -> None:
        """``now``: seconds since 1970, by which tokens expire."""
        self.settings = settings
        self._now = now
        self._provider = PublishedProvider(settings.issuer)
        self._lock = threading.Lock()
        self._judged: LRUCache[bytes, tuple[Provider | None, Identity]] = LRUCache(_REMEMBERED)
        """By the token's digest: who it speaks for, by which keys."""
        self._logins = threading.BoundedSemaphore(_MOST_LOGINS)

    def identify(self, token: str) -> Identity | None:
        """Who a token speaks for; None where it is no JWT at all.

        Raises `NotAuthorized` for one that the issuer did not sign for this server, or that has expired; `Unavailable` where the issuer's
        keys cannot be had.
        """
        if token.count(".") != 2 or len(token) > _LONGEST_TOKEN:
            return None
        digest = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        provider = self._provider.latest
        with self._lock:
            judged = self._judged.get(digest)
        if judged is not None and provider is not None and provider.fresh():
            by, identity = judged
            if by is provider and identity.expires_at > self._now():
                return identity
        identity = self._identity(self.claims(token, audience=self.settings.audience))
        with self._lock:
            self._judged[digest] = (provider, identity)
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
            jwt.JWTClaimsRegistry(now=lambda: int(self._now()), leeway=self.settings.skew_seconds, **wanted).validate(claims)
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

    def answered(self, iss: str | None) -> bool:
        """Whether an answer to a login that names this ``iss``, or none, is the issuer's: one that says it names itself always does.

        RFC 9207, 2.4: it shuts out answers mixed up among issuers. Raises `Unavailable`.
        """
        if iss is None:
            return self._provider.get().document.get("authorization_response_iss_parameter_supported") is not True
        return iss == self.settings.issuer

    def finish_login(self, code: str, *, nonce: str, verifier: str, redirect_url: str) -> Identity:
        """Who logged in; raises `NotAuthorized` for a code that is not good, `Unavailable`."""
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_url, "code_verifier": verifier}
        if not self._logins.acquire(blocking=False):
            raise self._provider.away(f"{_MOST_LOGINS} logins wait for its answer")
        try:
            answer = self._redeemed(form)
            token = answer.get("id_token")
            if not isinstance(token, str):
                raise NotAuthorized("The issuer did not take the login's code; log in again.")
            claims = self.claims(token, audience=self._client_id(), nonce=nonce)
            return self._identity(self._told_beside(claims, answer.get("access_token")) | claims)
        except httpx.HTTPError as problem:
            raise self._provider.away(problem) from None
        finally:
            self._logins.release()

    def _redeemed(self, form: dict[str, str]) -> dict[str, Any]:
        """What the token endpoint gives for a code; nothing where it refuses."""
        client, secret = self._client_id(), self.settings.client_secret
        methods = self._provider.get().document.get("token_endpoint_auth_methods_supported")
        auth = None
        if secret is None:
            form["client_id"] = client
        elif isinstance(methods, list) and "client_secret_basic" not in methods and "client_secret_post" in methods:
            form |= {"client_id": client, "client_secret": secret}
        else:  # as in a form (RFC 6749, 2.3.1): issuers undo that, so that a plus as it is would be a space to them
            auth = httpx.BasicAuth(quote_plus(client), quote_plus(secret))
        endpoint = self._endpoint("token_endpoint")
        answer = httpx.post(endpoint, data=form, auth=auth, timeout=TIMEOUT_SECONDS, follow_redirects=False)
        if answer.status_code >= 500:
            raise self._provider.away(f"HTTP {answer.status_code}")
        return (_object(answer.content) if answer.status_code == 200 else None) or {}

    def _told_beside(self, claims: Mapping[str, Any], access_token: object) -> dict[str, Any]:
        """What the issuer tells beside the ID token, where the standard puts the claims of scopes if an access token is given as well.

        Nothing where the ID token has the claims that count here. A login with fewer roles than the issuer gives would pass by policies
        that bind them, so that it fails where the issuer does not answer.
        """
        wanted = (self.settings.principal_claim, *((self.settings.groups_claim,) if self.settings.roles else ()))
        endpoint = self._provider.get().document.get("userinfo_endpoint")
        if all(name in claims for name in wanted) or not isinstance(endpoint, str) or not isinstance(access_token, str):
            return {}
        headers = {"Authorization": f"Bearer {access_token}", "Accept": "application/json"}
        answer = httpx.get(endpoint, headers=headers, timeout=TIMEOUT_SECONDS, follow_redirects=False)
        userinfo = _object(answer.content) if answer.status_code == 200 else None
        if userinfo is None:
            raise self._provider.away(f"its userinfo_endpoint answers HTTP {answer.status_code} and no claims")
        if userinfo.get("sub") != claims.get("sub"):
            raise NotAuthorized("The issuer tells of somebody else than who logged in; log in again.")
        return userinfo

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
        endpoint = self._provider.get().document.get(name)
        if not isinstance(endpoint, str):
            raise self._provider.away(f"its document names no {name}")
        return endpoint

    def _key(self, header: Mapping[str, Any]) -> jwk.Key:
        """The published key a token names; fetched anew where it is not known."""
        algorithm, kid = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise _refused(f"it is signed by {algorithm!r}, and one of {', '.join(ALGORITHMS)} is wanted")
        provider = self._provider.get()
        for renewed in (False, True):
            if renewed:
                provider = self._provider.get(beyond=provider)
            keys = provider.keys if kid is None else tuple(key for key in provider.keys if key.kid == kid)
            if len(keys) == 1:
                return keys[0]
            if kid is None:
                break
        raise _refused("it names no key of the issuer's" if kid is None else f"the issuer has no key '{str(kid)[:80]}'")


def _object(content: bytes) -> dict[str, Any] | None:
    """A JSON object; None where it is none."""
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


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
