"""The Flight server: every call comes in here, and goes to what knows its kind of command."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.flight as fl

from model.errors import BadRequest, InvalidOption, LakeError, NotAuthorized, NotImplementedHere, Unavailable
from server.flight.actions import ACTIONS, Actions
from server.flight.calls import MIDDLEWARE, Call, CallHeaders, Handshake, HangUps, HeadersFactory
from server.flight.clients import ClientSessions
from server.flight.errors import flight_error
from server.flight.held import PreparedStatements, Results
from server.flight.messages import unpacked
from server.flight.metadata import is_metadata, metadata, metadata_schema
from server.flight.puts import Puts
from server.flight.stalls import Stalls
from server.flight.statements import Statements, pieces
from server.metrics import Metrics
from server.option_kinds import is_loopback
from server.services import Services
from server.tls import TlsFiles
from sql.origin import ORIGIN, Origin

_log = logging.getLogger(__name__)
_TEND_SECONDS = 2.0
T = TypeVar("T")


class FlightDoor:
    """Flight SQL on a port of its own, in front of the same gateway as the HTTP doors."""

    def __init__(self, services: Services, metrics: Metrics, tls: TlsFiles | None = None) -> None:
        gateway = services.gateway
        self._services = services
        self._tls = tls
        self._metrics = metrics
        self._results = Results()
        self._hang_ups = HangUps()
        self._clients = ClientSessions(gateway)
        prepared = PreparedStatements()
        self._statements = Statements(gateway, self._clients, self._results, prepared, self._hang_ups)
        self._stalls = Stalls(services.settings.flight_stall)
        self._puts = Puts(services, self._statements, self._stalls)
        self._actions = Actions(gateway, self._clients, self._results, prepared, self._statements)
        self._stopped = threading.Event()
        self._server: fl.FlightServerBase | None = None
        self.where = ("", 0)
        """Host and port, once it listens."""
        self._keeper = threading.Thread(target=self._keep, name="sluice-flight-keeper", daemon=True)

    def start(self) -> tuple[str, int]:
        """Listen, and answer from now on; returns where. Raises `InvalidOption` where the address cannot be had."""
        listen = self._services.settings.flight_listen
        assert listen is not None
        host, port = listen
        shown = f"[{host}]" if ":" in host else host
        try:
            self._server = _Server(
                self,
                f"grpc://{shown}:{port}" if self._tls is None else f"grpc+tls://{shown}:{port}",
                auth_handler=Handshake(),
                middleware={MIDDLEWARE: HeadersFactory(self._check_token, self._stalls.began, self._stalls.spoke)},
                tls_certificates=None if self._tls is None else [self._tls.pem()],
            )
        except (pa.ArrowException, OSError) as problem:
            raise InvalidOption(
                f"SLUICE_FLIGHT_LISTEN names {shown}:{port}, where this server cannot listen: another program may have the port. "
                "Name another one, 0 for any that is free, or 'off' to do without Flight SQL."
            ) from problem
        self._keeper.start()
        self.where = host, self._server.port
        return self.where

    def stop(self, seconds: float) -> None:
        """Take no more calls; those at work may end for so long, then their results are closed under them. Twice is fine."""
        self._stopped.set()
        server, self._server = self._server, None
        if server is not None:
            ending = threading.Thread(target=server.shutdown, name="sluice-flight-stop", daemon=True)
            ending.start()
            ending.join(seconds)
            self._results.close()
            ending.join(1.0)
        self._hang_ups.close()

    def held(self) -> int:
        """Results that wait for their reader or are being read."""
        return len(self._results)

    def _keep(self) -> None:
        while not self._stopped.wait(_TEND_SECONDS):
            try:
                self._results.tend(self._services.settings.session_idle)
                self._clients.tend()
                self._stalls.tend(self.where[1])
            except Exception:  # the house is kept as long as the door is open
                _log.exception("Looking after the clients of Flight SQL failed")

    # Who calls

    def _check_token(self, headers: CallHeaders) -> None:
        try:
            self._access(headers.token)
        except LakeError as error:
            raise flight_error(error, headers.request_id)[1] from None

    def _access(self, token: str | None) -> Any:
        access = self._services.gateway.lake.access
        listen = self._services.settings.flight_listen
        if listen is not None and not is_loopback(listen[0]) and access.open():  # the last token was revoked on another server
            raise NotAuthorized("This server is reachable from other machines and has no token; make one, or restart it with SLUICE_TOKEN.")
        return access.caller(token)

    def answer(self, context: Any, method: str, work: Callable[[Call], T]) -> T:
        """Answer one call: find out who it is, do the work, count it, and tell failures as Flight tells them."""
        headers: CallHeaders = context.get_middleware(MIDDLEWARE)
        self._stalls.spoke(headers)
        call = Call(context=context, method=method, token=headers.token, cookie=headers.cookie, request_id=headers.request_id)
        began = time.perf_counter()
        status = 200
        try:
            ORIGIN.set(Origin(door="flight", address=call.address, request_id=call.request_id))
            if self._stopped.is_set():
                raise Unavailable("The server is stopping; connect again in a moment.")
            call.caller = self._access(call.token)
            with self._stalls.at_work(call):
                return work(call)
        except BaseException as error:
            status, told = flight_error(error, call.request_id)
            raise told from None
        finally:
            self._metrics.call_answered("flight", method, status, time.perf_counter() - began)

    # The calls

    def flight_info(self, call: Call, descriptor: Any) -> Any:
        """Run what the descriptor asks for; its rows wait under the ticket."""
        name, command = unpacked(_command(descriptor))
        if is_metadata(name):
            return _info(metadata_schema(name, command), descriptor, descriptor.command)
        return _info(*self._statements.flight_info(call, name, command, descriptor))

    def schema(self, call: Call, descriptor: Any) -> Any:
        """The columns the descriptor would give."""
        name, command = unpacked(_command(descriptor))
        found = metadata_schema(name, command) if is_metadata(name) else self._statements.schema(call, name, command)
        return fl.SchemaResult(found)

    def get(self, call: Call, ticket: Any) -> Any:
        """Stream the rows of a ticket."""
        name, command = unpacked(ticket.ticket)
        if is_metadata(name):
            table = metadata(self._services.gateway.lake, call.caller, name, command)
            parts = (piece for batch in table.to_batches() for piece in pieces(batch))
            return fl.GeneratorStream(table.schema, self._stalls.sending(call, parts))
        schema, batches = self._statements.rows(call, name, command)
        return fl.GeneratorStream(schema, self._stalls.sending(call, self._told(call, batches)))

    def put(self, call: Call, descriptor: Any, reader: Any, writer: Any) -> None:
        """Run an update, bind parameters or take rows in."""
        name, command = unpacked(_command(descriptor))
        self._puts.put(call, name, command, reader, writer)

    def action(self, call: Call, action: Any) -> list[Any]:
        """Do what is neither rows out nor rows in."""
        return [fl.Result(body) for body in self._actions.act(call, action.type, action.body.to_pybytes() if action.body else b"")]

    @staticmethod
    def exchange() -> None:
        """Refuse what Flight SQL has no use for."""
        raise NotImplementedHere("Flight SQL exchanges nothing: ask for the FlightInfo of a command, or send rows with DoPut.")

    @staticmethod
    def _told(call: Call, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except GeneratorExit:
            raise
        except BaseException as error:
            raise flight_error(error, call.request_id)[1] from None


class _Server(fl.FlightServerBase):  # type: ignore[misc]
    """Flight's own server, which knows nothing but its door."""

    def __init__(self, door: FlightDoor, location: str, **settings: Any) -> None:
        self._door = door
        super().__init__(location, **settings)

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        return self._door.answer(context, "GetFlightInfo", lambda call: self._door.flight_info(call, descriptor))

    def get_schema(self, context: Any, descriptor: Any) -> Any:
        return self._door.answer(context, "GetSchema", lambda call: self._door.schema(call, descriptor))

    def do_get(self, context: Any, ticket: Any) -> Any:
        return self._door.answer(context, "DoGet", lambda call: self._door.get(call, ticket))

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        self._door.answer(context, "DoPut", lambda call: self._door.put(call, descriptor, reader, writer))

    def do_action(self, context: Any, action: Any) -> list[Any]:
        return self._door.answer(context, "DoAction", lambda call: self._door.action(call, action))

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        self._door.answer(context, "DoExchange", lambda call: self._door.exchange())

    def list_flights(self, context: Any, criteria: bytes) -> Iterator[Any]:
        return self._door.answer(context, "ListFlights", lambda call: iter(()))

    def list_actions(self, context: Any) -> list[tuple[str, str]]:
        return self._door.answer(context, "ListActions", lambda call: list(ACTIONS.items()))


def _command(descriptor: Any) -> bytes:
    if descriptor.descriptor_type != fl.DescriptorType.CMD or descriptor.command is None:
        raise BadRequest("This server speaks Flight SQL: the descriptor is a command of it, not a path.")
    return bytes(descriptor.command)


def _info(schema: pa.Schema, descriptor: Any, ticket: bytes) -> Any:
    return fl.FlightInfo(schema, descriptor, [fl.FlightEndpoint(ticket, [])], -1, -1)
