"""How much of a text is read: words and parameters are counted first, since each costs time and memory many times its length."""

from __future__ import annotations

from typing import Any

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenizerCore, TokenType

from model.errors import StatementTooLarge
from sql.dialect import tokenizer_core
from sql.parsing.turns import TURNS

MOST_WORDS = 50_000
"""A parser's node for each of so many takes a second and some 50 MB."""


class _Bounded(TokenizerCore):
    """The tokenizer, which stops where a text has more tokens than are read; those of hints, which the parser reads anew, included."""

    most: int
    in_hints: int = 0

    def __init__(self, like: TokenizerCore, most: int) -> None:
        for slot in TokenizerCore.__slots__:
            setattr(self, slot, getattr(like, slot))
        self.most = most

    def _add(self, token_type: TokenType, text: str | None = None) -> None:
        super()._add(token_type, text)
        if token_type is TokenType.HINT:
            inner = _Bounded(self, self.most - self.in_hints - len(self.tokens))
            self.in_hints += inner.count(self.sql[self._start + 3 : max(self._start + 3, self._current - 2)])
        if len(self.tokens) + self.in_hints > self.most:
            raise _TooManyError

    def count(self, text: str) -> int:
        """How many there are, as far as the text can be read; raises `_TooManyError`."""
        try:
            self.tokenize(text)
        except TokenError as problem:
            if isinstance(problem.__cause__, _TooManyError):
                raise problem.__cause__ from None
        return len(self.tokens) + self.in_hints


class _TooManyError(Exception):
    """The text has more tokens than are read."""


def check_words(text: str, most: int = MOST_WORDS) -> None:
    """Raise `StatementTooLarge` for a text of more words, signs and literals than are read.

    The tokenizer itself counts: nothing else agrees with it about where texts and comments end, and it lets other threads run.
    """
    if len(text) <= most:
        return
    try:
        with TURNS.reading(len(text)):
            _Bounded(tokenizer_core(), most).count(text)
    except _TooManyError:
        raise StatementTooLarge(
            f"The text has more than {most} words, signs and literals. Rows in bulk go to POST /tables/{{database}}/{{table}}/rows; "
            "a long list of values goes into a table that the query joins."
        ) from None


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
