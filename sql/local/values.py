"""``INSERT INTO t VALUES (…)`` of plain literals, read straight from its text.

The full parser takes some 5 ms for ten rows, more than writing them takes. This reader knows one statement and the plainest
spellings only, and gives up (None) at the first thing it does not know; then the full parser reads the text. Whatever
both read, both read alike: a property test holds this reader to that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sql.local.literals import Kind, LiteralValue, NotLocal, Origin, SpanOrigin, date_of, negated, number_of, time_of, timestamp_of
from sql.parsing.turns import TURNS

_NAME = r"(?:[A-Za-z_][A-Za-z0-9_]*|`[^`]+`)"
_HEAD = re.compile(
    rf"\s*INSERT\s+INTO\s+({_NAME}(?:\.{_NAME}){{0,2}})\s*(?:\(\s*({_NAME}(?:\s*,\s*{_NAME})*)\s*\)\s*)?VALUES\s*(?=\()", re.IGNORECASE
)
_PARTS = re.compile(_NAME)
_OPEN = re.compile(r"\s*\(\s*")
_LITERAL = re.compile(
    r"(?P<number>-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])"
    r"|'(?P<string>[^'\\]*)'(?!')"
    r"|(?P<word>NULL|TRUE|FALSE)\b"
    r"|(?P<typed>DATE|TIMESTAMP|TIME)\s*'(?P<text>[^'\\]*)'(?!')"
    r"|X'(?P<hex>(?:[0-9A-F]{2})*)'(?!')",
    re.IGNORECASE,
)
_NEXT = re.compile(r"\s*([,)])\s*")
_END = re.compile(r"\s*(?:;\s*)?\Z")
_TYPED = {"DATE": (Kind.DATE, date_of), "TIME": (Kind.TIME, time_of), "TIMESTAMP": (Kind.TIMESTAMP, timestamp_of)}
_WORDS = {"NULL": (Kind.NULL, None), "TRUE": (Kind.BOOLEAN, True), "FALSE": (Kind.BOOLEAN, False)}
_RESERVED = frozenset({"TABLE", "VALUES", "DIRECTORY", "SELECT", "FUNCTION"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesInsert:
    """The parts of an INSERT … VALUES: the table's name, the columns named, and rows of literals."""

    target: tuple[str, ...]
    columns: Sequence[tuple[str, Origin]] | None
    """None where the statement names none: then it means all, in order."""
    rows: Sequence[Sequence[LiteralValue]]
    row_origins: Sequence[Origin]


def read_values(text: str) -> ValuesInsert | None:
    """The statement, where the text is one such and all of it is plain; a long one waits for its turn."""
    head = _HEAD.match(text)
    if head is None:
        return None
    target = tuple(part.strip("`") for part in _PARTS.findall(head[1]))
    if head[1].upper() in _RESERVED:
        return None
    with TURNS.reading(len(text)):
        return _insert(text, head, target)


def _insert(text: str, head: re.Match[str], target: tuple[str, ...]) -> ValuesInsert | None:
    rows: list[list[LiteralValue]] = []
    origins: list[Origin] = []
    at = head.end()
    try:
        while opened := _OPEN.match(text, at):
            row, end = _row(text, opened.end())
            rows.append(row)
            origins.append(SpanOrigin(text, opened.end() - 1, end))
            following = _NEXT.match(text, end)
            if following is None or following[1] != ",":
                return (
                    ValuesInsert(target=target, columns=_columns(text, head), rows=rows, row_origins=origins)
                    if _END.match(text, end)
                    else None
                )
            at = following.end()
    except NotLocal:
        pass
    return None


def _columns(text: str, head: re.Match[str]) -> list[tuple[str, Origin]] | None:
    if head[2] is None:
        return None
    start = head.start(2)
    return [(part[0].strip("`"), SpanOrigin(text, start + part.start(), start + part.end())) for part in _PARTS.finditer(head[2])]


def _row(text: str, at: int) -> tuple[list[LiteralValue], int]:
    """The literals of one row, and where the text goes on behind its parenthesis."""
    row: list[LiteralValue] = []
    while True:
        literal = _LITERAL.match(text, at)
        if literal is None:
            raise NotLocal
        kind, value = _value(literal)
        row.append(LiteralValue(kind, value, SpanOrigin(text, literal.start(), literal.end())))
        following = _NEXT.match(text, literal.end())
        if following is None:
            raise NotLocal
        at = following.end()
        if following[1] == ")":
            return row, following.end(1)


def _value(literal: re.Match[str]) -> tuple[Kind, Any]:
    match literal.lastgroup:
        case "number":
            digits = literal["number"]
            kind, value = number_of(digits.removeprefix("-"))
            return kind, negated(value) if digits.startswith("-") else value
        case "string":
            return Kind.STRING, literal["string"]
        case "word":
            return _WORDS[literal["word"].upper()]
        case "hex":
            return Kind.BINARY, bytes.fromhex(literal["hex"])
    kind, read = _TYPED[literal["typed"].upper()]
    return kind, read(literal["text"])
