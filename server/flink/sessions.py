"""What the gateway is, and its sessions: open, look, configure, keep alive, close."""

from __future__ import annotations

from flask import Blueprint, Response, abort

from model.errors import BadRequest, UnsupportedStatement
from model.version import sluice_version
from server.access.access import caller
from server.flink.versions import Version, requested_version
from server.flink.wire import answer, body, handle
from server.process.services import services
from server.sql.bodies import member, strings
from sql.execution.session_settings import check_of_client, with_defaults

bp = Blueprint("sessions", __name__)
PRODUCT = "Sluice"


@bp.get("/api_versions")
def api_versions() -> Response:
    """The versions clients choose from."""
    return answer({"versions": [each.name for each in Version]})


@bp.get("/info")
def info() -> Response:
    """Product and version."""
    return answer({"productName": PRODUCT, "version": sluice_version()})


@bp.post("/sessions")
def open_session() -> Response:
    """Open a session with the client's properties, of which Flink's clients send all that stands in their configuration."""
    sent = body()
    name, properties = member(sent, "sessionName", str), strings(sent, "properties")
    check_of_client(properties)  # a statement would take effect, and its answer be none that can be written
    return answer({"sessionHandle": services().gateway.open_session(name, properties, caller=caller())})


@bp.get("/sessions/<session>")
def session_properties(session: str) -> Response:
    """What the session has set, and what holds without that where the client would assume something else."""
    return answer({"properties": with_defaults(services().gateway.session_properties(handle(session)))})


@bp.delete("/sessions/<session>")
def close_session(session: str) -> Response:
    """Close a session and all its operations."""
    services().gateway.close_session(handle(session))
    return answer({"status": "CLOSED"})


@bp.post("/sessions/<session>/heartbeat")
def heartbeat(session: str) -> Response:
    """Keep a session from expiring."""
    services().gateway.heartbeat(handle(session))
    return answer({})


@bp.post("/sessions/<session>/configure-session")
def configure_session(session: str) -> Response:
    """Run a statement that shapes the session."""
    if requested_version() < Version.V2:
        abort(404)
    sent = body()
    timeout = member(sent, "executionTimeout", int) or 0
    if timeout < 0:
        raise UnsupportedStatement("executionTimeout must not be negative.")
    text = member(sent, "statement", str, required=True)
    try:
        services().gateway.configure_session(handle(session), text, timeout=timeout / 1000 if timeout else None, caller=caller())
    except BadRequest as refusal:  # the request is well formed, so this protocol calls it no bad request
        raise UnsupportedStatement(refusal.message) from refusal
    return answer({})


@bp.get("/sessions/<session>/complete-statement")
def complete_statement(session: str) -> Response:
    """Candidates for what stands at a position; the request is a GET with a body."""
    if requested_version() < Version.V2:
        abort(404)
    sent = body()
    text = member(sent, "statement", str, required=True)
    position = member(sent, "position", int)
    candidates = services().gateway.complete(handle(session), text, len(text) if position is None else position, caller=caller())
    return answer({"candidates": candidates})
