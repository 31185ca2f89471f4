"""Failures as clients see them: RFC 9457 for our own paths, Flink's shape for the gateway's; one mapping for both."""

from __future__ import annotations

import logging
import random
import re
from dataclasses import dataclass, field
from typing import Any

import orjson
from flask import Response, current_app, g, has_request_context, request
from werkzeug.exceptions import HTTPException

from model.catalog_errors import CatalogDamaged, ChangedMeanwhile, DefinitionAlreadyExist, DialectAlreadyExist
from model.errors import AlreadyExist, ColumnAlreadyExist, DatabaseNotEmpty, LakeError, OutcomeUnknown, ResourceError, TableDamaged
from model.text.writable import writable
from server.process.services import EXTENSION, services

_log = logging.getLogger(__name__)
_FLINK_PATHS = re.compile(r"/(v\d+|api_versions|info|sessions)(/|$)")
_OTHER_PROTOCOLS = re.compile(r"/v1/(config|sluice)(/|$)")
_SENTENCE_END = re.compile(r"(?<=\.)\s")
PROBLEM = "application/problem+json"
RETRY_AFTER_SECONDS = {429: range(2, 9), 503: range(2, 3)}
"""By status, the seconds one of which is told: who is refused together must not come back together, each time with a parser's work."""

_LASTING = (TableDamaged, CatalogDamaged)
"""What does not pass by itself, whatever its status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a client may know of a failure."""

    status: int
    error_class: str
    title: str
    detail: str
    facts: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


def failure_of(error: BaseException, id_: str) -> Failure:
    """The status and words of a request's failure; one that is not deliberate is a bug, logged in full and told by its id."""
    if isinstance(error, LakeError):
        return _lake_failure(error, id_)
    if isinstance(error, HTTPException):
        return _http_failure(error)
    _log.error("Request %s met a bug", id_, exc_info=error)
    detail = f"Something is wrong in the server, and it is logged under the id {id_}."
    return Failure(status=500, error_class="InternalError", title="A bug of the server.", detail=detail, facts=_how_far(error))


def _how_far(error: BaseException) -> dict[str, Any]:
    """Of a text of several statements, which one failed and what took effect before it; a bug ends such a text, too."""
    facts = {"statementIndex": getattr(error, "statement_index", None), "completed": getattr(error, "completed", None) or None}
    return {name: value for name, value in facts.items() if value is not None}


def problem_document(error: BaseException, id_: str) -> dict[str, Any]:
    """The failure of the request with this id as an RFC 9457 document."""
    return _document(failure_of(error, id_), id_)


def problem(error: BaseException) -> Response:
    """The answer of our own paths to a failure."""
    failure = failure_of(error, request_id())
    return Response(orjson.dumps(_document(failure, request_id())), failure.status, headers=failure.headers, mimetype=PROBLEM)


def flink_error(error: BaseException, path: str) -> Response:
    """The answer of the Flink gateway's paths: everything a statement or a handle is guilty of is a 500 there."""
    failure = failure_of(error, request_id())
    status, lines = 500, [f"{failure.error_class}: {failure.detail}"]
    if isinstance(error, HTTPException):
        status = failure.status
        if status in (404, 405):
            status, lines = 404, [f"Not found: {path}"]
        else:
            lines = [failure.detail]
    elif failure.status in (401, 403, 413, 415) or failure.error_class == "BadRequest":
        status, lines = failure.status, [failure.detail]
    elif failure.error_class not in ("SessionNotExist", "OperationNotExist"):
        lines = ["Internal server error.", _on_server_side(failure)]
    return Response(orjson.dumps({"errors": lines}), status, headers=failure.headers, content_type="application/json; charset=UTF-8")


_PAIMON_STATUS = {409: 500, 422: 400, 507: 500, 408: 500}
"""Statuses the protocol does not have, or has for something else, and the nearest of its own."""
_TAKEN = (AlreadyExist, ColumnAlreadyExist, DialectAlreadyExist, DefinitionAlreadyExist)
"""All that 409 means to Paimon's clients: any other would be a success to them where they say IF NOT EXISTS."""


def paimon_error(error: BaseException) -> Response:
    """The answer of the Paimon catalog's paths: the body's ``code`` is what its clients go by, so it is always there."""
    failure = failure_of(error, request_id())
    # Paimon's clients repeat what 503 answers, for half a minute; damage does not pass.
    status = 500 if isinstance(error, _LASTING) else _PAIMON_STATUS.get(failure.status, failure.status)
    if isinstance(error, _TAKEN):
        status = failure.status
    elif isinstance(error, DatabaseNotEmpty):
        status = 400
    elif isinstance(error, ChangedMeanwhile):
        status = 503  # repeated by the client itself
    elif _done_twice_if_repeated(error):
        status = 500
    document = {
        "message": failure.detail,
        "resourceType": getattr(error, "resource_type", None),
        "resourceName": writable(error.resource_name) if isinstance(error, ResourceError) else None,
        "code": status,
    }
    return Response(orjson.dumps(document), status, headers=failure.headers, content_type="application/json")


def _done_twice_if_repeated(error: BaseException) -> bool:
    """Whether what repeats requests by itself must not do so.

    A rollback that is done twice takes away what came in between, and statements before the one that failed have taken effect.
    """
    reads = has_request_context() and request.method in ("GET", "HEAD")  # what it notes down on its way is noted down once
    unknown = isinstance(error, OutcomeUnknown) and not error.repeatable
    return (unknown or bool(getattr(error, "completed", None))) and not reads


def speaks_paimon(path: str) -> bool:
    """Whether a path belongs to the Paimon catalog's protocol, existing or not."""
    return _OTHER_PROTOCOLS.match(path) is not None


def speaks_flink(path: str) -> bool:
    """Whether a path belongs to the Flink gateway's protocol, existing or not."""
    return _FLINK_PATHS.match(path) is not None and _OTHER_PROTOCOLS.match(path) is None


def request_id() -> str:
    """The id of the request being answered."""
    return str(g.request_id) if has_request_context() and "request_id" in g else "-"


def _on_server_side(failure: Failure) -> str:
    """Flink's clients print what stands between the last `Caused by: ` and the first tab (`gateway.md` 1.4)."""
    said = failure.detail.replace("Caused by: ", "caused by: ").replace("\n\t", "\n  ").replace('Encountered "<EOF>"', "Encountered <EOF>")
    place = ""
    if (line := failure.facts.get("line")) is not None and f"line {line}" not in said.lower():
        place = f" (line {line}, column {failure.facts.get('column')})"
    completed = "; ".join(failure.facts.get("completed") or ()).replace("Caused by: ", "caused by: ").replace("\n\t", "\n  ")
    before = f"\nTook effect before it: {completed}" if completed else ""
    return (
        f"<Exception on server side:\nsluice.{failure.error_class}: {failure.title}\n"
        f"Caused by: {failure.error_class}: {said}{place}{before}\n\tat sluice\n\nEnd of exception on server side>"
    )


def _document(failure: Failure, id_: str) -> dict[str, Any]:
    return {
        "type": f"urn:sluice:error:{failure.error_class}",
        "title": failure.title,
        "status": failure.status,
        "detail": failure.detail,
        "errorClass": failure.error_class,
        **failure.facts,
        "requestId": id_,
    }


def _asked_by_an_administrator() -> bool:
    return has_request_context() and "caller" in g and bool(g.caller.administrator)


def _lake_failure(error: LakeError, id_: str) -> Failure:
    facts: dict[str, Any] = {"line": error.line, "column": error.column, "fragment": error.fragment}
    facts["quota"] = getattr(error, "quota", None)
    facts |= _how_far(error)
    headers: dict[str, str] = {}
    if error.status in RETRY_AFTER_SECONDS and not isinstance(error, _LASTING) and not _done_twice_if_repeated(error):
        headers["Retry-After"] = str(random.choice(RETRY_AFTER_SECONDS[error.status]))
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, TableDamaged) and has_request_context() and EXTENSION in current_app.extensions:
        services().gateway.lake.standing.met(error)
    elif error.status >= 500 and not (isinstance(error, TableDamaged) and error.logged):
        _log.warning("Request %s: %s: %s", id_, error.error_class, error.whole, exc_info=error)
    return Failure(
        status=error.status,
        error_class=error.error_class,
        title=_title(type(error)),
        detail=writable(error.whole if _asked_by_an_administrator() else error.message),
        facts={key: writable(value) if isinstance(value, str) else value for key, value in facts.items() if value is not None},
        headers=headers,
    )


def _title(kind: type[LakeError]) -> str:
    """What an error of a class is, in a sentence: the first of its description, whose others are for who raises it."""
    return _SENTENCE_END.split(kind.__doc__ or kind.error_class, maxsplit=1)[0]


def _http_detail(error: HTTPException, allow: list[str] | None) -> str:
    if error.code == 404:
        return f"There is nothing at {request.path}."
    if allow:
        return f"{request.path} does not take {request.method}; it takes {', '.join(sorted(allow))}."
    return error.description or error.name


def _http_failure(error: HTTPException) -> Failure:
    status = error.code or 500
    allow = getattr(error, "valid_methods", None)
    return Failure(
        status=status,
        error_class=type(error).__name__,
        title=f"{error.name}.",
        detail=_http_detail(error, allow),
        headers={"Allow": ", ".join(sorted(allow))} if allow else {},
    )
