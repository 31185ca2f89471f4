"""The statements that ended here last, with what they ended with: what the audit log does not keep."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace

from gateway.operation import ENDED_CHARS, Operation, OperationState
from lake.access.audit import Fewer
from lake.access.owner import Owner
from model.errors import LakeError
from model.options.masking import MASK, erases, literals_in

_MOST = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedStatement:
    """A text that ran."""

    handle: str
    owner: Owner
    protocol: str
    session: str | None
    text: str
    """Without the values of options that look like secrets, and cut where it is very long."""
    state: OperationState
    submitted: float
    """Seconds since 1970."""
    seconds: float
    """Waiting included."""
    rows: int | None
    """Rows an INSERT wrote."""
    error_class: str | None
    error: str | None
    """The failure with its causes, as its client was told it."""
    line: int | None = None
    column: int | None = None

    @property
    def principal(self) -> str:
        """Whose it was, whatever their rights."""
        return self.owner.principal


class RecentStatements:
    """The last few hundred of this server, by handle; in memory only."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, EndedStatement] = OrderedDict()

    def note(self, operation: Operation) -> None:
        """Keep a statement that ended."""
        ended = _ended(operation)
        with self._lock:
            self._kept[ended.handle] = ended
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def forget(self, fewer: Fewer) -> int:
        """Keep texts, and what they failed with, as ``fewer`` gives them; returns how many said something."""
        with self._lock:
            less = {handle: fewer(statement.text, statement.principal) for handle, statement in self._kept.items()}
            said = {handle: text for handle, text in less.items() if text != self._kept[handle].text}
            for handle, text in said.items():
                statement = self._kept[handle]
                error = None if statement.error is None else _without_literals(statement.error, statement.text)
                self._kept[handle] = replace(statement, text=text, error=error)
        return len(said)

    def find(self, handle: str | None) -> EndedStatement | None:
        """One statement; None where it is not kept (any more)."""
        return None if handle is None else self._kept.get(handle)

    def newest(self, caller: Owner | None = None) -> list[EndedStatement]:
        """Those a caller comes back for, or all, the newest first."""
        with self._lock:
            statements = list(self._kept.values())
        return [statement for statement in reversed(statements) if caller is None or statement.owner.admits(caller)]


def _ended(operation: Operation) -> EndedStatement:
    error = operation.error
    state = operation.state if operation.state is not OperationState.CLOSED else OperationState.FINISHED
    return EndedStatement(
        handle=operation.handle,
        owner=operation.owner,
        protocol=operation.origin.protocol,
        session=operation.session,
        text=operation.masked[:ENDED_CHARS],
        state=state,
        submitted=operation.submitted,
        seconds=max(0.0, time.time() - operation.submitted),
        rows=operation.result.affected_rows if operation.result is not None else None,
        error_class=None if error is None else getattr(error, "error_class", "InternalError"),
        error=None if error is None else _told(error, operation.text),
        line=getattr(error, "line", None),
        column=getattr(error, "column", None),
    )


def _told(error: BaseException, text: str) -> str:
    """A deliberate failure's words; of a bug nobody but the log is told more than that it was one.

    They may quote the statement, and so what was to be forgotten.
    """
    if not isinstance(error, LakeError):
        return "Something is wrong in the server; its log says more."
    return _without_literals(error.message, text) if erases(text) else error.message


def _without_literals(message: str, text: str) -> str:
    for literal in sorted(set(literals_in(text)), key=len, reverse=True):
        for written in (literal, literal.replace("''", "'")) if literal else ():
            message = message.replace(written, MASK)
    return message
