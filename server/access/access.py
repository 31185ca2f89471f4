"""Who may call: the token, and pages of other sites that a browser here has open."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from urllib.parse import SplitResult, urlsplit
from uuid import UUID

from flask import g, request

from gateway.origin import ORIGIN
from lake import EVERYBODY, Caller
from model.errors import BadRequest, Forbidden, NotAuthorized, Unavailable
from server.access.cors import allowed_origin
from server.access.visitor import PAGES, check_login, is_page, visiting_identity, visiting_token
from server.process.services import Services
from server.settings.kinds import is_loopback
from server.settings.options import LISTEN
from server.sql.disconnect import PRINCIPAL

OPEN_PATHS = frozenset({"/", "/livez", "/openapi.json", "/docs"})
"""The root only points to the pages."""
_OPEN_PAGES = (f"{PAGES}/static/", f"{PAGES}/login", f"{PAGES}/logout", f"{PAGES}/theme")
_READY_PATH = "/readyz"
NOBODY = Caller(principal="")
"""A visitor of the pages who has not logged in."""


def check_access(services: Services) -> None:
    """Raise `NotAuthorized` or `Forbidden` for a request that may not be answered; what each may do is the lake's to say."""
    g.caller = EVERYBODY
    path = request.path.rstrip("/") or "/"
    if path in OPEN_PATHS:
        return
    if is_page(path) and path.startswith(_OPEN_PAGES):
        g.caller = NOBODY
        with contextlib.suppress(NotAuthorized, Unavailable):
            g.caller = _caller(services)
        return
    try:
        g.caller = _caller(services)
        request.environ[PRINCIPAL] = g.caller.principal
    except Unavailable:
        if path != _READY_PATH:  # which tells that Postgres is away, and nothing else
            raise
    ORIGIN.set(replace(ORIGIN.get(), principal=g.caller.principal))
    session = (request.view_args or {}).get("session")
    if session is not None:
        with contextlib.suppress(ValueError):  # no handle in any spelling; the view says so
            services.gateway.check_owner(str(UUID(session)), g.caller)


def caller() -> Caller:
    """Who sent the request being answered."""
    known = g.caller
    assert isinstance(known, Caller)
    return known


def _caller(services: Services) -> Caller:
    access = services.gateway.lake.access
    open_ = access.open()
    _check_origin(services, open_=open_)
    scheme, _, credential = request.headers.get("Authorization", "").partition(" ")
    token = credential.strip() if scheme.lower() == "bearer" and credential.strip() else None
    if token is None:
        check_login(services.gateway.lake)
    if token is None and not open_ and (visiting := visiting_token()) is not None:
        return access.returning(visiting)
    if token is None and services.oidc is not None and (identity := visiting_identity()) is not None:
        return access.identified(identity)
    return access.caller(token)


def _split(url: str, what: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise BadRequest(f"{what} is no address: {url.removeprefix('//')[:80]!r}.") from None


def _check_origin(services: Services, *, open_: bool) -> None:
    """A web page may not run SQL here through its visitor's browser: neither from its own origin, nor by renaming loopback."""
    host = _split(f"//{request.host}", "The Host header").hostname or ""
    if open_ and not is_loopback(services.settings[LISTEN][0]):  # the last token was revoked on another server
        raise NotAuthorized("This server is reachable from other machines and has no token; make one, or restart it with SLUICE_TOKEN.")
    if open_ and not is_loopback(host):
        raise Forbidden(f"This server answers on loopback addresses only, not as {host}.")
    origin = request.headers.get("Origin")
    if origin is not None and _split(origin, "The Origin header").netloc != request.host and not allowed_origin(open_=open_):
        raise Forbidden(f"Pages of {origin} may not call this server; SLUICE_CORS_ORIGINS names those that may.")
