"""An OpenID Connect issuer on this machine: real keys, signatures and HTTP; who logs in there is whoever the test says."""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote_plus, urlencode

from flask import Flask, Response, jsonify, redirect, request
from flask.typing import ResponseReturnValue
from joserfc import jwk, jwt
from werkzeug.serving import make_server

from tests.serving import in_background

CLIENT, SECRET = "sluice-pages", "client secret"


class Issuer:
    """Publishes its keys, signs tokens, and answers the authorization code flow."""

    def __init__(self) -> None:
        self.keys: list[jwk.Key] = [jwk.RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})]
        self.person: dict[str, Any] = {"sub": "ada", "groups": ["data-team"]}
        """Who logs in next."""
        self.fetched = 0
        """How often its keys were asked for."""
        self.away = False
        self.beside: Any = None
        """What it tells at its userinfo_endpoint; without it there is none."""
        self.names: str | None = None
        """What it names itself in answers to logins, which its document says then (RFC 9207)."""
        self.answers = threading.Event()
        """Cleared, it takes requests and answers none until it is set again."""
        self.answers.set()
        self.waiting = 0
        """Requests it has taken and not answered."""
        self.url = ""
        self._codes: dict[str, dict[str, str]] = {}

    def token(self, *, key: jwk.Key | None = None, algorithm: str = "RS256", kid: str | None = "first", **claims: Any) -> str:
        """A token with these claims; one that is None is left out."""
        now = int(time.time())
        told = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, **self.person, **claims}
        header = {"alg": algorithm} if kid is None else {"alg": algorithm, "kid": kid}
        kept = {name: value for name, value in told.items() if value is not None}
        return jwt.encode(header, kept, key or self.keys[0], algorithms=[algorithm])

    def rotate(self) -> None:
        """Sign by a new key, and publish the old one no longer."""
        self.keys = [jwk.ECKey.generate_key("P-256", {"kid": "second", "use": "sig"})]

    def app(self) -> Flask:
        """Its endpoints."""
        app = Flask("issuer")

        @app.before_request
        def there() -> ResponseReturnValue | None:
            self.waiting += 1
            self.answers.wait()
            self.waiting -= 1
            return Response("gone to lunch", 503) if self.away else None

        @app.get("/.well-known/openid-configuration")
        def document() -> ResponseReturnValue:
            known = {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
            }
            told = {} if self.beside is None else {"userinfo_endpoint": f"{self.url}/userinfo"}
            named = {} if self.names is None else {"authorization_response_iss_parameter_supported": True}
            return jsonify(known | told | named)

        @app.get("/userinfo")
        def userinfo() -> ResponseReturnValue:
            assert request.headers["Authorization"] == "Bearer opaque"
            return self.beside if isinstance(self.beside, Response) else jsonify(self.beside)

        @app.get("/keys")
        def keys() -> ResponseReturnValue:
            self.fetched += 1
            return jsonify(keys=[key.as_dict(private=False) for key in self.keys])

        @app.get("/authorize")
        def authorize() -> ResponseReturnValue:
            asked = request.args.to_dict()
            assert (asked["client_id"], asked["response_type"], asked["code_challenge_method"]) == (CLIENT, "code", "S256")
            code = secrets.token_urlsafe()
            self._codes[code] = asked
            return redirect(f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']} | self._named())}")

        @app.post("/token")
        def token() -> ResponseReturnValue:
            asked = self._codes.pop(request.form["code"], None)
            auth = request.authorization
            verifier = hashlib.sha256(request.form["code_verifier"].encode()).digest()
            fits = asked is not None and base64.urlsafe_b64encode(verifier).rstrip(b"=").decode() == asked["code_challenge"]
            shown = () if auth is None else (unquote_plus(auth.username or ""), unquote_plus(auth.password or ""))
            if asked is None or not fits or shown != (CLIENT, SECRET):
                return jsonify(error="invalid_grant"), 400
            return jsonify(token_type="Bearer", access_token="opaque", id_token=self.token(nonce=asked["nonce"]))

        return app

    def _named(self) -> dict[str, str]:
        return {} if self.names is None else {"iss": self.names}


@contextmanager
def issuing() -> Iterator[Issuer]:
    """An issuer that listens."""
    issuer = Issuer()
    server = make_server("127.0.0.1", 0, issuer.app(), threaded=True)
    issuer.url = f"http://127.0.0.1:{server.server_port}"
    thread = in_background(server)
    try:
        yield issuer
    finally:
        issuer.answers.set()
        server.shutdown()
        thread.join()
        server.server_close()
