"""What all pages share: the menu, the headers, the layout's values, and the page that tells of a failure."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from flask import Blueprint, Flask, Response, g, make_response, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from jinja2 import StrictUndefined

from model.errors import NotAuthorized
from server.access.access import NOBODY, caller
from server.access.audit import leave_out
from server.access.visitor import FORM_FIELD, PAGES, check_form, form_secret, is_page
from server.errors import failure_of, request_id
from server.pages.actions import told
from server.pages.rendering import formatting as shown

bp = Blueprint("pages", __name__, url_prefix=PAGES, template_folder="templates", static_folder="static", static_url_path="/static")
_LABELS = ("Overview", "Catalog", "SQL", "Jobs", "Statements", "Sessions", "Compactions", "Access", "Quotas", "Settings")
_STATIC_SECONDS = 3600
_THEMES = ("light", "dark")
_THEME = "sluice_theme"
_YEAR = 365 * 24 * 3600
_VENDOR = Path(__file__).parent / "static" / "vendor"
V = TypeVar("V", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuEntry:
    """A page in the menu."""

    label: str
    endpoint: str
    administrators: bool = False
    """Whether only administrators are shown it."""


_MENU: dict[str, MenuEntry] = {}


def in_menu(label: str, *, administrators: bool = False) -> Callable[[V], V]:
    """Put a view into the menu; its place is that of the label in the list of labels."""

    def register(view: V) -> V:
        _MENU[label] = MenuEntry(label=label, endpoint=f"{bp.name}.{view.__name__}", administrators=administrators)
        return view

    return register


def render(template: str, *, here: str, status: int = 200, **values: Any) -> Response:
    """A page; ``here`` is its menu entry's label. Templates are handed what they use, and nothing else is defined in them."""
    me = caller()
    menu = [_MENU[label] for label in _LABELS if label in _MENU and (me.administrator or not _MENU[label].administrators)]
    shell = {
        "menu": menu if me.principal else [],
        "here": here,
        "principal": me.principal,
        "administrator": me.administrator,
        "theme": _theme(),
        "notes": told(),
        "form_field": FORM_FIELD,
        "form_secret": form_secret,
        "style_nonce": g.style_nonce,
        "vendored": vendored,
    }
    answer = make_response(render_template(template, **shell, **values), status)
    answer.headers["Cache-Control"] = "no-store"
    return answer


def vendored(name: str) -> str:
    """The address of a browser library's file where `make install` could get it, else nothing: pages work without."""
    return url_for("pages.static", filename=f"vendor/{name}") if (_VENDOR / name).is_file() else ""


def page_failure(error: Exception) -> ResponseReturnValue:
    """A failure as a page; who has not logged in is asked to."""
    if isinstance(error, NotAuthorized):
        back = request.full_path.rstrip("?") if request.method == "GET" else url_for("pages.overview")
        g.caller = NOBODY
        return redirect(url_for("pages.login", next=back), 303)
    failure = failure_of(error, request_id())
    if "style_nonce" not in g:
        _begin()
    return render("failure.html", here="", status=failure.status, failure=failure, request_id=request_id())


def add_shell(app: Flask) -> None:
    """Register the pages, and strict templates."""
    app.jinja_env.undefined = StrictUndefined
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters.update(shown.FILTERS)
    app.before_request(_begin)
    app.after_request(_guard)
    app.register_blueprint(bp)
    app.add_url_rule("/", "root", _root, methods=["GET"])


def _root() -> ResponseReturnValue:
    return redirect(url_for("pages.overview"))


def _begin() -> None:
    if is_page(request.path):
        g.style_nonce = secrets.token_urlsafe(12)


@bp.before_request
def _check_forms() -> None:
    if request.method not in ("GET", "HEAD", "OPTIONS"):
        check_form()


def _guard(response: Response) -> Response:
    """Nothing but our own files, no inline script, no frame around us; also where there is no such page."""
    if not is_page(request.path):
        return response
    nonce = f" 'nonce-{g.style_nonce}'" if "style_nonce" in g else ""
    response.headers["Content-Security-Policy"] = (
        f"default-src 'none'; script-src 'self'; style-src 'self'{nonce}; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    response.headers["X-Frame-Options"] = "DENY"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "same-origin"
    if request.endpoint == "pages.static":
        response.headers["Cache-Control"] = f"public, max-age={_STATIC_SECONDS}"
    return response


@bp.post("/theme")
def theme() -> ResponseReturnValue:
    """Keep light or dark for this browser; anything else follows the system again."""
    leave_out()
    chosen = request.form.get("theme", "")
    answer = make_response(redirect(local_address(request.form.get("back", "")), 303))
    if chosen in _THEMES:
        answer.set_cookie(_THEME, chosen, max_age=_YEAR, path=PAGES, samesite="Lax", httponly=True)
    else:
        answer.delete_cookie(_THEME, path=PAGES)
    return answer


def local_address(address: str) -> str:
    """Where to go back to: a page of ours, whatever was asked for."""
    inside = address.startswith(f"{PAGES}/") and "\\" not in address and not any(ord(c) < 0x20 for c in address)
    return address if inside else url_for("pages.overview")


def _theme() -> str:
    theme = request.cookies.get(_THEME, "")
    return theme if theme in _THEMES else "system"
