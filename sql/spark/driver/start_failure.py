"""Why Spark did not start, in one line: what Java throws at the end names a stopped context, and its log the cause."""

from __future__ import annotations

import re
from pathlib import Path

_MOST_BYTES = 1 << 18
_MOST_CHARS = 300
_CAUSE = re.compile(r"^Caused by: (?:\w+[.$])*(\w+: [^\n]+)$", re.MULTILINE)
"""The last one of a trace is the innermost."""
_ERROR = re.compile(r"^\d\d/\d\d/\d\d \d\d:\d\d:\d\d ERROR (?:[\w$]+: )?([^\n]+)$", re.MULTILINE)


def length_of(log: Path | None) -> int:
    """Bytes that a log has by now."""
    try:
        return 0 if log is None else log.stat().st_size
    except OSError:
        return 0


def why_not_started(problem: Exception, log: Path | None, since: int) -> str:
    """The innermost cause that the log tells behind its first ``since`` bytes; the kind of the problem where it tells none."""
    said = "" if log is None or isinstance(problem, OSError) else _said(log, since)
    for kind in (_CAUSE, _ERROR):
        if matches := kind.findall(said):
            return str(matches[-1]).strip()[:_MOST_CHARS].rstrip(".")
    return type(problem).__name__


def _said(log: Path, since: int) -> str:
    try:
        with log.open("rb") as file:
            size = length_of(log)
            file.seek(max(0 if size < since else since, size - _MOST_BYTES))  # a log that grew too long was begun anew
            return file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""
