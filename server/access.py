"""Who may call: the token, and pages of other sites that a browser here has open."""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

from flask import request

from model.errors import Forbidden, NotAuthorized
from server.options import Settings, is_loopback

OPEN_PATHS = frozenset({"/livez"})


def check_access(settings: Settings) -> None:
    """Raise `NotAuthorized` or `Forbidden` for a request that may not be answered."""
    if request.path.rstrip("/") in OPEN_PATHS:
        return
    _check_origin(settings)
    if settings.token is not None:
        _check_token(settings.token)


def _check_token(token: str) -> None:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not given:
        raise NotAuthorized("This server wants a token: send the header 'Authorization: Bearer …'.")
    if not hmac.compare_digest(given.strip().encode(), token.encode()):
        raise NotAuthorized("The token is not one this server knows.")


def _check_origin(settings: Settings) -> None:
    """A web page may not run SQL here through its visitor's browser: neither from its own origin, nor by renaming loopback."""
    host = urlsplit(f"//{request.host}").hostname or ""
    if settings.token is None and is_loopback(settings.listen[0]) and not is_loopback(host):
        raise Forbidden(f"This server answers on loopback addresses only, not as {host}.")
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc != request.host:
        raise Forbidden(f"Pages of {origin} may not call this server.")
