"""A token opens a session of the browser, and logging out ends it."""

from __future__ import annotations

from flask import redirect, request, url_for
from flask.typing import ResponseReturnValue

from model.errors import NotAuthorized
from server.access import caller
from server.pages.shell import bp, local_address, render
from server.services import services
from server.visitor import log_in, log_out


@bp.get("/login")
def login() -> ResponseReturnValue:
    """Ask for a token; who needs none, or has shown one, goes on."""
    following = local_address(request.args.get("next", ""))
    if caller().principal:
        return redirect(following, 303)
    return render("login.html", here="", following=following, problem="")


@bp.post("/login")
def log_in_now() -> ResponseReturnValue:
    """Take a token."""
    token = request.form.get("token", "").strip()
    following = local_address(request.form.get("next", ""))
    try:
        services().gateway.lake.access.caller(token or None)
    except NotAuthorized as problem:
        said = problem.message if token else "Paste a token to log in."
        return render("login.html", here="", status=401, following=following, problem=said)
    log_in(token)
    return redirect(following, 303)


@bp.post("/logout")
def log_out_now() -> ResponseReturnValue:
    """Forget this browser."""
    log_out()
    return redirect(url_for("pages.login"), 303)
