"""``POST /sql``: text in, the last result out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response, request
from flask.typing import ResponseReturnValue

from gateway.gateway import RunningStatement
from model.errors import BadRequest
from server.access.access import caller
from server.errors import request_id
from server.formats import Format, negotiate
from server.openapi.document import documented, json_of
from server.openapi.schemas import IDEMPOTENCY, RESULTS, SQL_PARAMETERS, TEXT
from server.process.services import services
from server.sql.disconnect import CONNECTION, Client
from server.sql.request import read_request
from server.sql.retained import status_of
from server.sql.streaming import stream
from sql.execution.results import ResultSet

bp = Blueprint("statements", __name__)


@bp.post("/sql")
@documented(
    tag="sql",
    parameters=(*SQL_PARAMETERS, IDEMPOTENCY),
    body={**json_of("SqlRequest"), "application/sql": TEXT},
    answers={200: RESULTS, 202: json_of("Status")},
    errors=(404, 406, 408, 409, 413, 415, 422, 429, 507),
    headers={202: {"Location": "Where the statement's state is."}},
)
def run_sql() -> ResponseReturnValue:
    """Run the statements of the body and stream the last one's rows in the format asked for, or keep them to be asked for."""
    format_ = negotiate(request.headers.get("Accept"))
    wanted = read_request()
    options = wanted.for_gateway() | {"idempotency_key": idempotency_key(), "caller": caller(), "name": request_id()}
    if wanted.later:
        retained = services().gateway.keep(wanted.statement, **options)
        headers = {
            "Location": f"/statements/{retained.operation.handle}",
            "Preference-Applied": "respond-async",
            "Cache-Control": "no-store",
        }
        return status_of(retained.operation, retained), 202, headers
    return streamed(wanted.statement, format_, request.headers.get("Accept"), **options)


def streamed(text: str, format_: Format, accepted: str | None, **options: Any) -> Response:
    """Run a text as long as the present client waits, and stream its rows; rows without end in a format it accepts for those."""
    link = _ClientLink()
    try:
        result = services().gateway.run(text, **options, on_start=link.started)
    except BaseException:
        link.release()
        raise
    link.take(result)
    if result.unbounded:
        format_ = _endless(result, link, accepted)
    return stream(result, format_, release=link.release)


def _endless(result: ResultSet, link: _ClientLink, accepted: str | None) -> Format:
    """The format for rows without end."""
    try:
        return negotiate(accepted, endless=True)
    except BaseException:
        result.close()
        link.release()
        raise


def idempotency_key() -> str | None:
    """The key under which the client may repeat this request; raises `BadRequest` for one that is none."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not 1 <= len(key.strip()) <= 255:
        raise BadRequest("An Idempotency-Key has between 1 and 255 characters.")
    return key.strip()


class _ClientLink:
    """Ties a running statement to the client that waits for it."""

    def __init__(self) -> None:
        self._result: ResultSet | None = None
        self._left = False
        self._lock = threading.Lock()
        self.release: Callable[[], None] = lambda: None

    def started(self, statement: RunningStatement) -> None:
        client = request.environ.get(CONNECTION)
        if isinstance(client, Client):
            self.release = client.watch(lambda: self._gone(statement))

    def take(self, result: ResultSet) -> None:
        """What is being read; nobody reads it where the client left meanwhile."""
        with self._lock:
            self._result = result
            left = self._left
        if left:
            result.close()

    def _gone(self, statement: RunningStatement) -> None:
        statement.cancel()
        with self._lock:
            self._left = True
            result = self._result
        if result is not None:
            result.close()
