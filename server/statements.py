"""``POST /sql``: text in, the last result out."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from flask import Blueprint, Response, request
from flask.typing import ResponseReturnValue

from model.errors import BadRequest, nearest
from server.access import caller
from server.bodies import json_object, member, read_body, strings
from server.errors import request_id
from server.formats import Format, negotiate
from server.services import services
from server.streaming import stream
from sql.gateway import RunningStatement
from sql.parameters import NONE as NO_PARAMETERS
from sql.parameters import Parameters
from sql.results import ResultSet

bp = Blueprint("statements", __name__)
CONNECTION = "sluice.connection"
"""Where the WSGI server puts the client's socket; absent in tests that call the app directly."""
PARAMETERS = ("database", "timeout", "mode")
MEMBERS = ("statement", "database", "timeout", "mode", "settings", "parameters")
MODE = "execution.runtime-mode"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlRequest:
    """What a client wants run."""

    statement: str
    database: str | None = None
    timeout: float | None = None
    settings: dict[str, str] = field(default_factory=dict)
    parameters: Parameters = NO_PARAMETERS


@bp.post("/sql")
def run_sql() -> Response:
    """Run the statements of the body and stream the last one's rows in the format asked for."""
    format_ = negotiate(request.headers.get("Accept"))
    wanted = _read()
    link = _ClientLink()
    try:
        result = services().gateway.run(
            wanted.statement,
            database=wanted.database,
            settings=wanted.settings,
            parameters=wanted.parameters,
            timeout=wanted.timeout,
            idempotency_key=idempotency_key(),
            caller=caller(),
            name=request_id(),
            on_start=link.started,
        )
    except BaseException:
        link.release()
        raise
    link.take(result)
    if result.unbounded:
        format_ = _endless(result, link)
    return stream(result, format_, release=link.release)


@bp.get("/statements/<statement>")
def show_statement(statement: str) -> ResponseReturnValue:
    """How far a statement is that waits or runs: by its request's id, or by its handle in Flink's protocol."""
    gateway = services().gateway
    operation = gateway.running_statement(statement, caller=caller())
    seconds = round(time.time() - operation.submitted, 3)
    progress = gateway.progress(operation).to_json()
    return {"statementId": operation.handle, "state": operation.state, "seconds": seconds, "progress": progress}


@bp.delete("/statements/<statement>")
def cancel_statement(statement: str) -> ResponseReturnValue:
    """Stop a statement that waits or runs."""
    operation = services().gateway.running_statement(statement, caller=caller())
    operation.cancel()
    return {"statementId": operation.handle, "state": operation.state}


def _endless(result: ResultSet, link: _ClientLink) -> Format:
    """The format for rows without end."""
    try:
        return negotiate(request.headers.get("Accept"), endless=True)
    except BaseException:
        result.close()
        link.release()
        raise


def idempotency_key() -> str | None:
    """The key under which the client may repeat this request; raises `BadRequest` for one that is none."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not 1 <= len(key.strip()) <= 255:
        raise BadRequest("An Idempotency-Key has between 1 and 255 characters.")
    return key.strip()


class _ClientLink:
    """Ties a running statement to the client that waits for it."""

    def __init__(self) -> None:
        self._result: ResultSet | None = None
        self._left = False
        self._lock = threading.Lock()
        self.release: Callable[[], None] = lambda: None

    def started(self, statement: RunningStatement) -> None:
        connection = request.environ.get(CONNECTION)
        if isinstance(connection, socket.socket):
            self.release = services().watcher.watch(connection, lambda: self._gone(statement))

    def take(self, result: ResultSet) -> None:
        """What is being read; nobody reads it where the client left meanwhile."""
        with self._lock:
            self._result = result
            left = self._left
        if left:
            result.close()

    def _gone(self, statement: RunningStatement) -> None:
        statement.cancel()
        with self._lock:
            self._left = True
            result = self._result
        if result is not None:
            result.close()


def _read() -> SqlRequest:
    for name in request.args:
        if name not in PARAMETERS:
            near = nearest(name, PARAMETERS)
            raise BadRequest(f"There is no parameter '{name}'.{f' Did you mean {near}?' if near else ''}")
    body = read_body(services().settings.statement_bytes)
    found = _from_json(body) if request.mimetype == "application/json" else SqlRequest(statement=_text(body))
    if not found.statement.strip():
        raise BadRequest("There is no statement in the body.")
    return SqlRequest(
        statement=found.statement,
        database=request.args.get("database") or found.database,
        timeout=_seconds(request.args["timeout"]) if "timeout" in request.args else found.timeout,
        parameters=found.parameters,
        settings=found.settings | ({MODE: request.args["mode"]} if "mode" in request.args else {}),
    )


def _from_json(body: bytes) -> SqlRequest:
    value = json_object(body)
    for name in value:
        if name not in MEMBERS:
            near = nearest(name, MEMBERS)
            raise BadRequest(f"There is no member '{name}'.{f' Did you mean {near}?' if near else ''}")
    timeout = value.get("timeout")
    return SqlRequest(
        statement=member(value, "statement", str, required=True),
        database=member(value, "database", str),
        timeout=None if timeout is None else _seconds(str(timeout)),
        parameters=Parameters.from_json(value["parameters"]) if value.get("parameters") is not None else NO_PARAMETERS,
        settings=strings(value, "settings") | ({MODE: mode} if (mode := member(value, "mode", str)) is not None else {}),
    )


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise BadRequest(f"The statement is not UTF-8 text: byte {problem.start} does not fit.") from None


def _seconds(raw: str) -> float:
    try:
        seconds = float(raw)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise BadRequest(f"A timeout is a number of seconds above 0, not {raw!r}.")
    return seconds
