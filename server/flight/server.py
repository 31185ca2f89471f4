"""The Flight server: every call comes in here, and goes to what knows its kind of command."""

from __future__ import annotations

import itertools
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

import grpc
import pyarrow as pa

from gateway.origin import ORIGIN, Origin
from lake.waiting_places import WaitingPlaces
from model.catalog_errors import ServerGone
from model.errors import (
    BadRequest,
    InvalidOption,
    NotAuthorized,
    NotImplementedHere,
    StatementTooLarge,
    TooManyStatements,
    Unavailable,
)
from server.access.tls import TlsFiles
from server.flight.actions import ACTIONS, Actions
from server.flight.calls import Call, CallHeaders, HangUps
from server.flight.clients import ClientSessions
from server.flight.errors import FlightFailure, flight_failure
from server.flight.forward import FlightForward, handle_in, handle_of_action
from server.flight.gate import FlightGate
from server.flight.metadata import is_metadata, metadata, metadata_schema
from server.flight.pending import PreparedStatements, Results
from server.flight.puts import Puts
from server.flight.service import MOST_CALLS, Context, FlightServer, Requests
from server.flight.stalls import Stalls
from server.flight.statements import Statements, pieces
from server.flight.wire.answers import RowsAnswer, Send, Turns
from server.flight.wire.messages import message, parsed, unpacked
from server.flight.wire.received import Message, ReceivedRows
from server.flight.wire.sent import batch_message, schema_message
from server.observe.metrics import Metrics
from server.process.services import Services
from server.settings.kinds import is_loopback
from server.settings.options import (
    CONNECTIONS_OF_ONE,
    FLIGHT_LISTEN,
    FLIGHT_MESSAGE_BYTES,
    FLIGHT_STALL,
    ROWS_BYTES,
    SESSION_IDLE,
    STATEMENT_BYTES,
)
from workers.arrow import ArrowProcesses

_log = logging.getLogger(__name__)
_TEND_SECONDS = 2.0
_MOST_OF_ONE = MOST_CALLS * 4 // 5
"""Calls of one principal at a time; the rest is kept for others."""
_REQUEST_BYTES = 4 << 20
"""Of a message that holds no rows."""
_IDLE_BEYOND_SECONDS = 60.0
_COMMAND = 2
"""The number of a `FlightDescriptor` that is a command."""
T = TypeVar("T")


class FlightEndpoint:
    """Flight SQL on a port of its own, in front of the same gateway as the HTTP endpoints."""

    def __init__(self, services: Services, metrics: Metrics, tls: TlsFiles | None = None) -> None:
        gateway = services.gateway
        self._services = services
        self._tls = tls
        self._metrics = metrics
        self._forward = FlightForward(services)
        self._results = Results(gateway.limits.server)
        self._hang_ups = HangUps()
        self._turns = Turns(MOST_CALLS)
        self._places = WaitingPlaces()
        self._clients = ClientSessions(gateway)
        prepared = PreparedStatements(gateway.limits.server)
        self._reader = ArrowProcesses(gateway.limits.workers)
        self._statements = Statements(gateway, self._clients, self._results, prepared, self._hang_ups, self._reader.begin)
        self._stalls = Stalls(services.settings[FLIGHT_STALL])
        self._gate = FlightGate(services.settings[CONNECTIONS_OF_ONE])
        self._puts = Puts(services, self._statements)
        self._actions = Actions(gateway, self._clients, self._results, prepared, self._statements)
        self._stopped = threading.Event()
        self._server: FlightServer | None = None
        self.where = ("", 0)
        """Host and port, once it listens."""
        self._periodic = threading.Thread(target=self._tend, name="sluice-flight-clients", daemon=True)

    def start(self) -> tuple[str, int]:
        """Listen, and answer from now on; returns where. Raises `InvalidOption` where the address cannot be had."""
        listen = self._services.settings[FLIGHT_LISTEN]
        assert listen is not None
        host, port = listen
        written = f"[{host}]" if ":" in host else host
        try:
            self._server = FlightServer(
                self,
                f"{written}:{port}",
                message_bytes=self._services.settings[FLIGHT_MESSAGE_BYTES],
                # Whoever keeps no cookies has its session by its connection, which must not end before it.
                idle_seconds=self._services.settings[SESSION_IDLE] + _IDLE_BEYOND_SECONDS,
                tls=None if self._tls is None else self._tls.pem(),
            )
        except OSError as problem:
            raise InvalidOption(
                f"SLUICE_FLIGHT_LISTEN names {written}:{port}, where this server cannot listen: another program may have the port. "
                "Name another one, 0 for any that is free, or 'off' to do without Flight SQL."
            ) from problem
        self._periodic.start()
        self.where = host, self._server.port
        self._services.flight_port.port = self._server.port
        return self.where

    def stop(self, seconds: float) -> None:
        """Take no more calls; those at work may end for so long, then their results are closed under them. Twice is fine."""
        self._stopped.set()
        server, self._server = self._server, None
        if server is not None:
            ending = threading.Thread(target=server.stop, args=(seconds,), name="sluice-flight-stop", daemon=True)
            ending.start()
            ending.join(seconds)
            self._results.close()
            ending.join(1.0)
        self._hang_ups.close()
        self._turns.close()
        self._reader.close()
        self._forward.close()

    def held(self) -> int:
        """Results that wait for their reader or are being read."""
        return len(self._results)

    def _tend(self) -> None:
        while not self._stopped.wait(_TEND_SECONDS):
            try:
                self._results.tend(self._services.settings[SESSION_IDLE])
                self._clients.tend(self.where[1])
                self._stalls.tend(self.where[1])
                self._gate.tend(self.where[1])
            except Exception:  # the rounds go on as long as the endpoint answers
                _log.exception("Closing sessions of Flight SQL's clients failed")

    # Who calls

    def _access(self, token: str | None) -> Any:
        access = self._services.gateway.lake.access
        listen = self._services.settings[FLIGHT_LISTEN]
        if listen is not None and not is_loopback(listen[0]) and access.open():  # the last token was revoked on another server
            raise NotAuthorized("This server is reachable from other machines and has no token; make one, or restart it with SLUICE_TOKEN.")
        return access.caller(token)

    def one(self, context: Context, method: str, requests: Requests) -> Iterator[bytes]:
        """Answer a call that has one answer."""
        work = {"GetFlightInfo": self._flight_info, "GetSchema": self._schema}[method]

        def answered(call: Call) -> bytes:
            request = self._asked(call, requests)
            descriptor = parsed("FlightDescriptor", request)
            owner = self._forward.owner(call, handle_in(descriptor.cmd), in_session=True)
            if owner is not None:
                return b"".join(self._forward.answers(call, owner, request, iter(())))
            return work(call, descriptor)

        call, answer = self._answered(context, method, answered)
        call.begin_answer()
        yield answer

    def many(self, context: Context, method: str, requests: Requests) -> Iterator[bytes]:
        """Answer a call that has several answers."""
        call, answers = self._answered(context, method, lambda call: self._several(call, method, self._asked(call, requests)))
        call.begin_answer()
        yield from answers

    def rows(self, context: Context, requests: Requests, send: Send) -> None:
        """Answer DoGet; of rows without end only those that are there, the others follow."""
        call, answer = self._answered(context, "DoGet", lambda call: self._rows(call, self._asked(call, requests), send))
        call.begin_answer()
        answer.begin()

    def stream(self, context: Context, method: str, requests: Requests) -> Iterator[bytes]:
        """Answer a call whose client sends a stream."""
        call, answers = self._answered(context, method, lambda call: self._sent(call, method, requests))
        call.begin_answer()
        yield from answers

    def _answered(self, context: Context, method: str, work: Callable[[Call], T]) -> tuple[Call, T]:
        """Answer one call: find out who it is, do the work, count it, and tell failures as Flight tells them."""
        headers = CallHeaders.of(context)
        call = Call(
            context=context,
            method=method,
            token=headers.token,
            cookie=headers.cookie,
            request_id=headers.request_id,
            sent_headers=headers.sent,
        )
        began = time.perf_counter()
        status = 200
        try:
            self._forward.check(call)
            ORIGIN.set(Origin(protocol="flight", address=call.address, request_id=call.request_id))
            if self._stopped.is_set():
                raise Unavailable("The server is stopping; connect again in a moment.")
            call.caller = self._access(call.token)
            self._gate.begin(call)
            self._take_place(call)
            with self._stalls.at_work(call):
                return call, work(call)
        except BaseException as error:
            failure = flight_failure(error, call.request_id)
            status = failure.status
            _refuse(call, failure)
        finally:
            self._metrics.call_answered("flight", method, status, time.perf_counter() - began)

    def _take_place(self, call: Call) -> None:
        """Count a call to its end; raises `TooManyStatements` where its principal has as many as one may."""
        principal = call.caller.principal
        give_back = self._places.take(principal, MOST_CALLS, _MOST_OF_ONE)
        if give_back is None:
            raise TooManyStatements(
                f"{principal} has as many calls open here as one may have ({_MOST_OF_ONE} of {MOST_CALLS}), or the server as many as it "
                "takes. Let some end and try again."
            )
        if not call.on_end(give_back):
            give_back()

    def _asked(self, call: Call, requests: Requests) -> bytes:
        """The one message of a call, which is taken only of who may call."""
        try:
            with self._stalls.waiting(call, first=True):
                request = next(requests, None)
        except grpc.RpcError:  # canceled, or longer than any message may be
            request = None
        if request is None:
            raise BadRequest("The call ended before its message had come.")
        if len(request) > (most := max(_REQUEST_BYTES, 2 * self._services.settings[STATEMENT_BYTES])):
            raise StatementTooLarge(
                f"The message has {len(request):,} bytes, and at most {most:,} are read of {call.method}: send rows by DoPut, "
                "and parameters apart from the text."
            )
        return request

    # The calls

    def _flight_info(self, call: Call, descriptor: Any) -> bytes:
        """Run what the descriptor asks for; its rows wait under the ticket."""
        name, command = unpacked(_command(descriptor))
        if is_metadata(name):
            return _info(metadata_schema(name, command), descriptor, descriptor.cmd)
        return _info(*self._statements.flight_info(call, name, command, descriptor), notices=call.notices)

    def _schema(self, call: Call, descriptor: Any) -> bytes:
        """The columns the descriptor would give."""
        name, command = unpacked(_command(descriptor))
        schema = metadata_schema(name, command) if is_metadata(name) else self._statements.schema(call, name, command)
        return bytes(message("SchemaResult", schema=bytes(schema.serialize())).SerializeToString())

    def _several(self, call: Call, method: str, request: bytes) -> Iterator[bytes]:
        match method:
            case "DoAction":
                action = parsed("Action", request)
                handle = handle_of_action(action.type, action.body)
                try:
                    owner = self._forward.owner(call, handle)
                    if owner is not None:
                        return iter(list(self._forward.answers(call, owner, request, iter(()))))
                except ServerGone:
                    if handle is None:
                        raise
                    # What was to be closed or canceled has ended with its server: nobody has it, as of a handle that is closed already.
                bodies = self._actions.act(call, action.type, action.body)
                return iter([message("Result", body=body).SerializeToString() for body in bodies])
            case "ListActions":
                return iter([message("ActionType", type=name, description=text).SerializeToString() for name, text in ACTIONS.items()])
        return iter(())  # ListFlights: there is nothing to list

    def _rows(self, call: Call, request: bytes, send: Send) -> RowsAnswer:
        """The rows of a ticket, to be sent."""
        ticket = parsed("Ticket", request)
        name, command = unpacked(ticket.ticket)
        owner = self._forward.owner(call, handle_in(ticket.ticket))
        if owner is not None:
            passed_on = self._forward.answers(call, owner, request, iter(()))
            return RowsAnswer(call, self._stalls.sending(call, passed_on), None, send, self._turns)
        if is_metadata(name):
            table = metadata(self._services.gateway.lake, call.caller, name, command)
            schema = table.schema
            result = None
            batches: Iterator[pa.RecordBatch] = (piece for batch in table.to_batches() for piece in pieces(batch))
        else:
            result, schema, batches = self._statements.rows(call, name, command)
        messages = itertools.chain([schema_message(schema)], (batch_message(batch) if batch.num_rows else None for batch in batches))
        return RowsAnswer(call, self._stalls.sending(call, messages), result, send, self._turns)

    def _sent(self, call: Call, method: str, requests: Requests) -> Iterator[bytes]:
        if method == "Handshake":  # who calls is told by the headers, and they are answered in the form every other call has them
            call.set_header("authorization", f"Bearer {call.token or 'anonymous'}")
            return iter(())
        if method == "DoExchange":
            raise NotImplementedHere("Flight SQL exchanges nothing: ask for the FlightInfo of a command, or send rows with DoPut.")
        try:
            with self._stalls.waiting(call):
                request = next(requests, None)
        except grpc.RpcError:  # canceled, or longer than a message may be
            request = None
        if request is None:
            raise BadRequest("The call ended before its first message, which says what the rows are for.")
        first = parsed("FlightData", request)
        owner = self._forward.owner(call, handle_in(first.flight_descriptor.cmd), in_session=True)
        if owner is not None:
            return iter(list(self._forward.answers(call, owner, request, self._stalls.receiving(call, requests))))
        messages = (parsed("FlightData", part) for part in self._stalls.receiving(call, requests))
        name, command = unpacked(_command(first.flight_descriptor))
        sent = (Message(part.data_header, part.data_body) for part in itertools.chain([first], messages) if part.data_header)
        rows = ReceivedRows(sent, self._services.settings[ROWS_BYTES], self._reader, call.caller.principal)
        return iter([self._puts.put(call, name, command, rows)])


def _refuse(call: Call, failure: FlightFailure) -> NoReturn:
    call.begin_answer()
    call.tell_own_failure()
    call.context.abort(failure.code, failure.text)
    raise AssertionError("gRPC ends a call that is aborted by an exception")


def _command(descriptor: Any) -> bytes:
    if descriptor.type != _COMMAND:
        raise BadRequest("This server speaks Flight SQL: the descriptor is a command of it, not a path.")
    return bytes(descriptor.cmd)


def _info(schema: pa.Schema, descriptor: Any, ticket: bytes, *, notices: Sequence[str] = ()) -> bytes:
    """A FlightInfo; what the reader is to know beside the rows is JSON in its ``app_metadata``, which is empty otherwise."""
    endpoint = message("FlightEndpoint", ticket=message("Ticket", ticket=ticket))
    columns = bytes(schema.serialize())
    info = message("FlightInfo", schema=columns, flight_descriptor=descriptor, endpoint=[endpoint], total_records=-1, total_bytes=-1)
    if notices:
        info.app_metadata = json.dumps({"notices": list(notices)}).encode()
    return bytes(info.SerializeToString())
