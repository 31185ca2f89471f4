"""How much of a text is read: its words are counted before anything parses it, since each costs time and memory many times its length."""

from __future__ import annotations

import re
from itertools import islice

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
