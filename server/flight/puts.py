"""DoPut: updates, parameters of prepared statements, and rows in bulk."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from catalog.records import AuditRow
from model.errors import BadRequest, NotImplementedHere, StatementCanceled, StatementTooLarge
from model.identifier import Identifier
from server.flight.calls import Call
from server.flight.messages import message
from server.flight.statements import Statements, refuse_transaction
from server.services import Services
from sql.ingest import IfExists
from sql.session import CATALOG
from sql.session_options import SCHEMA_OPTION, defaults

_CREATE, _EXISTS = {1: True, 2: False}, {1: IfExists.FAIL, 2: IfExists.APPEND, 3: IfExists.REPLACE}
"""What the numbers of ``TableDefinitionOptions`` mean."""


class Puts:
    """Takes what clients send."""

    def __init__(self, services: Services, statements: Statements) -> None:
        self._services = services
        self._statements = statements

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
        statement = self._statements.prepared(call, handle)
        return self._statements.update(call, statement.text)

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
        began, outcome, error_class = time.time(), "ERROR", None
        try:
            done = self._services.gateway.ingest(
                target,
                reader.schema,
                self._batches(call, reader),
                create=create,
                if_exists=exists,
                options=dict(command.options),
                caller=call.caller,
            )
            outcome = "FINISHED"
            return done.rows
        except Exception as error:
            error_class = getattr(error, "error_class", "InternalError")
            raise
        finally:
            self._note(call, f"INGEST {target} ({exists})", outcome, error_class, began)

    def _database(self, call: Call) -> str:
        session = self._statements.session(call)
        options = defaults() if session is None else self._services.gateway.session_options.get(session)
        return options[SCHEMA_OPTION]

    def _batches(self, call: Call, reader: Any) -> Iterator[pa.RecordBatch]:
        """What the client sends, to its end; one that hangs up has not sent all of it, whatever the stream looks like."""
        limit, read = self._services.settings.rows_bytes, 0
        while True:
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                break
            except pa.ArrowException as problem:
                if call.gone():
                    raise StatementCanceled("The client went away before all rows had come; none were kept.") from problem
                raise BadRequest(f"The rows cannot be read: {problem}") from problem
            if chunk.data is None:
                continue
            read += chunk.data.nbytes
            if read > limit:
                raise StatementTooLarge(f"The rows are more than the {limit} bytes this server takes at once; send them in parts.")
            yield chunk.data
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
