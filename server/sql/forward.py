"""What another server of the catalog knows is asked of that server: its statements, their results, its sessions.

The request goes on as it came, with its caller's own token or cookie, so that the other server judges it as if it had been asked itself;
that one has shown before that it is the one (`peer_connections`). Where the request came from goes along under a seal of this server's.
"""

from __future__ import annotations

import contextlib
import hmac
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import cache, partial
from http import HTTPStatus
from http.client import HTTPException
from urllib.parse import quote, urlsplit

from flask import Response, g, request

from catalog.records import ServerRow
from lake.peers import Peers
from model.catalog_errors import ServerGone
from model.errors import BadRequest, LakeError, OperationNotExist, OutcomeUnknown, Unavailable
from model.work.handle import NO_SERVER, server_of
from server.access.access import caller
from server.access.audit import AUDITED, leave_out
from server.errors import request_id
from server.process.services import AT_ONCE, Services
from server.settings.kinds import is_loopback
from server.sql.peer_connections import (
    FLIGHT_PORT,
    ONLY_READ,
    PROOF,
    PROVE,
    NoAnswer,
    NotReached,
    NotTheOne,
    PeerAnswer,
    PeerConnections,
    PeerRequest,
    proof,
)
from server.sql.peer_questions import PeerQuestions

PASSED_ON = "X-Sluice-Passed-On"
"""Names the server that passed a request on, so that nobody passes it on again."""
_MEANT = "X-Sluice-For"
"""The number of the server that is meant: after a restart another may have its address."""
_FROM = "X-Sluice-From"
"""The address that the request came from, and the seal of who passed it on."""
_NAMES = {"session": "Session", "operation": "Operation", "statement": "Statement", "handle": "Statement or session"}
"""Parts of paths that may be a handle, and of what."""
_OF_THE_CONNECTION = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade", "host",
        "expect",
    }
)  # fmt: skip
_CHECKED_HERE = frozenset({name.lower() for name in ("Origin", "Referer", "X-Request-Id", PASSED_ON, _MEANT, _FROM, PROVE)})
_PIECE = 1 << 16
_NAME_SECONDS = 10.0
"""So long the servers that may know a statement by its name are waited for, all together."""
_BEFORE_SECONDS = 0.3
"""So long those of lower numbers are waited for once one knows it: where several do, each request should come to the same."""
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
            return _given(_of_owner(services, peers, number, f"{_NAMES[name]} {value}"))
    if named and named[0][0] == "statement" and server_of(named[0][1]) is None:
        return _given(_of_any(services, peers, named[0][1]))
    return None


def _given(answer: Response | None) -> Response | None:
    """An answer as it goes to the client; the audit log has the request from the server that gave it, where that says so.

    What a server refuses before its app, or a proxy before a server, has no entry there.
    """
    if answer is not None and answer.headers.pop(AUDITED, None) is not None:
        leave_out()
    return answer


def prove(services: Services) -> Response | None:
    """The answer to a server that asks whether this one is the one it means, or where its Flight SQL is; None for any other request."""
    if services.peers is None:
        return None
    if FLIGHT_PORT in request.headers and (port := services.flight_port()) is not None:
        return Response(status=HTTPStatus.NO_CONTENT, headers={FLIGHT_PORT: str(port)})
    if PROVE not in request.headers:
        return None
    client = request.remote_addr or "", request.environ.get("REMOTE_PORT", "0")
    answer = proof(services.peers.number, services.peers.seal, request.headers[PROVE], client)
    return Response(status=HTTPStatus.NO_CONTENT, headers={} if answer is None else {PROOF: answer})


def came_from(services: Services) -> None:
    """Let a request that another server passed on come from where it came to that one: logs and the audit log tell of its client."""
    peers = services.peers
    if peers is None or _FROM not in request.headers:
        return
    address = request.headers[_FROM].partition(" ")[0]
    if hmac.compare_digest(
        request.headers[_FROM].encode(), _sealed_address(peers, peers.number, address, request.method, request.path).encode()
    ):
        request.remote_addr = address
        g.passed_on_here = True


def _sealed_address(peers: Peers, meant: int, address: str, method: str, path: str) -> str:
    """An address and what shows that a server of the catalog says so, of a request with this one's id to the server that is meant."""
    return f"{address} {peers.seal('from', str(meant), address, method, path, request_id())}"


def _is_near(owner: ServerRow, peers: Peers) -> bool:
    """Whether a server's address may mean the same here as there."""
    return not is_loopback(urlsplit(owner.url or "").hostname or "") or peers.is_reached_here(owner)


def _of_owner(services: Services, peers: Peers, number: int, what: str) -> Response | None:
    owner = peers.find(number)
    if owner is None:
        return None  # of another catalog, or gone for long: as unknown as any other
    if peers.is_gone(owner):
        raise ServerGone(what, owner.name)
    return _answer_of(services, owner, peers, what)


def _of_any(services: Services, peers: Peers, name: str) -> Response | None:
    """The answer about a statement that is known by the name its client gave it, by whichever server knows it.

    Where none says that it does, that one may have done what was asked, or that one refused to say, or does not answer and may come back.
    """
    with contextlib.suppress(OperationNotExist):
        services.gateway.kept_or_running(name, caller=caller())
        return None
    others = [other for other in peers.others() if not (peers.answers_at(other.url) and _is_near(other, peers))]
    what = f"Statement {name}"
    last: Response | None = None
    unsure: LakeError | None = None
    try:
        with contextlib.closing(_who_may_know(others, peers, name)) as candidates:
            for other, knows in candidates:
                try:
                    answer = _answer_unless_unknown(services, other, peers, what)
                except (Unavailable, OutcomeUnknown) as problem:
                    if knows:
                        raise
                    unsure = problem if unsure is None or _was_sent(problem) else unsure
                    continue
                if answer is None:  # also of one that runs it, asked for the result of one that is kept
                    continue
                if last is not None:
                    last.close()
                last = answer
                if knows or _says(answer.status_code):
                    return answer
    except (Unavailable, OutcomeUnknown) as problem:
        unsure = unsure or problem
    if unsure is None:
        return last
    if last is not None:
        last.close()
    raise unsure


def _answer_unless_unknown(services: Services, owner: ServerRow, peers: Peers, what: str) -> Response | None:
    """Another server's answer; None where it knows nothing of what it was asked about, or is gone, with what it ran."""
    try:
        answer = _answer_of(services, owner, peers, what)
    except ServerGone:
        return None
    if answer.status_code != HTTPStatus.NOT_FOUND:
        return answer
    answer.close()
    return None


def _says(status: int) -> bool:
    """Whether a server that answers so says what it knows of what it was asked about."""
    return status < 500 and status not in _TURNED_AWAY


def _who_may_know(others: Sequence[ServerRow], peers: Peers, name: str) -> Generator[tuple[ServerRow, bool]]:
    """The servers that know a statement by a name, as they say so, and then those that refuse to say; whether each knows it.

    All are asked side by side whether they do, which changes nothing: the rest are not waited for where no more of them are wanted.
    Where more is asked than to read, those that say nothing in time come last: they may be busy, and do it once they can.
    Raises `Unavailable` at the end, where one does not answer.
    """
    what, path = f"Statement {name}", f"/statements/{name}"
    questions: dict[int, Callable[[], int | Unavailable]] = {}
    for other in others:
        headers = [header for header in _passed_on(other, peers, "GET", path) if not header[0].lower().startswith("content-")]
        sent = PeerRequest("GET", f"/statements/{quote(name, safe='')}", headers, None, answer_seconds=_NAME_SECONDS)
        questions[other.number] = partial(_status_of, other, peers, what, sent)
    by_number = {other.number: other for other in others}
    looks = {look: by_number[number] for look, number in _questions().ask(questions).items()}
    try:
        refusing, busy, unsure = list[ServerRow](), list[ServerRow](), None
        for other, status in _as_told(looks, what):
            if isinstance(status, Unavailable):
                if request.method in ONLY_READ or isinstance(status.__cause__, NotReached):
                    unsure = status
                else:
                    busy.append(other)
            elif _knows(status):
                yield other, True
            elif status != HTTPStatus.NOT_FOUND:
                refusing.append(other)
        yield from ((other, False) for other in (*refusing, *busy))
        if unsure is not None:
            raise unsure
    finally:
        for look in looks:
            look.cancel()


def _as_told(looks: Mapping[Future[int | Unavailable], ServerRow], what: str) -> Iterator[tuple[ServerRow, int | Unavailable]]:
    """What each server that is asked says, as it comes; in the end the error told of those that say nothing in time."""
    waiting, deadline = set(looks), time.monotonic() + _NAME_SECONDS
    while waiting:
        done, waiting = wait(waiting, max(0.0, deadline - time.monotonic()), FIRST_COMPLETED)
        if not done:
            break
        first = min((looks[look].number for look in done if _knows(look.result())), default=0)
        before, _ = wait([look for look in waiting if looks[look].number < first], _BEFORE_SECONDS)
        waiting -= before
        for look in sorted(done | before, key=lambda look: looks[look].number):
            yield looks[look], look.result()
    for look in waiting:
        yield looks[look], Unavailable(known_to(looks[look], what, "does not answer"))


def _knows(told: int | Unavailable) -> bool:
    return not isinstance(told, Unavailable) and _says(told) and told != HTTPStatus.NOT_FOUND


def _status_of(owner: ServerRow, peers: Peers, what: str, sent: PeerRequest) -> int | Unavailable:
    """The status of a server's answer, 404 where it is gone with what it ran; or the error told where it does not answer."""
    try:
        answer = _sent(owner, peers, what, sent)
    except ServerGone:
        return HTTPStatus.NOT_FOUND
    except Unavailable as problem:
        return problem
    try:
        for _ in answer.pieces():  # so that the connection can be used again
            pass
    except (OSError, HTTPException):
        return Unavailable(known_to(owner, what, "does not answer"))
    finally:
        answer.close()
    return answer.status


def _was_sent(problem: LakeError) -> bool:
    """Whether it is told of a server that has the request, and did not answer it."""
    return isinstance(problem.__cause__, NoAnswer)


def _passed_on(owner: ServerRow, peers: Peers, method: str, path: str) -> list[tuple[str, str]]:
    """The headers of the present request as they go to another server with a request of this method and path."""
    headers = [(name, value) for name, value in request.headers if name.lower() not in _OF_THE_CONNECTION | _CHECKED_HERE]
    headers += [(PASSED_ON, str(peers.number)), (_MEANT, str(owner.number)), ("X-Request-Id", request_id())]
    return [*headers, (_FROM, _sealed_address(peers, owner.number, request.remote_addr or "", method, path))]


def _answer_of(services: Services, owner: ServerRow, peers: Peers, what: str) -> Response:
    target = request.environ.get("REQUEST_URI") or request.full_path
    body = _body() if request.content_length or "Transfer-Encoding" in request.headers else None
    with _place(services) as at_once:
        target = target if target.startswith("/") else request.full_path
        headers = _passed_on(owner, peers, request.method, request.path)
        response = _sent(owner, peers, what, PeerRequest(request.method, target, [*headers, *at_once], body))
    answer = Response(response.pieces(), response.status, direct_passthrough=True)
    answer.headers.clear()
    for name, value in response.headers:
        if name.lower() not in _OF_THE_CONNECTION:
            answer.headers.add(name, value)
    answer.call_on_close(response.close)
    return answer


def _sent(owner: ServerRow, peers: Peers, what: str, sent: PeerRequest) -> PeerAnswer:
    """The answer of another server; raises `ServerGone`, `Unavailable` or `OutcomeUnknown` where there is none."""
    try:
        response = _connections().send(owner, peers.seal, sent)
    except NotReached as problem:
        why = str(problem)
        if not _is_near(owner, peers) and (isinstance(problem, NotTheOne) or isinstance(problem.__cause__, ConnectionError)):
            why = f"is reached at {owner.url} by its own machine alone: set SLUICE_ADVERTISED_URL there"
        raise silent(owner, peers, what, why) from problem
    except NoAnswer as problem:
        if sent.only_reads:
            raise Unavailable(known_to(owner, what, "does not answer")) from problem
        raise unanswered(owner, what, "; what was sent under an Idempotency-Key may be repeated under it") from problem
    if response.status == HTTPStatus.MISDIRECTED_REQUEST:
        response.close()
        raise silent(owner, peers, what, f"is not the one that answers at {owner.url}; where that lasts set SLUICE_ADVERTISED_URL there")
    return response


@contextlib.contextmanager
def _place(services: Services) -> Iterator[list[tuple[str, str]]]:
    """A place among the requests that may wait, for one whose answer may be held back; without one a header has it answered at once."""
    waits = "wait" in request.args or "token" in (request.view_args or {})
    if not (waits if request.method == "GET" else request.path.endswith("/cancel") or request.method == "DELETE"):
        yield []
        return
    with services.may_wait(caller()) as may:
        yield [] if may else [(AT_ONCE, "1")]


def silent(owner: ServerRow, peers: Peers, what: str, why: str) -> LakeError:
    """The error told of a server that nobody answers for: it is gone, or may come back."""
    return ServerGone(what, owner.name) if peers.asked_in_vain(owner) else Unavailable(known_to(owner, what, why))


def unanswered(owner: ServerRow, what: str, unless: str = "") -> OutcomeUnknown:
    """The error told of a server that has what a caller sent, and did not answer; ``unless`` tells when it may be repeated nevertheless."""
    return OutcomeUnknown(
        f"{what} is known to the server {owner.name}, which was asked and did not answer: it may or may not have done it. Look before "
        f"you repeat it{unless}."
    )


def known_to(owner: ServerRow, what: str, why: str) -> str:
    return f"{what} is known to the server {owner.name}, which {why}. Try again in a moment."


def _body() -> Iterator[bytes]:
    """The caller's own body; raises `BadRequest` where it breaks off, which is no silence of the other server."""
    try:
        while piece := request.stream.read(_PIECE):
            yield piece
    except (ValueError, OSError) as problem:
        raise BadRequest("The request's body ended before all of it had come.") from problem


def _connections() -> PeerConnections:
    with _making:  # several threads at once would make several, and lose what all but the last keep open
        return _made_connections()


@cache
def _made_connections() -> PeerConnections:
    return PeerConnections()


def _questions() -> PeerQuestions:
    with _making:
        return _made_questions()


@cache
def _made_questions() -> PeerQuestions:
    return PeerQuestions()


_making = threading.Lock()
