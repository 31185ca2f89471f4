"""An operation's status, cancel and close."""

from __future__ import annotations

from flask import Blueprint, Response

from server.access.access import caller
from server.flink.wire import answer, handle
from server.process.services import CANCEL_SECONDS, services

bp = Blueprint("operations", __name__, url_prefix="/sessions/<session>/operations/<operation>")


@bp.get("/status")
def status(session: str, operation: str) -> Response:
    """Where the operation is."""
    return answer({"status": services().gateway.status(handle(session), handle(operation))})


@bp.post("/cancel")
def cancel(session: str, operation: str) -> Response:
    """Stop the operation; one that has ended already cannot be, and one that commits at that moment ends as that does."""
    with services().may_wait(caller()) as may:
        status = services().gateway.cancel(handle(session), handle(operation), wait=CANCEL_SECONDS if may else 0.0)
    return answer({"status": status})


@bp.delete("/close")
def close(session: str, operation: str) -> Response:
    """Forget the operation and its result; twice is fine."""
    services().gateway.close_operation(handle(session), handle(operation))
    return answer({"status": "CLOSED"})
