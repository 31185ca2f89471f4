"""What Spark's JVM says, without the values of rows and the texts of statements in it: their clients have them already."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from model.options.masking import MASK

_CLASS = re.compile(r"\[[A-Z][A-Z0-9_]*(?:\.[A-Z][A-Z0-9_]*)*\] ")
"""How a message of Spark's begins: `[CAST_INVALID_INPUT] The value 'x' … SQLSTATE: 22018`, over several lines where the value has them."""
_STATE = re.compile(r"SQLSTATE: (\w{5})\s*\Z")
_OF_ROWS = ("22", "23", "42", "P0")
"""What such states begin with: values that do not fit, constraints, texts with unknown names, and what a statement itself raises."""
_PLAIN = re.compile(
    r"(java\.lang\.(?:NumberFormat|Arithmetic|IllegalArgument)Exception|java\.time\.[\w.]{0,100}DateTime\w{0,50}Exception): .*", re.DOTALL
)
"""Exceptions that name the value they could not take."""
_SHOWN = re.compile(r"== (?:SQL|DataFrame).*==\s*\Z")
_POINTED_AT = re.compile(r"\s*\^+\s*\Z")
"""What ends a part of the statement that is shown."""
_OTHER = re.compile(r"\tat |\t\.\.\. \d+ more|Caused by: |\d\d/\d\d/\d\d \d\d:\d\d:\d\d ")
"""A line that belongs to no message."""
_MOST_LINES = 1000
"""So many of one message are looked at together."""
_MOST_BEHIND = 100
"""So many of them behind one that belongs to no message: it may stand in the value, such as a line of another log."""


def without_values(lines: Iterable[str]) -> Iterator[str]:
    """The lines, with stars for messages that may say what is in rows, and without the parts of statements that are shown with them.

    A message that tells no state where it should holds back what follows it, up to a hundred lines.
    """
    ahead: deque[str] = deque()
    coming = iter(lines)
    in_statement = False
    while (line := ahead.popleft() if ahead else next(coming, None)) is not None:
        if in_statement:
            in_statement = _POINTED_AT.match(line) is None and _OTHER.match(line) is None
            if in_statement or _POINTED_AT.match(line):
                continue
        if _CLASS.search(line):
            message, behind = _message(line, ahead, coming)
            yield from _less(message)
            ahead.extendleft(reversed(behind))
        elif _SHOWN.match(line):
            in_statement = True
        else:
            yield _PLAIN.sub(rf"\1: {MASK}", line)


def _message(first: str, ahead: deque[str], coming: Iterator[str]) -> tuple[list[str], list[str]]:
    """The lines of a message, which ends where it tells its state, and those that were looked at and are none of it."""
    message = [first]
    other = 0  # the first line that would be none of a message without a state
    while not _STATE.search(message[-1]):
        if len(message) == _MOST_LINES or (other and len(message) - other >= _MOST_BEHIND):
            break
        line = ahead.popleft() if ahead else next(coming, None)
        if line is None:
            break
        if _CLASS.search(line):
            ahead.appendleft(line)
            break
        if not other and _OTHER.match(line):
            other = len(message)
        message.append(line)
    else:
        return message, []
    return message[: other or None], message[other:] if other else []


def _less(message: list[str]) -> list[str]:
    """A message that has ended; what tells no state may be any."""
    state = _STATE.search(message[-1])
    if state is not None and not state[1].startswith(_OF_ROWS):
        return message
    begin = _CLASS.search(message[0])
    assert begin is not None
    return [f"{message[0][: begin.end()]}{MASK}{f' SQLSTATE: {state[1]}' if state else ''}"]
