"""A token, or a login at the issuer, opens a session of the browser, and logging out ends it."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from flask import redirect, request, url_for
from flask.typing import ResponseReturnValue

from lake.access.callers import token_digest
from model.errors import BadRequest, NotAuthorized, Unavailable
from server.access.access import caller
from server.access.audit import tell
from server.access.visitor import begin_login, begun_login, log_in, log_in_as, log_out
from server.pages.shell import bp, local_address, render
from server.process.services import services

if TYPE_CHECKING:
    from server.access.oidc import OidcIssuer


@bp.get("/login")
def login() -> ResponseReturnValue:
    """Ask for a token; who needs none, or has shown one, goes on."""
    following = local_address(request.args.get("next", ""))
    if caller().principal:
        return redirect(following, 303)
    return _asked(following)


@bp.post("/login")
def log_in_now() -> ResponseReturnValue:
    """Take a token."""
    token = request.form.get("token", "").strip()
    following = local_address(request.form.get("next", ""))
    access = services().gateway.lake.access
    try:
        known = access.caller(token or None)
        identity = access.issuer.identify(token) if access.issuer is not None else None
        if identity is None and not access.open():
            access.returning(token_digest(token))  # as the next page asks: tokens lent for data are none to log in with
    except NotAuthorized as problem:
        said = problem.message if token else "Paste a token to log in."
        return _asked(following, problem=said)
    if identity is not None:
        log_in_as(identity, until=identity.expires_at)
    else:
        log_in(token)
    tell("logged in", principal=known.principal)
    return redirect(following, 303)


@bp.get("/login/issuer")
def log_in_elsewhere() -> ResponseReturnValue:
    """Send the browser to the issuer, where people log in."""
    issuer = _issuer()
    login = issuer.begin_login(_callback(issuer))
    begin_login(state=login.state, nonce=login.nonce, verifier=login.verifier, next=local_address(request.args.get("next", "")))
    return redirect(login.url, 303)


@bp.get("/login/callback")
def come_back() -> ResponseReturnValue:
    """Take the issuer's answer, of a login that this browser began and of no other."""
    issuer, begun = _issuer(), begun_login()
    following = local_address(begun.get("next", ""))
    if not hmac.compare_digest(begun.get("state", "").encode() or b"-", request.args.get("state", "").encode()):
        return _asked(following, problem="The login was not begun in this browser, or it is over; log in again.")
    try:
        if not issuer.answered(request.args.get("iss")):
            return _asked(following, problem="The answer came from another issuer; log in again.")
        if problem := request.args.get("error_description") or request.args.get("error"):
            return _asked(following, problem=f"The issuer refused: {problem[:200]}")
        code, callback = request.args.get("code", ""), _callback(issuer)
        identity = issuer.finish_login(code, nonce=begun["nonce"], verifier=begun["verifier"], redirect_url=callback)
    except (NotAuthorized, Unavailable) as problem_told:
        tell("login at the issuer refused")
        return _asked(following, problem=problem_told.message)
    log_in_as(identity)
    tell("logged in", principal=identity.principal)
    return redirect(following, 303)


def _issuer() -> OidcIssuer:
    issuer = services().oidc
    if issuer is None or issuer.settings.client_id is None:
        raise BadRequest("Pages log in by tokens here; SLUICE_OIDC_ISSUER and SLUICE_OIDC_CLIENT_ID add an issuer.")
    return issuer


def _callback(issuer: OidcIssuer) -> str:
    return issuer.settings.redirect_url or url_for("pages.come_back", _external=True)


def _asked(following: str, *, problem: str = "") -> ResponseReturnValue:
    issuer = services().oidc
    elsewhere = issuer is not None and issuer.settings.client_id is not None
    return render("login.html", here="", status=401 if problem else 200, following=following, problem=problem, elsewhere=elsewhere)


@bp.post("/logout")
def log_out_now() -> ResponseReturnValue:
    """Forget this browser."""
    log_out(services().gateway.lake)
    return redirect(url_for("pages.login"), 303)
