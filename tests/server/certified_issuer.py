"""`oidc-provider` of npm, certified by the OpenID Foundation, as a process of its own on this machine."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest
from joserfc import jwk

from tests.running import free_port

CLIENT, SECRET = "sluice-pages", "of+many%kinds:/=?&"
"""The secret has characters that mean something else in a form, or before a password."""
PUBLIC, ROBOT, ROBOT_SECRET = "sluice-desktop", "robot", "only-a-robot-knows"
AUDIENCE = "urn:sluice"
ALGORITHMS = ("RS256", "PS384", "ES256", "ES512", "EdDSA", "Ed25519")
_ROOT = Path(__file__).parents[2]
_MODULE = _ROOT / "web" / "node_modules" / "oidc-provider" / "lib" / "index.js"
_SCRIPT = Path(__file__).with_suffix(".mjs")


def signing_keys(name: str) -> list[dict[str, Any]]:
    """Private keys for `ALGORITHMS`, whose ids begin with the name."""
    made = (
        jwk.RSAKey.generate_key(2048, {"kid": f"{name}-rsa", "use": "sig"}),
        jwk.ECKey.generate_key("P-256", {"kid": f"{name}-p256", "use": "sig"}),
        jwk.ECKey.generate_key("P-521", {"kid": f"{name}-p521", "use": "sig"}),
        jwk.OKPKey.generate_key("Ed25519", {"kid": f"{name}-ed", "use": "sig"}),
    )
    return [dict(key.as_dict(private=True)) for key in made]


class CertifiedIssuer:
    """Starts, stops and asks the issuer; the port stays the same over restarts."""

    def __init__(self) -> None:
        node = shutil.which("node") or shutil.which(str(_ROOT / ".venv" / "bin" / "node"))
        if node is None or not _MODULE.exists():
            pytest.skip("oidc-provider cannot be had here: no certified issuer is asked.")
        self._node = node
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.people: dict[str, dict[str, Any]] = {
            "ada": {"name": "Ada", "groups": ["data-team"]},
            "root": {"groups": ["platform"]},
            "robot": {"groups": ["data-team"]},
        }
        self.resources = {AUDIENCE: {"seconds": 300, "algorithm": "RS256"}, "urn:others": {"seconds": 300, "algorithm": "RS256"}}
        self.keys: Sequence[Mapping[str, Any]] = signing_keys("first")
        self._process: subprocess.Popen[str] | None = None

    def start(self, *, redirect_urls: Sequence[str] = (), algorithm: str = "RS256", id_tokens_alone: bool = False) -> None:
        """Serve, and return once it listens; ``id_tokens_alone`` puts all claims into ID tokens, which a conforming issuer does not."""
        self.stop()
        urls = list(redirect_urls) or ["http://127.0.0.1/nowhere"]
        pages = {"redirect_uris": urls, "id_token_signed_response_alg": algorithm}
        robot = {"grant_types": ["client_credentials"], "response_types": [], "redirect_uris": []}
        given = {
            "port": self.port,
            "people": self.people,
            "resources": self.resources,
            "idTokensAlone": id_tokens_alone,
            "jwks": {"keys": list(self.keys)},
            "enabledJWA": {"idTokenSigningAlgValues": list(ALGORITHMS)},
            "clients": [
                {"client_id": CLIENT, "client_secret": SECRET, **pages},
                {"client_id": PUBLIC, "token_endpoint_auth_method": "none", **pages},
                {"client_id": ROBOT, "client_secret": ROBOT_SECRET, **robot},
            ],
        }
        self._process = subprocess.Popen(
            [self._node, str(_SCRIPT), str(_MODULE), json.dumps(given)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "listens\n"

    def stop(self) -> None:
        """End the process; a stopped one stays so."""
        if self._process is not None:
            process, self._process = self._process, None
            process.communicate(timeout=30)

    def robot_token(self, audience: str = AUDIENCE) -> str:
        """An access token by the client credentials grant: a JWT for this audience."""
        form = {"grant_type": "client_credentials", "resource": audience, "scope": "use"}
        answer = httpx.post(f"{self.url}/token", data=form, auth=(ROBOT, ROBOT_SECRET))
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])

    def log_in(self, url: str, person: str) -> str:
        """Do at its pages what a person does there; the address with which it sends their browser back."""
        with httpx.Client() as browser:
            for _ in range(12):
                answer = browser.get(url)
                if answer.is_redirect:
                    url = urljoin(url, answer.headers["location"])
                else:
                    prompt, action = (
                        re.search(pattern, answer.text) for pattern in (r'name="prompt" value="(\w+)"', r'<form[^>]* action="([^"]+)"')
                    )
                    assert prompt is not None, answer.text
                    assert action is not None, answer.text
                    form = {"prompt": prompt[1], "login": person, "password": "any"}
                    url = urljoin(url, browser.post(urljoin(url, action[1]), data=form).headers["location"])
                if not url.startswith(self.url):
                    return url
        raise AssertionError("The issuer never sends the browser back.")
