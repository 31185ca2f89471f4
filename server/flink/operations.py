"""An operation's status, cancel and close."""

from __future__ import annotations

from flask import Blueprint, Response

from server.flink.wire import answer, handle
from server.process.services import services

bp = Blueprint("operations", __name__, url_prefix="/sessions/<session>/operations/<operation>")


@bp.get("/status")
def status(session: str, operation: str) -> Response:
    """Where the operation is."""
    return answer({"status": services().gateway.status(handle(session), handle(operation))})


@bp.post("/cancel")
def cancel(session: str, operation: str) -> Response:
    """Stop the operation; one that has ended already cannot be."""
    return answer({"status": services().gateway.cancel(handle(session), handle(operation))})


@bp.delete("/close")
def close(session: str, operation: str) -> Response:
    """Forget the operation and its result; twice is fine."""
    services().gateway.close_operation(handle(session), handle(operation))
    return answer({"status": "CLOSED"})
