"""What may be said with a text that is to be run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict
from uuid import uuid4

from gateway.limits import GatewayLimits
from gateway.operation import Operation
from gateway.script import Idempotent, Script
from gateway.sessions import GatewaySession
from lake import EVERYBODY, Caller, Lake
from model.errors import StatementTooLarge
from model.work.quota import SECONDS
from sql.execution.results import Analysed
from sql.execution.session import Session
from sql.execution.session_settings import SQL_OPTIONS
from sql.parameters.parameters import NONE as NO_PARAMETERS
from sql.parameters.parameters import Parameters


class StatementOptions(TypedDict, total=False):
    """How a text is run; all of it may be left out."""

    database: str | None
    """Where a fresh session begins, instead of in the default database."""
    settings: Mapping[str, str] | None
    """Over those of the session."""
    parameters: Parameters
    """Values of the text's placeholders."""
    timeout: float | None
    """Seconds for the whole text, waiting included."""
    idempotency_key: str | None
    """Under it the text runs once, however often it is sent."""
    caller: Caller
    name: str | None
    """What the client asks for it by while it runs."""
    max_rows: int | None
    """More rows are cut off."""
    dry_run: bool
    """One statement is looked at without its taking effect."""
    analysed: Analysed | None
    """What describing the same text has found: it is gone on from where it still holds, once."""
    describe: bool
    """The one statement is not run: the result has its columns and no rows (`sql.execution.describe`)."""


class StatementOptionsReader:
    """Makes of a text and what was said with it what a gateway runs, within its limits."""

    def __init__(self, lake: Lake, limits: GatewayLimits) -> None:
        self._lake = lake
        self._limits = limits

    def script(self, text: str, managed: GatewaySession | None, options: StatementOptions) -> tuple[Script, Operation]:
        """What runs, in a session or in a fresh one; raises `StatementTooLarge`, `InvalidOption` or `DatabaseNotExist`."""
        self.check_size(text)
        settings, caller, key = options.get("settings"), options.get("caller", EVERYBODY), options.get("idempotency_key")
        SQL_OPTIONS.check(settings or {})
        script = Script(
            text=text,
            session=managed.session if managed else self.session(options.get("database"), caller),
            caller=caller,
            settings=dict(settings or {}),
            parameters=options.get("parameters", NO_PARAMETERS),
            idempotent=Idempotent(key=key, caller=caller.principal) if key is not None else None,
            max_rows=options.get("max_rows"),
            dry_run=options.get("dry_run", False),
            analysed=options.get("analysed"),
            describe=options.get("describe", False),
        )
        operation = self.operation(script, managed, options.get("timeout"), name=options.get("name"))
        operation.describes = script.describe
        return script, operation

    def operation(
        self, script: Script, managed: GatewaySession | None, timeout: float | None = None, *, name: str | None = None
    ) -> Operation:
        """What a script runs as, with its time limits: seconds asked for the whole text, those of session or server, the caller's quota."""
        most = self._lake.quotas.limit(script.caller, SECONDS)
        operation = Operation(
            script.text,
            session=managed.handle if managed else None,
            timeout=timeout,
            quota=None if most is None else float(most),
            owner=script.caller.owner,
            name=name,
            server=self._limits.server,
        )
        if script.parameters != NO_PARAMETERS:
            operation.values = script.parameters.spelled
        script.statement_seconds = self._limits.statement_seconds if timeout is None else None
        operation.limit_statement(script.seconds())
        return operation

    def session(self, database: str | None, caller: Caller) -> Session:
        """A session that ends with its text."""
        session = Session(str(uuid4()), None)
        if database is not None:
            session.current_database = self._lake.for_caller(caller).database(database).name
        return session

    def check_size(self, text: str) -> None:
        """Raise `StatementTooLarge` for a text nobody reads."""
        if len(text) > self._limits.statement_chars:
            raise StatementTooLarge(
                f"The text has {len(text)} characters; the most read here is {self._limits.statement_chars}. "
                "Rows in bulk go to POST /tables/{database}/{table}/rows."
            )
