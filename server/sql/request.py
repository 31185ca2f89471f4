"""What a client of ``POST /sql`` wants run: the body, and the query string over it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

from flask import request

from model.errors import BadRequest, nearest
from server.process.services import services
from server.settings.options import STATEMENT_BYTES
from server.sql.bodies import json_object, member, read_body, strings
from sql.parameters.parameters import NONE as NO_PARAMETERS
from sql.parameters.parameters import Parameters

PARAMETERS = ("database", "timeout", "mode", "max_rows", "dry_run", "async")
MEMBERS = ("statement", *PARAMETERS, "settings", "parameters")
MODE = "execution.runtime-mode"
_ASYNC = "respond-async"
_COUNT = re.compile(r"[0-9]{1,18}")
_WORDS = {"true": True, "": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlRequest:
    """The statements and all that was said about them."""

    statement: str
    database: str | None = None
    timeout: float | None = None
    settings: dict[str, str] = field(default_factory=dict)
    parameters: Parameters = NO_PARAMETERS
    max_rows: int | None = None
    dry_run: bool = False
    later: bool = False
    """Whether the client asks for the result later."""

    def for_gateway(self) -> dict[str, Any]:
        """As the gateway takes it."""
        return {
            "database": self.database,
            "settings": self.settings,
            "parameters": self.parameters,
            "timeout": self.timeout,
            "max_rows": self.max_rows,
            "dry_run": self.dry_run,
        }


def read_request() -> SqlRequest:
    """The present request; raises `BadRequest` for what is unknown or of the wrong kind."""
    _check_names(request.args, PARAMETERS, "parameter")
    body = read_body(services().settings[STATEMENT_BYTES])
    sent: dict[str, Any] = json_object(body) if request.mimetype == "application/json" else {"statement": _text(body)}
    _check_names(sent, MEMBERS, "member")
    for name, value in request.args.items():
        if value or name != "database":
            sent[name] = _flag(name, value) if name in ("dry_run", "async") else value
    statement: str = member(sent, "statement", str, required=True)
    if not statement.strip():
        raise BadRequest("There is no statement in the body.")
    mode = member(sent, "mode", str)
    return SqlRequest(
        statement=statement,
        database=member(sent, "database", str),
        timeout=None if sent.get("timeout") is None else _seconds(str(sent["timeout"])),
        settings=strings(sent, "settings") | ({} if mode is None else {MODE: mode}),
        parameters=NO_PARAMETERS if sent.get("parameters") is None else Parameters.from_json(sent["parameters"]),
        max_rows=None if sent.get("max_rows") is None else _count(sent["max_rows"]),
        dry_run=bool(member(sent, "dry_run", bool)),
        later=bool(member(sent, "async", bool)) or _prefers_later(),
    )


def _prefers_later() -> bool:
    preferences = ",".join(request.headers.getlist("Prefer")).lower().split(",")
    return any(preference.partition(";")[0].strip() == _ASYNC for preference in preferences)


def _check_names(body: Any, known: tuple[str, ...], what: str) -> None:
    for name in body:
        if name not in known:
            near = nearest(name, known)
            raise BadRequest(f"There is no {what} '{name}'.{f' Did you mean {near}?' if near else ''}")


def _flag(name: str, raw: str) -> bool:
    if raw.lower() not in _WORDS:
        raise BadRequest(f"{name} is true or false, not {raw!r}.")
    return _WORDS[raw.lower()]


def _count(raw: Any) -> int:
    plain = (isinstance(raw, int) and not isinstance(raw, bool)) or (isinstance(raw, str) and _COUNT.fullmatch(raw) is not None)
    if not plain or not 0 <= int(raw) < 1 << 62:
        raise BadRequest(f"max_rows is a whole number from 0 on, not {raw!r}.")
    return int(raw)


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
