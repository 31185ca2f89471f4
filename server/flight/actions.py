"""DoAction: prepared statements are made and closed, results canceled, sessions read, set and closed."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from gateway.gateway import Gateway
from gateway.session_options import OPTIONS, defaults
from model.errors import AnalysisError, BadRequest, InvalidOption, NotExist, NotImplementedHere
from server.flight.calls import Call
from server.flight.clients import ClientSessions
from server.flight.pending import PreparedStatements, Results
from server.flight.statements import Statements, refuse_transaction
from server.flight.wire.messages import message, packed, parsed, unpacked
from sql.execution.session_settings import SQL_OPTIONS

ACTIONS = {
    "CreatePreparedStatement": "Look at a statement and keep it.",
    "ClosePreparedStatement": "Forget a prepared statement.",
    "CancelFlightInfo": "Cancel a statement by its FlightInfo.",
    "CancelQuery": "The same as older clients ask for it.",
    "SetSessionOptions": "Set the session's catalog, schema or settings.",
    "GetSessionOptions": "Tell the session's catalog, schema and settings.",
    "CloseSession": "End the session.",
}
_CANCELED, _NOT_CANCELABLE = 1, 3
_CLOSED = 1
_INVALID_NAME, _INVALID_VALUE = 1, 2


class Actions:
    """Does them, each by its type."""

    def __init__(
        self, gateway: Gateway, clients: ClientSessions, results: Results, prepared: PreparedStatements, statements: Statements
    ) -> None:
        self._gateway = gateway
        self._clients = clients
        self._results = results
        self._prepared = prepared
        self._statements = statements

    def act(self, call: Call, type_: str, body: bytes) -> list[bytes]:
        """The bodies of the answer; raises `NotImplementedHere` for an action there is none of."""
        match type_:
            case "CreatePreparedStatement":
                return [self._prepare(call, _request(body, "ActionCreatePreparedStatementRequest"))]
            case "ClosePreparedStatement":
                handle = _request(body, "ActionClosePreparedStatementRequest").prepared_statement_handle
                self._prepared.close(handle, call.caller.owner)
                return []
            case "CancelFlightInfo":
                info = parsed("CancelFlightInfoRequest", body).info
                return [message("CancelFlightInfoResult", status=self._cancel(call, info)).SerializeToString()]
            case "CancelQuery":
                info = _request(body, "ActionCancelQueryRequest").info
                return [packed("ActionCancelQueryResult", result=self._cancel(call, info))]
            case "SetSessionOptions":
                return [self._set(call, parsed("SetSessionOptionsRequest", body)).SerializeToString()]
            case "GetSessionOptions":
                return [self._get(call).SerializeToString()]
            case "CloseSession":
                self._clients.close(call)
                return [message("CloseSessionResult", status=_CLOSED).SerializeToString()]
        raise NotImplementedHere(f"There is no action {type_} here; there are {', '.join(ACTIONS)}. Transactions and savepoints are not.")

    def _prepare(self, call: Call, request: Any) -> bytes:
        refuse_transaction(request)
        handle, statement = self._statements.prepare(call, str(request.query))
        return packed(
            "ActionCreatePreparedStatementResult",
            prepared_statement_handle=handle,
            dataset_schema=_schema_bytes(statement.schema) if statement.is_query else b"",
            parameter_schema=_schema_bytes(statement.parameters) if len(statement.parameters) else b"",
            is_update=not statement.is_query,
        )

    def _cancel(self, call: Call, info: bytes) -> int:
        canceled = False
        for endpoint in parsed("FlightInfo", info).endpoint:
            name, ticket = unpacked(endpoint.ticket.ticket)
            if name == "TicketStatementQuery":
                canceled |= self._results.cancel(ticket.statement_handle, call.caller.owner)
        return _CANCELED if canceled else _NOT_CANCELABLE

    def _set(self, call: Call, request: Any) -> Any:
        session = self._clients.open(call)
        answer = message("SetSessionOptionsResult")
        for name, value in request.session_options.items():
            try:
                self._gateway.session_options.set(session, name, _value(value), caller=call.caller)
            except (InvalidOption, AnalysisError, NotExist):
                answer.errors[name].value = _INVALID_VALUE if name in OPTIONS or SQL_OPTIONS.get(name) else _INVALID_NAME
        return answer

    def _get(self, call: Call) -> Any:
        session = self._clients.find(call)
        answer = message("GetSessionOptionsResult")
        for name, value in (defaults() if session is None else self._gateway.session_options.get(session)).items():
            answer.session_options[name].string_value = value
        return answer


def _request(body: bytes, name: str) -> Any:
    message, request = unpacked(body)
    if message != name:
        raise BadRequest(f"The action takes a {name}, not a {message}.")
    return request


def _value(value: Any) -> str | None:
    """An option's value as text; None for one without a value, which forgets the option."""
    for kind in ("string_value", "bool_value", "int64_value", "double_value", "string_list_value"):
        if value.HasField(kind):
            raw = getattr(value, kind)
            if kind == "string_list_value":
                return ",".join(raw.values)
            return json.dumps(raw) if kind == "bool_value" else str(raw)
    return None


def _schema_bytes(schema: pa.Schema) -> bytes:
    return bytes(schema.serialize())
