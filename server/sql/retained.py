"""``/statements``: how far a statement is, its result where it is kept, and its end."""

from __future__ import annotations

import math
import time
from typing import Any

from flask import Blueprint, request
from flask.typing import ResponseReturnValue

from gateway.operation import Operation
from gateway.retained_results import RetainedResult
from model.errors import BadRequest, OutcomeUnknown
from model.options.masking import masked_text
from model.text.whole_number import whole_number
from server.access.access import caller
from server.access.audit import tell
from server.errors import problem_document, request_id
from server.formats import negotiate
from server.openapi.document import documented, json_of, query
from server.openapi.schemas import RESULTS, WAIT
from server.process.services import services
from server.sql.streaming import stream
from sql.execution.results import ResultSet

bp = Blueprint("kept", __name__, url_prefix="/statements")
MOST_WAIT_SECONDS = 30.0
"""How long an answer is held back at most until a statement has ended."""
_LAST_PAGE = 999_999_999


@bp.get("/<statement>")
@documented(tag="sql", parameters=(WAIT,), answers={200: json_of("Status")}, errors=(404, 410))
def show_statement(statement: str) -> ResponseReturnValue:
    """How far a statement is that waits, runs, or is kept: by its id, its request's id, or its handle in Flink's protocol."""
    wait = _number("wait", 0.0)
    gateway = services().gateway
    operation = gateway.kept_or_running(statement, caller=caller())
    _wait(operation, wait)
    return status_of(operation, gateway.kept.find(operation.handle, caller())), 200, {"Cache-Control": "no-store"}


@bp.delete("/<statement>")
@documented(tag="sql", answers={200: json_of("Ended")}, errors=(404, 410))
def cancel_statement(statement: str) -> ResponseReturnValue:
    """Stop a statement that waits or runs; let the result of a kept one go.

    One that commits at that moment ends as that does. Where that takes longer ``error`` says that nobody knows yet what becomes of it.
    """
    gateway = services().gateway
    operation = gateway.kept_or_running(statement, caller=caller())
    if operation.principal != caller().principal:
        tell(f"a statement of {operation.principal}")  # whose entry does not say who canceled it
    services().cancel(operation, caller())
    body: dict[str, Any] = {"statementId": operation.handle, "state": operation.state}
    if _is_open(operation):
        body["error"] = _error_of(operation)
    elif operation.state.terminal and (retained := gateway.kept.find(operation.handle, caller())) is not None:
        gateway.kept.forget(retained)  # not where the outcome is not known yet: whoever has to look finds it here
    return body


@bp.get("/<statement>/result")
@documented(
    tag="sql",
    parameters=(WAIT, query("page", {"type": "integer", "minimum": 0, "maximum": _LAST_PAGE}, "One page, from 0; without it all rows.")),
    answers={200: RESULTS, 202: json_of("Status")},
    errors=(404, 406, 408, 409, 410, 413, 429, 507),
    headers={200: {"Link": "The next page, where there is one."}, 202: {"Location": "Where the statement's state is."}},
)
def show_result(statement: str) -> ResponseReturnValue:
    """A kept statement's rows, all of them or one page, in the format asked for; as often as asked for."""
    format_ = negotiate(request.headers.get("Accept"))
    wait, page_text = _number("wait", 0.0), request.args.get("page")
    page = None if page_text is None else whole_number(page_text, most=_LAST_PAGE)
    if page_text is not None and page is None:
        raise BadRequest(f"A page is a whole number from 0 on, not {page_text!r}.")
    retained = services().gateway.kept.get(statement, caller())
    if not _wait(retained.operation, wait):
        return (
            status_of(retained.operation, retained),
            202,
            {"Location": f"/statements/{retained.operation.handle}", "Retry-After": "1"},
        )
    response = stream(retained.result() if page is None else _page(retained, page), format_, release=lambda: None)
    response.headers["Cache-Control"] = "no-store"
    if page is not None and retained.has_page(page + 1):
        response.headers["Link"] = f'</statements/{retained.operation.handle}/result?page={page + 1}>; rel="next"'
    return response


def _wait(operation: Operation, seconds: float) -> bool:
    """Whether a statement has ended, after so many seconds at most; at once where a quarter of the threads wait."""
    with services().may_wait(caller()) as may:
        return operation.wait(min(seconds, MOST_WAIT_SECONDS) if may else 0.0)


def status_of(operation: Operation, retained: RetainedResult | None) -> dict[str, Any]:
    """What is told of a statement."""
    ended = operation.shown_state.terminal
    seconds = ((operation.ended if ended else None) or time.time()) - operation.submitted
    progress = operation.progress.record() if ended else services().gateway.progress(operation)
    body: dict[str, Any] = {
        "statementId": operation.handle,
        "state": operation.shown_state,
        "seconds": round(seconds, 3),
        "progress": progress.to_json(),
    }
    if retained is None or not ended:
        return body | {"error": _error_of(operation)} if _is_open(operation) else body
    expires = retained.expires
    body["expiresAt"] = expires.isoformat(timespec="seconds") if expires is not None else None
    if operation.error is not None:
        return body | {"error": _error_of(operation)}
    return body | {"result": f"/statements/{operation.handle}/result"}


def _is_open(operation: Operation) -> bool:
    """Whether it has ended and nobody knows what became of it."""
    return isinstance(operation.error, OutcomeUnknown)


def _error_of(operation: Operation) -> dict[str, Any]:
    """The failure a statement ended with, as a problem document; whoever looks at another's sees no secrets in what took effect."""
    assert operation.error is not None
    document = problem_document(operation.error, operation.name or request_id())
    if operation.principal != caller().principal and "completed" in document:
        document["completed"] = [masked_text(text) for text in document["completed"]]
    return document


def _page(retained: RetainedResult, number: int) -> ResultSet:
    """One page as a result of its own."""
    batches = retained.page(number)
    result = ResultSet(retained.columns(), lambda: iter(batches), is_query=True)
    outcome = retained.operation.outcome()
    result.truncated, result.notices = not retained.has_page(number + 1) and outcome.truncated, outcome.notices
    return result


def _number(name: str, default: float) -> float:
    raw = request.args.get(name)
    try:
        value = default if raw is None else float(raw)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise BadRequest(f"{name} is a number of seconds from 0 on, not {raw!r}.")
    return value
