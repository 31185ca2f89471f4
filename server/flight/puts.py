"""DoPut: updates, parameters of prepared statements, and rows in bulk."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import IO, Any

import pyarrow as pa

from catalog.records import AuditRow
from gateway.ingest import IfExists
from gateway.session_options import SCHEMA_OPTION, defaults
from model.errors import BadRequest, InvalidData, InvalidParameter, LakeError, NotImplementedHere, StatementTooLarge
from model.identifier import Identifier
from model.text.sql_text import quote
from server.flight.calls import Call
from server.flight.pending import PreparedStatement
from server.flight.statements import Statements, refuse_transaction
from server.flight.wire.messages import message
from server.flight.wire.received import ReceivedRows, file_of
from server.process.services import Services
from sql.execution.cancellation import stopped_by
from sql.execution.session import CATALOG
from sql.parameters.parameters import Parameters
from sql.parameters.types import PlainInsert
from workers.spool import BodyFiles, owner_of

_CREATE, _EXISTS = {1: True, 2: False}, {1: IfExists.FAIL, 2: IfExists.APPEND, 3: IfExists.REPLACE}
"""What the numbers of ``TableDefinitionOptions`` mean."""


class Puts:
    """Takes what clients send."""

    def __init__(self, services: Services, statements: Statements) -> None:
        self._services = services
        self._statements = statements
        self._bodies = services.gateway.bodies

    def put(self, call: Call, name: str, command: Any, rows: ReceivedRows) -> bytes:
        """Do what a command says with the rows that come; returns the body of the answer."""
        match name:
            case "CommandStatementUpdate":
                refuse_transaction(command)
                count = self._statements.update(call, str(command.query))
            case "CommandPreparedStatementUpdate":
                count = self._update(call, command.prepared_statement_handle, rows)
            case "CommandStatementIngest":
                count = self._ingest(call, command, rows)
            case "CommandPreparedStatementQuery":
                handle = command.prepared_statement_handle
                self._statements.bind(handle, self._statements.prepared(call, handle), rows.batches())
                return _answer("DoPutPreparedStatementResult", prepared_statement_handle=handle)
            case _:
                raise BadRequest(f"{name} is no command that takes rows.")
        return _answer("DoPutUpdateResult", record_count=count)

    def _update(self, call: Call, handle: bytes, rows: ReceivedRows) -> int:
        """Run a prepared statement once for each row of parameters; rows for a plain INSERT become one commit."""
        statement = self._statements.prepared(call, handle)
        if not len(statement.parameters):
            return self._statements.update(call, statement.text)
        if rows.several() and not rows.few() and (target := self._statements.plain_insert(call, statement)) is not None:
            schema = _renamed(rows.schema, target)
            return self._insert(call, target, schema, lambda: rows.as_file(self._files(call)))
        sent = [batch for batch in rows.batches() if batch.num_rows]
        batches = sent or [batch for batch in statement.bound if batch.num_rows]
        if sum(batch.num_rows for batch in batches) > 1 and (target := self._statements.plain_insert(call, statement)) is not None:
            return self._insert_few(call, statement, target, batches)
        count, done, total = 0, 0, sum(batch.num_rows for batch in batches)
        for batch in batches:
            for number in range(batch.num_rows):
                try:
                    count += self._statements.update(call, statement.text, statement.row(batch, number))
                except LakeError as error:
                    if done:
                        error.completed = (f"the first {done} of {total} rows of parameters",)
                    raise
                done += 1
        return count

    def _insert_few(self, call: Call, statement: PreparedStatement, target: PlainInsert, batches: Sequence[pa.RecordBatch]) -> int:
        """Store rows as they are, in one commit; where some do not fit so, as the INSERT would store each: by the casts of SQL, or not."""
        bound = _renamed(batches[0].schema, target)
        try:
            return self._insert(call, target, bound, lambda: file_of(self._files(call), bound, batches))
        except InvalidData as misfit:
            rows = [statement.row(batch, number).positional for batch in batches for number in range(batch.num_rows)]
            try:
                values = Parameters(positional=[value for row in rows for value in row])
                return self._statements.update(call, _insert_of(target, len(rows)), values)
            except StatementTooLarge:
                raise misfit from None

    def _files(self, call: Call) -> BodyFiles:
        """Where the caller's rows lie until all of them have come."""
        return self._bodies.of(owner_of(call.caller.principal))

    def _insert(self, call: Call, target: PlainInsert, schema: pa.Schema, body: Callable[[], IO[bytes]]) -> int:
        return self._take_in(call, target.table, schema, body, f"INSERT INTO {target.table} VALUES", create=False)

    def _ingest(self, call: Call, command: Any, rows: ReceivedRows) -> int:
        refuse_transaction(command)
        if command.temporary:
            raise NotImplementedHere("Rows are not ingested into temporary tables here; name a table of the catalog.")
        if command.HasField("catalog") and command.catalog not in ("", CATALOG):
            raise BadRequest(f"There is no catalog {command.catalog}; the catalog is called {CATALOG}.")
        definition = command.table_definition_options
        create, exists = _CREATE.get(definition.if_not_exist), _EXISTS.get(definition.if_exists)
        if create is None or exists is None:
            raise BadRequest("An ingest says what to do where the table exists (fail, append, replace) and where not (create, fail).")
        target = Identifier(command.schema or self._database(call), command.table)
        schema, action = rows.schema, f"INGEST {target} ({exists})"
        options = dict(command.options)

        def body() -> IO[bytes]:
            return rows.as_file(self._files(call))

        return self._take_in(call, target, schema, body, action, create=create, if_exists=exists, options=options)

    def _take_in(  # noqa: PLR0913 - what a client says of its rows
        self,
        call: Call,
        target: Identifier,
        schema: pa.Schema,
        body: Callable[[], IO[bytes]],
        action: str,
        *,
        create: bool,
        if_exists: IfExists = IfExists.APPEND,
        options: Mapping[str, str] | None = None,
    ) -> int:
        """Give rows to a table as one commit, and note who did."""
        began, outcome, error_class = time.time(), "ERROR", None
        ingest = self._services.gateway.ingest
        try:
            with stopped_by(partial(self._statements.watch, call)):
                done = ingest(target, schema, body, create=create, if_exists=if_exists, options=options, caller=call.caller)
            outcome = "FINISHED"
            return done.rows
        except Exception as error:
            error_class = getattr(error, "error_class", "InternalError")
            raise
        finally:
            self._note(call, action, outcome, error_class, began)

    def _database(self, call: Call) -> str:
        session = self._statements.session(call)
        options = defaults() if session is None else self._services.gateway.session_options.get(session)
        return options[SCHEMA_OPTION]

    def _note(self, call: Call, action: str, outcome: str, error_class: str | None, began: float) -> None:
        if not self._services.settings.audit_kept:
            return
        self._services.gateway.lake.audit.note(
            AuditRow(
                time=dt.datetime.now(dt.UTC),
                principal=call.caller.principal,
                protocol="flight",
                address=call.address,
                request_id=call.request_id,
                session=None,
                statement_id=None,
                action=action,
                outcome=outcome,
                error_class=error_class,
                millis=max(0, int((time.time() - began) * 1000)),
            )
        )


def _renamed(schema: pa.Schema, target: PlainInsert) -> pa.Schema:
    """The columns of parameters, named as those they fill; raises `InvalidParameter` where they are not as many."""
    if len(schema) != len(target.columns):
        raise InvalidParameter(f"The statement takes {len(target.columns)} parameters, and {len(schema)} were sent.")
    return pa.schema([field.with_name(name) for field, name in zip(schema, target.columns, strict=True)])


def _insert_of(target: PlainInsert, rows: int) -> str:
    """The INSERT of so many rows at once."""
    columns = ", ".join(map(quote, target.columns))
    row = f"({', '.join('?' * len(target.columns))})"
    return f"INSERT INTO {target.table.quoted()} ({columns}) VALUES {', '.join([row] * rows)}"  # noqa: S608 - quoted names


def _answer(name: str, **fields: object) -> bytes:
    return bytes(message("PutResult", app_metadata=message(name, **fields).SerializeToString()).SerializeToString())
