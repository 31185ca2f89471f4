"""Names of tables as people write them, read as the server reads those its procedures are given (`model/identifier.py`)."""

from __future__ import annotations

import re
from urllib.parse import quote

_CATALOG = "sluice"
_PART = re.compile(r"`((?:[^`]|``)*)`(?=\.|$)|([^.`][^.]*)")
"""What stands in backquotes, where a doubled one is one, or else all up to the next dot."""


def parts_of(text: str) -> tuple[str, ...]:
    """The parts of a name such as ``d.t`` or ``d.`a.b` ``; raises `ValueError` for what is no name."""
    parts: list[str] = []
    at = 0
    while (part := _PART.match(text, at)) is not None:
        quoted, plain = part.groups()
        parts.append(plain if quoted is None else quoted.replace("``", "`"))
        at = part.end() + 1
        if at > len(text):
            return tuple(parts)
    raise ValueError(f"{text!r} is no name: parts are parted by dots, and one with a dot in it stands in backquotes.")


def table_of(text: str) -> tuple[str, str]:
    """Database and table of ``t``, ``d.t`` or ``sluice.d.t``; raises `ValueError`."""
    parts = parts_of(text)
    if len(parts) == 3 and parts[0] == _CATALOG:
        parts = parts[1:]
    if len(parts) > 2:
        raise ValueError(f"{text!r} has {len(parts)} parts, and a table a database and a name: one with a dot in it stands in backquotes.")
    return ("default", *parts)[-2], parts[-1]


def rows_path(database: str, table: str) -> str:
    """Where the server takes rows for a table."""
    return f"/tables/{quote(database, safe='')}/{quote(table, safe='')}/rows"
