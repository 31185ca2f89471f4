"""The Flask app: wires services to the endpoints, and knows what all of them share."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

from flask import Flask, Response, g, request
from flask.typing import ResponseReturnValue

from gateway.origin import ORIGIN, Origin
from server.access.access import check_access
from server.access.audit import audit, row_of
from server.access.cors import answer_preflight, show_to_origin
from server.access.visitor import is_page
from server.errors import flink_error, paimon_error, problem, request_id, speaks_flink, speaks_paimon
from server.http.compression import decode_request, encode_response
from server.http.forms import PageRequest
from server.observe.metrics import measure, protocol_of
from server.observe.request_log import log_requests
from server.pages.routes import add_pages
from server.pages.shell import page_failure
from server.process.services import EXTENSION, Services
from server.settings.options import AUDIT_ERASURES
from server.sql.forward import came_from, pass_on, prove

if TYPE_CHECKING:
    from server.observe.traces import Maker

_SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,100}")


def create_app(services: Services, *, maker: Maker | None = None) -> Flask:
    """Put the endpoints in front of running services, traced by a maker of spans; nothing is started here."""
    from server.access import tokens
    from server.flink import FLINK_BLUEPRINTS
    from server.observe import health, metrics
    from server.openapi import page as api_page
    from server.paimon.dispatch import bp as PAIMON_BLUEPRINT
    from server.sql import jobs, rows, statements
    from server.sql import retained as kept

    app = Flask("sluice", static_folder=None)
    app.request_class = PageRequest
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False  # a client of no protocol here follows a redirect
    app.extensions[EXTENSION] = services
    measure(app, services.gateway)
    app.before_request(lambda: prove(services))
    app.before_request(lambda: _name_request(services))
    if maker is not None:
        from server.observe.traces import trace

        trace(app, maker)
    app.before_request(answer_preflight)
    app.before_request(lambda: check_access(services))
    app.before_request(lambda: pass_on(services))
    app.before_request(decode_request)
    app.after_request(encode_response)
    app.after_request(show_to_origin)
    app.after_request(_show_id)
    if services.settings.log_requests:
        log_requests(app)
    if services.settings.audit_kept:
        audit(app, services.gateway.lake.audit)
        erasures = services.settings[AUDIT_ERASURES]
        log = services.gateway.lake.audit
        services.gateway.listen(lambda operation: log.note(row_of(operation, erasures=erasures, digest=log.digest)))
    app.register_error_handler(Exception, _answer_failure)
    own = (health, metrics, statements, kept, rows, tokens, jobs)
    for blueprint in (*(module.bp for module in own), api_page.bp, api_page.page, *FLINK_BLUEPRINTS, PAIMON_BLUEPRINT):
        app.register_blueprint(blueprint)
    add_pages(app, services)
    return app


def _name_request(services: Services) -> None:
    """Keep a client's own id where it is one, and its address where another server passed it on: all logs speak of the same request."""
    name = request.headers.get("X-Request-Id", "")
    g.request_id = name if _SANE_ID.fullmatch(name) else f"{random.getrandbits(128):032x}"
    came_from(services)
    ORIGIN.set(Origin(protocol=protocol_of(request.path), address=request.remote_addr, request_id=g.request_id))


def _show_id(response: Response) -> Response:
    response.headers["X-Request-Id"] = request_id()
    return response


def _answer_failure(error: Exception) -> ResponseReturnValue:
    if is_page(request.path):
        return page_failure(error)
    if speaks_paimon(request.path):
        return paimon_error(error)
    return flink_error(error, request.path) if speaks_flink(request.path) else problem(error)
