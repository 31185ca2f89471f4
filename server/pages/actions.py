"""What a page does, it does in SQL, as whoever is logged in, and says so."""

from __future__ import annotations

import contextvars
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from flask import flash, get_flashed_messages, redirect
from flask.typing import ResponseReturnValue

from gateway.gateway import RunningStatement
from model.errors import LakeError
from server.access.access import caller
from server.access.audit import leave_out
from server.errors import failure_of, request_id
from server.formats.texts import python_rows
from server.process.services import services

_MOST_ROWS = 1000
_PATIENCE_SECONDS = 5.0
"""So long a form waits for its statement; one that takes longer goes on, and the page says where it is to be seen."""
_MOST_CHARS = 900
"""Of a statement or an answer in a note: notes are sent in a cookie, which holds 4 kB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A statement's rows, as far as a page shows them."""

    sql: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    more: bool = False
    """Whether there were more rows than these."""

    def first(self) -> dict[str, Any]:
        """The first row by column; empty without rows."""
        return dict(zip(self.columns, self.rows[0], strict=True)) if self.rows else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What an action did."""

    sql: str
    text: str
    failed: bool = False


def run(sql: str, *, database: str | None = None, most: int = _MOST_ROWS, timeout: float | None = None) -> Answer:
    """Run a statement through the gateway as whoever is logged in; raises what it raises."""
    return _run(sql, database, most, timeout, _Started())


def act(sql: str, *, back: str, database: str | None = None, done: str = "Done.") -> ResponseReturnValue:
    """Run what a button or form asks for, note the SQL and its outcome for the next page, and go there."""
    leave_out()
    started = _Started()
    outcome: list[Answer | BaseException] = []

    def work() -> None:
        try:
            outcome.append(_run(sql, database, 20, None, started))
        except BaseException as problem:
            outcome.append(problem)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(_inside(work),), name="sluice-page-action", daemon=True)
    thread.start()
    thread.join(_PATIENCE_SECONDS)
    if not outcome:
        tell(sql, "It is still at work and goes on; the Statements page shows how far it is.")
    elif isinstance(outcome[0], Answer):
        tell(sql, _summary(outcome[0]) or done)
    elif isinstance(outcome[0], LakeError):
        tell(sql, outcome[0].message, failed=True)
    else:
        tell(sql, failure_of(outcome[0], request_id()).detail, failed=True)
    return redirect(back, 303)


def tell(sql: str, text: str, *, failed: bool = False) -> None:
    """Leave a note for the next page this browser sees."""
    flash(json.dumps([_cut(sql), _cut(text), failed]), "note")


def told() -> list[Note]:
    """The notes left for this page."""
    left = [json.loads(str(note)) for note in get_flashed_messages(category_filter=["note"])]
    return [Note(sql=sql, text=text, failed=failed) for sql, text, failed in left]


class _Started:
    """The handle of a statement, once it has one."""

    def __init__(self) -> None:
        self.statement: RunningStatement | None = None

    def __call__(self, statement: RunningStatement) -> None:
        self.statement = statement


def _inside(work: Any) -> Any:
    """The work with this request's caller and id, on another thread."""
    from flask import copy_current_request_context

    return copy_current_request_context(work)


def _run(sql: str, database: str | None, most: int, timeout: float | None, started: _Started) -> Answer:
    result = services().gateway.run(sql, database=database, timeout=timeout, caller=caller(), name=request_id(), on_start=started)
    rows: list[tuple[Any, ...]] = []
    more = False
    with result:
        for batch in result.batches():
            rows.extend(python_rows(batch.slice(0, most + 1 - len(rows)), result.types))
            if len(rows) > most:
                more = True
                break
    return Answer(
        sql=sql,
        columns=tuple(column.name for column in result.columns),
        types=tuple(map(str, result.types)),
        rows=rows[:most],
        more=more,
    )


def _summary(answer: Answer) -> str:
    """A procedure's few numbers in one line."""
    if answer.columns == ("result",):
        return ""
    return " · ".join(_pairs(answer.columns, row) for row in answer.rows[:3])


def _pairs(columns: Sequence[str], row: Sequence[Any]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {value}" for name, value in zip(columns, row, strict=True) if name != "dry_run" and value is not None
    )


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARS else f"{text[:_MOST_CHARS]} …"
