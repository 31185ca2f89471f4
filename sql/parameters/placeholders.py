"""``?`` and ``:name`` as the parser meets them: each stands for a value that was sent beside the text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
PARAMETER = "parameter"
"""Key of a node's meta: the cast of a NULL that was sent with a type, and fits wherever NULL does."""
_NAME = re.compile(NAME)
_IN_HINT = re.compile(rf"'(?:[^']|'')*'|(\?)|:{NAME}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placeholder:
    """One of them in a text; ``number`` counts the ``?`` from 1, ``name`` is that of ``:name``."""

    start: int
    number: int | None = None
    name: str | None = None

    @property
    def written(self) -> str:
        """As it stands in the text."""
        return "?" if self.name is None else f":{self.name}"


@dataclass(frozen=True, slots=True)
class Bound:
    """The value of a placeholder: as a tree of literals, and as the plain value that options and calls take."""

    tree: exp.Expr
    value: Any


class Binding(Protocol):
    """Knows the values of one statement's placeholders, and which of them the statement has."""

    seen: dict[int, Placeholder]
    """By the place in the text where they begin."""

    def value(self, placeholder: Placeholder, text: str) -> Bound:
        """The value of a placeholder of the text; raises `InvalidParameter` where there is none that fits."""
        ...


def question_marks(text: str, tokens: Sequence[Token]) -> list[int]:
    """Where the ``?`` of a statement stand, those in hints included (which the tokenizer takes for comments)."""
    starts = [token.start for token in tokens if token.token_type == TokenType.PLACEHOLDER]
    gaps = zip([0, *(token.end + 1 for token in tokens)], [*(token.start for token in tokens), len(text)], strict=True)
    for start, end in gaps:
        if "?" in text[start:end] and (at := text.find("/*+", start, end)) >= 0:
            starts += [part.start() for part in _IN_HINT.finditer(text, at, end) if part[1]]
    return sorted(starts)


def named(colon: Token, following: Token | None, text: str) -> str | None:
    """The name of a ``:name``, whose parts stand without space between them."""
    if colon.token_type != TokenType.COLON or following is None or following.start != colon.end + 1:
        return None
    match = _NAME.fullmatch(text, following.start, following.end + 1)
    return match[0] if match else None
