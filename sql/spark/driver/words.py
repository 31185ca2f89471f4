"""What Spark's JVM says, without the values of rows and the texts of statements in it: their clients have them already."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from model.options.masking import MASK

_CLASS = re.compile(r"\[[A-Z][A-Z0-9_]*(?:\.[A-Z][A-Z0-9_]*)*\] ")
"""How a message of Spark's begins: `[CAST_INVALID_INPUT] The value 'x' … SQLSTATE: 22018`, over several lines where the value has them."""
_STATE = re.compile(r"SQLSTATE: (\w{5})")
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


def without_values(lines: Iterable[str]) -> Iterator[str]:
    """The lines, with stars for messages that may say what is in rows, and without the parts of statements that are shown with them."""
    message: list[str] = []
    shown = False
    for line in lines:
        if shown:
            shown = _POINTED_AT.match(line) is None and _OTHER.match(line) is None
            if shown or _POINTED_AT.match(line):
                continue
        if message and _OTHER.match(line):
            yield from _less(message)
            message = []
        if message or _CLASS.search(line):
            if len(message) == _MOST_LINES:
                message.pop()
            message.append(line)
            if _STATE.search(line):
                yield from _less(message)
                message = []
        elif _SHOWN.match(line):
            shown = True
        else:
            yield _PLAIN.sub(rf"\1: {MASK}", line)
    yield from _less(message)


def _less(message: list[str]) -> list[str]:
    """A message that has ended; what tells no state may be any."""
    if not message:
        return []
    state = _STATE.search(message[-1])
    if state is not None and not state[1].startswith(_OF_ROWS):
        return message
    begin = _CLASS.search(message[0])
    assert begin is not None
    return [f"{message[0][: begin.end()]}{MASK}{f' SQLSTATE: {state[1]}' if state else ''}"]
