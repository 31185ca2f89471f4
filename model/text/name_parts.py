"""Names as people write them, taken apart; beside `model.identifier`, which no error message needs them for."""

from __future__ import annotations

import re

from model.errors import AnalysisError

_PART = re.compile(r"`((?:[^`]|``)*)`(?=\.|$)|([^.`][^.]*)")
"""A part of a written name: what stands in backquotes, where a doubled one is one, or else all up to the next dot."""


def parse_name(text: str) -> tuple[str, ...]:
    """The parts of a name that was written as text: ``d.t`` or ``d.`a.b` ``; raises `AnalysisError` for what is no name."""
    parts: list[str] = []
    at = 0
    while (match := _PART.match(text, at)) is not None:
        quoted, plain = match.groups()
        parts.append(plain if quoted is None else quoted.replace("``", "`"))
        at = match.end() + 1
        if at > len(text):
            return tuple(parts)
    raise AnalysisError(f"{text!r} is no name: parts are parted by dots, and one with a dot in it stands in backquotes.", fragment=text)
