"""From a request to its handler, and from failures to the protocol's errors."""

from __future__ import annotations

from flask import Blueprint, Response, request
from werkzeug.exceptions import MethodNotAllowed

from model.errors import BadRequest, NotImplementedHere
from server.paimon import access, branches, commits, config, consumers, databases, functions, partitions, tables, tags, views
from server.paimon.routes import CATALOG, encoded, find, raw_segments
from server.sql.bodies import discard

MODULES = (access, branches, commits, config, consumers, databases, functions, partitions, tables, tags, views)
"""Imported for their routes."""
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]

bp = Blueprint("paimon", __name__)


@bp.route("/v1/config", methods=METHODS, provide_automatic_options=False)
def config_() -> Response:
    """What a client asks first."""
    if request.method not in ("GET", "HEAD"):
        discard()
        raise MethodNotAllowed(valid_methods=["GET", "HEAD"])
    return _answer(config.config())


@bp.route(f"/v1/{CATALOG}", methods=METHODS, provide_automatic_options=False, defaults={"path": ""})
@bp.route(f"/v1/{CATALOG}/<path:path>", methods=METHODS, provide_automatic_options=False)
def dispatch(path: str) -> Response:
    """Everything else."""
    route = find(raw_segments(request.environ))
    if route is None:
        discard()
        raise NotImplementedHere(f"This catalog has nothing at {request.path}.")
    handlers, names = route
    method = "GET" if request.method == "HEAD" else request.method
    handler = handlers.get(method)
    if handler is None:
        discard()
        raise MethodNotAllowed(valid_methods=sorted({*handlers, *(["HEAD"] if "GET" in handlers else [])}))
    if any("\0" in name for name in names):
        raise BadRequest("A name in the path holds a NUL character.")
    return _answer(handler(*names))


def _answer(answer: object) -> Response:
    return Response(encoded(answer), 200, content_type="application/json")
