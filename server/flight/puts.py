"""DoPut: updates, parameters of prepared statements, and rows in bulk."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from catalog.records import AuditRow
from model.errors import BadRequest, InvalidParameter, NotImplementedHere, StatementCanceled, StatementTooLarge
from model.identifier import Identifier
from server.flight.calls import Call
from server.flight.messages import message
from server.flight.stalls import Stalls
from server.flight.statements import Statements, refuse_transaction
from server.services import Services
from sql.ingest import IfExists
from sql.parameter_types import PlainInsert
from sql.session import CATALOG
from sql.session_options import SCHEMA_OPTION, defaults
from workers.validation import validated

_CREATE, _EXISTS = {1: True, 2: False}, {1: IfExists.FAIL, 2: IfExists.APPEND, 3: IfExists.REPLACE}
"""What the numbers of ``TableDefinitionOptions`` mean."""


class Puts:
    """Takes what clients send."""

    def __init__(self, services: Services, statements: Statements, stalls: Stalls) -> None:
        self._services = services
        self._statements = statements
        self._stalls = stalls

    def put(self, call: Call, name: str, command: Any, reader: Any, writer: Any) -> None:
        """Do what a command says with the rows that come; the answer goes to the writer."""
        match name:
            case "CommandStatementUpdate":
                refuse_transaction(command)
                rows = self._statements.update(call, str(command.query))
            case "CommandPreparedStatementUpdate":
                rows = self._update(call, command.prepared_statement_handle, reader)
            case "CommandStatementIngest":
                rows = self._ingest(call, command, reader)
            case "CommandPreparedStatementQuery":
                handle = command.prepared_statement_handle
                self._statements.bind(handle, self._statements.prepared(call, handle), list(self._batches(call, reader)))
                answer = message("DoPutPreparedStatementResult", prepared_statement_handle=handle)
                writer.write(pa.py_buffer(answer.SerializeToString()))
                return
            case _:
                raise BadRequest(f"{name} is no command that takes rows.")
        writer.write(pa.py_buffer(message("DoPutUpdateResult", record_count=rows).SerializeToString()))

    def _update(self, call: Call, handle: bytes, reader: Any) -> int:
        """Run a prepared statement once for each row of parameters; rows for a plain INSERT become one commit."""
        statement = self._statements.prepared(call, handle)
        if not len(statement.parameters):
            return self._statements.update(call, statement.text)
        sent = [batch for batch in self._batches(call, reader) if batch.num_rows]
        batches = sent or [batch for batch in statement.bound if batch.num_rows]
        if sum(batch.num_rows for batch in batches) > 1 and (target := self._statements.plain_insert(call, statement)) is not None:
            return self._insert(call, target, batches)
        rows = 0
        for batch in batches:
            for number in range(batch.num_rows):
                rows += self._statements.update(call, statement.text, statement.row(batch, number))
        return rows

    def _insert(self, call: Call, target: PlainInsert, batches: list[pa.RecordBatch]) -> int:
        wide = next((batch.num_columns for batch in batches if batch.num_columns != len(target.columns)), None)
        if wide is not None:
            raise InvalidParameter(f"The statement takes {len(target.columns)} parameters, and {wide} were sent.")
        renamed = [batch.rename_columns(list(target.columns)) for batch in batches]
        return self._take_in(call, target.table, renamed[0].schema, renamed, f"INSERT INTO {target.table} VALUES", create=False)

    def _ingest(self, call: Call, command: Any, reader: Any) -> int:
        refuse_transaction(command)
        if command.temporary:
            raise NotImplementedHere("Rows are not ingested into temporary tables here; name a table of the catalog.")
        if command.HasField("catalog") and command.catalog not in ("", CATALOG):
            raise BadRequest(f"There is no catalog {command.catalog}; the catalog is called {CATALOG}.")
        asked = command.table_definition_options
        create, exists = _CREATE.get(asked.if_not_exist), _EXISTS.get(asked.if_exists)
        if create is None or exists is None:
            raise BadRequest("An ingest says what to do where the table exists (fail, append, replace) and where not (create, fail).")
        target = Identifier(command.schema or self._database(call), command.table)
        with self._stalls.waiting(call):
            schema = reader.schema
        batches = self._batches(call, reader)
        action = f"INGEST {target} ({exists})"
        return self._take_in(call, target, schema, batches, action, create=create, if_exists=exists, options=dict(command.options))

    def _take_in(
        self,
        call: Call,
        target: Identifier,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
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
            done = ingest(target, schema, batches, create=create, if_exists=if_exists, options=options, caller=call.caller)
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

    def _batches(self, call: Call, reader: Any) -> Iterator[pa.RecordBatch]:
        """What the client sends, to its end; one that hangs up has not sent all of it, whatever the stream looks like."""
        limit, read = self._services.settings.rows_bytes, 0
        while True:
            try:
                with self._stalls.waiting(call):
                    chunk = reader.read_chunk()
            except StopIteration:
                break
            except pa.ArrowException as problem:
                if call.gone():
                    raise StatementCanceled("The client went away before all rows had come; none were kept.") from problem
                raise BadRequest(f"The rows cannot be read: {problem}") from problem
            if chunk.data is None:
                continue
            batch = validated(chunk.data)
            read += batch.nbytes
            if read > limit:
                raise StatementTooLarge(f"The rows are more than the {limit} bytes this server takes at once; send them in parts.")
            yield batch
        if call.gone():
            raise StatementCanceled("The client went away before all rows had come; none were kept.")

    def _note(self, call: Call, action: str, outcome: str, error_class: str | None, began: float) -> None:
        if not self._services.settings.audit_kept:
            return
        self._services.gateway.lake.audit.note(
            AuditRow(
                time=dt.datetime.now(dt.UTC),
                principal=call.caller.principal,
                door="flight",
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
