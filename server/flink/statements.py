"""Submit a statement, fetch its rows by token."""

from __future__ import annotations

from collections.abc import Sequence

from flask import Blueprint, Response, request

from gateway.result_pages import NotReady, ResultPage
from model.errors import BadRequest, UnsupportedStatement
from model.text.whole_number import whole_number
from server.access.access import caller
from server.flink.rows import RowFormat
from server.flink.versions import Version, requested_version
from server.flink.wire import CONTENT_TYPE, answer, body, handle, not_ready, page_body
from server.process.services import services
from server.sql.bodies import member, strings
from server.sql.notices import HEADER, header_values
from server.sql.pending import can_be_held, held

bp = Blueprint("statements", __name__)
FIRST_PAGE_SECONDS = 5.0
"""How long the first page is waited for before the client is told to ask again; not at all where too many requests wait."""
PAGE_SECONDS = 5.0
"""How long the rows of a page are waited for before it comes without rows, where the request may wait."""
_SHORTLY = 0.2
"""How long they are waited for where too many requests wait: most are there."""
STREAM_PAGE_SECONDS = 1.0
"""How long a page of rows without end is waited for before it comes without rows."""
ZONE = "table.local-time-zone"


@bp.post("/sessions/<session>/statements")
def submit(session: str) -> Response:
    """Queue a statement; what is wrong with it shows when its result is fetched."""
    sent = body()
    if (member(sent, "executionTimeout", int) or 0) > 0:
        raise UnsupportedStatement("executionTimeout is not supported here; POST /sql has a timeout.")
    text = member(sent, "statement", str, required=True)
    operation = services().gateway.submit(handle(session), text, strings(sent, "executionConfig"), caller=caller())
    return answer({"operationHandle": operation})


@bp.get("/sessions/<session>/operations/<operation>/result/<token>")
def fetch(session: str, operation: str, token: str) -> Response:
    """A page of the result, which is waited for a little; one whose rows take longer comes without, and the next one has them."""
    number, format_ = _token(token), _row_format()
    gateway = services().gateway
    uri = _uri(session, operation, format_)

    def written(page: ResultPage) -> bytes:
        return page_body(page, format_, gateway.session_properties(handle(session)).get(ZONE), uri)

    def of_stream(over: bool) -> bytes | None:
        page = gateway.fetch(handle(session), handle(operation), number, empty=over)
        return None if isinstance(page, NotReady) else written(page)

    with services().may_wait(caller()) as may:
        # A later page is told by the one before it: where there is no result yet, none has been, and nobody waits for it.
        wait = FIRST_PAGE_SECONDS if may and number == 0 else 0.0
        endless = gateway.rows_to_come(handle(session), handle(operation), wait=wait)
    if endless is not None and endless.waiting is not None and can_be_held():
        coming = held(endless.waiting, of_stream, seconds=STREAM_PAGE_SECONDS, content_type=CONTENT_TYPE)
        return _noticed(coming, endless.notices)
    page = gateway.fetch(handle(session), handle(operation), number, empty=endless is not None, seconds=_SHORTLY)
    if endless is None and isinstance(page, NotReady):
        with services().may_wait(caller()) as may:
            page = gateway.fetch(handle(session), handle(operation), number, seconds=PAGE_SECONDS if may else 0.0)
    if isinstance(page, NotReady):
        return answer(not_ready(uri(number)))
    return _noticed(Response(written(page), 200, content_type=CONTENT_TYPE), page.notices)


def _noticed(page: Response, notices: Sequence[str]) -> Response:
    """A page with what its reader is to know in its head: the protocol has no place for it, and Flink's clients show none."""
    for value in header_values(notices):
        page.headers.add(HEADER, value)
    return page


def _token(text: str) -> int:
    number = whole_number(text)
    if number is None:
        raise BadRequest(f"A result token is a whole number, not {text!r}.")
    return number


def _row_format() -> RowFormat:
    if requested_version() < Version.V2:
        return RowFormat.JSON
    name = request.args.get("rowFormat", RowFormat.JSON)
    try:
        return RowFormat(name.upper())
    except ValueError:
        raise BadRequest(f"rowFormat is JSON or PLAIN_TEXT, not {name!r}.") from None


class _uri:  # noqa: N801 - used as the function it is
    """Where a page lies: a path, under the version asked for; version 1 knows no row formats."""

    def __init__(self, session: str, operation: str, format_: RowFormat) -> None:
        version = requested_version()
        self._path = f"/v{version.value}/sessions/{session}/operations/{operation}/result/"
        self._query = f"?rowFormat={format_}" if version >= Version.V2 else ""

    def __call__(self, token: int) -> str:
        return f"{self._path}{token}{self._query}"
