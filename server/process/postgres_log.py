"""What the log of the embedded Postgres says of why it is away."""

from __future__ import annotations

import re
from pathlib import Path

LINE_PREFIX = "%m [%p] %e "
"""Time, process and SQLSTATE: the state tells a failing disk from a client that was turned away."""

_TAIL_BYTES = 256 << 10
_MOST_CHARACTERS = 300
_LINE = re.compile(r"^\d{4}-\d\d-\d\d [\d:.]+ \S+ \[\d+\] (?:([0-9A-Z]{5}) )?([A-Z]+):  (.*)$")
_READY = "database system is ready to accept connections"
_CLASSES = ("53", "58", "F0", "XX")
"""SQLSTATE classes of what ends a server: no resources, an error of the system, a bad configuration, an internal error."""
_TOO_MANY_CONNECTIONS = "53300"


def last_problem(log: Path) -> str | None:
    """The message of the last PANIC, or FATAL that is no client's, since Postgres was last ready; None where there is none.

    Only messages count: STATEMENT and DETAIL lines hold what users wrote.
    """
    message = None
    for line in _tail(log):
        if (parts := _LINE.match(line)) is None:
            continue
        state, severity, text = parts.groups()
        if text.startswith(_READY):
            message = None
        elif severity == "PANIC" or (severity == "FATAL" and _ends_a_server(state or "")):
            message = text.strip()[:_MOST_CHARACTERS]
    return message


def last_words(log: Path) -> str:
    """What an operator is told of a Postgres that did not start: the problem, and the log's last three lines."""
    lines = _tail(log)
    if not lines:
        return "its log is empty." if log.exists() else "it left no log."
    words = " ".join(line.strip() for line in lines[-3:])
    problem = last_problem(log)
    return words if problem is None or problem in words else f"{problem} … {words}"


def _ends_a_server(state: str) -> bool:
    return state.startswith(_CLASSES) and state != _TOO_MANY_CONNECTIONS


def _tail(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            return file.read(_TAIL_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return []
