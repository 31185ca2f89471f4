"""Who a browser is: a signed cookie that names its token by digest, and the secret its forms carry."""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from flask import Flask, Request, request, session
from flask.sessions import SecureCookieSession, SecureCookieSessionInterface
from itsdangerous import SignatureExpired, TimestampSigner, URLSafeTimedSerializer

from lake import Lake
from lake.access.callers import Identity, token_digest
from lake.clock import APART
from lake.peers import end_login, is_ended, pages_key
from model.errors import Forbidden, LakeError

_log = logging.getLogger(__name__)
PAGES = "/ui"
FORM_FIELD = "_csrf"
FORM_HEADER = "X-CSRF-Token"
"""With it, a page's script may call the other protocols as whoever is logged in; without it, the cookie counts on pages alone."""
_HOURS = 12
_KEY_BYTES = 32
_TOKEN, _SECRET, _IDENTITY, _LOGIN, _ID = "token", "form", "identity", "login", "id"


def is_page(path: str) -> bool:
    """Whether a path belongs to the pages."""
    return path == PAGES or path.startswith(f"{PAGES}/")


class _Signer(TimestampSigner):
    """Takes what another server signed whose clock is ahead of this one's: that is of the future, which the base class refuses."""

    def unsign(self, signed_value: str | bytes, max_age: int | None = None, return_timestamp: bool = False) -> Any:
        """As the base class; raises `SignatureExpired` also for what was signed later than servers' clocks may differ."""
        value, signed_at = super().unsign(signed_value, return_timestamp=True)
        age = self.get_timestamp() - int(signed_at.timestamp())
        if max_age is not None and not -APART.total_seconds() <= age <= max_age:
            raise SignatureExpired(f"It was signed {age} seconds ago.", payload=value, date_signed=signed_at)
        return (value, signed_at) if return_timestamp else value


class _Sessions(SecureCookieSessionInterface):
    """Cookies of pages and of their scripts; programs have none, and pay nothing for it."""

    def get_signing_serializer(self, app: Flask) -> URLSafeTimedSerializer | None:
        made = super().get_signing_serializer(app)
        if made is not None:
            made.signer = _Signer
        return made

    def open_session(self, app: Flask, request: Request) -> SecureCookieSession | None:
        if is_page(request.path) or FORM_HEADER in request.headers:
            return super().open_session(app, request)
        return None


def remember_visitors(app: Flask, lake: Lake, *, secure: bool) -> None:
    """Let an app know its visitors again, also after a restart and on every server of the catalog; other catalogs' logins are others."""
    app.secret_key = key = _key(lake)
    app.session_interface = _Sessions()
    app.config.update(
        SESSION_COOKIE_NAME=f"sluice_{hashlib.sha256(key).hexdigest()[:8]}",
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SECURE=secure,
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_REFRESH_EACH_REQUEST=False,
        PERMANENT_SESSION_LIFETIME=timedelta(hours=_HOURS),
    )


def _key(lake: Lake) -> bytes:
    """The signing key of the catalog's servers, made by the first of them."""
    made = secrets.token_bytes(_KEY_BYTES)
    try:
        return pages_key(lake.catalog, made)
    except LakeError:
        _log.warning("The key for the pages' cookies cannot be read: logins end with this process", exc_info=True)
        return made


def log_in(token: str) -> None:
    """Know this browser by its token from now on."""
    _begin()
    session[_TOKEN] = token_digest(token).hex()


def log_in_as(identity: Identity, *, until: float | None = None) -> None:
    """Know this browser by the word of the issuer from now on, for some hours, and not beyond ``until``, in seconds since 1970.

    The cookie is signed, and its holder may read who it says they are.
    """
    _begin()
    ours = time.time() + _HOURS * 3600
    until = ours if until is None else min(ours, until)
    session[_IDENTITY] = {"principal": identity.principal, "roles": sorted(identity.roles), "until": until}


def _begin() -> None:
    """Begin a login that has an id of its own, by which it can be ended wherever its cookie is."""
    session.clear()
    session.permanent = True
    session[_ID] = uuid4().hex


def begin_login(**kept: str) -> None:
    """Keep what the answer of an issuer will be judged by."""
    session.permanent = True
    session[_LOGIN] = kept


def begun_login() -> dict[str, str]:
    """What `begin_login` kept, once; empty where this browser began none."""
    login = session.pop(_LOGIN, None)
    return login if isinstance(login, dict) else {}


def visiting_identity() -> Identity | None:
    """Who this browser logged in as by the issuer; None for one that did not, or whose call is no page's."""
    if not _counts():
        return None
    identity = session.get(_IDENTITY)
    if not isinstance(identity, dict):
        return None
    return Identity(principal=str(identity["principal"]), roles=frozenset(identity["roles"]), expires_at=float(identity["until"]))


def check_login(lake: Lake) -> None:
    """Forget a browser whose login was ended, or is of an earlier version, whose logins could not be; raises `Unavailable`."""
    if _TOKEN not in session and _IDENTITY not in session:
        return
    login = visiting_login()
    if login is None or is_ended(lake.catalog, login):
        forget()


def _counts() -> bool:
    """Whether the cookie says who calls: on pages, and for their scripts."""
    return is_page(request.path) or (FORM_HEADER in request.headers and form_is_ours())


def forget() -> None:
    """Know nothing of this browser any more."""
    session.clear()


def log_out(lake: Lake) -> None:
    """Forget who this browser is, and end its login, so that a copy of its cookie is worth nothing; raises `Unavailable`."""
    login = visiting_login()
    forget()
    if login is not None:
        # By the clock of Postgres; its cookie ends by that of whoever sees it, and began by that of whoever signed it.
        end_login(lake.catalog, login, seconds=_HOURS * 3600 + 2 * APART.total_seconds())


def visiting_login() -> UUID | None:
    """The id of the login this browser has; None for one that has none."""
    login = session.get(_ID)
    return UUID(login) if isinstance(login, str) else None


def visiting_token() -> bytes | None:
    """The digest of the token this browser logged in with; None for one that did not, or whose call is no page's."""
    if _counts():
        digest = session.get(_TOKEN)
        return bytes.fromhex(digest) if isinstance(digest, str) else None
    return None


def form_secret() -> str:
    """What every form of this browser carries."""
    secret = session.get(_SECRET)
    if not isinstance(secret, str):
        session.permanent = True
        secret = session[_SECRET] = secrets.token_urlsafe(24)
    return secret


def form_is_ours() -> bool:
    """Whether the request carries the secret of this browser's forms."""
    secret = session.get(_SECRET)
    sent = request.headers.get(FORM_HEADER) or request.form.get(FORM_FIELD, "")
    return isinstance(secret, str) and hmac.compare_digest(secret.encode(), sent.encode())


def check_form() -> None:
    """Raise `Forbidden` for a form that another site sent, or that is older than its browser's cookie."""
    if not form_is_ours():
        raise Forbidden("The form is not of this session any more: go back, load the page again and send it once more.")
