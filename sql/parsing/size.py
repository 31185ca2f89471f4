"""How much of a text is read: words and parameters are counted first, since each costs time and memory many times its length."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

from model.errors import StatementTooLarge

MOST_WORDS = 50_000
"""A parser's node for each of so many takes a second and some 50 MB."""
_WORD = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|[\w$.]+|[^\s\w]", re.DOTALL)


def check_words(text: str, most: int = MOST_WORDS) -> None:
    """Raise `StatementTooLarge` for a text of more words, signs and literals than are read."""
    if len(text) > most and next(islice(_WORD.finditer(text), most, None), None) is not None:
        raise StatementTooLarge(
            f"The text has more than {most} words, signs and literals. Rows in bulk go to POST /tables/{{database}}/{{table}}/rows; "
            "a long list of values goes into a table that the query joins."
        )


def check_values(count: int, most: int = MOST_WORDS) -> None:
    """Raise `StatementTooLarge` for parameters of more values, counting each inside another: each becomes a literal of the text."""
    if count > most:
        raise StatementTooLarge(
            f"The parameters hold more than {most} values, those in arrays, maps and rows counted. Rows in bulk go to "
            "POST /tables/{database}/{table}/rows or an ingest of Flight SQL; a long list of values goes into a table that the query joins."
        )


def values_in(value: Any) -> int:
    """The value itself, and all in it."""
    count, left = 0, [value]
    while left:
        node = left.pop()
        count += 1
        if isinstance(node, list | tuple):
            left += node
        elif isinstance(node, dict):
            left += node.values()
    return count
