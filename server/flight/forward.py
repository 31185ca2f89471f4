"""Calls about what another server of the catalog holds (results, prepared statements, sessions) are passed on to it as they came.

The caller's own token and cookie go along, so that the other server judges the call as if it had been asked itself.
"""

from __future__ import annotations

import hmac
import itertools
import logging
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any
from uuid import UUID

import grpc

from catalog.records import ServerRow
from lake.peers import Peers
from model.catalog_errors import ServerGone
from model.errors import BadRequest, OperationNotExist, StatementCanceled, Unavailable
from model.work.handle import NO_SERVER, server_of
from server.flight.calls import OWN_WORD, Call
from server.flight.errors import PassedOnFailure
from server.flight.peer_channels import PeerChannels
from server.flight.service import SERVICE
from server.flight.wire.messages import parsed, unpacked
from server.process.services import Services
from server.sql.forward import silent, unanswered
from server.sql.notices import HEADER

_log = logging.getLogger(__name__)
PASSED_ON, MEANT, FROM = "x-sluice-passed-on", "x-sluice-for", "x-sluice-from"
"""As in `server.sql.forward`, in the spelling of gRPC: who passed it on, who is meant, and the client's address under a seal."""
_WHAT = "What is asked for"
_ONLY_READ = ("DoGet", "GetSchema")
_NOT_BEGUN = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNIMPLEMENTED)
"""What gRPC itself says at a server that has too many calls, or a message that is too long."""
_GOES_ALONG = ("authorization", "cookie")
_COMES_BACK = ("set-cookie", HEADER.lower(), "authorization")


def _server_of(handle: bytes | str | None) -> int | None:
    if handle is None:
        return None
    if isinstance(handle, str):
        return server_of(handle)
    return server_of(str(UUID(bytes=handle))) if len(handle) == 16 else None


class FlightForward:
    """Finds who is meant, and asks him."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._channels = PeerChannels()

    def close(self) -> None:
        """Keep no connection."""
        self._channels.close()

    def check(self, call: Call) -> None:
        """Let a call that another server passed on come from where it came to that one; raises `Unavailable` where it means another."""
        peers, headers = self._services.peers, call.passed_on
        if peers is None or PASSED_ON not in headers:
            return
        if (meant := headers.get(MEANT, "")) != str(peers.number):
            raise Unavailable(f"This server has the number {peers.number}, not {meant}. Try again in a moment.")
        address = headers.get(FROM, "").partition(" ")[0]
        if hmac.compare_digest(headers.get(FROM, "").encode(), _sealed(peers, peers.number, address, call).encode()):
            call.address = address

    def owner(self, call: Call, handle: bytes | None, *, in_session: bool = False) -> ServerRow | None:
        """The other server that holds what a call is about: the handle in it, or the session of its cookie. None where it is this one.

        Nobody is found for a session that is gone with its server: its client is told so, and begins a new one. Raises `ServerGone`, and
        `OperationNotExist` where what the handle names is to be done ``in_session``, and the session is another server's.
        """
        peers = self._services.peers
        if peers is None or PASSED_ON in call.passed_on:
            return None
        number, of_session = _server_of(handle), _server_of(call.cookie)
        if number is None:
            number, handle = of_session, None
        elif in_session and of_session != number and number != NO_SERVER and self._is_there(peers, of_session):
            raise OperationNotExist(
                "This statement was prepared before the connection's session began, and on another server: prepare it again."
            )
        if number is None or number in (NO_SERVER, peers.number):
            return None
        owner = peers.find(number)
        if owner is None or not peers.is_gone(owner):
            return owner
        if handle is None:
            return None
        raise ServerGone(_WHAT, owner.name)

    @staticmethod
    def _is_there(peers: Peers, number: int | None) -> bool:
        if number is None or number == NO_SERVER:
            return False
        if number == peers.number:
            return True
        server = peers.find(number)
        return server is not None and not peers.is_gone(server)

    def answers(self, call: Call, owner: ServerRow, first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
        """What the owner answers, message by message, the first of which is there when this returns.

        ``rest`` raises `StatementCanceled` where not all of it comes: the owner is told so, and keeps nothing. Raises `PassedOnFailure`
        with what the owner refuses it with, `Unavailable` or `ServerGone` where it is not reached, `OutcomeUnknown` where it may have done
        what was asked.
        """
        peers = self._services.peers
        assert peers is not None
        channel = self._channels.to(owner, peers, _WHAT)
        ready = Future[Any]()

        def requests() -> Iterator[bytes]:
            yield first
            try:
                yield from rest
            except StatementCanceled:  # a stream that just ended would be all of it to the owner
                ready.result().cancel()

        sent = [(name, value) for name, value in call.sent_headers if name in _GOES_ALONG]
        sent += [(PASSED_ON, str(peers.number)), (MEANT, str(owner.number)), ("x-request-id", call.request_id)]
        sent += [(FROM, _sealed(peers, owner.number, call.address, call))]
        answers = channel.stream_stream(SERVICE + call.method)(requests(), metadata=sent)
        ready.set_result(answers)  # of which requests are sent already
        if not call.on_end(answers.cancel):
            answers.cancel()
        try:
            headers = answers.initial_metadata()
            for name in _COMES_BACK:
                call.set_header(name, *(value for each, value in headers if each == name))
            begin = list(itertools.islice(answers, 1))
        except grpc.RpcError as problem:
            raise _failure(call, owner, peers, problem) from None
        except BaseException:
            answers.cancel()
            raise

        def told() -> Iterator[bytes]:
            try:
                yield from begin
                yield from answers
            except grpc.RpcError as problem:
                raise _failure(call, owner, peers, problem) from None
            finally:
                answers.cancel()

        return told()


def _failure(call: Call, owner: ServerRow, peers: Peers, problem: Any) -> Exception:
    """What is told of a call that failed at the owner, or on the way to it or back."""
    code, text = problem.code(), problem.details() or ""
    own_word = any(name == OWN_WORD for name, _ in problem.trailing_metadata() or ())
    if own_word or code in _NOT_BEGUN or call.gone():
        return PassedOnFailure(code, text)
    _log.warning("A call of %s that was passed on to the server %s broke off: %s", call.method, owner.name, text)
    return silent(owner, peers, _WHAT, "does not answer") if call.method in _ONLY_READ else unanswered(owner, _WHAT)


def _sealed(peers: Peers, meant: int, address: str, call: Call) -> str:
    return f"{address} {peers.seal('from', str(meant), address, 'flight', call.method, call.request_id)}"


def _unpacked(body: bytes) -> tuple[str, Any]:
    """What is no message of Flight SQL is refused where it is answered."""
    try:
        return unpacked(body)
    except BadRequest:
        return "", None


def handle_in(command: bytes) -> bytes | None:
    """The handle in a command or a ticket; None where it has none, or is none of Flight SQL's."""
    name, read = _unpacked(command)
    if name == "TicketStatementQuery":
        return bytes(read.statement_handle)
    return bytes(read.prepared_statement_handle) if name in ("CommandPreparedStatementQuery", "CommandPreparedStatementUpdate") else None


def handle_of_action(type_: str, body: bytes) -> bytes | None:
    """The handle that an action is about."""
    match type_:
        case "ClosePreparedStatement":
            name, request = _unpacked(body)
            return bytes(request.prepared_statement_handle) if name == "ActionClosePreparedStatementRequest" else None
        case "CancelFlightInfo":
            info = parsed("CancelFlightInfoRequest", body).info
        case "CancelQuery":
            name, request = _unpacked(body)
            if name != "ActionCancelQueryRequest":
                return None
            info = request.info
        case _:
            return None
    handles = (handle_in(endpoint.ticket.ticket) for endpoint in parsed("FlightInfo", info).endpoint)
    return next((handle for handle in handles if handle is not None), None)
