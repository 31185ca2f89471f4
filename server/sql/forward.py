"""What another server of the catalog knows is asked of that server: its statements, their results, its sessions.

The request goes on as it came, with its caller's own token or cookie, so that the other server judges it as if it had been asked itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from flask import Response, request

from catalog.records import ServerRow
from lake.peers import Peers
from model.catalog_errors import ServerGone
from model.errors import LakeError, OperationNotExist, OutcomeUnknown, Unavailable
from model.work.handle import NO_SERVER, server_of
from server.access.access import caller
from server.errors import request_id
from server.process.services import AT_ONCE, Services
from server.settings.kinds import is_loopback

if TYPE_CHECKING:
    import httpx

PASSED_ON = "X-Sluice-Passed-On"
"""Names the server that passed a request on, so that nobody passes it on again."""
_MEANT = "X-Sluice-For"
"""The number of the server that is meant: after a restart another may have its address."""
_NAMES = {"session": "Session", "operation": "Operation", "statement": "Statement", "handle": "Statement or session"}
"""Parts of paths that may be a handle, and of what."""
_OF_THE_CONNECTION = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "host"}
)
_CHECKED_HERE = frozenset({"origin", "referer", "x-request-id", PASSED_ON.lower(), _MEANT.lower()})
_CONNECT_SECONDS, _ANSWER_SECONDS = 3.0, 90.0
"""An answer may be held back for 30 seconds until a statement has ended."""
_PIECE = 1 << 16
_TURNED_AWAY = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS})
"""Answers, beside failures, that do not say whether a server knows what it was asked about."""


def pass_on(services: Services) -> Response | None:
    """The answer of the server that knows what the present request is about; None where that is this one, or nobody is known to.

    Raises `ServerGone` where that server is gone, `Unavailable` where it does not answer, `OutcomeUnknown` where it may have done what was
    asked. Another server that takes this one for it is answered 421.
    """
    peers = services.peers
    if peers is None:
        return None
    if PASSED_ON in request.headers:
        if (meant := request.headers.get(_MEANT, str(peers.number))) != str(peers.number):
            # In no protocol's words, some of which know one status for all failures: it is told to a server.
            return Response(f"This server has the number {peers.number}, not {meant}.\n", HTTPStatus.MISDIRECTED_REQUEST)
        return None
    named = [(name, value) for name in _NAMES if isinstance(value := (request.view_args or {}).get(name), str)]
    for name, value in named:
        number = server_of(value)
        if number is not None and number not in (NO_SERVER, peers.number):
            return _of_owner(services, peers, number, f"{_NAMES[name]} {value}")
    if named and named[0][0] == "statement" and server_of(named[0][1]) is None:
        return _of_any(services, peers, named[0][1])
    return None


def _of_owner(services: Services, peers: Peers, number: int, what: str) -> Response | None:
    owner = peers.find(number)
    if owner is None:
        return None  # of another catalog, or gone for long: as unknown as any other
    if peers.is_gone(owner):
        raise ServerGone(what, owner.name)
    return _answer_of(services, owner, peers, what)


def _of_any(services: Services, peers: Peers, name: str) -> Response | None:
    """The answer about a statement that is known by the name its client gave it, by whichever server knows it.

    Where none says that it does, that one may have done what was asked, or that one refused to say.
    """
    with contextlib.suppress(OperationNotExist):
        services.gateway.kept_or_running(name, caller=caller())
        return None
    told: Response | None = None
    unsure: LakeError | None = None
    for other in peers.others():
        try:
            answer = _answer_of(services, other, peers, f"Statement {name}")
        except (Unavailable, ServerGone, OutcomeUnknown) as problem:
            unsure = problem if _was_sent(problem) else unsure  # one that is not reached runs nothing that can be canceled here
            continue
        if answer.status_code == HTTPStatus.NOT_FOUND:
            answer.close()
            continue
        if told is not None:
            told.close()
        told = answer
        if answer.status_code < 500 and answer.status_code not in _TURNED_AWAY:
            return answer
    if unsure is None:
        return told
    if told is not None:
        told.close()
    raise unsure


def _was_sent(problem: LakeError) -> bool:
    """Whether it is told of a server that has the request, and did not answer it."""
    import httpx

    cause = problem.__cause__
    return isinstance(cause, httpx.TransportError) and not isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout)


def _answer_of(services: Services, owner: ServerRow, peers: Peers, what: str) -> Response:
    import httpx

    headers = [(name, value) for name, value in request.headers if name.lower() not in _OF_THE_CONNECTION | _CHECKED_HERE]
    headers += [(PASSED_ON, str(peers.number)), (_MEANT, str(owner.number)), ("X-Request-Id", request_id())]
    target = request.environ.get("REQUEST_URI") or request.full_path
    url = f"{owner.url}{target if target.startswith('/') else request.full_path}"
    if is_loopback(urlsplit(url).hostname or "") and not peers.is_reached_here(owner):
        raise _silent(owner, peers, what, f"is reached at {owner.url} by its own machine alone: set SLUICE_ADVERTISED_URL there")
    only_read = request.method in ("GET", "HEAD")
    body = _body() if not only_read or request.content_length else None
    try:
        with _place(services) as at_once:
            sent = _client().build_request(request.method, url, headers=[*headers, *at_once], content=body)
            response = _client().send(sent, stream=True)
    except (httpx.ConnectError, httpx.ConnectTimeout) as problem:
        why = "does not answer"
        if "CERTIFICATE" in str(problem):
            why = f"shows a certificate at {owner.url} that is not trusted here ({problem}): let SSL_CERT_FILE here name its CA"
        raise _silent(owner, peers, what, why) from problem
    except httpx.TransportError as problem:
        if only_read:
            raise Unavailable(_known_to(owner, what, "does not answer")) from problem
        raise OutcomeUnknown(
            f"{what} is known to the server {owner.name}, which was asked and did not answer: it may or may not have done it. Look before "
            "you repeat it; what was sent under an Idempotency-Key may be repeated under it."
        ) from problem
    if response.status_code == HTTPStatus.MISDIRECTED_REQUEST:
        response.close()
        raise _silent(owner, peers, what, f"is not the one that answers at {owner.url}; where that lasts set SLUICE_ADVERTISED_URL there")
    answer = Response(response.iter_raw(_PIECE), response.status_code, direct_passthrough=True)
    answer.headers.clear()
    for name, value in response.headers.multi_items():
        if name not in _OF_THE_CONNECTION:
            answer.headers.add(name, value)
    answer.call_on_close(response.close)
    return answer


@contextlib.contextmanager
def _place(services: Services) -> Iterator[list[tuple[str, str]]]:
    """A place among the requests that may wait, for one whose answer may be held back; without one a header has it answered at once."""
    if request.method != "GET" or ("wait" not in request.args and "token" not in (request.view_args or {})):
        yield []
        return
    with services.may_wait(caller()) as may:
        yield [] if may else [(AT_ONCE, "1")]


def _silent(owner: ServerRow, peers: Peers, what: str, why: str) -> LakeError:
    """The error told of a server that nobody answers for: it is gone, or may come back."""
    return ServerGone(what, owner.name) if peers.asked_in_vain(owner) else Unavailable(_known_to(owner, what, why))


def _known_to(owner: ServerRow, what: str, why: str) -> str:
    return f"{what} is known to the server {owner.name}, which {why}. Try again in a moment."


def _body() -> Iterator[bytes]:
    while piece := request.stream.read(_PIECE):
        yield piece


@cache
def _client() -> httpx.Client:
    import httpx

    trusted = httpx.create_ssl_context(trust_env=False)  # the public authorities, which a machine may not have
    trusted.load_default_certs()  # and the machine's own, or those of SSL_CERT_FILE
    return httpx.Client(
        verify=trusted,
        timeout=httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
        trust_env=False,
    )
