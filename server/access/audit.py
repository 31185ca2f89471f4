"""What goes into the audit log: every text that ran, and every request of the other protocols that may change something."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from http import HTTPStatus

from flask import Flask, Response, g, request

from catalog.records import AuditRow
from gateway.operation import Operation
from lake.access.audit import AuditLog
from model.options.masking import erases, masked_secrets
from server.errors import request_id
from server.observe.metrics import protocol_of

_MOST_CHARS = 10_000
_CHANGING = frozenset({"POST", "PUT", "DELETE", "PATCH"})
_PROTOCOLS = frozenset({"paimon", "rows", "tokens", "jobs", "pages"})
"""Protocols whose requests are actions themselves, but for those that run a text; on the others the texts are."""
AUDITED = "X-Sluice-Audited"
"""On the answer to a server that passed a request on: the audit log has what is to be told of it. Nobody else between the two says so."""


def audit(app: Flask, log: AuditLog) -> None:
    """Note the requests of an app."""

    def note(response: Response) -> Response:
        spoken = protocol_of(request.path)
        action = "audited" in g or (spoken in _PROTOCOLS and request.method in _CHANGING)
        unknown = "passed_on_here" in g and response.status_code == HTTPStatus.NOT_FOUND  # who asked has the entry
        if "passed_on_here" in g and not unknown:
            response.headers[AUDITED] = "1"
        if action and not unknown and "audited_elsewhere" not in g:
            log.note(
                AuditRow(
                    time=dt.datetime.now(dt.UTC),
                    principal=g.get("audited_principal") or (g.caller.principal if "caller" in g else ""),
                    protocol=spoken,
                    address=request.remote_addr,
                    request_id=request_id(),
                    session=None,
                    statement_id=None,
                    action=f"{request.method} {request.path}{g.get('audited', '')}"[:_MOST_CHARS].replace("\0", ""),
                    outcome="FINISHED" if response.status_code < 400 else "ERROR",
                    error_class=None if response.status_code < 400 else str(response.status_code),
                    millis=int((time.perf_counter() - g.began) * 1000),
                )
            )
        return response

    app.after_request(note)


def tell(what: str, *, principal: str | None = None) -> None:
    """Let the log say more of the request than its path, and of whom it tells where the request began without one."""
    g.audited = f" /* {what.replace('*/', '* /')} */"
    g.audited_principal = principal


def leave_out() -> None:
    """Let the log have no entry of the request: its text has one, or nothing was done."""
    g.audited_elsewhere = True


Digest = Callable[[bytes], str | None]
"""A keyed digest of what an erasure named; None where there is no key."""


def row_of(operation: Operation, *, erasures: bool = False, digest: Digest = lambda named: None) -> AuditRow:
    """A text that ended, as the log keeps it; with what it named where it erases rows only if ``erasures`` are kept."""
    now = time.time()
    text = masked_secrets(operation.text) if erasures else operation.masked
    return AuditRow(
        time=dt.datetime.fromtimestamp(now, dt.UTC),
        principal=operation.principal,
        protocol=operation.origin.protocol,
        address=operation.origin.address,
        request_id=operation.origin.request_id,
        session=operation.session,
        statement_id=operation.handle,
        action=(text[:_MOST_CHARS] + _erased(operation, digest)).replace("\0", ""),
        outcome=operation.state.value,
        error_class=None if operation.error is None else getattr(operation.error, "error_class", "InternalError"),
        millis=max(0, int((now - operation.submitted) * 1000)),
    )


def _erased(operation: Operation, digest: Digest) -> str:
    """Of a text that deletes rows: how many they were, and a digest by which who has the text and its parameters knows it again."""
    if not erases(operation.text):
        return ""
    result = operation.result
    rows = None if result is None else result.erased_rows if result.affected_rows is None else result.affected_rows
    known = digest(named_by(operation.text, operation.values()))
    return f" /* rows: {'unknown' if rows is None else rows}, keyed digest: {known or 'unknown'} */"


def named_by(text: str, values: bytes = b"") -> bytes:
    """What an erasure names: its text, which has the table and the condition, and the values of its parameters."""
    return text.strip().encode() + b"\0" + values
