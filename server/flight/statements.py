"""Statements: run when a client asks for their FlightInfo, their rows streamed as the Arrow batches they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from gateway.gateway import Gateway, RunningStatement
from model.errors import BadRequest, NotImplementedHere, StatementCanceled
from model.schema.types import VarCharType
from server.flight.calls import Call, HangUps
from server.flight.clients import ClientSessions
from server.flight.pending import PreparedStatement, PreparedStatements, Results
from server.flight.wire.messages import packed
from server.flight.wire.schemas import flight_schema
from sql.execution.describe import shapes_session
from sql.execution.results import Analysed, ResultColumn, ResultSet
from sql.parameters.parameters import NONE as NO_PARAMETERS
from sql.parameters.parameters import Parameters
from sql.parameters.types import PlainInsert
from sql.parsing.turns import read_for

MESSAGE_BYTES = 8 << 20
"""A batch is cut to about so much: clients take 16 MiB in one message unless told otherwise (`gateway.md` 2.2)."""
_TOLD_WHEN_RUN = (ResultColumn("result", VarCharType()),)
"""Stands for columns that only running the statement tells; a client that sees none would take it for an update."""


class Statements:
    """Runs texts for clients."""

    def __init__(
        self,
        gateway: Gateway,
        clients: ClientSessions,
        results: Results,
        prepared: PreparedStatements,
        hang_ups: HangUps,
        takes: Callable[[], None],
    ) -> None:
        """``takes`` is called when a statement is prepared that takes parameters."""
        self._gateway = gateway
        self._clients = clients
        self._results = results
        self._prepared = prepared
        self._hang_ups = hang_ups
        self._takes = takes

    def run(
        self, call: Call, text: str, parameters: Parameters = NO_PARAMETERS, *, describe: bool = False, analysed: Analysed | None = None
    ) -> ResultSet:
        """Run a text in the client's session, or in none where it has none and needs none; given up when the client hangs up."""
        if not text.strip():
            raise BadRequest("There is no statement in the message.")
        session = self._clients.find(call)
        opens = False
        if session is None and not describe and len(text) <= self._gateway.limits.statement_chars:  # a longer one is refused
            with read_for(call.caller.principal):
                opens = shapes_session(text)
        if opens:
            session = self._clients.open(call)
        release = None

        def started(statement: RunningStatement) -> None:
            nonlocal release
            release = self._hang_ups.watch(call, statement.cancel)

        try:
            result = self._gateway.run(
                text,
                session=session,
                parameters=parameters,
                caller=call.caller,
                name=call.request_id,
                on_start=started,
                describe=describe,
                analysed=analysed,
            )
        finally:
            if release is not None:
                release()
        if call.gone():  # nobody will come for it
            result.close()
            raise StatementCanceled("The statement was canceled.")
        call.tell(result.notices)
        return result

    def watch(self, call: Call, gone: Callable[[], object]) -> Callable[[], None]:
        """Call ``gone`` once when the client hangs up; returns what ends the watch, which must happen before the call is over."""
        return self._hang_ups.watch(call, gone)

    def session(self, call: Call) -> str | None:
        """The handle of the client's session; None where it has none."""
        return self._clients.find(call)

    def update(self, call: Call, text: str, parameters: Parameters = NO_PARAMETERS) -> int:
        """Run a text for what it does; returns the rows it wrote."""
        with self.run(call, text, parameters) as result:
            return result.affected_rows or 0

    def prepare(self, call: Call, text: str) -> tuple[bytes, PreparedStatement]:
        """Look at a text without running it, and keep it under the handle returned."""
        with self.run(call, text, describe=True) as described:
            columns = described.columns or (_TOLD_WHEN_RUN if described.is_query else ())
            statement = PreparedStatement(
                text=text,
                owner=call.caller.owner,
                is_query=described.is_query,
                schema=flight_schema(columns),
                parameters=flight_schema(described.parameters),
                analysed=described.analysed,
            )
        if len(statement.parameters):
            self._takes()
        return self._prepared.add(statement), statement

    def prepared(self, call: Call, handle: bytes) -> PreparedStatement:
        """A statement prepared before."""
        return self._prepared.get(handle, call.caller.owner)

    def plain_insert(self, call: Call, statement: PreparedStatement) -> PlainInsert | None:
        """Where rows of parameters go as they are, None where the statement must be run for each."""
        return self._gateway.ingest.plain_insert(statement.text, session=self._clients.find(call), caller=call.caller)

    def bind(self, handle: bytes, statement: PreparedStatement, batches: list[pa.RecordBatch]) -> None:
        """Give a prepared statement its parameters."""
        self._prepared.bind(handle, statement, batches)

    def flight_info(self, call: Call, name: str, command: Any, descriptor: Any) -> tuple[pa.Schema, Any, bytes]:
        """Run the statement of a command; returns schema, descriptor and ticket. Raises `TooManyStatements` before anything is done."""
        self._results.check_place(call.caller.principal)
        if name == "CommandPreparedStatementQuery":
            statement = self.prepared(call, command.prepared_statement_handle)
            result = self.run(call, statement.text, statement.only_row(), analysed=self._prepared.analysed(statement))
        else:
            result = self.run(call, _text(name, command))
        ticket = packed("TicketStatementQuery", statement_handle=self._results.hold(result, call.caller.owner))
        return flight_schema(result.columns), descriptor, ticket

    def schema(self, call: Call, name: str, command: Any) -> pa.Schema:
        """The columns the statement of a command would give."""
        if name == "CommandPreparedStatementQuery":
            return self.prepared(call, command.prepared_statement_handle).schema
        with self.run(call, _text(name, command), describe=True) as described:
            return flight_schema(described.columns)

    def rows(self, call: Call, name: str, command: Any) -> tuple[ResultSet, pa.Schema, Iterator[pa.RecordBatch]]:
        """The rows a ticket stands for, to be read once; of those without end, an empty batch where none is there now."""
        if name != "TicketStatementQuery":
            raise BadRequest(f"{name} is no ticket; ask for the FlightInfo of a command, which has one.")
        result = self._results.take(command.statement_handle, call.caller.owner)
        call.tell(result.notices)
        schema = flight_schema(result.columns)
        return result, schema, _stream(call, result, schema)


def _text(name: str, command: Any) -> str:
    if name != "CommandStatementQuery":
        raise BadRequest(f"{name} is no command that gives rows.")
    refuse_transaction(command)
    return str(command.query)


def refuse_transaction(command: Any) -> None:
    """Raise `NotImplementedHere` where a command names a transaction."""
    if command.HasField("transaction_id") and command.transaction_id:
        raise NotImplementedHere("There are no transactions here: each statement is one of its own.")


def _stream(call: Call, result: ResultSet, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """A result's batches until the client hangs up; whatever way it ends, the result is closed."""
    try:
        for batch in result.batches():
            if call.gone():
                return
            if batch.num_rows:
                described = pa.RecordBatch.from_arrays(batch.columns, schema=schema) if batch.num_columns else batch
                yield from pieces(described)
            elif result.waiting is not None:
                yield batch
    finally:
        result.close()


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in parts that fit into a message."""
    count = max(1, -(-batch.nbytes // MESSAGE_BYTES))
    rows = max(1, -(-batch.num_rows // count))
    for at in range(0, batch.num_rows, rows):
        part = batch.slice(at, rows)
        if part.nbytes > MESSAGE_BYTES and part.num_rows > 1:  # rows of very different sizes
            yield from pieces(part)
        else:
            yield part
