"""Pages of other origins that may call this server from a browser (`SLUICE_CORS_ORIGINS`)."""

from __future__ import annotations

from flask import Response, current_app, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from model.errors import Forbidden
from server.process.services import services
from server.settings.options import CORS_ORIGINS

_HEADERS = "Accept, Authorization, Content-Encoding, Content-Type, Idempotency-Key, Prefer, X-Request-Id"
_SHOWN = "Allow, Link, Location, Preference-Applied, Retry-After, X-Request-Id"
_SECONDS = "600"


def allowed_origin(*, open_: bool) -> bool:
    """Whether the present request's origin is among those named; `*` names all, but not where anybody may do anything (``open_``)."""
    named = services().settings[CORS_ORIGINS]
    return request.headers.get("Origin") in named or ("*" in named and not open_)


def answer_preflight() -> Response | None:
    """The answer to a browser that asks before it sends a page's request; it brings no token. Raises `Forbidden`."""
    if request.method != "OPTIONS" or "Access-Control-Request-Method" not in request.headers or "Origin" not in request.headers:
        return None
    if not allowed_origin(open_=services().gateway.lake.access.open()):
        raise Forbidden(f"Pages of {request.headers['Origin']} may not call this server; SLUICE_CORS_ORIGINS names those that may.")
    response = Response(status=204)
    response.headers["Access-Control-Allow-Methods"] = ", ".join(sorted(_methods()))
    response.headers["Access-Control-Allow-Headers"] = _HEADERS
    response.headers["Access-Control-Max-Age"] = _SECONDS
    return response


def _methods() -> set[str]:
    adapter = current_app.url_map.bind("")
    try:
        return set(adapter.allowed_methods(request.path))
    except (MethodNotAllowed, HTTPException):
        return set()


def show_to_origin(response: Response) -> Response:
    """Let a page that may call read the answer, also a refusal's."""
    if services().settings[CORS_ORIGINS] and "Origin" in request.headers:
        response.vary.add("Origin")
        if allowed_origin(open_=False) and response.status_code != 403:
            response.headers["Access-Control-Allow-Origin"] = request.headers["Origin"]
            response.headers["Access-Control-Expose-Headers"] = _SHOWN
    return response
